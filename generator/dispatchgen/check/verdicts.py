"""A verdict per generated file: what is on disk against what the spec and the templates make now. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from dispatchgen._place import place
from dispatchgen.digests import sha256
from dispatchgen.disk import Disk
from dispatchgen.findings import Finding, error
from dispatchgen.manifest import NAME, FileRecord, Manifest

if TYPE_CHECKING:
    from dispatchgen.format import FormattedFile

REGENERATE = "run `dispatchgen generate`"
OTHER_TOOLS = (
    "neither the spec nor a template has to change: run `dispatchgen generate` and commit what it writes by itself, "
    "or install the versions that the package was made with"
)


class Verdict(Enum):
    """What is to be said about one file of a generated package."""

    UP_TO_DATE = "up to date"
    SPEC_CHANGED = "spec changed"
    TEMPLATE_CHANGED = "template changed"
    TOOL_CHANGED = "tool changed"
    EDITED = "edited by hand"
    MISSING = "missing"
    ORPHAN = "orphan"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class FileVerdict:
    """The verdict about one file, and what it rests on. The path is relative to the package folder."""

    path: str
    verdict: Verdict
    why: str = ""


def verdicts(files: tuple[FormattedFile, ...], manifest: Manifest, disk: Disk) -> tuple[FileVerdict, ...]:
    """The verdict about every file that should be there, is there, or is listed; sorted by path."""
    return _all([_planned(file.path, file.text.encode(), manifest, disk) for file in files], manifest, disk)


def by_hashes(manifest: Manifest, disk: Disk) -> tuple[FileVerdict, ...]:
    """The same, as far as it can be told without rendering: `manifest` says what each file should be made from now.

    A file counts as up to date where it is what was generated, and from what it should be made from now.
    """
    return _all([_by_hash(path, manifest, disk) for path in manifest.files], manifest, disk)


def _all(planned: Iterable[FileVerdict], manifest: Manifest, disk: Disk) -> tuple[FileVerdict, ...]:
    found = [*planned]
    wanted = {each.path for each in found}
    found += [_unplanned(path, manifest, disk) for path in disk.files if path not in wanted]
    found += [FileVerdict(path, Verdict.ORPHAN, "no manifest lists it") for path in disk.others]
    found += [
        FileVerdict(path, Verdict.INTERRUPTED, "left behind by a generate that was cut off") for path in disk.leftovers
    ]
    found.append(_manifest(manifest, disk, found))
    return tuple(sorted(found, key=lambda each: each.path))


def _untouched(path: str, disk: Disk) -> tuple[Manifest, FileRecord] | None:
    """What the manifest of the package says about a file that is as it was written; None where it is not."""
    record = disk.manifest.files.get(path) if disk.manifest else None
    if disk.manifest and record and record.sha256 == sha256(disk.files[path]):
        return disk.manifest, record
    return None


def _planned(path: str, content: bytes, manifest: Manifest, disk: Disk) -> FileVerdict:
    actual = disk.files.get(path)
    if actual is None:
        return FileVerdict(path, Verdict.MISSING)
    untouched = _untouched(path, disk)
    if actual == content:
        if disk.manifest and untouched is None:
            return FileVerdict(path, Verdict.INTERRUPTED, "the file is new and the manifest is old")
        return FileVerdict(path, Verdict.UP_TO_DATE)
    if untouched is not None:
        made, record = untouched
        return FileVerdict(path, *_stale(record, manifest.files[path], made, manifest))
    return _changed(path, disk, "no manifest lists it, and the content differs")


def _by_hash(path: str, manifest: Manifest, disk: Disk) -> FileVerdict:
    if path not in disk.files:
        return FileVerdict(path, Verdict.MISSING)
    untouched = _untouched(path, disk)
    if untouched is not None:
        made, record = untouched
        changed = _made_from_else(record, manifest.files[path], made, manifest)
        tools = _other_tools(made, manifest)
        return FileVerdict(path, *(changed or ((Verdict.TOOL_CHANGED, tools) if tools else (Verdict.UP_TO_DATE,))))
    return _changed(path, disk, "no manifest lists it")


def _changed(path: str, disk: Disk, unlisted: str, listed: str = "") -> FileVerdict:
    """About a file that is not as the manifest lists it, with what to say where it is listed, and where it is not."""
    if (path, sha256(disk.files[path])) in disk.journal:
        return FileVerdict(path, Verdict.INTERRUPTED, "written by a generate that was cut off")
    is_listed = disk.manifest is not None and path in disk.manifest.files
    return FileVerdict(path, Verdict.EDITED, listed if is_listed else unlisted)


def _stale(then: FileRecord, now: FileRecord, made: Manifest, manifest: Manifest) -> tuple[Verdict, str]:
    """Why a file that nobody touched is not what it would be now."""
    if changed := _made_from_else(then, now, made, manifest):
        return changed
    if (made.tools, then.rendered) == (manifest.tools, now.rendered):
        return Verdict.EDITED, "and the manifest was changed to match"
    return Verdict.TOOL_CHANGED, _other_tools(made, manifest)


def _made_from_else(
    then: FileRecord, now: FileRecord, made: Manifest, manifest: Manifest
) -> tuple[Verdict, str] | None:
    """What a file was made from that is not what it would be made from now; None where that is the same.

    Another version of the generator digests the spec in another way and brings other templates along, so it counts
    first: nobody has to look for a change of theirs.
    """
    if made.generator != manifest.generator:
        return Verdict.TOOL_CHANGED, _other_tools(made, manifest)
    if then.spec != now.spec:
        if made.features != manifest.features:
            return Verdict.SPEC_CHANGED, f"made with other features: {_difference(made.features, manifest.features)}"
        return Verdict.SPEC_CHANGED, ""
    if (then.template, then.template_sha256) != (now.template, now.template_sha256):
        return Verdict.TEMPLATE_CHANGED, now.template
    return None


def _other_tools(then: Manifest, now: Manifest) -> str:
    """The tools whose versions differ; empty where none does."""
    return ", ".join(f"{old} -> {new}" for old, new in zip(then.tools, now.tools, strict=True) if old != new)


def _difference(then: tuple[str, ...], now: tuple[str, ...]) -> str:
    changed = [f"-{name}" for name in sorted(set(then) - set(now))] + [
        f"+{name}" for name in sorted(set(now) - set(then))
    ]
    return " ".join(changed)


_GONE = "not generated any more"


def _unplanned(path: str, manifest: Manifest, disk: Disk) -> FileVerdict:
    """About a file that the manifest or the journal lists and that would not be generated now."""
    untouched = _untouched(path, disk)
    if untouched is None:
        return _changed(path, disk, _GONE, _GONE)
    made, _ = untouched
    if made.generator != manifest.generator:
        return FileVerdict(path, Verdict.TOOL_CHANGED, _other_tools(made, manifest))
    if made.features != manifest.features:
        difference = _difference(made.features, manifest.features)
        return FileVerdict(path, Verdict.SPEC_CHANGED, f"not generated with these features: {difference}")
    return FileVerdict(path, Verdict.SPEC_CHANGED, _GONE)


def _manifest(manifest: Manifest, disk: Disk, others: list[FileVerdict]) -> FileVerdict:
    if disk.manifest_text is None:
        return FileVerdict(NAME, Verdict.MISSING)
    if disk.manifest_text == str(manifest).encode():
        return FileVerdict(NAME, Verdict.UP_TO_DATE)
    if disk.manifest is None:
        return FileVerdict(NAME, Verdict.EDITED, "it cannot be read")
    if any(each.verdict is Verdict.INTERRUPTED for each in others):
        return FileVerdict(NAME, Verdict.INTERRUPTED, "it does not list what is there")
    then, now = disk.manifest, manifest
    if tools := _other_tools(then, now):  # which may have written it in another layout
        return FileVerdict(NAME, Verdict.TOOL_CHANGED, tools)
    if str(then).encode() != disk.manifest_text:
        return FileVerdict(NAME, Verdict.EDITED, "it is not as it was written")
    if {path: record.spec for path, record in then.files.items()} == {
        path: record.spec for path, record in now.files.items()
    }:
        return FileVerdict(NAME, Verdict.TEMPLATE_CHANGED)
    if then.features != now.features:
        return FileVerdict(
            NAME, Verdict.SPEC_CHANGED, f"made with other features: {_difference(then.features, now.features)}"
        )
    return FileVerdict(NAME, Verdict.SPEC_CHANGED)


_CODES = {
    Verdict.SPEC_CHANGED: "DG711",
    Verdict.TEMPLATE_CHANGED: "DG712",
    Verdict.TOOL_CHANGED: "DG713",
    Verdict.EDITED: "DG714",
    Verdict.MISSING: "DG715",
    Verdict.ORPHAN: "DG716",
    Verdict.INTERRUPTED: "DG717",
}


def finding(folder: Path, verdict: FileVerdict) -> Finding | None:
    """What is wrong with the file, or None where it is up to date."""
    if verdict.verdict is Verdict.UP_TO_DATE:
        return None
    fix = REGENERATE
    if verdict.verdict is Verdict.EDITED:
        fix = "move the change into the spec or a template, then run `dispatchgen generate --force`"
    elif verdict.verdict is Verdict.TOOL_CHANGED:
        fix = OTHER_TOOLS
    elif verdict.verdict is Verdict.ORPHAN:
        fix = "delete it, or keep it outside the package: everything in there is generated"
    message = verdict.verdict.value + (f": {verdict.why}" if verdict.why else "")
    return error(_CODES[verdict.verdict], message, place(folder / verdict.path), fix=fix)
