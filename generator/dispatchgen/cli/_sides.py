"""What `diff` compares: the spec of a project's folder, of a spec folder, or of a revision of git."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dispatchgen.cli._problem import Problem
from dispatchgen.cli._revisions import checked_out
from dispatchgen.cli._settings import Settings, read, settings
from dispatchgen.findings import Finding, Related, Severity

if TYPE_CHECKING:
    from dispatchgen.diff import Spec
    from dispatchgen.source import Span


@dataclass(frozen=True)
class Side:
    """One of the two: its spec, or None where errors forbid it, and where its files are for people."""

    name: str
    spec: Spec | None
    errors: tuple[Finding, ...]
    texts: Mapping[str, str]
    """Of files that are not on disk under the name by which findings call them."""
    scratch: str = ""
    """The folder that its files were written to, if they were, as places name it."""
    label: str = ""
    """What stands before their names instead."""

    def place(self, span: Span | None) -> Span | None:
        """The place as people know it."""
        if span is None or not self.scratch or not span.file.startswith(self.scratch):
            return span
        return replace(span, file=self.label + span.file.removeprefix(self.scratch))


def side(named: str, templates: list[str] | None, scratch: Path, *, old: bool) -> Side:
    """The side of that name. A folder goes before a revision that is called so.

    Files of the old revision are named `REVISION:path`; those of the new one by their path, so that a place in them is
    one of the working tree. Raises Problem where the name stands for nothing that can be read.
    """
    folder = Path(named)
    if folder.is_dir():
        return _read(named, _settings(named, folder, templates))
    home = settings(templates=templates).home
    into = scratch / ("old" if old else "new")
    label = f"{named}:" if old else ""
    try:
        there = checked_out(named, home, into)
        return _read(named, _settings(named, there, templates), into, label)
    except Problem as problem:
        words = str(problem).replace(f"{into}/", "")
        raise Problem(words if words.startswith(named) else f"at {named}: {words}") from None


def _settings(named: str, folder: Path, templates: list[str] | None) -> Settings:
    """The settings of what lies in a folder: a spec that is compared by itself takes those of the project here."""
    if folder.resolve() == Path.cwd():
        return settings(templates=templates)
    if (folder / "pyproject.toml").is_file():
        return settings(templates=templates, folder=folder)
    for spec in (folder, folder / "spec"):
        if (spec / "backends.yaml").is_file():
            return replace(settings(spec=spec, templates=templates), overlays=())
    raise Problem(f"{named} has no catalog: neither backends.yaml, nor spec/backends.yaml, nor a pyproject.toml")


def _read(named: str, settings: Settings, scratch: Path | None = None, label: str = "") -> Side:
    from dispatchgen._shape import shown
    from dispatchgen.diff import Spec

    inputs, findings = read(settings)
    spec = Spec(inputs.catalog, inputs.template_set, inputs.selection) if inputs else None
    errors = tuple(each for each in findings if each.severity is Severity.ERROR) if inputs is None else ()
    found = Side(named, spec, errors, {}, f"{shown(scratch)}/" if scratch else "", label)
    if scratch is None:
        return found
    spans = [span for each in errors for span in (each.span, *(related.span for related in each.related)) if span]
    texts = {place.file: _text(span.file) for span in spans if (place := found.place(span))}
    return replace(found, errors=tuple(_placed(each, found) for each in errors), texts=texts)


def _placed(finding: Finding, side: Side) -> Finding:
    related = tuple(Related(side.place(each.span) or each.span, each.message) for each in finding.related)
    return replace(finding, span=side.place(finding.span), related=related)


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return ""
