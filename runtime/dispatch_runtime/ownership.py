"""Which thread makes the calls of a device: ranks meet call by call, so that these need one order."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import torch
from dispatch_runtime import contexts


class Ownership:
    """The threads that have made the calls of each local rank, the last of them its owner.

    A thread takes over where nothing of the others is in flight, and they may live on: that hands the device over for
    good. What it gave away it gets back only once those that had it since have ended: two living threads that take turns
    do so in an order that another rank cannot know. Threads that this one works for wait until it ends, and do not
    count; neither do autograd's own, which run hooks while the thread that called `backward()` waits.
    """

    def __init__(self, ranks: Iterable[int]) -> None:
        self._threads: dict[int, list[threading.Thread]] = {rank: [] for rank in ranks}

    def claim(self, rank: int, mine: threading.Thread, flying: Iterable[threading.Thread]) -> threading.Thread | None:
        """Make this thread, the calling one, the owner; or the other thread that forbids it.

        `flying` are the threads that have calls of the rank in flight.
        """
        threads = self._threads[rank]
        if threads and threads[-1] is mine:
            return None
        if is_of_autograd(mine):
            return None
        if mine in threads:
            since = threads[threads.index(mine) + 1 :]
        else:
            since = [each for each in flying if each in threads]
        living, callers = threading.enumerate(), contexts.callers()
        other = next((each for each in reversed(since) if each in living and each.ident not in callers), None)
        if other is None:
            self._threads[rank] = [each for each in threads if each in living and each is not mine] + [mine]
        return other


def is_of_autograd(thread: threading.Thread) -> bool:
    """Whether autograd made the thread, in which this runs: Python did not, and a backward pass is under way."""
    return isinstance(thread, threading._DummyThread) and torch._C._current_graph_task_id() != -1
