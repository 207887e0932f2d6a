"""`dispatchgen matrix`: what every operation does on every backend, for one set of features."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from dispatchgen.cli import _inputs
from dispatchgen.cli._report import DenyOption, Report, tell

if TYPE_CHECKING:
    from dispatchgen.matrix import Cell

PIPED_WIDTH = 100
ABSENT, KERNEL = "-", "yes"


class MatrixFormat(StrEnum):
    """How the matrix is shown."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


FormatOption = Annotated[MatrixFormat, typer.Option("--format", help="How the matrix is shown.")]


def matrix(
    spec: _inputs.Spec = None,
    templates: _inputs.Templates = None,
    package: _inputs.Package = None,
    features: _inputs.Features = None,
    no_default_features: _inputs.NoDefault = False,
    all_features: _inputs.AllFeatures = False,
    overlay: _inputs.Overlays = None,
    format: FormatOption = MatrixFormat.TEXT,
    deny: DenyOption = None,
) -> None:
    """Show what every operation does on every backend: a kernel, an error, or not compiled in."""
    from dispatchgen.matrix import cells

    settings = _inputs.settings(spec, templates, None, package, features, no_default_features, all_features, overlay)
    inputs, findings = _inputs.read(settings)
    report = Report(findings)
    tell(report, stream=sys.stderr)
    if inputs is None or report.exit_code(deny):
        raise typer.Exit(1)
    found = cells(inputs.catalog, inputs.template_set, inputs.build)
    if format is MatrixFormat.JSON:
        facts = {"version": 1, "package": inputs.catalog.package, "features": inputs.build.flags}
        print(json.dumps({**facts, "cells": [_as_json(cell) for cell in found]}, indent=2, ensure_ascii=False))
        return
    codes = {error.when: error.code for error in inputs.catalog.errors}
    words = {cell: _answer(cell, codes, {op.name: op.otherwise for _, op in inputs.catalog.ops}) for cell in found}
    tables = [*_tables(words)]
    title = f"{inputs.catalog.package}, features: {', '.join(inputs.build.flags) or 'none'}"
    legend = [*_legend(tables, codes)]
    if format is MatrixFormat.MARKDOWN:
        print("\n".join(_markdown(title, tables, legend)))
    else:
        _print(title, tables, legend)


@dataclass(frozen=True)
class Table:
    """One family, or one operation between two backends: a row of short answers per operation or per source."""

    title: str
    corner: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


def _as_json(cell: Cell) -> Mapping[str, object]:
    named = asdict(cell)
    arm = named.pop("arm")
    return {**named, "arm": arm["kind"], **{key: arm[key] for key in ("situation", "kernel", "into", "reason")}}


def _tables(words: Mapping[Cell, str]) -> Iterator[Table]:
    for family in dict.fromkeys(cell.family for cell in words):
        of_family = {cell: word for cell, word in words.items() if cell.family == family}
        single = {cell: word for cell, word in of_family.items() if cell.target is None}
        if single:
            yield _family(family, single)
        for op in dict.fromkeys(cell.op for cell in of_family if cell.target is not None):
            yield _pairs(op, {cell: word for cell, word in of_family.items() if cell.op == op})


def _family(family: str, words: Mapping[Cell, str]) -> Table:
    """Operations down, variants across; a row of its own for a wrapper where that makes a difference."""
    answers = {(cell.op, cell.backend, cell.runtime, cell.wrapper): word for cell, word in words.items()}
    variants = list(dict.fromkeys((cell.backend, cell.runtime) for cell in words))
    wrappers = dict.fromkeys(cell.wrapper for cell in words if cell.wrapper)
    rows: dict[tuple[str, str | None], list[str]] = {}
    for op in dict.fromkeys(cell.op for cell in words):
        rows[op, None] = plain = [answers[op, *variant, None] for variant in variants]
        for wrapper in wrappers:
            wrapped = [answers.get((op, *variant, wrapper), ABSENT) for variant in variants]
            differs = ["" if inner in (outer, ABSENT) else inner for inner, outer in zip(wrapped, plain, strict=True)]
            if any(differs):
                rows[op, wrapper] = differs
    columns = zip(*rows.values(), strict=True)
    merged = _merged([(*variant, answers_of) for variant, answers_of in zip(variants, columns, strict=True)])
    lines = zip(*(answers_of for _, answers_of in merged), strict=True)
    names = [f"  in {wrapper}" if wrapper else op for op, wrapper in rows]
    return Table(family, "operation", tuple(name for name, _ in merged), tuple(zip(names, lines, strict=True)))


