"""Formatted text: black in process, with settings of our own and a cache by content.

black is by far the slowest part of generating, so it is imported for what the cache does not have, and only then.
Its Python API is not a promise: this module is the only one that touches it.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from dispatchgen.digests import sha256
from dispatchgen.findings import Finding, error
from dispatchgen.render import RenderedFile, keep

LINE_LENGTH = 120
TARGETS = ("PY311", "PY312", "PY313")


@dataclass(frozen=True)
class FormattedFile:
    """A file as it goes to disk, and what it was made from."""

    path: str
    template: str
    digest: str
    rendered: str
    """The SHA-256 of the text before formatting."""
    text: str


class Cache(Protocol):
    """Where formatted text is looked up by a key that stands for all that went into it."""

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


def black_version() -> str:
    """The version of black that formats, without importing it."""
    return version("black")


def format_files(files: Iterable[RenderedFile], cache: Cache) -> tuple[tuple[FormattedFile, ...], tuple[Finding, ...]]:
    """The files with their Python formatted, and a finding for each that black refuses. Other files stay as they are."""
    formatted, findings = [], []
    salt = f"{black_version()}\n{LINE_LENGTH}\n{','.join(TARGETS)}\n"
    with _no_collection():
        for file in files:
            text = file.text
            if file.path.endswith(".py"):
                key = sha256(salt + file.text)
                known = cache.get(key)
                if known is None:
                    try:
                        known = _black(file.text)
                    except Exception as cause:  # black documents no exception: whatever it raises is about this text
                        findings.append(_refused(file, cause))
                        continue
                    cache.put(key, known)
                text = known
            formatted.append(FormattedFile(file.path, file.template, file.digest, sha256(file.text), text))
    return tuple(formatted), tuple(findings)


def _black(text: str) -> str:
    import black
    from black.mode import TargetVersion

    mode = black.Mode(line_length=LINE_LENGTH, target_versions={TargetVersion[name] for name in TARGETS})
    return black.format_str(text, mode=mode)


def _refused(file: RenderedFile, cause: Exception) -> Finding:
    return error(
        "DG703",
        f"black cannot format {file.path}, rendered from {file.template}: {cause}",
        keep(file),
        fix=f"change {file.template} so that it renders Python that black {black_version()} understands",
    )


@contextmanager
def _no_collection() -> Iterator[None]:
    """No garbage collection meanwhile: black's trees make it cost more than half of the time again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
