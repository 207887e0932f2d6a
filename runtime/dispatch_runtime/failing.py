"""How a group comes to its end: a deadline, a rank that is lost, an error, or closing, the same news for everybody."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dispatch_runtime.contexts import when
from dispatch_runtime.errors import ErrorTable
from dispatch_runtime.flights import Flights
from dispatch_runtime.operation import Members, Operation, Trouble
from dispatch_runtime.rounds import Round

PARTING = 1.0
"""Seconds in which what a rank has sent before it left has to arrive."""


class Failing(Flights):
    """The first failure of a group, and the ranks that it has lost.

    `tell` sends a message to the other processes of some ranks; `silent` finds those among ranks whose process does not
    answer; `mode` says which calls the ranks are asked about.
    """

    def __init__(
        self,
        errors: ErrorTable,
        everyone: Members,
        local: Iterable[int],
        names: Callable[[Iterable[int]], str],
        tell: Callable[[Iterable[int], list[Any]], None],
        silent: Callable[[Iterable[int]], list[int]],
        mode: str,
    ) -> None:
        super().__init__(errors, local, names)
        self.everyone = everyone
        self.failure: Trouble | None = None
        self.failed = threading.Event()
        self._tell = tell
        self._silent = silent
        self._mode = mode
        self._lost: dict[int, Trouble] = {}
        self._leaving: set[int] = set()
        self._closing: Trouble | None = None

    def ready(self, op: str, rank: int) -> None:
        """Raise `failed`, with the first cause, where the group failed earlier."""
        failure = self.failure
        if failure is not None and failure.situation == "closed":
            raise self.errors.make("closed", op, self.names([rank]), since=when(failure.at))
        if failure is not None:
            fields = {"cause": failure.text, "since": when(failure.at)}
            raise self.errors.make("failed", op, self.names([rank]), **fields) from failure.cause

    def peer_failed(self, ranks: Iterable[int], error: BaseException) -> Trouble:
        """The trouble that an exception on some ranks means to everybody else."""
        peer, cause = self.names(ranks), f"{type(error).__name__}: {str(error).partition(chr(10))[0]}".rstrip(": ")
        return Trouble("peer_failed", {"peer": peer, "cause": cause}, f"{peer} failed with {cause}", cause=error)

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

    def leave(self, ranks: Iterable[int], through: bool) -> None:
        """These ranks make no more calls; when they are `through`, what they have called before is done, too."""
        peer = self.names(ranks)
        with self._lock:
            (self._leaving.difference_update if through else self._leaving.update)(ranks)
        self.lose(ranks, Trouble("peer_closed", {"peer": peer}, f"{peer} closed the group"))

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
        waited_for = (
            [rank for rank in round_.members if rank not in self._leaving] if round_.assumed else round_.missing
        )
        return next((self._lost[rank] for rank in waited_for if rank in self._lost), None)

    def fail(self, trouble: Trouble, told: bool = False) -> None:
        """The group cannot go on: settle all that is in flight, and tell the other processes unless they told us."""
        if self._closing is not None and trouble.situation == "peer_closed":
            trouble = self._closing  # it is this process that somebody waits for
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

    def close(self, trouble: Trouble, deadline: float) -> None:
        """Wait for what other processes can still bring to an end, then settle the rest with the trouble.

        Of a group that has failed all are told the first cause once more: whoever has not heard it from the rank that it
        came from would take it that this one just left. Else they are told that these ranks make no more calls: what
        waits for one has to end, and may be what keeps another from bringing something of these to its end.
        """
        self._closing = trouble
        if self.failure is None:
            self._tell(self.everyone, ["leaving"])
        try:
            while time.monotonic() < deadline and self.failure is None:
                with self._lock:
                    flying = [op for pending in self._pending.values() for op in pending if self._can_end(op)]
                if not flying:
                    break
                flying[0].gate.wait(min(deadline - time.monotonic(), 0.1))
            if self.failure is not None and self.failure is not trouble:
                self._tell_all(self.failure)
        finally:
            self.fail(trouble, told=True)

    def _can_end(self, operation: Operation[Any]) -> bool:
        if operation.round is None or time.monotonic() >= operation.deadline:
            return False
        channel, number = operation.round.place
        missing = operation.round.missing
        if operation.round.assumed:  # what is not asked about is only known of the ranks here
            here = [rank for rank in channel.members if rank in self._pending]
            missing = [rank for rank in here if self._rounds.position(channel, rank) <= number]
        return not any(rank in self._pending or rank in self._lost for rank in missing)
