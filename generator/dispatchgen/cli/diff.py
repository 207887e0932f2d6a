"""`dispatchgen diff`: what another version of a catalog changes for those who rely on it."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dispatchgen.cli import _inputs
from dispatchgen.cli._report import Format, FormatOption, Piece, Report, counted, tell
from dispatchgen.cli._sides import Side, side
from dispatchgen.findings import Finding, Related, Severity

if TYPE_CHECKING:
    from dispatchgen.diff import Change, Comparison, Rating


class FailOn(StrEnum):
    """The rating from which on changes make the run fail."""

    MAJOR = "major"
    MINOR = "minor"
    PATCH = "patch"


_WHAT = "a project's folder, a spec folder, or a revision of git"
Old = Annotated[str, typer.Argument(metavar="OLD", help=f"What there was: {_WHAT}.")]
New = Annotated[str, typer.Argument(metavar="NEW", help=f"What there is: {_WHAT}.")]
FailOnOption = Annotated[
    FailOn | None, typer.Option("--fail-on", help="Exit code 1 where a change is rated so, or worse.")
]

_CODES = {"major": "DG901", "minor": "DG902", "patch": "DG903"}
_STYLES = {"major": "bold red", "minor": "bold yellow", "patch": "bold cyan"}


def diff(
    old: Old,
    new: New = ".",
    templates: _inputs.Templates = None,
    fail_on: FailOnOption = None,
    format: FormatOption = Format.TEXT,
) -> int:
    """Compare two catalogs cell by cell, over many builds, and rate every change: major, minor or patch.

    Example: dispatchgen diff main . --fail-on major
    """
    with tempfile.TemporaryDirectory(prefix="dispatchgen-") as scratch:
        before = side(old, templates, Path(scratch).resolve(), old=True)
        after = side(new, templates, Path(scratch).resolve(), old=False)
    report = _report(before, after, fail_on)
    tell(report, format)
    return report.exit_code()


def _report(old: Side, new: Side, fail_on: FailOn | None) -> Report:
    from dispatchgen.diff import compare

    facts: dict[str, Any] = {"old": old.name, "new": new.name}
    if old.spec is None or new.spec is None:
        findings = tuple(dict.fromkeys((*old.errors, *new.errors)))
        broken = " and ".join(dict.fromkeys(each.name for each in (old, new) if each.spec is None))
        line = ((f"not compared: {broken} {_has(broken)} {counted(findings)}", "bold"),)
        return Report(findings, (line,), {**facts, "rating": None, "changes": []}, texts={**old.texts, **new.texts})
    found = compare(old.spec, new.spec)
    facts["rating"] = found.rating.value if found.rating else None
    facts |= {"builds": found.builds, "cells": found.cells}
    facts["changes"] = [_as_json(each, old, new) for each in found.changes]
    silent = tuple(_finding(each, old, new, fail_on) for each in found.changes)
    return Report((), tuple(_lines(found, old, new)), facts, silent)


def _has(names: str) -> str:
    return "have" if " and " in names else "has"


def _finding(change: Change, old: Side, new: Side, fail_on: FailOn | None) -> Finding:
    before = old.place(change.before)
    severity = Severity.ERROR if _fails(change.rating, fail_on) else _SEVERITIES[change.rating.value]
    return Finding(
        code=_CODES[change.rating.value],
        severity=severity,
        message=f"{change}; {change.reason}",
        span=new.place(change.now),
        related=(Related(before, f"in {old.name}"),) if before else (),
    )


_SEVERITIES = {"major": Severity.WARNING, "minor": Severity.NOTE, "patch": Severity.NOTE}


def _fails(rating: Rating, fail_on: FailOn | None) -> bool:
    return fail_on is not None and rating.order <= [*FailOn].index(fail_on)


def _lines(found: Comparison, old: Side, new: Side) -> Iterator[tuple[Piece, ...]]:
    for change in found.changes:
        head, style = f"{change.rating.value:<5}  ", _STYLES[change.rating.value]
        yield (head, style), (f"{change.subject}: ", "bold"), (change.what, ""), (f"; {change.reason}", "dim")
        place = new.place(change.now) or old.place(change.before)
        if place:
            yield ((f"       {place}", "dim"),)
    between = f"{old.name} -> {new.name}"
    looked = f"{found.cells} cells of {found.builds} builds compared"
    if not found.changes:
        yield ((f"{between}: nothing changed ({looked})", ""),)
        return
    tally = Counter(change.rating.value for change in found.changes)
    yield ((f"{between}: {', '.join(f'{count} {rating}' for rating, count in tally.items())} ({looked})", "bold"),)


def _as_json(change: Change, old: Side, new: Side) -> dict[str, Any]:
    now, before = new.place(change.now), old.place(change.before)
    return {
        "rating": change.rating.value,
        "subject": change.subject,
        "what": change.what,
        "reason": change.reason,
        "place": vars(now) if now else None,
        "before": vars(before) if before else None,
        "builds": change.builds,
        "cells": change.cells,
    }
