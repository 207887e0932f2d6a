"""`dispatchgen generate`: bring the package in line with the spec and the templates."""

from __future__ import annotations

import difflib
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

from dispatchgen.cli import _inputs
from dispatchgen.cli._options import option
from dispatchgen.cli._report import Deny, DenyOption, Format, FormatOption, Piece, Report, counted, tell
from dispatchgen.findings import Finding, has_errors

if TYPE_CHECKING:
    from dispatchgen.format import FormattedFile
    from dispatchgen.manifest import Manifest
    from dispatchgen.survey import Change

DryRun = Annotated[bool, option("--dry-run", help="Show what would change as a diff, and write nothing.")]
Force = Annotated[bool, option("--force", help="Overwrite files that were edited by hand, or never generated.")]


def generate(
    spec: _inputs.Spec = None,
    templates: _inputs.Templates = None,
    out: _inputs.Out = None,
    package: _inputs.Package = None,
    features: _inputs.Features = None,
    no_default_features: _inputs.NoDefault = False,
    all_features: _inputs.AllFeatures = False,
    overlay: _inputs.Overlays = None,
    dry_run: DryRun = False,
    force: Force = False,
    format: FormatOption = Format.TEXT,
    deny: DenyOption = None,
) -> int:
    """Write the package: every file that is not what the spec and the templates make of it."""
    settings = _inputs.settings(spec, templates, out, package, features, no_default_features, all_features, overlay)
    inputs, findings = _inputs.read(settings)
    made = None
    if inputs is not None:
        made, more = make(inputs)
        findings += more
    if inputs is None or made is None or (deny is Deny.WARNINGS and Report(findings).exit_code(deny)):
        report = Report(findings, lines=(((f"nothing was written: {counted(findings)}", "bold"),),))
    else:
        report = _written(findings, settings.out, inputs.catalog.package, *made, dry_run=dry_run, force=force)
    tell(report, format)
    return report.exit_code(deny)


def make(
    inputs: _inputs.Inputs,
) -> tuple[tuple[tuple[FormattedFile, ...], Manifest] | None, tuple[Finding, ...]]:
    """The files of the package and their manifest, or None where errors among the findings forbid it."""
    from dispatchgen.cache import user_cache
    from dispatchgen.format import format_files
    from dispatchgen.manifest import manifest_of
    from dispatchgen.plan import plan
    from dispatchgen.render import render

    planned = plan(inputs.catalog, inputs.template_set, inputs.build)
    cache = user_cache(os.environ)
    rendered, findings = render(planned, inputs.template_set, cache)
    if has_errors(findings):
        return None, findings
    formatted, refused = format_files(rendered, cache)
    findings += refused
    if refused:
        return None, findings
    return (formatted, manifest_of(formatted, inputs.template_set.folders, inputs.build, inputs.selection)), findings


def _written(
    findings: tuple[Finding, ...],
    out: Path,
    package: str,
    files: tuple[FormattedFile, ...],
    manifest: Manifest,
    *,
    dry_run: bool,
    force: bool,
) -> Report:
    from dispatchgen.survey import survey
    from dispatchgen.write import write

    folder = out / package
    if dry_run:
        seen = survey(out, package, files, manifest, force=force)
        shown = () if seen.refused else seen.changes
        written = tuple(change.path for change in shown if change.new is not None)
        deleted = tuple(change.path for change in shown if change.new is None)
        unchanged, findings = seen.unchanged, findings + seen.findings
        lines = [line for change in shown for line in _diff(folder, change)]
    else:
        with _stopped_properly():
            done = write(out, package, files, manifest, force=force)
        written, deleted, unchanged, findings = done.written, done.deleted, done.unchanged, findings + done.findings
        lines = [
            ((f"{verb} {folder / path}", ""),)
            for verb, paths in (("wrote  ", written), ("deleted", deleted))
            for path in paths
        ]
    facts = {"package": package, "written": written, "deleted": deleted, "unchanged": unchanged, "dry_run": dry_run}
    lines.append(((_summary(folder, written, deleted, unchanged, findings, dry_run), "bold"),))
    return Report(findings, tuple(lines), facts)


def _summary(
    folder: Path,
    written: tuple[str, ...],
    deleted: tuple[str, ...],
    unchanged: tuple[str, ...],
    findings: tuple[Finding, ...],
    dry_run: bool,
) -> str:
    if has_errors(findings):
        return f"nothing was written: {counted(findings)}"
    counts = [(len(written), "written"), (len(deleted), "deleted"), (len(unchanged), "unchanged")]
    what = ", ".join(f"{count} {word}" for count, word in counts if count) or "no files"
    return f"{folder}: {what}" + (" (dry run: nothing was touched)" if dry_run else "")


def _diff(folder: Path, change: Change) -> Iterator[tuple[Piece, ...]]:
    styles = {"+": "green", "-": "red", "@": "cyan"}
    name = (folder / change.path).as_posix()
    old = "" if change.old is None else change.old.decode(errors="backslashreplace")
    for line in difflib.unified_diff(
        old.splitlines(),
        (change.new or "").splitlines(),
        "/dev/null" if change.old is None else f"a/{name}",
        "/dev/null" if change.new is None else f"b/{name}",
        lineterm="",
    ):
        yield ((line, styles.get(line[0], "")),)


@contextmanager
def _stopped_properly() -> Iterator[None]:
    """A request to end meanwhile is an exception, so that no half-written file stays."""

    def stop(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    old = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, old)
