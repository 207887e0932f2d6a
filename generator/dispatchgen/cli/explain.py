"""`dispatchgen explain`: the long text about a code, or why an operation does what it does on a device."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dispatchgen.cli import _inputs
from dispatchgen.cli._problem import Problem
from dispatchgen.cli._report import Piece, Report, tell
from dispatchgen.findings import CODES, near

if TYPE_CHECKING:
    from dispatchgen.matrix import Cell
    from dispatchgen.model.catalog import Catalog, ErrorEntry
    from dispatchgen.source import Span
    from dispatchgen.why import Fact


class ExplainFormat(StrEnum):
    """How the explanation of an operation is told."""

    TEXT = "text"
    JSON = "json"


Subject = Annotated[
    str, typer.Argument(metavar="CODE|OP", help="The code of a finding or of an error, or the name of an operation.")
]
Device = Annotated[
    str | None,
    typer.Option("--device", help="Backend, Backend[runtime], backend:0 or Wrapper(Backend).  [default: all, briefly]"),
]
Target = Annotated[str | None, typer.Option("--target", help="Where to, for an operation between two backends.")]
FormatOption = Annotated[ExplainFormat, typer.Option("--format", help="How an operation is explained.")]


def explain(
    subject: Subject,
    device: Device = None,
    target: Target = None,
    spec: _inputs.Spec = None,
    templates: _inputs.Templates = None,
    package: _inputs.Package = None,
    features: _inputs.Features = None,
    no_default_features: _inputs.NoDefault = False,
    all_features: _inputs.AllFeatures = False,
    overlay: _inputs.Overlays = None,
    format: FormatOption = ExplainFormat.TEXT,
) -> None:
    """Say what a code means, or why an operation does what it does: each predicate, and the line behind each fact.

    Example: dispatchgen explain lift --device iron:0 --no-default-features --features iron
    """
    wanted = subject.strip().strip("[]").upper()
    if wanted in CODES:
        print(f"{wanted}\n\n{textwrap.fill(CODES[wanted], 100)}")
        return
    settings = _inputs.settings(spec, templates, None, package, features, no_default_features, all_features, overlay)
    catalog = _catalog(settings, named=spec is not None)
    errors = {error.code: error for error in catalog.errors}
    if wanted in errors:
        print("\n".join(_told(errors[wanted])))
        return
    ops = [op.name for _, op in catalog.ops]
    if subject not in ops:
        raise Problem(f"there is no code and no operation {subject!r}; {near(subject, [*ops, *errors, *CODES])}")
    _operation(settings, subject, device, target, format)


def _catalog(settings: _inputs.Settings, *, named: bool) -> Catalog:
    """The catalog, or the shipped one where no catalog is here; findings do not matter to who asks about a code."""
    from dispatchgen._resources import data_root
    from dispatchgen.model.build import read_catalog
    from dispatchgen.template_set import read_set

    folder = settings.spec if named or settings.spec.is_dir() else data_root() / "spec"
    template_set, _ = read_set(settings.templates)
    catalog = read_catalog(folder, template_set, settings.overlays)[0] if template_set else None
    if catalog is None:
        raise Problem(f"the catalog in {folder} cannot be read; `dispatchgen check` says why")
    return catalog


def _operation(
    settings: _inputs.Settings, name: str, device: str | None, target: str | None, format: ExplainFormat
) -> None:
    from dispatchgen import why
    from dispatchgen.matrix import cells

    inputs, findings = _inputs.read(settings)
    if inputs is None:
        tell(Report(findings))
        raise typer.Exit(1)
    catalog, template_set, build = inputs.catalog, inputs.template_set, inputs.build
    family, op = next((family, op) for family, op in catalog.ops if op.name == name)
    every = [cell for cell in cells(catalog, template_set, build) if cell.op == name]
    try:
        asked = why.variant(device, catalog, template_set) if device else None
        goal = why.variant(target, catalog, template_set) if target else None
    except ValueError as problem:
        raise Problem(str(problem)) from None
    if goal is not None and op.pair is None:
        raise Problem(f"{name} has no target: it is no operation between two backends")
    if asked is not None and asked.wrapper and not any(asked.takes(cell, op) for cell in every):
        raise Problem(f"{asked.backend} does not allow {asked.wrapper} around it")
    shown = [
        cell
        for cell in every
        if (asked is None or asked.takes(cell, op)) and (goal is None or cell.target == goal.backend)
    ]
    detailed = asked is not None and (op.pair is None or goal is not None)
    if format is ExplainFormat.JSON:
        answers = [_as_json(cell, inputs, every) for cell in shown]
        head = {"version": 1, "package": catalog.package, "features": build.flags, "family": family.name, "op": name}
        print(json.dumps({**head, "place": _place(op.span), "variants": answers}, indent=2, ensure_ascii=False))
        return
    lines: list[tuple[Piece, ...]] = [((f"{op.name} of {family.name}", "bold"), (f"  {op.span}", "dim"))]
    lines.append(((f"features: {', '.join(build.flags) or 'none'}", ""),))
    for cell in shown:
        lines += _answer(settings, cell, inputs, every) if detailed else [_brief(cell, catalog)]
    if not detailed:
        options = " --device D" + (" --target T" if op.pair else "")
        lines += [(), ((f"more: dispatchgen explain {name}{options}", "dim"),)]
    tell(Report((), tuple(lines)))


def _brief(cell: Cell, catalog: Catalog) -> tuple[Piece, ...]:
    from dispatchgen.why import title

    return (f"  {title(cell):<28} ", "bold"), (_outcome(cell, catalog), _STYLES[cell.arm.kind])


_STYLES = {"kernel": "green", "error": "red", "absent": "yellow", "value": "cyan"}


def _outcome(cell: Cell, catalog: Catalog) -> str:
    """What the arm of a cell does, in a few words."""
    from dispatchgen.why import told_by

    arm = cell.arm
    if arm.kind == "kernel":
        return f"kernel {arm.kernel}" + (f", then {arm.into}" if arm.into else "")
    if arm.kind == "value":
        op = next(op for _, op in catalog.ops if op.name == cell.op)
        return f"answers {op.otherwise}: {arm.reason}"
    error = told_by(arm.situation, catalog)
    name = f"{error.code} {error.exception.rpartition(':')[2]}" if error else arm.situation
    return f"error {name}: {arm.reason}"


def _answer(
    settings: _inputs.Settings, cell: Cell, inputs: _inputs.Inputs, every: list[Cell]
) -> Iterator[tuple[Piece, ...]]:
    """The outcome of a cell, the facts behind it, where the kernel is, and what would help."""
    from dispatchgen import why

    catalog = inputs.catalog
    yield ()
    yield (f"{why.title(cell)}: ", "bold"), (_outcome(cell, catalog), f"bold {_STYLES[cell.arm.kind]}")
    rows = [row for fact in why.facts(cell, catalog, inputs.build) for row in _rows(fact, 0)]
    width = max((len(text) for _, text, _ in rows), default=0)
    for holds, text, span in rows:
        mark, style = _MARKS[holds]
        yield (f"  {mark:<3} ", style), (f"{text:<{width}}  " if span else text, ""), (str(span or ""), "dim")
    for reference in filter(None, (cell.arm.kernel, cell.arm.into)):
        yield ((f"      {_written(settings, reference)}", ""),)
    error = why.told_by(cell.arm.situation, catalog) if cell.arm.kind != "kernel" else None
    if error is not None:
        yield (
            (f"      {error.code} is told by {error.span}; `dispatchgen explain {error.code}` has the long text", ""),
        )
    fix = why.remedy(cell, catalog, inputs.template_set, inputs.build, every)
    if fix:
        yield ("help", "bold green"), (f": {fix}", "")


_MARKS = {True: ("yes", "green"), False: ("no", "red"), None: ("", "")}


def _rows(fact: Fact, depth: int) -> Iterator[tuple[bool | None, str, Span | None]]:
    yield fact.holds, "  " * depth + fact.text, fact.span
    for part in fact.parts:
        yield from _rows(part, depth + 1)


def _written(settings: _inputs.Settings, reference: str) -> str:
    """Where a kernel method is written, as far as the sources can be read."""
    from dispatchgen.check.classes import Sources, UnreadableError

    owner, _, method = reference.rpartition(".")
    try:
        found = Sources(_inputs.source_roots(settings)).find(owner).methods.get(method)
    except UnreadableError as cause:
        return f"its kernel cannot be found: {cause}"
    return f"{method} is written at {found.span}" if found else f"{method} is not written yet"


def _as_json(cell: Cell, inputs: _inputs.Inputs, every: list[Cell]) -> dict[str, Any]:
    from dispatchgen import why

    catalog = inputs.catalog
    error = why.told_by(cell.arm.situation, catalog) if cell.arm.kind != "kernel" else None
    return {
        **{name: getattr(cell, name) for name in ("backend", "runtime", "wrapper", "target")},
        "arm": cell.arm.kind,
        "situation": cell.arm.situation,
        "code": error.code if error else None,
        "kernel": cell.arm.kernel,
        "into": cell.arm.into,
        "reason": cell.arm.reason,
        "facts": [_fact(fact) for fact in why.facts(cell, catalog, inputs.build)],
        "help": why.remedy(cell, catalog, inputs.template_set, inputs.build, every),
    }


def _fact(fact: Fact) -> dict[str, Any]:
    return {
        "text": fact.text,
        "holds": fact.holds,
        "place": _place(fact.span) if fact.span else None,
        "parts": [_fact(part) for part in fact.parts],
    }


def _place(span: Span) -> dict[str, Any]:
    return {"file": span.file, "line": span.line, "column": span.column}


def _told(error: ErrorEntry) -> Iterator[str]:
    yield f"{error.code}: {error.exception.rpartition(':')[2]}"
    yield ""
    yield from _filled(_fields(error.message))
    for title, text in (("Why", _fields(error.reason)), ("Cause", error.cause), ("What to do", _fields(error.help))):
        yield from ("", title, *_filled(text, "  "))
    for title, text in (("Before", error.before), ("After", error.after)):
        yield from ("", title, *textwrap.indent(text.rstrip("\n"), "  ").split("\n"))
    if error.guard:
        yield from ("", "Ask before", f"  {error.guard}")


def _fields(template: str) -> str:
    """The template with its fields as a reader would write them."""
    named = re.sub(r"(?<!\{)\{(\w+)[^{}]*\}(?!\})", r"<\1>", template)
    return named.replace("{{", "{").replace("}}", "}")


def _filled(text: str, indent: str = "") -> list[str]:
    paragraphs = (
        textwrap.wrap(line, 100, initial_indent=indent, subsequent_indent=indent) for line in text.strip().split("\n")
    )
    return [line for paragraph in paragraphs for line in paragraph or [""]]
