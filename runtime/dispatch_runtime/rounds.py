"""The same call of all members of a group or subgroup, and how those that differ are written down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dispatch_runtime.operation import Call, Members, Operation


class Round:
    """The same call of all members: who has come with what, and the operations of the local ranks.

    `under_way` says that a thread is computing the results right now: nothing but an error there can stop it.
    """

    __slots__ = ("calls", "members", "number", "operations", "under_way")

    def __init__(self, members: Members, number: int) -> None:
        self.members = members
        self.number = number
        self.under_way = False
        self.calls: dict[int, Call] = {}
        self.operations: dict[int, Operation[Any]] = {}

    @property
    def place(self) -> tuple[Members, int]:
        """What it is called among processes."""
        return self.members, self.number

    @property
    def missing(self) -> list[int]:
        """The ranks that have not come yet."""
        return [rank for rank in self.members if rank not in self.calls]


@dataclass(frozen=True)
class Crossing:
    """Rounds of different member sets that wait for each other: refused together, as one disagreement."""

    text: str
    numbers: Mapping[Members, int]

    def of(self, rank: int) -> list[tuple[Members, int]]:
        """The rounds that the rank is a member of."""
        return [(members, number) for members, number in self.numbers.items() if rank in members]


def listing(rounds: Iterable[Round], names: Callable[[Iterable[int]], str]) -> str:
    """Who brought what: `rank 0 (Cpu(0)): all_reduce(SUM) of float32[4]; ranks 1, 2: …`."""
    listed = list(rounds)
    brought: dict[str, list[int]] = {}
    for round_ in listed:
        where = "" if len(listed) == 1 else f" among ranks {', '.join(map(str, round_.members))}"
        for rank in sorted(round_.calls):
            brought.setdefault(f"{round_.calls[rank]}{where}", []).append(rank)
    return "; ".join(f"{names(ranks)} brought {what}" for what, ranks in brought.items())
