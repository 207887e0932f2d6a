"""Agreement before data: the ranks of a group compare what each brings, and nothing moves unless it is the same.

Every call of a rank on a channel is its next *round* there. A round that all members have entered is decided, by every
process for itself and alike: carried out if they brought the same, else refused with the same disagreement for all. A
group with members in several processes tells these about each call; whatever can go wrong there (a peer
that fails, closes or dies, a deadline) ends in `fail`, which settles everything that is in flight with its cause.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

from dispatch_runtime.contexts import when
from dispatch_runtime.errors import ErrorTable
from dispatch_runtime.operation import Call, Channel, Members, Operation, Shape, Trouble
from dispatch_runtime.ownership import Ownership
from dispatch_runtime.rounds import Crossing, Round, listing

Mode: TypeAlias = Literal["always", "first", "off"]

ASSUMABLE = frozenset({"all_reduce", "broadcast", "reduce", "all_gather", "gather", "reduce_scatter", "send", "recv"})
"""The calls whose data can be moved without knowing what the others bring: it is what this rank brings."""

PARTING = 1.0
"""Seconds in which what a rank has sent before it left has to arrive."""


class Agreement:
    """The rounds of one group, as this process sees them.

    `names` writes ranks for people, `carry_out` moves the data of a round that is agreed on, and `tell` sends a
    message to the other processes of some ranks; `silent` finds those among ranks whose process does not answer. `mode` says which calls are told to other processes: all that can
    differ, or only the `first` of its kind, or none of those that programs make for themselves (`off`).
    """

    def __init__(
        self,
        errors: ErrorTable,
        everyone: Members,
        local: Iterable[int],
        names: Callable[[Iterable[int]], str],
        carry_out: Callable[[Round], None],
        tell: Callable[[Iterable[int], list[Any]], None],
        mode: Mode = "always",
        silent: Callable[[Iterable[int]], list[int]] = lambda ranks: [],
    ) -> None:
        self.errors = errors
        self.names = names
        self.everyone = everyone
        self.failure: Trouble | None = None
        self.failed = threading.Event()
        self._carry_out = carry_out
        self._tell = tell
        self._mode = mode
        self._silent = silent
        self._known: set[tuple[int, Channel, Call]] = set()
        self._lock = threading.Lock()
        self._rounds: dict[Channel, dict[int, Round]] = {}
        self._positions: dict[tuple[Channel, int], int] = {}
        self._pending: dict[int, dict[Operation[Any], None]] = {rank: {} for rank in local}
        self._ownership = Ownership(self._pending)
        self._unsaid: dict[int, deque[Operation[Any]]] = {rank: deque(maxlen=64) for rank in local}
        self._lost: dict[int, Trouble] = {}
        self._blocked: dict[int, tuple[Channel, int]] = {}
        self._owed: dict[tuple[Channel, int, int], Crossing] = {}

    def is_last(self, channel: Channel, rank: int) -> bool:
        """Whether all others have come already to the round that the next call of the rank enters."""
        found = self._rounds.get(channel, {}).get(self._positions.get((channel, rank), 0))
        return len(channel.members) - 1 == (0 if found is None else len(found.calls))

    def ready(self, op: str, rank: int) -> None:
        """Raise `failed`, with the first cause, where the group failed earlier."""
        failure = self.failure
        if failure is not None and failure.situation == "closed":
            raise self.errors.make("closed", op, self.names([rank]), since=when(failure.at))
        if failure is not None:
            fields = {"cause": failure.text, "since": when(failure.at)}
            raise self.errors.make("failed", op, self.names([rank]), **fields) from failure.cause

    def start(self, operation: Operation[Any]) -> None:
        """Enter the rank's next round with an operation; the last to come decides it, in its own thread.

        Raises `concurrent_use` where the rank belongs to another thread, `failed` as `ready` does.
        """
        rank, channel = operation.rank, operation.channel
        with self._lock:
            self._alone(operation)
            self.ready(operation.call.op, rank)
            number = self._positions.get((channel, rank), 0)
            self._positions[channel, rank] = number + 1
            crossing = self._owed.get((channel, rank, number))
            if crossing is not None:
                self._skip(rank, crossing)
                operation.trouble = self._disagreement(crossing.text)
                operation.gate.open()
                self._unsaid[rank].append(operation)
                return
            self._pending[rank][operation] = None
            assumed = self._mode != "always" and self._may_assume(operation)
            if assumed:
                round_ = operation.round = Round(channel, number, assumed=True)
                round_.calls = dict.fromkeys(channel.members, operation.call)
            else:
                round_ = operation.round = self._enter(channel, number, rank, operation.call)
            round_.operations[rank] = operation
            complete = not round_.missing
            lost = self._lost_of(round_)
        if assumed:
            if lost is not None:
                self._fail_unless_done([operation], lost)
            self._execute(round_)
            return
        self._tell(channel.members, ["call", rank, channel, number, operation.call])
        if lost is not None:
            self.fail(lost)
        elif complete:
            self._decide(round_)

    def entered(self, rank: int, channel: Channel, number: int, call: Call) -> None:
        """A rank of another process has entered a round."""
        with self._lock:
            local = [each for each in channel.members if each in self._pending]
            past = all(self._positions.get((channel, each), 0) > number for each in local)
            if self.failure is not None or (past and number not in self._rounds.get(channel, {})):
                return
            round_ = self._enter(channel, number, rank, call)
            complete = not round_.missing
        if complete:
            self._decide(round_)

    def _may_assume(self, operation: Operation[Any]) -> bool:
        """Whether the others are taken to call the same, without asking: only where it is all that they can call."""
        call, channel = operation.call, operation.channel
        local = all(rank in self._pending for rank in channel.members)
        if local or call.label is not None or call.op not in ASSUMABLE or channel.purpose == "gradients":
            return False
        key = (operation.rank, channel, call)
        known = self._mode == "off" or key in self._known
        self._known.add(key)
        return known

    def _enter(self, channel: Channel, number: int, rank: int, call: Call) -> Round:
        rounds = self._rounds.setdefault(channel, {})
        round_ = rounds.get(number)
        if round_ is None:
            round_ = rounds[number] = Round(channel, number)
        round_.calls[rank] = call
        if len(round_.calls) == len(channel.members):
            del rounds[number]
        return round_

    def _alone(self, operation: Operation[Any]) -> None:
        """Refuse a call of a thread that the rank does not belong to."""
        rank, mine = operation.rank, operation.owner
        other = self._ownership.claim(rank, mine, (each.owner for each in self._pending[rank]))
        if other is not None:
            names = {"thread": mine.name, "other": other.name}
            raise self.errors.make("concurrent_use", operation.call.op, self.names([rank]), **names)

    def _decide(self, round_: Round) -> None:
        first = round_.calls[round_.members[0]]
        agreed = first.agreed
        if any(call.agreed != agreed for call in round_.calls.values()):
            self._refuse([round_], self._disagreement(listing([round_], self.names)))
            return
        if first.op == "exchange" or any(call.facts != first.facts for call in round_.calls.values()):
            facts = {rank: round_.calls[rank].facts or "" for rank in round_.members}
            for operation in round_.operations.values():
                self.settle(operation, facts)
            return
        self._execute(round_)

    def _refuse(self, rounds: Iterable[Round], trouble: Trouble) -> None:
        """End rounds that are not agreed on; what was brought there is as new to the ranks as before."""
        for round_ in rounds:
            for operation in round_.operations.values():
                self._known.discard((operation.rank, operation.channel, operation.call))
                self.settle(operation, trouble=trouble)

    def _execute(self, round_: Round) -> None:
        try:
            self._carry_out(round_)
        except BaseException as error:
            round_.under_way = False
            self.fail(self.peer_failed(round_.operations, error))
            raise

    def take(self, round_: Round) -> bool:
        """Count the results of the round as being computed; False where the group has failed, which settles it."""
        with self._lock:
            round_.under_way = self.failure is None
            return round_.under_way

    def _disagreement(self, text: str) -> Trouble:
        return Trouble("disagreement", {"differences": text}, f"the ranks disagreed: {text}")

    def peer_failed(self, ranks: Iterable[int], error: BaseException) -> Trouble:
        """The trouble that an exception on some ranks means to everybody else."""
        peer, cause = self.names(ranks), f"{type(error).__name__}: {str(error).partition(chr(10))[0]}".rstrip(": ")
        return Trouble("peer_failed", {"peer": peer, "cause": cause}, f"{peer} failed with {cause}", cause=error)

    def settle(self, operation: Operation[Any], value: Any = None, trouble: Trouble | None = None) -> None:
        """End an operation, unless something else ended it before."""
        with self._lock:
            if operation.gate.opened:
                return
            self._pending[operation.rank].pop(operation, None)
            operation.value, operation.trouble = value, trouble
            operation.input = operation.buffer = operation.round = None
            operation.buffers = ()
            if trouble is not None:
                self._unsaid[operation.rank].append(operation)
            operation.gate.open()

    def said(self, operation: Operation[Any]) -> None:
        """The trouble of the operation reaches its caller now."""
        with self._lock:
            if operation.trouble is not None and operation in self._unsaid[operation.rank]:
                self._unsaid[operation.rank].remove(operation)

    def wait_for_all(self, rank: int, timeout: float | None) -> None:
        """Wait until nothing of the rank is in flight, and raise the first trouble that nobody was told of yet."""
        end = None if timeout is None else time.monotonic() + timeout
        for operation in list(self._pending[rank]):
            operation.wait(None if end is None else max(end - time.monotonic(), 0.0))
        unsaid = next(iter(self._unsaid[rank].copy()), None)
        if unsaid is not None:
            unsaid.wait()

    @contextmanager
    def waiting(self, operation: Operation[Any], forever: bool) -> Iterator[None]:
        """Note that the calling thread waits for the operation; `forever` if nothing but the deadline ends that."""
        try:
            yield
        finally:
            if forever and operation.owner is threading.current_thread():
                self._blocked.pop(operation.rank, None)

    def look(self, operation: Operation[Any]) -> None:
        """Find the rank, if there is one, that waits elsewhere for this one, which cannot come there."""
        with self._lock:
            round_ = operation.round
            mine = operation.owner is threading.current_thread()
            if round_ is None or not mine or operation.gate.opened or not round_.missing:
                return
            news = operation.rank not in self._blocked
            if news:
                self._blocked[operation.rank] = round_.place
            crossed = self._crossed(round_, operation.rank)
            crossing = None
            if crossed is not None:
                rounds = sorted([round_, crossed], key=lambda each: each.channel)
                text = listing(rounds, self.names)
                crossing = Crossing(text, {each.channel: each.number for each in rounds})
        if crossing is not None:
            ranks = {rank for channel in crossing.numbers for rank in channel.members}
            self._tell(
                ranks, ["crossing", crossing.text, [[channel, number] for channel, number in crossing.numbers.items()]]
            )
            self.crossed(crossing)
        elif news:
            self._tell(round_.members, ["blocked", operation.rank, *round_.place])

    def _crossed(self, round_: Round, rank: int) -> Round | None:
        for other in round_.missing:
            channel, number = self._blocked.get(other, (_NOWHERE, 0))
            found = self._rounds.get(channel, {}).get(number)
            if found is not None and rank in found.missing:
                return found
        return None

    def blocked(self, rank: int, channel: Channel, number: int) -> None:
        """A rank of another process does nothing but wait for this round."""
        with self._lock:
            self._blocked[rank] = (channel, number)

    def crossed(self, crossing: Crossing) -> None:
        """Refuse rounds that wait for each other; a local rank that has come to none of them is refused when it does."""
        with self._lock:
            rounds = [self._rounds.get(channel, {}).pop(number, None) for channel, number in crossing.numbers.items()]
            for rank in self._pending:
                places = crossing.of(rank)
                if any(self._positions.get((channel, rank), 0) > number for channel, number in places):
                    self._skip(rank, crossing)
                else:
                    self._owed.update({(channel, rank, number): crossing for channel, number in places})
        self._refuse([each for each in rounds if each is not None], self._disagreement(crossing.text))

    def _skip(self, rank: int, crossing: Crossing) -> None:
        for channel, number in crossing.of(rank):
            self._owed.pop((channel, rank, number), None)
            self._rounds.get(channel, {}).pop(number, None)
            self._positions[channel, rank] = max(self._positions.get((channel, rank), 0), number + 1)

    def late(self, operation: Operation[Any], final: bool = False) -> Trouble:
        """Who the operation is waiting for; finally, where all have come, who does not answer any more."""
        with self._lock:
            round_ = operation.round
            missing = [] if round_ is None else round_.missing
            place = None if round_ is None else round_.place
            unknown = round_ is not None and round_.assumed
        silent = self._silent(operation.channel.members) if final and not missing else []
        if silent:
            who = f"{self.names(silent)}, whose process does not answer"
        elif unknown:
            who = f"unknown, since the ranks were not asked (agreement={self._mode!r})"
        else:
            who = self.names(missing) if missing else "nobody (all ranks came, the data is on its way)"
        text = f"{operation.call} was given up after {time.monotonic() - operation.started:.1f} s; missing: {who}"
        peer = self.names(missing or silent or [operation.rank])
        return Trouble("timeout", {"missing": who, "peer": peer}, text, place)

    def expire(self, operation: Operation[Any]) -> None:
        """The deadline of the operation has passed: that fails the group."""
        trouble = self.late(operation, final=True)
        if not operation.gate.opened:
            self.fail(trouble)

    def lose(self, ranks: Iterable[int], trouble: Trouble) -> None:
        """These ranks enter no round any more: fail as soon as somebody waits for one of them."""
        with self._lock:
            self._lost.update(dict.fromkeys(ranks, trouble))
            flying = [op for pending in self._pending.values() for op in pending if op.round is not None]
            hit = [op for op in flying if op.round is not None and self._lost_of(op.round) is trouble]
            unsure = all(op.round is not None and op.round.assumed for op in hit)
        if hit and unsure:
            self._fail_unless_done(hit, trouble)
        elif hit:
            self.fail(trouble)

    def _fail_unless_done(self, operations: Sequence[Operation[Any]], trouble: Trouble) -> None:
        """Fail a little later: where nobody is asked, a rank may have done its part and gone."""

        def check() -> None:
            if any(not operation.gate.opened for operation in operations):
                self.fail(trouble)

        timer = threading.Timer(PARTING, check)
        timer.daemon = True
        timer.start()

    def regain(self, rank: int) -> None:
        """The rank, lost before, goes on."""
        with self._lock:
            self._lost.pop(rank, None)

    def _lost_of(self, round_: Round) -> Trouble | None:
        waited_for = round_.members if round_.assumed else round_.missing
        return next((self._lost[rank] for rank in waited_for if rank in self._lost), None)

    def fail(self, trouble: Trouble, told: bool = False) -> None:
        """The group cannot go on: settle all that is in flight, and tell the other processes unless they told us."""
        with self._lock:
            first = self.failure is None
            if first:
                self.failure = trouble
            flying = [op for ops in self._pending.values() for op in ops if op.round is None or not op.round.under_way]
            self._rounds.clear()
        self.failed.set()
        for operation in flying:
            self.settle(operation, trouble=self._as_seen_by(operation, trouble))
        if first and not told:
            self._tell_all(trouble)

    def _tell_all(self, trouble: Trouble) -> None:
        plain = {key: str(value) for key, value in trouble.fields.items()}
        self._tell(self.everyone, ["failed", trouble.situation, plain, trouble.text, trouble.place])

    def _as_seen_by(self, operation: Operation[Any], trouble: Trouble) -> Trouble:
        round_ = operation.round
        if trouble.situation != "timeout" or round_ is None or round_.place == trouble.place:
            return trouble
        fields = {"peer": trouble.fields["peer"], "cause": trouble.text}
        return Trouble("peer_failed", fields, trouble.text)

    def hear(self, ranks: Sequence[int], message: list[Any]) -> None:
        """Take in what the process of these ranks says."""
        match message:
            case ["call", rank, channel, number, call]:
                self.entered(rank, _channel(channel), number, _call(*call))
            case ["blocked", rank, channel, number]:
                self.blocked(rank, _channel(channel), number)
            case ["crossing", text, numbers]:
                self.crossed(Crossing(text, {_channel(channel): number for channel, number in numbers}))
            case ["failed", situation, fields, text, place]:
                where = None if place is None else (_channel(place[0]), place[1])
                self.fail(Trouble(situation, fields, text, where), told=True)
            case ["closed"]:
                peer = self.names(ranks)
                self.lose(ranks, Trouble("peer_closed", {"peer": peer}, f"{peer} closed the group"))

    def close(self, trouble: Trouble, deadline: float) -> None:
        """Wait for what other processes can still bring to an end, then settle the rest with the trouble.

        Of a group that has failed all are told the first cause once more: whoever has not heard it from the rank that it
        came from would take it that this one just left.
        """
        try:
            while time.monotonic() < deadline and self.failure is None:
                with self._lock:
                    flying = [op for pending in self._pending.values() for op in pending if self._can_end(op)]
                if not flying:
                    break
                flying[0].gate.wait(min(deadline - time.monotonic(), 0.1))
            if self.failure is not None:
                self._tell_all(self.failure)
        finally:
            self.fail(trouble, told=True)

    def _can_end(self, operation: Operation[Any]) -> bool:
        if operation.round is None or time.monotonic() >= operation.deadline:
            return False
        missing = operation.round.missing
        return not any(rank in self._pending or rank in self._lost for rank in missing)


_NOWHERE = Channel(())


def _channel(said: list[Any]) -> Channel:
    members, purpose = said
    return Channel(tuple(members), purpose)


def _call(
    op: str, reduction: str | None, dtype: str | None, shape: Shape | None, shapes: list[Shape] | None, *more: Any
) -> Call:
    in_list = None if shapes is None else tuple(tuple(each) for each in shapes)
    return Call(op, reduction, dtype, None if shape is None else tuple(shape), in_list, *more)
