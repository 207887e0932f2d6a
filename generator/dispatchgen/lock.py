"""One writer at a time in an output folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK = ".dispatchgen.lock"
"""In the output folder: held by the one that writes. It stays when nobody does."""
PATIENCE = 60.0
"""Seconds to wait for another writer."""


class DiskError(Exception):
    """The disk does not let us: one sentence for the person at the terminal."""


@contextmanager
def only_writer(out: Path) -> Iterator[None]:
    """Nobody else writes into the folder meanwhile.

    Raises DiskError where somebody does for longer than `PATIENCE`, or where the lock is a link, and OSError where the
    lock's file cannot be made.
    """
    from filelock import FileLock, Timeout

    if (out / LOCK).is_symlink():
        raise DiskError(f"{out / LOCK} is a link; remove it")
    os.close(os.open(out / LOCK, os.O_RDWR | os.O_CREAT, 0o666))  # what cannot be made would be waited for
    try:
        with FileLock(out / LOCK, timeout=PATIENCE):
            yield
    except Timeout:
        raise DiskError(f"another dispatchgen has been writing to {out} for more than {PATIENCE:.0f} s") from None
