"""A store that every process of a group has a copy of, so that none has to outlive another for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta

from torch._C._distributed_c10d import Store


class SpreadStore(Store):
    """What process groups find each other's addresses in: a key that is set here is told to all.

    `tell` sends a key and its value to the other processes, whose `heard` takes it in. Waiting for a key ends at once
    when the group has `failed`, as it does at the deadline of what is waited for, and when it is closed.
    """

    def __init__(self, tell: Callable[[str, str], None], failed: threading.Event) -> None:
        super().__init__()
        self._tell = tell
        self._failed = failed
        self._values: dict[str, bytes] = {}
        self._changed = threading.Condition()

    def heard(self, key: str, value: str) -> None:
        """Another process has set a key."""
        with self._changed:
            self._values[key] = value.encode("latin-1")
            self._changed.notify_all()

    def set(self, key: str, value: bytes) -> None:  # type: ignore[override]
        """Give a key its value, in all processes."""
        text = value.decode("latin-1")
        self.heard(key, text)
        self._tell(key, text)

    def get(self, key: str) -> bytes:
        """The value of a key, once it has one."""
        self.wait([key])
        return self._values[key]

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all these keys have values."""
        return all(key in self._values for key in keys)

    def wait(self, keys: Sequence[str], timeout: timedelta = timedelta(minutes=5)) -> None:
        """Return once all these keys have values; `RuntimeError` where the group has failed, whatever the timeout."""
        with self._changed:
            while not self.check(keys):
                if self._failed.is_set():
                    raise RuntimeError("the device group has failed")
                self._changed.wait(0.1)
