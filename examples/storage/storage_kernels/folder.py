"""Objects as files below a folder."""

from __future__ import annotations

import os
from pathlib import Path
from shutil import disk_usage
from uuid import uuid4

from storage_kernels.kernel import WritingKernel
from storage_kernels.placing import is_key
from storage_kernels.store import Store

_NO_FILE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


class Folder(WritingKernel):
    """One file per object. The folder appears with the first one."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._root = Path(store.location)

    def get(self, key: str) -> bytes:
        """The bytes of the file."""
        return self._once(key, self._read)

    def has(self, key: str) -> bool:
        """Whether the file is there."""
        return (self._root / key).is_file()

    def list(self, prefix: str) -> tuple[str, ...]:
        """The keys that start with the prefix, sorted; files whose path can be no key are left out."""
        found = []
        for folder, below, files in os.walk(self._root):
            below[:] = [name for name in below if is_key(name)]
            found += [(Path(folder) / name).relative_to(self._root).as_posix() for name in files]
        return tuple(sorted(key for key in found if is_key(key) and key.startswith(prefix)))

    def put(self, key: str, data: bytes) -> None:
        """Write the file beside its place, and move it there when all of it is on the disk."""
        path = self._root / key
        part = path.with_name(f".part-{uuid4().hex}")
        with self._changing(key), self._reaching("put"):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except (FileExistsError, NotADirectoryError) as cause:
                raise self._error("bad_key", "put", problem=f"{key!r} leads through another object") from cause
            try:
                with part.open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                part.replace(path)
            except IsADirectoryError as cause:
                raise self._error("bad_key", "put", problem=f"other objects are below {key!r}") from cause
            finally:
                part.unlink(missing_ok=True)

    def delete(self, key: str) -> None:
        """Remove the file, and the folders that it leaves empty."""
        path = self._root / key
        with self._changing(key), self._reaching("delete"):
            if not path.is_file():
                raise self._missing("delete", key)
            path.unlink()
            for folder in path.relative_to(self._root).parents:
                try:
                    (self._root / folder).rmdir()
                except OSError:
                    break  # something else is in it

    def fits(self, size: int) -> bool:
        """Whether the disk has room for that many bytes."""
        with self._reaching("fits"):
            there = next(path for path in (self._root, *self._root.parents) if path.exists())
            return size <= disk_usage(there).free

    def _read(self, key: str) -> bytes:
        with self._reaching("get"):
            try:
                return (self._root / key).read_bytes()
            except _NO_FILE as cause:
                raise self._missing("get", key) from cause
