"""Objects as rows of an SQLite database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from shutil import disk_usage
from typing import Any

from storage_kernels.kernel import WritingKernel
from storage_kernels.store import Store

_TABLE = "CREATE TABLE IF NOT EXISTS objects (key TEXT PRIMARY KEY, data BLOB NOT NULL)"


class Sqlite(WritingKernel):
    """A table of keys and bytes. Each call has a connection and a transaction of its own."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._file = Path(store.location)

    def get(self, key: str) -> bytes:
        """The bytes of the row."""
        return self._once(key, self._read)

    def has(self, key: str) -> bool:
        """Whether the row is there."""
        return bool(self._rows("has", "SELECT 1 FROM objects WHERE key = ?", key))

    def list(self, prefix: str) -> tuple[str, ...]:
        """The keys that start with the prefix, sorted."""
        sql = "SELECT key FROM objects WHERE substr(key, 1, length(?1)) = ?1 ORDER BY key"
        return tuple(key for (key,) in self._rows("list", sql, prefix))

    def put(self, key: str, data: bytes) -> None:
        """Insert or replace the row."""
        with self._changing(key), self._reaching("put", sqlite3.Error, OverflowError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._connection() as connection:
                connection.execute(_TABLE)
                connection.execute("INSERT OR REPLACE INTO objects VALUES (?, ?)", (key, data))

    def delete(self, key: str) -> None:
        """Delete the row."""
        with self._changing(key):
            if not self._rows("delete", "DELETE FROM objects WHERE key = ? RETURNING key", key):
                raise self._missing("delete", key)

    def fits(self, size: int) -> bool:
        """Whether SQLite takes a value of that size, and the disk has room for it."""
        with self._reaching("fits"), closing(sqlite3.connect(":memory:")) as connection:
            there = next(path for path in self._file.parents if path.exists())
            return size <= min(connection.getlimit(sqlite3.SQLITE_LIMIT_LENGTH), disk_usage(there).free)

    def _read(self, key: str) -> bytes:
        for (data,) in self._rows("get", "SELECT data FROM objects WHERE key = ?", key):
            return bytes(data)
        raise self._missing("get", key)

    def _rows(self, op: str, sql: str, text: str) -> Sequence[tuple[Any, ...]]:
        """What a statement gives; nothing where the database or the table is not there yet, and neither is made."""
        with self._reaching(op, sqlite3.Error):
            if not self._file.exists():
                return []
            with self._connection() as connection:
                if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'objects'").fetchone():
                    return []
                return connection.execute(sql, (text,)).fetchall()

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._file, timeout=30)) as connection, connection:
            yield connection
