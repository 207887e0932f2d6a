"""What is remembered between runs: text under a key that stands for all that went into it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dispatchgen.digests import sha256


class Cache(Protocol):
    """Where text is looked up by a key."""

    def get(self, key: str) -> str | None:
        """The text that was put under the key, or None."""

    def put(self, key: str, text: str) -> None:
        """Remember the text. A cache that cannot is silent about it."""


class NoCache:
    """A cache that remembers nothing."""

    def get(self, key: str) -> str | None:
        """None."""
        return None

    def put(self, key: str, text: str) -> None:
        """Nothing is kept."""


@dataclass(frozen=True)
class FolderCache:
    """A cache of one file per text. Anybody may empty the folder at any time.

    Every entry carries the hash of its text, so one that was cut off or changed counts as not there.
    """

    folder: Path

    def get(self, key: str) -> str | None:
        """The text of the entry, or None where it is not there, cannot be read or is damaged."""
        try:
            seal, _, text = self._entry(key).read_bytes().decode().partition("\n")
        except (OSError, UnicodeDecodeError):
            return None
        return text if seal == sha256(text) else None

    def put(self, key: str, text: str) -> None:
        """Write the entry at one stroke; a folder that cannot be written is left alone."""
        from uuid import uuid4

        entry = self._entry(key)
        temporary = entry.with_name(f".{entry.name}.{uuid4().hex}")
        try:
            entry.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                temporary.write_bytes(f"{sha256(text)}\n{text}".encode())
                temporary.replace(entry)
            finally:
                temporary.unlink(missing_ok=True)
        except OSError:
            pass

    def _entry(self, key: str) -> Path:
        return self.folder / key[:2] / key


def user_cache(environment: Mapping[str, str]) -> Cache:
    """The cache of this user: the folder in DISPATCHGEN_CACHE (empty: none), else in the user's cache folder."""
    named = environment.get("DISPATCHGEN_CACHE")
    if named is not None:
        return FolderCache(Path(named)) if named else NoCache()
    home = environment.get("XDG_CACHE_HOME") or environment.get("LOCALAPPDATA", "")
    if os.path.isabs(home):
        return FolderCache(Path(home, "dispatchgen"))
    try:
        return FolderCache(Path.home() / ".cache" / "dispatchgen")
    except RuntimeError:
        return NoCache()
