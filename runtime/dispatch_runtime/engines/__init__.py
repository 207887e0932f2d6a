"""How the data of a round that all members agree on is moved."""

from __future__ import annotations

from typing import Protocol

from dispatch_runtime.rounds import Round


class Engine(Protocol):
    """What moves data. The choice is made for each set of members, not for a whole device group."""

    immediate: bool
    """Whether `carry_out` reads the contributions in the thread that came last: that one needs no copy of its own."""

    def carry_out(self, round_: Round) -> None:
        """Move the data of a round, and settle its local operations now or later. Returns without waiting for peers."""
        ...

    def close(self, deadline: float) -> None:
        """Free what it holds; `deadline` is on the monotonic clock."""
        ...
