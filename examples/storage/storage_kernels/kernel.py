"""What the kernels have in common: how they fail, and what a cached store remembers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock

from storage_kernels.errors import StorageError
from storage_kernels.store import Store


class Kernel(ABC):
    """The operations of one store that is read."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._lock = RLock()
        self._remembered: dict[str, bytes] = {}

    @abstractmethod
    def get(self, key: str) -> bytes:
        """The bytes of an object."""

    def read_out(self, key: str) -> bytes:
        """The bytes of an object that goes to another store."""
        return self.get(key)

    def forget(self) -> None:
        """Drop what was remembered."""
        with self._lock:
            self._remembered.clear()

    def _once(self, key: str, read: Callable[[str], bytes]) -> bytes:
        """What `read` gives; of a cached store, read once and remembered until it is changed or forgotten."""
        if not self.store.cached:
            return read(key)
        with self._lock:
            if key not in self._remembered:
                self._remembered[key] = read(key)
            return self._remembered[key]

    @contextmanager
    def _changing(self, key: str) -> Iterator[None]:
        """One change at a time, and what was remembered of the object is dropped with it."""
        with self._lock:
            try:
                yield
            finally:
                self._remembered.pop(key, None)

    @contextmanager
    def _reaching(self, op: str, *problems: type[Exception]) -> Iterator[None]:
        """Turn what the system says into the error that names the store."""
        caught: tuple[type[Exception], ...] = (OSError, *problems)
        try:
            yield
        except StorageError:
            raise
        except caught as cause:
            raise self._error("unreachable", op, problem=str(cause) or type(cause).__name__) from cause

    def _missing(self, op: str, key: str) -> StorageError:
        return self._error("missing_key", op, key=repr(key))

    def _error(self, situation: str, op: str, **fields: str) -> StorageError:
        return self.store.package.errors.make(situation, op, self.store, **fields)


class WritingKernel(Kernel):
    """The operations of one store that is written too."""

    @abstractmethod
    def put(self, key: str, data: bytes) -> None:
        """Keep an object."""

    def take_in(self, key: str, carried: bytes, source: Store) -> None:
        """Keep an object that comes from another store."""
        self.put(key, carried)
