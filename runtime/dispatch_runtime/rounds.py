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
