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

from dispatchgen._place import place
from dispatchgen.digests import sha256
from dispatchgen.disk import JOURNAL, LOCK, Disk, DiskError, leaves, look
from dispatchgen.findings import Finding, error, has_errors, warning
from dispatchgen.format import FormattedFile
from dispatchgen.manifest import NAME, Manifest

PATIENCE = 60.0
"""Seconds to wait for another writer."""


@dataclass(frozen=True)
class Change:
    """One file that is to change: what it holds, and what it should; None where it is not there."""

    path: str
    old: bytes | None
    new: str | None


@dataclass(frozen=True)
class Survey:
    """What writing would do. Nothing is written while there is an error among the findings."""

    changes: tuple[Change, ...]
    """Sorted by path, the manifest last."""
    unchanged: tuple[str, ...]
    leftovers: tuple[str, ...]
    """What an earlier write that was cut off left behind."""
    findings: tuple[Finding, ...]

    @property
    def refused(self) -> bool:
        """Whether an error forbids to write."""
        return has_errors(self.findings)


@dataclass(frozen=True)
class Outcome:
    """What was done, as paths relative to the package folder."""

    written: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = field(default=())


def survey(
    out: Path, package: str, files: tuple[FormattedFile, ...], manifest: Manifest, *, force: bool = False
) -> Survey:
    """What `write` would do now, without doing it. Raises DiskError where the folder cannot be read."""
    wanted = {file.path: file.text for file in files}
    astray = tuple(finding for file in files if (finding := leaves(file.path, file.template)))
    disk = look(out, package, wanted)
    findings = [*astray]
    for finding in disk.findings:
        findings.append(_overwritten(finding) if finding.code == "DG708" else finding)
    changes, unchanged = [], []
    for path, text in sorted(wanted.items()):
        old = disk.files.get(path)
        if old == text.encode():
            unchanged.append(path)
            continue
        changes.append(Change(path, old, text))
        if old is not None and not force and not _ours(path, old, disk):
            findings.append(_edited(out / package / path, disk.manifest is not None and path in disk.manifest.files))
    for path in sorted(disk.files.keys() - wanted.keys()):
        if _ours(path, disk.files[path], disk):
            changes.append(Change(path, disk.files[path], None))
        else:
            findings.append(_kept(out / package / path))
    if disk.manifest_text != str(manifest).encode():
        changes.append(Change(NAME, disk.manifest_text, str(manifest)))
    return Survey(tuple(changes), tuple(unchanged), disk.leftovers, tuple(findings))


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
    with _disk_errors(), _only_writer(out):
        now = survey(out, package, files, manifest, force=force)
        if now.refused:
            return Outcome(unchanged=now.unchanged, findings=now.findings)
        (_apply if (out / package).exists() else _create)(out / package, now)
    return Outcome(
        written=tuple(change.path for change in now.changes if change.new is not None),
        unchanged=now.unchanged,
        deleted=tuple(change.path for change in now.changes if change.new is None),
        findings=now.findings,
    )


def _ours(path: str, content: bytes, disk: Disk) -> bool:
    """Whether the generator wrote this content there itself, as the manifest or a journal says."""
    digest = sha256(content)
    record = disk.manifest.files.get(path) if disk.manifest else None
    return (record is not None and record.sha256 == digest) or (path, digest) in disk.journal


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
        entries = [f"{sha256(each.new)} {each.path}\n".encode() for each in survey.changes if each.new is not None]
        content = {journal: known + b"".join(entries)}
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
def _only_writer(out: Path) -> Iterator[None]:
    from filelock import FileLock, Timeout

    out.mkdir(parents=True, exist_ok=True)
    if (out / LOCK).is_symlink():
        raise DiskError(f"{out / LOCK} is a link; remove it")
    try:
        with FileLock(out / LOCK, timeout=PATIENCE):
            yield
    except Timeout:
        raise DiskError(f"another dispatchgen has been writing to {out} for more than {PATIENCE:.0f} s") from None


@contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except OSError as cause:
        raise DiskError(
            f"cannot write {cause.filename2 or cause.filename or 'the package'}: {cause.strerror}"
        ) from cause


def _edited(path: Path, listed: bool) -> Finding:
    what = "was edited by hand since it was generated" if listed else "is there already and was not generated"
    return error(
        "DG707",
        f"the file {what}; it would be overwritten",
        place(path),
        fix="move the change into the spec or a template, or run `dispatchgen generate --force` to give it up",
    )


def _kept(path: Path) -> Finding:
    return warning(
        "DG709",
        "the file is not generated any more, but was edited by hand, so it stays",
        place(path),
        fix="delete it once nobody needs the change",
    )


def _overwritten(damage: Finding) -> Finding:
    """The finding about a damaged manifest as it stands where a new one is about to be written."""
    return warning(
        damage.code,
        damage.message + "; it is written anew",
        damage.span,
    )