def _pairs(op: str, words: Mapping[Cell, str]) -> Table:
    """Sources down, targets across. What a wrapper around the source changes is left to JSON."""
    answers = {(cell.backend, cell.runtime, cell.target): word for cell, word in words.items() if cell.wrapper is None}
    targets = tuple(dict.fromkeys(str(cell.target) for cell in words))
    sources = dict.fromkeys((backend, runtime) for backend, runtime, _ in answers)
    rows = _merged([(*source, tuple(answers[(*source, target)] for target in targets)) for source in sources])
    return Table(f"{op}, from row to column", "source", targets, tuple(rows))


def _merged(found: list[tuple[str, str | None, tuple[str, ...]]]) -> list[tuple[str, tuple[str, ...]]]:
    """Names with their answers, runtimes of one backend that answer alike taken together."""
    together: dict[tuple[str, bool, tuple[str, ...]], list[str]] = {}
    for backend, runtime, answers in found:
        together.setdefault((backend, runtime is not None, answers), []).append(runtime or "")
    return [
        (f"{backend}[{','.join(runtimes)}]" if several else backend, answers)
        for (backend, several, answers), runtimes in together.items()
    ]


def _answer(cell: Cell, codes: Mapping[str, str], otherwise: Mapping[str, str | None]) -> str:
    """What a cell says, in one short word."""
    match cell.arm.kind:
        case "kernel":
            return KERNEL
        case "absent":
            return ABSENT
        case "value":
            return otherwise[cell.op] or ABSENT
    return codes.get(cell.arm.situation or "", cell.arm.situation or "error")


def _legend(tables: list[Table], codes: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What the answers that stand in the tables mean."""
    met = {answer for table in tables for _, answers in table.rows for answer in answers}
    if KERNEL in met:
        yield KERNEL, "forwards to a kernel"
    for situation, code in sorted(codes.items(), key=lambda item: item[1]):
        if code in met:
            yield code, f"raises an error: {situation.replace('_', ' ')}"
    for value in ("none", "false"):
        if value in met:
            yield value, f"is a question, and answered with {value.capitalize()}"
    if ABSENT in met:
        yield ABSENT, "not in this build"


def _markdown(title: str, tables: list[Table], legend: list[tuple[str, str]]) -> Iterator[str]:
    yield f"# {title}"
    for table in tables:
        yield from ("", f"## {table.title}", "")
        yield f"| {' | '.join((table.corner, *table.columns))} |"
        yield f"|{' --- |' * (len(table.columns) + 1)}"
        for name, answers in table.rows:
            yield f"| {' | '.join((name.strip(), *answers))} |"
    yield from ("", *(f"- `{answer}`: {meaning}" for answer, meaning in legend))


def _print(title: str, tables: list[Table], legend: list[tuple[str, str]]) -> None:
    """Tables of rich, in parts where the backends do not fit side by side."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else PIPED_WIDTH
    console = Console(width=width, highlight=False, force_terminal=terminal)
    with console.capture() as captured:
        console.print(Text(title, "bold"), soft_wrap=True)
        for table in tables:
            for part in _parts(table, width):
                console.print()
                console.print(Text(part.title, "bold"), soft_wrap=True)
                shown = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0)
                shown.add_column(part.corner, no_wrap=True)
                for column in part.columns:
                    shown.add_column(Text(_header(column)), no_wrap=True)
                for name, answers in part.rows:
                    shown.add_row(Text(name), *(Text(answer, _STYLES.get(answer, "red")) for answer in answers))
                console.print(shown)
        console.print()
        for answer, meaning in legend:
            console.print(Text(f"{answer:<6} ", _STYLES.get(answer, "red")) + Text(meaning), soft_wrap=True)
    for line in captured.get().splitlines():
        print(line.rstrip())


_STYLES = {KERNEL: "green", ABSENT: "dim", "none": "cyan", "false": "cyan", "": ""}


def _header(column: str) -> str:
    """The name over a column, runtimes on a line of their own."""
    return column.replace("[", "\n[")


def _parts(table: Table, width: int) -> Iterator[Table]:
    """The table in as many parts as it takes for each to fit the width; a column that is too wide stands alone."""
    room = width - max(len(name) for name in (table.corner, *(name for name, _ in table.rows)))
    start = 0
    while start < len(table.columns):
        end, used = start, 0
        while end < len(table.columns):
            words = [*_header(table.columns[end]).split("\n"), *(answers[end] for _, answers in table.rows)]
            used += 1 + max(map(len, words))
            if end > start and used > room:
                break
            end += 1
        rows = tuple((name, answers[start:end]) for name, answers in table.rows)
        yield Table(table.title, table.corner, table.columns[start:end], rows)
        start = end
