"""Objects as the files of a zip archive, which is only read."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from zipfile import BadZipFile, ZipFile

from storage_kernels.kernel import Kernel
from storage_kernels.placing import is_key


class Archive(Kernel):
    """A zip archive, opened for each call."""

    def get(self, key: str) -> bytes:
        """The bytes of the file."""
        return self._once(key, self._read)

    def has(self, key: str) -> bool:
        """Whether the file is in the archive."""
        with self._opened("has") as archive:
            return key in archive.namelist()

    def list(self, prefix: str) -> tuple[str, ...]:
        """The keys that start with the prefix, sorted; folders, and files whose path can be no key, are left out."""
        with self._opened("list") as archive:
            return tuple(sorted({name for name in archive.namelist() if is_key(name) and name.startswith(prefix)}))

    def _read(self, key: str) -> bytes:
        with self._opened("get") as archive:
            try:
                return archive.read(key)
            except KeyError as cause:
                raise self._missing("get", key) from cause

    @contextmanager
    def _opened(self, op: str) -> Iterator[ZipFile]:
        # RuntimeError is an encrypted file, its subclass NotImplementedError a way of packing that is not known
        with self._reaching(op, BadZipFile, zlib.error, RuntimeError), ZipFile(self.store.location) as archive:
            yield archive
