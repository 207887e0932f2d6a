"""Ranks that wait for each other in different rounds, so that neither can come to where the other is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from dispatch_runtime.errors import ErrorTable
from dispatch_runtime.failing import Failing
from dispatch_runtime.operation import Channel, Members, Operation
from dispatch_runtime.rounds import Crossing, Round, listing

_NOWHERE = Channel(())


class Crossings(Failing):
    """Where the ranks of a group wait, and the rounds that were refused before a rank came to them."""

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
        super().__init__(errors, everyone, local, names, tell, silent, mode)
        self._blocked: dict[int, tuple[Channel, int]] = {}
        self._owed: dict[tuple[Channel, int, int], Crossing] = {}

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
            found = self._rounds.find(channel, number)
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
            rounds = [self._rounds.take(channel, number) for channel, number in crossing.numbers.items()]
            for rank in self._pending:
                places = crossing.of(rank)
                if any(self._rounds.position(channel, rank) > number for channel, number in places):
                    self._skip(rank, crossing)
                else:
                    self._owed.update({(channel, rank, number): crossing for channel, number in places})
        self._refuse([each for each in rounds if each is not None], self._disagreement(crossing.text))

    def _skip(self, rank: int, crossing: Crossing) -> None:
        for channel, number in crossing.of(rank):
            self._owed.pop((channel, rank, number), None)
            self._rounds.skip(channel, rank, number)
