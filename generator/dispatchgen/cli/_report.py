"""Findings for people and for machines: one function per format."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

from dispatchgen.cli._options import option
from dispatchgen.findings import Finding, Severity, to_json

if TYPE_CHECKING:
    from dispatchgen.source import Span

Piece = tuple[str, str]
"""Text, and the style it has on a terminal."""
Lines = Callable[[str], tuple[str, ...]]
"""The lines of a file; none where it cannot be read."""

WIDEST = 160
"""Characters of a line that are shown: of a longer one, those around the place."""

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.NOTE: "bold cyan"}


class Format(StrEnum):
    """How findings are told."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"
    SARIF = "sarif"


class Deny(StrEnum):
    """What counts like an error."""

    WARNINGS = "warnings"


FormatOption = Annotated[Format, option("--format", help="How findings are told.")]
DenyOption = Annotated[Deny | None, option("--deny", help="Let warnings make the run fail too.")]


@dataclass(frozen=True)
class Report:
    """What a command has to tell."""

    findings: tuple[Finding, ...]
    lines: tuple[tuple[Piece, ...], ...] = ()
    """What is told after the findings, in text only."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What JSON says beside the findings."""
    silent: tuple[Finding, ...] = ()
    """Findings that the lines tell already: they count, and only machines are told them one by one."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """The content of files that findings point into, where it is not what is on disk."""

    def exit_code(self, deny: Deny | None = None) -> int:
        """1 with an error, or with a warning where those are denied; else 0."""
        counted = {Severity.ERROR} | ({Severity.WARNING} if deny is Deny.WARNINGS else set())
        return int(any(finding.severity in counted for finding in (*self.findings, *self.silent)))


def tell(report: Report, format: Format = Format.TEXT, stream: IO[str] | None = None) -> None:
    """Print a report, by default on standard output."""
    stream = stream or sys.stdout
    lines = [*FORMATS[format](report)]
    styled = any(style for line in lines for _, style in line)
    if styled and stream.isatty() and not os.environ.get("NO_COLOR"):
        from rich.console import Console
        from rich.text import Text

        console = Console(file=stream, highlight=False, soft_wrap=True)
        for line in lines:
            console.print(Text.assemble(*((text, style) for text, style in line)))
    else:
        for line in lines:
            print("".join(text for text, _ in line), file=stream)


def counted(findings: Iterable[Finding]) -> str:
    """How many findings there are, in words: `2 errors, 1 warning`; empty where there is none."""
    by_severity = [
        (severity, sum(each.severity is severity for each in found)) for found in [[*findings]] for severity in Severity
    ]
    return ", ".join(f"{count} {severity.value}{'s' if count > 1 else ''}" for severity, count in by_severity if count)


_LONGEST = 4000
"""Characters of a message that are shown."""


def _text(report: Report) -> Iterator[tuple[Piece, ...]]:
    given = {file: tuple(text.split("\n")) for file, text in report.texts.items()}
    lines = cache(lambda file: given.get(file) or _read(file))
    for finding in report.findings:
        yield from _finding(finding, lines)
        yield ()
    yield from report.lines


def _finding(finding: Finding, lines: Lines) -> Iterator[tuple[Piece, ...]]:
    style = _STYLES[finding.severity]
    where = f"{finding.span}: " if finding.span else ""
    yield (
        (where, "bold"),
        (f"{finding.severity.value}[{finding.code}]", style),
        (f": {_on_one_line(finding.message)}", "bold"),
    )
    if finding.span:
        yield from _source(finding.span, style, lines)
    for related in finding.related:
        yield (f"{related.span}: ", "bold"), ("note", _STYLES[Severity.NOTE]), (f": {related.message}", "")
        yield from _source(related.span, _STYLES[Severity.NOTE], lines)
    if finding.fix:
        yield ("help", "bold green"), (f": {finding.fix}", "")


def _source(span: Span, style: str, lines_of: Lines) -> Iterator[tuple[Piece, ...]]:
    """The line of the place, and a caret under it."""
    lines = lines_of(span.file)
    if not 0 < span.line <= len(lines):
        return
    line = lines[span.line - 1]
    margin = " " * len(str(span.line))
    end = span.end_column if span.end_line == span.line else len(line) + 1
    before, marked = line[: span.column - 1], line[span.column - 1 : max(end - 1, span.column)]
    if len(line) > WIDEST:
        before, marked, line = _cut(before, marked, line)
    gap = "".join(char if char == "\t" else " " * _width(char) for char in before)
    yield ((f"{margin} |", "blue"),)
    yield (f"{span.line} | ", "blue"), ("".join(map(_shown, line)), "")
    yield (f"{margin} | ", "blue"), (gap + "^" * max(sum(map(_width, marked)), 1), style)


def _cut(before: str, marked: str, line: str) -> tuple[str, str, str]:
    """What is before the marked part of a very long line, that part, and the line, each without what is far away."""
    begin, marked = before[-WIDEST // 2 :], marked[: WIDEST // 2]
    after = line[len(before) + len(marked) :]
    rest = after[: WIDEST - len(begin) - len(marked)]
    start, end = "…" * (len(begin) < len(before)), "…" * (len(rest) < len(after))
    return start + begin, marked, start + begin + marked + rest + end


def _read(file: str) -> tuple[str, ...]:
    try:
        if not Path(file).is_file():  # a pipe would be waited for
            return ()
        return tuple(Path(file).read_text(encoding="utf-8-sig", errors="replace").split("\n"))
    except (OSError, ValueError):
        return ()


def _shown(char: str) -> str:
    """The character, or a stand-in of the same width where a terminal would obey it."""
    return char if char == "\t" or unicodedata.category(char)[0] != "C" else "\N{REPLACEMENT CHARACTER}"


def _on_one_line(message: str) -> str:
    """The message, with stand-ins for line breaks that a word of the catalog brought into it; a monstrous one cut off."""
    return "".join(map(_shown, message if len(message) <= _LONGEST else message[:_LONGEST] + "…"))


def _width(char: str) -> int:
    return 0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _json(report: Report) -> Iterator[tuple[Piece, ...]]:
    found = [to_json(finding) for finding in (*report.findings, *report.silent)]
    yield ((json.dumps({"version": 1, **report.facts, "findings": found}, indent=2, ensure_ascii=False), ""),)


def _github(report: Report) -> Iterator[tuple[Piece, ...]]:
    """Workflow commands, which become annotations of a pull request."""
    kinds = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
    for finding in (*report.findings, *report.silent):
        span = finding.span
        at = (
            {"file": _in_workspace(span.file), "line": span.line, "col": span.column, "endLine": span.end_line}
            if span
            else {}
        )
        named = {**at, "title": finding.code}
        properties = ",".join(f"{key}={_quoted(str(value), ':,')}" for key, value in named.items())
        message = finding.message + (f"\nhelp: {finding.fix}" if finding.fix else "")
        yield ((f"::{kinds[finding.severity]} {properties}::{_quoted(message)}", ""),)


def _in_workspace(file: str) -> str:
    """The file as annotations name it: from the top of the checkout, wherever below it the command runs."""
    top = os.environ.get("GITHUB_WORKSPACE", "")
    path = os.path.abspath(file)
    return os.path.relpath(path, top) if top and os.path.exists(path) and Path(path).is_relative_to(top) else file


def _sarif(report: Report) -> Iterator[tuple[Piece, ...]]:
    from dispatchgen.cli._sarif import sarif

    yield ((sarif((*report.findings, *report.silent)), ""),)


def _quoted(text: str, more: str = "") -> str:
    return "".join(f"%{ord(char):02X}" if char in "%\r\n" + more else char for char in text)


FORMATS: Mapping[Format, Callable[[Report], Iterator[tuple[Piece, ...]]]] = {
    Format.TEXT: _text,
    Format.JSON: _json,
    Format.GITHUB: _github,
    Format.SARIF: _sarif,
}
