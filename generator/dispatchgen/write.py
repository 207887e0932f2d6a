"""Files on disk: only what changed, each one whole, the manifest last, one writer at a time.

A package that was not there appears at one stroke. In one that was, a crash at any moment leaves every file whole, old
or new, and a journal: by it the next run knows its own files from ones that somebody edited, and importing the package
meanwhile is refused, as far as its templates look for it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from dispatchgen.digests import sha256
from dispatchgen.disk import TEMPORARY
from dispatchgen.findings import Finding
from dispatchgen.format import FormattedFile
from dispatchgen.journal import JOURNAL, written
from dispatchgen.lock import DiskError, only_writer
from dispatchgen.manifest import Manifest
from dispatchgen.survey import Survey, survey


@dataclass(frozen=True)
class Outcome:
    """What was done, as paths relative to the package folder."""

    written: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = field(default=())


def write(
    out: Path, package: str, files: tuple[FormattedFile, ...], manifest: Manifest, *, force: bool = False
) -> Outcome:
    """The package folder brought in line with the files, and what that took.

    Files that hold what they should are not touched. With an error among the findings nothing is. Obsolete files go
    only where the manifest on disk lists them and nobody changed them since. `force` overwrites files that were edited
    or that were never generated; it follows no link.

    Raises DiskError where the folder cannot be read or written, or stays locked by another writer.
    """
    first = survey(out, package, files, manifest, force=force)
    if first.refused or not (first.changes or first.leftovers):
        return Outcome(unchanged=first.unchanged, findings=first.findings)
    with _disk_errors():
        out.mkdir(parents=True, exist_ok=True)
    with _disk_errors(), only_writer(out):
        now = survey(out, package, files, manifest, force=force, alone=True)
        if now.refused:
            return Outcome(unchanged=now.unchanged, findings=now.findings)
        (_apply if (out / package).exists() else _create)(out / package, now)
    return Outcome(
        written=tuple(change.path for change in now.changes if change.new is not None),
        unchanged=now.unchanged,
        deleted=tuple(change.path for change in now.changes if change.new is None),
        findings=now.findings,
    )


def _create(folder: Path, survey: Survey) -> None:
    """The whole package at one stroke: written beside its place, then moved there."""
    begun = folder.with_name(f".{folder.name}.{uuid4().hex[:8]}.dispatchgen")
    try:
        for each in survey.changes:
            _put(begun / each.path, (each.new or "").encode())
        begun.rename(folder)
    finally:
        shutil.rmtree(begun, ignore_errors=True)
    _discard(folder / path for path in survey.leftovers)


def _apply(folder: Path, survey: Survey) -> None:
    """Make the changes: all new content first to temporary files, then each into its place, the manifest last.

    What fails before the first file is in its place leaves no trace; what fails after that, the journal.
    """
    leftovers = [folder / path for path in survey.leftovers]
    if survey.changes:
        journal = folder / JOURNAL
        known = journal.read_bytes() if journal in leftovers else b""
        digests = {each.path: sha256(each.new) for each in survey.changes if each.new is not None}
        content = {journal: known + written(digests)}
        content |= {folder / each.path: each.new.encode() for each in survey.changes if each.new is not None}
        staged: dict[Path, Path] = {}
        try:
            for path, text in content.items():
                staged[path] = temporary = path.with_name(f".{path.name}.{uuid4().hex[:8]}.dispatchgen")
                _put(temporary, text)
            staged[journal].replace(journal)
            for each in survey.changes:
                if each.new is None:
                    (folder / each.path).unlink()
                    _prune((folder / each.path).parent, folder)
                else:
                    staged[folder / each.path].replace(folder / each.path)
        finally:
            for temporary in staged.values():
                temporary.unlink(missing_ok=True)
        leftovers.append(journal)
    _discard(leftovers)


def _discard(leftovers: Iterable[Path]) -> None:
    for path in leftovers:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def put(path: Path, content: bytes) -> None:
    """One file with this content, whole whatever happens; its folders are made where they are missing.

    A link is followed, and the file's permissions stay. Raises DiskError where it cannot be written.
    """
    target = path.resolve()
    temporary = target.with_name(f".{target.name}.{uuid4().hex[:8]}.dispatchgen")
    try:
        try:
            _put(temporary, content)
            if target.exists():
                temporary.chmod(target.stat().st_mode)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as cause:
        raise DiskError(f"cannot write {path}: {cause.strerror}") from cause


def _put(path: Path, content: bytes) -> None:
    """A new file that is on the disk, not only on its way there, when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as cause:
        cause.filename = cause.filename or str(path)  # a full disk names no file
        raise


def _prune(folder: Path, top: Path) -> None:
    """Remove the folder and those above it, up to the package's own, as long as they are empty."""
    while folder != top:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent


@contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except OSError as cause:
        name = cause.filename2 or cause.filename
        raise DiskError(f"cannot write {_meant(name) if name else 'the package'}: {cause.strerror}") from cause


def _meant(name: str) -> Path:
    """The path that a temporary file or folder on it was to become."""
    parts = [found[1] if (found := TEMPORARY.fullmatch(part)) else part for part in Path(name).parts]
    return Path(*parts)
