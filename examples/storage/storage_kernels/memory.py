"""Objects in a dictionary of this process."""

from __future__ import annotations

import sys

from storage_kernels.kernel import WritingKernel
from storage_kernels.store import Store


class Memory(WritingKernel):
    """A dictionary, kept as long as the process."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._objects: dict[str, bytes] = {}

    def get(self, key: str) -> bytes:
        """The bytes of an object."""
        try:
            return self._objects[key]
        except KeyError:
            raise self._missing("get", key) from None

    def has(self, key: str) -> bool:
        """Whether there is an object under the key."""
        return key in self._objects

    def list(self, prefix: str) -> tuple[str, ...]:
        """The keys that start with the prefix, sorted."""
        return tuple(sorted(key for key in tuple(self._objects) if key.startswith(prefix)))

    def put(self, key: str, data: bytes) -> None:
        """Keep an object."""
        self._objects[key] = data

    def delete(self, key: str) -> None:
        """Remove an object."""
        if self._objects.pop(key, None) is None:
            raise self._missing("delete", key)

    def fits(self, size: int) -> bool:
        """Whether Python could have bytes of that size; what the machine has is not known before."""
        return size <= sys.maxsize
