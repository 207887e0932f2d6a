"""What is in flight on the ranks of this process, and what came of it that nobody has been told yet."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from dispatch_runtime.errors import ErrorTable
from dispatch_runtime.operation import Call, Channel, Operation, Trouble
from dispatch_runtime.rounds import Round, Rounds


class Flights:
    """The operations of the local ranks of a group, each in its round until it is settled. `names` writes ranks for people."""

    def __init__(self, errors: ErrorTable, local: Iterable[int], names: Callable[[Iterable[int]], str]) -> None:
        self.errors = errors
        self.names = names
        self._lock = threading.Lock()
        self._rounds = Rounds()
        self._known: set[tuple[int, Channel, Call]] = set()
        """By rank and channel: the calls that were agreed on before."""
        self._pending: dict[int, dict[Operation[Any], None]] = {rank: {} for rank in local}
        self._unsaid: dict[int, deque[Operation[Any]]] = {rank: deque(maxlen=64) for rank in self._pending}

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

    def _refuse(self, rounds: Iterable[Round], trouble: Trouble) -> None:
        """End rounds that are not agreed on; what was brought there is as new to the ranks as before."""
        for round_ in rounds:
            for operation in round_.operations.values():
                self._known.discard((operation.rank, operation.channel, operation.call))
                self.settle(operation, trouble=trouble)

    def _disagreement(self, text: str) -> Trouble:
        return Trouble("disagreement", {"differences": text}, f"the ranks disagreed: {text}")

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
