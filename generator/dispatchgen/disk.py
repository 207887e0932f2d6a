"""What is on disk in a package folder, as values, before anybody decides anything about it."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path

from dispatchgen._place import place
from dispatchgen.findings import Finding, error
from dispatchgen.journal import JOURNAL
from dispatchgen.journal import read as read_journal
from dispatchgen.lock import LOCK, DiskError, only_writer
from dispatchgen.manifest import NAME, Manifest, is_inside, read

TEMPORARY = re.compile(r"\.(.+)\.[0-9a-f]{8}\.dispatchgen")
"""Names of files that are being written, and beside the package's folder of a whole package that is."""


LOOKS, PAUSE = 50, 0.02
"""How often a folder is looked at that changes under the look while nobody holds its lock, and the seconds between."""


@dataclass(frozen=True)
class Disk:
    """A package folder. Paths are posix, relative to it."""

    files: Mapping[str, bytes]
    """The content of the files that were asked for, and of those that the manifest or the journal lists."""
    others: tuple[str, ...]
    """All other files, but for compiled Python."""
    leftovers: tuple[str, ...]
    """What a write that was cut off left behind: its journal, files half written, folders beside the package's own."""
    journal: frozenset[tuple[str, str]]
    """Path and hash of all that such a write was to write."""
    manifest: Manifest | None
    manifest_text: bytes | None
    findings: tuple[Finding, ...]
    """Links and other things that are no plain files, and a damaged manifest (DG708)."""


def look(out: Path, package: str, wanted: Container[str], *, alone: bool = False) -> Disk:
    """What stands in the package folder. Nothing is followed out of it, and nothing is opened but plain files.

    Who is `alone`, in that they hold the lock, sees what is there. Everybody else sees what was there before another's
    write or what is there after it, never some of each: where a write seems to go on, they wait for its end.

    Raises DiskError where something cannot be read, or where another writes for too long.
    """
    try:
        if alone:
            return _look(out, package, wanted)
        for left in reversed(range(LOOKS)):
            try:
                before, seen = _stamp(out / package), _look(out, package, wanted)
                if _stamp(out / package) == before and JOURNAL not in seen.leftovers:
                    return seen
            except FileNotFoundError:
                if not left:
                    raise
            if os.access(out / LOCK, os.W_OK):
                with only_writer(out):
                    return _look(out, package, wanted)
            time.sleep(PAUSE)
        return seen
    except OSError as cause:
        raise DiskError(f"cannot read {cause.filename}: {cause.strerror}") from cause


def _stamp(folder: Path) -> tuple[int, int] | None:
    """Other than before whenever a write began or ended between: the journal comes into this folder, and goes."""
    try:
        found = os.lstat(folder)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_ino, found.st_mtime_ns


def _look(out: Path, package: str, wanted: Container[str]) -> Disk:
    folder = out / package
    paths, findings = _walk(folder, wanted)
    manifest_text = _as_written(folder / NAME) if NAME in paths else None
    manifest, damage = read(folder / NAME, str(folder / NAME)) if NAME in paths else (None, ())
    journal = read_journal((folder / JOURNAL).read_bytes()) if JOURNAL in paths else frozenset()
    listed = (manifest.files.keys() if manifest else set()) | {path for path, _ in journal} - {NAME}
    files = {path: _as_written(folder / path) for path in paths if path in wanted or path in listed}
    left = [path for path in paths if TEMPORARY.fullmatch(path.rpartition("/")[2]) or path == JOURNAL]
    leftovers = (*_begun(out, package), *left)
    return Disk(
        files=files,
        others=tuple(path for path in paths if path not in files and path not in leftovers and path != NAME),
        leftovers=leftovers,
        journal=journal,
        manifest=manifest,
        manifest_text=manifest_text,
        findings=(*findings, *damage),
    )


def _walk(folder: Path, wanted: Container[str]) -> tuple[tuple[str, ...], tuple[Finding, ...]]:
    """Every plain file below the folder, sorted, and a finding for everything that is neither file nor folder.

    A folder in the place of a wanted file is a finding too.
    """
    paths: list[str] = []
    findings: list[Finding] = []
    left = [folder]
    while left:
        here = left.pop()
        try:
            mode = os.lstat(here).st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        if stat.S_ISDIR(mode):
            if here.relative_to(folder).as_posix() in wanted:
                findings.append(_strange(here, "a folder where a file belongs"))
            left += [here / name for name in os.listdir(here) if name != "__pycache__"]
        elif stat.S_ISREG(mode):
            if here == folder:
                findings.append(_strange(here, "a file where the package's folder belongs"))
            elif here.suffix != ".pyc":
                paths.append(here.relative_to(folder).as_posix())
        else:
            findings.append(_strange(here, "a link" if stat.S_ISLNK(mode) else "no plain file or folder"))
    return tuple(sorted(paths)), tuple(sorted(findings, key=lambda finding: str(finding.span)))


def _begun(out: Path, package: str) -> tuple[str, ...]:
    """The folders in which the package was begun and never finished, relative to its own."""
    try:
        names = [name for name in os.listdir(out) if (match := TEMPORARY.fullmatch(name)) and match[1] == package]
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return tuple(f"../{name}" for name in sorted(names) if stat.S_ISDIR(os.lstat(out / name).st_mode))


def _as_written(path: Path) -> bytes:
    """The content of a file, with the line ends that it was written with: version control may have changed them all."""
    content = path.read_bytes()
    windows = content.count(b"\r\n")
    return content.replace(b"\r\n", b"\n") if windows and windows == content.count(b"\n") else content


def _strange(path: Path, what: str) -> Finding:
    return error(
        "DG705" if what == "a link" else "DG706",
        f"{path} is {what}; generated files are only ever written into plain folders",
        place(path),
        fix="remove it, or choose another --out",
    )


def leaves(path: str, template: str) -> Finding | None:
    """A finding where a planned path must not be written below the package folder, else None."""
    if is_inside(path):
        return None
    return error(
        "DG704",
        f"{template} is to become {path!r}, which does not name a file that may be written in the package",
        None,
        fix="give it a relative path with forward slashes, without `..`, hidden names and the manifest's own name",
    )
