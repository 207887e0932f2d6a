"""What is wrong with a text that is no YAML, or none that is read here, in words that say what to write instead."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

import yaml

from dispatchgen.findings import Finding, error
from dispatchgen.node import at

FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufffe\uffff]|\r(?!\n)"
)
"""What can hide in a text: it may make a line look different from what it says."""
_NEEDS_QUOTES = frozenset("[{@%`*!=&|>")
_VALUE = re.compile(r"\s*(?:- +)*(?:[^\s:#]+:\s+)?(?P<value>\S)")


def character_name(character: str) -> str:
    """`U+200B (zero width space)`."""
    name = unicodedata.name(character, "a control character")
    return f"U+{ord(character):04X} ({name.lower()})"


def forbidden_characters(text: str, file: str) -> Iterator[Finding]:
    """One finding for each of the characters, at the first of its places: a whole file may be full of it."""
    places: dict[str, list[int]] = {}
    for match in FORBIDDEN.finditer(text):
        places.setdefault(match[0], []).append(match.start())
    for character, (first, *more) in places.items():
        line = text.count("\n", 0, first) + 1
        again = f", and {len(more)} more in this file" if more else ""
        message, fix = (
            f"{character_name(character)} cannot be seen and may not stand here{again}",
            "delete the character",
        )
        if character == "\r":
            message, fix = f"a carriage return alone ends no line{again}", "save the file with LF or CRLF line ends"
        yield error("DG102", message, at(file, line, first - text.rfind("\n", 0, first)), fix=fix)


def syntax_error(problem: yaml.MarkedYAMLError, text: str, file: str) -> Finding:
    """The parser's own words at the parser's own place, and a hint where a value only lacks its quotes."""
    lines = text.split("\n")
    mark = problem.problem_mark or problem.context_mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    said = problem.problem or "this is no YAML"
    if _character_at(lines, line, column) == "\t":
        said = "found a tab where YAML takes spaces only"
    context = problem.context_mark
    if problem.context and context and (context.line, context.column) != (line, column):
        said += f", {problem.context} that begins at line {context.line + 1}, column {context.column + 1}"
    return error("DG103", said, at(file, line + 1, column + 1), fix=_quote_hint(problem, lines, line))


def _quote_hint(problem: yaml.MarkedYAMLError, lines: list[str], line: int) -> str | None:
    if problem.problem and "mapping values are not allowed" in problem.problem:
        return "quote the value: text with `: ` in it needs quotes"
    if problem.problem and "are not allowed in this context" in problem.problem:
        return "quote the value: plain text cannot start with `- ` or `? `"
    if problem.problem and "document" in problem.problem:
        return "a file holds one mapping: take out what stands around it"
    context = problem.context_mark
    stopped = (
        _character_at(lines, problem.problem_mark.line, problem.problem_mark.column) if problem.problem_mark else ""
    )
    if stopped and stopped in "[]{}" and "flow" in (problem.context or ""):
        return f"quote the value: between brackets, plain text cannot hold `{stopped}`"
    starts = [_character_at(lines, context.line, context.column)] if context else []
    if 0 <= line < len(lines) and (value := _VALUE.match(lines[line])):
        starts.append(value["value"])
    special = next((start for start in starts if start in _NEEDS_QUOTES), None)
    if special in ("{", "["):
        return f"close the bracket, or quote the value if it is text that starts with `{special}`"
    return f"quote the value: plain text cannot start with `{special}`" if special else None


def _character_at(lines: list[str], line: int, column: int) -> str:
    return lines[line][column : column + 1] if 0 <= line < len(lines) else ""
