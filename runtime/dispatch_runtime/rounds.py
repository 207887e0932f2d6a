"""The same call of all members of a group or subgroup, and how those that differ are written down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dispatch_runtime.operation import Call, Channel, Members, Operation


class Round:
    """The same call of all members: who has come with what, and the operations of the local ranks.

    `under_way` says that a thread is computing the results right now: nothing but an error there can stop it.
    `assumed` says that nobody was asked: this rank takes it that the others call what it calls.
    """

    __slots__ = ("assumed", "calls", "channel", "number", "operations", "under_way")

    def __init__(self, channel: Channel, number: int, assumed: bool = False) -> None:
        self.channel = channel
        self.number = number
        self.assumed = assumed
        self.under_way = False
        self.calls: dict[int, Call] = {}
        self.operations: dict[int, Operation[Any]] = {}

    @property
    def members(self) -> Members:
        """The ranks whose calls it is made of."""
        return self.channel.members

    @property
    def place(self) -> tuple[Channel, int]:
        """What it is called among processes."""
        return self.channel, self.number

    @property
    def missing(self) -> list[int]:
        """The ranks that have not come yet."""
        return [rank for rank in self.members if rank not in self.calls]


class Rounds:
    """The rounds that not all members have entered yet, and how many each rank has entered on each channel."""

    def __init__(self) -> None:
        self._open: dict[Channel, dict[int, Round]] = {}
        self._positions: dict[tuple[Channel, int], int] = {}

    def position(self, channel: Channel, rank: int) -> int:
        """The number of the rank's next round."""
        return self._positions.get((channel, rank), 0)

    def next(self, channel: Channel, rank: int) -> int:
        """The same; counts on."""
        number = self._positions.get((channel, rank), 0)
        self._positions[channel, rank] = number + 1
        return number

    def skip(self, channel: Channel, rank: int, number: int) -> None:
        """The rank has been to the round of this number, or need not come to it any more; it is not open."""
        self.take(channel, number)
        self._positions[channel, rank] = max(self.position(channel, rank), number + 1)

    def find(self, channel: Channel, number: int) -> Round | None:
        """The open round of this number, if anybody has entered it."""
        return self._open.get(channel, {}).get(number)

    def take(self, channel: Channel, number: int) -> Round | None:
        """The same, which is open no more."""
        return self._open.get(channel, {}).pop(number, None)

    def enter(self, channel: Channel, number: int, rank: int, call: Call) -> Round:
        """The round, with the call of the rank; open until all have come."""
        rounds = self._open.setdefault(channel, {})
        round_ = rounds.get(number)
        if round_ is None:
            round_ = rounds[number] = Round(channel, number)
        round_.calls[rank] = call
        if len(round_.calls) == len(channel.members):
            del rounds[number]
        return round_

    def clear(self) -> None:
        """Close all that are open."""
        self._open.clear()

    def __len__(self) -> int:
        return sum(map(len, self._open.values()))


@dataclass(frozen=True)
class Crossing:
    """Rounds of different channels that wait for each other: refused together, as one disagreement."""

    text: str
    numbers: Mapping[Channel, int]

    def of(self, rank: int) -> list[tuple[Channel, int]]:
        """The rounds that the rank is a member of."""
        return [(channel, number) for channel, number in self.numbers.items() if rank in channel.members]


def listing(rounds: Iterable[Round], names: Callable[[Iterable[int]], str]) -> str:
    """Who brought what: `rank 0 (Cpu(0)): all_reduce(SUM) of float32[4]; ranks 1, 2: …`."""
    listed = list(rounds)
    brought: dict[str, list[int]] = {}
    for round_ in listed:
        where = "" if len(listed) == 1 else f" among ranks {', '.join(map(str, round_.members))}"
        for rank in sorted(round_.calls):
            brought.setdefault(f"{round_.calls[rank]}{where}", []).append(rank)
    return "; ".join(f"{names(ranks)} brought {what}" for what, ranks in brought.items())
