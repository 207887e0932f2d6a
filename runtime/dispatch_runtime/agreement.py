"""Agreement before data: the ranks of a group compare what each brings, and nothing moves unless it is the same.

Every call of a rank on a channel is its next *round* there. A round that all members have entered is decided, by every
process for itself and alike: carried out if they brought the same, else refused with the same disagreement for all. A
group with members in several processes tells these about each call; whatever can go wrong there (a peer
that fails, closes or dies, a deadline) ends in `fail`, which settles everything that is in flight with its cause.

In layers: what is in flight (`flights`), how it all comes to its end (`failing`), ranks that wait for each other in
different rounds (`crossings`), and here the way of a call from its start to the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias

from dispatch_runtime.crossings import Crossings
from dispatch_runtime.errors import ErrorTable
from dispatch_runtime.operation import Call, Channel, Members, Operation, Shape, Trouble
from dispatch_runtime.ownership import Ownership
from dispatch_runtime.rounds import Crossing, Round, listing

Mode: TypeAlias = Literal["always", "first", "off"]

ASSUMABLE = frozenset({"all_reduce", "broadcast", "reduce", "all_gather", "gather", "reduce_scatter", "send", "recv"})
"""The calls whose data can be moved without knowing what the others bring: it is what this rank brings."""


class Agreement(Crossings):
    """The rounds of one group, as this process sees them.

    `names` writes ranks for people, `carry_out` moves the data of a round that is agreed on, and `tell` sends a message
    to the other processes of some ranks; `silent` finds those among ranks whose process does not answer. `mode` says
    which calls are told to other processes: all that can differ, or only the `first` of its kind, or none of those that
    programs make for themselves (`off`).
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
        super().__init__(errors, everyone, local, names, tell, silent, mode)
        self._carry_out = carry_out
        self._ownership = Ownership(self._pending)

    def is_last(self, channel: Channel, rank: int) -> bool:
        """Whether all others have come already to the round that the next call of the rank enters."""
        found = self._rounds.find(channel, self._rounds.position(channel, rank))
        return len(channel.members) - 1 == (0 if found is None else len(found.calls))

    def start(self, operation: Operation[Any]) -> None:
        """Enter the rank's next round with an operation; the last to come decides it, in its own thread.

        Raises `concurrent_use` where the rank belongs to another thread, `failed` as `ready` does.
        """
        rank, channel = operation.rank, operation.channel
        with self._lock:
            self._alone(operation)
            self.ready(operation.call.name, rank)
            number = self._rounds.next(channel, rank)
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
                round_ = operation.round = self._rounds.enter(channel, number, rank, operation.call)
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
            past = all(self._rounds.position(channel, each) > number for each in local)
            if self.failure is not None or (past and self._rounds.find(channel, number) is None):
                return
            round_ = self._rounds.enter(channel, number, rank, call)
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

    def _alone(self, operation: Operation[Any]) -> None:
        """Refuse a call of a thread that the rank does not belong to."""
        rank, mine = operation.rank, operation.owner
        other = self._ownership.claim(rank, mine, (each.owner for each in self._pending[rank]))
        if other is not None:
            names = {"thread": mine.name, "other": other.name}
            raise self.errors.make("concurrent_use", operation.call.name, self.names([rank]), **names)

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
            case ["leaving"]:
                self.leave(ranks, through=False)
            case ["closed"]:
                self.leave(ranks, through=True)


def _channel(said: list[Any]) -> Channel:
    members, purpose = said
    return Channel(tuple(members), purpose)


def _call(
    op: str, reduction: str | None, dtype: str | None, shape: Shape | None, shapes: list[Shape] | None, *more: Any
) -> Call:
    in_list = None if shapes is None else tuple(tuple(each) for each in shapes)
    return Call(op, reduction, dtype, None if shape is None else tuple(shape), in_list, *more)
