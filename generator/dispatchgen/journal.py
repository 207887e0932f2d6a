"""The journal of a write that is going on, or was cut off: the hash of everything that it was to write."""

from __future__ import annotations

from collections.abc import Mapping

JOURNAL = ".dispatchgen.journal"
"""In the package folder from before the first file changes until after the last one has."""


def written(digests: Mapping[str, str]) -> bytes:
    """The journal of files to write, by path."""
    return "".join(f"{digest} {path}\n" for path, digest in digests.items()).encode()


def read(content: bytes) -> frozenset[tuple[str, str]]:
    """The paths and hashes that a journal lists. Of a damaged one, what can be made of it."""
    lines = content.decode(errors="replace").splitlines()
    return frozenset((path, digest) for digest, _, path in (line.partition(" ") for line in lines))
