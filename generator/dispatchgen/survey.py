"""What writing would do, as values: which files change, which stay, and what forbids it. Nothing here writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dispatchgen._place import place
from dispatchgen.digests import sha256
from dispatchgen.disk import Disk, leaves, look
from dispatchgen.findings import Finding, error, has_errors, warning
from dispatchgen.format import FormattedFile
from dispatchgen.manifest import NAME, Manifest


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


def survey(
    out: Path,
    package: str,
    files: tuple[FormattedFile, ...],
    manifest: Manifest,
    *,
    force: bool = False,
    alone: bool = False,
) -> Survey:
    """What `write` would do now, without doing it; `alone` as for `look`.

    Raises DiskError where the folder cannot be read.
    """
    wanted = {file.path: file.text for file in files}
    astray = tuple(finding for file in files if (finding := leaves(file.path, file.template)))
    disk = look(out, package, wanted, alone=alone)
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
    if disk.manifest_text == str(manifest).encode():
        unchanged.append(NAME)
    else:
        changes.append(Change(NAME, disk.manifest_text, str(manifest)))
    return Survey(tuple(changes), tuple(unchanged), disk.leftovers, tuple(findings))


def _ours(path: str, content: bytes, disk: Disk) -> bool:
    """Whether the generator wrote this content there itself, as the manifest or a journal says."""
    digest = sha256(content)
    record = disk.manifest.files.get(path) if disk.manifest else None
    return (record is not None and record.sha256 == digest) or (path, digest) in disk.journal


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
