"""YAML text -> values that know where they stand.

A small YAML on purpose: scalars, sequences and mappings. What surprises people (`no` as a boolean, dates, octal
numbers, merge keys, anchors, tags, a repeated key that wins silently) is read as text or refused.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from dispatchgen.findings import Finding, Related, error, in_order

MAX_DEPTH = 40
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufffe\uffff]|\r(?!\n)"
)
_NEEDS_QUOTES = frozenset("{@%`*!=&|>")
_VALUE = re.compile(r"\s*(?:- +)*(?:[^\s:#]+:\s+)?(?P<value>\S)")


@dataclass(frozen=True)
class Span:
    """A stretch of a file: 1-based lines and columns, columns in characters, the end column one past the last."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Scalar:
    """One value as it was written. Quoted text is not `plain`, and is never anything but text."""

    text: str
    plain: bool
    span: Span = field(compare=False)

    @property
    def value(self) -> str | int | bool | None:
        """What the scalar stands for: true, false, a decimal integer, null (also `~` and nothing), else its text."""
        if not self.plain:
            return self.text
        if self.text in ("true", "false"):
            return self.text == "true"
        if self.text in ("null", "~", ""):
            return None
        return int(self.text) if _INTEGER.fullmatch(self.text) else self.text

    def inside(self, start: int, length: int = 1) -> Span:
        """The place of a part of the text, or of all of it where escapes or line breaks hide the part."""
        span, quotes = self.span, 0 if self.plain else 1
        if span.line != span.end_line or span.end_column - span.column != len(self.text) + 2 * quotes:
            return span
        column = span.column + quotes + start
        return Span(span.file, span.line, column, span.line, column + max(length, 1))


@dataclass(frozen=True)
class Sequence:
    """A list of values."""

    items: tuple[Node, ...]
    span: Span = field(compare=False)

    @property
    def value(self) -> list[Any]:
        """The items as Python values."""
        return [item.value for item in self.items]


@dataclass(frozen=True)
class Entry:
    """A key and its value."""

    key: Scalar
    value: Node


@dataclass(frozen=True)
class Mapping:
    """Keys with their values, in the order of the text, no key twice."""

    entries: tuple[Entry, ...]
    span: Span = field(compare=False)

    @property
    def value(self) -> dict[str, Any]:
        """The entries as Python values. Keys are text, whatever they look like."""
        return {entry.key.text: entry.value.value for entry in self.entries}

    def entry(self, key: str) -> Entry | None:
        """The entry of a key, or None."""
        return next((entry for entry in self.entries if entry.key.text == key), None)

    def get(self, key: str) -> Node | None:
        """The value of a key, or None where the key is not there."""
        entry = self.entry(key)
        return entry.value if entry else None


Node = Scalar | Sequence | Mapping


def read(text: bytes, file: str) -> tuple[Mapping | None, tuple[Finding, ...]]:
    """The mapping that a YAML file holds, and what is wrong with the file.

    There is a mapping wherever one can be made sense of, so that the next stage can go on and all findings come in
    one run. Nothing is raised for any input.
    """
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = text.count(b"\n", 0, problem.start) + 1
        start = text.rfind(b"\n", 0, problem.start) + 1
        column = len(text[start : problem.start].decode("utf-8", "replace")) + 1
        message = f"byte {problem.start} of the file (0x{text[problem.start]:02x}) is not UTF-8"
        return None, (error("DG101", message, _at(file, line, column), fix="save the file as UTF-8"),)
    forbidden = tuple(_forbidden_characters(decoded, file))
    if forbidden:
        return None, forbidden
    reader = _Reader(decoded, file)
    try:
        node = reader.document()
    except yaml.MarkedYAMLError as problem:
        return None, in_order([*reader.findings, _syntax_error(problem, decoded, file)])
    except yaml.YAMLError as problem:
        message = " ".join(str(problem).split())
        return None, in_order([*reader.findings, error("DG103", message, _at(file, 1, 1))])
    except _TooDeepError as problem:
        node = None
        reader.findings.append(error("DG111", f"nested more than {MAX_DEPTH} levels deep", problem.span))
    return node, in_order(reader.findings)


class _TooDeepError(Exception):
    def __init__(self, span: Span) -> None:
        self.span = span


class _Reader:
    """Builds nodes from parser events: they, unlike composed nodes, still know of anchors, aliases and tags."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.findings: list[Finding] = []
        self.events: Iterator[Any] = yaml.parse(text, Loader=_LOADER)
        self.broken = False
        """Whether something was left out, so that what was read would be misleading."""

    def document(self) -> Mapping | None:
        next(self.events)  # the start of the stream
        node: Node | None = None
        for number, event in enumerate(iter(self._next_document, None)):
            if number:
                message = "a second document begins here; a file holds one"
                self.findings.append(error("DG107", message, self._span(event), fix="put it into a file of its own"))
                return None
            node = self._node(next(self.events), 1)
            next(self.events)  # the end of the document
        if node is None:
            self.findings.append(error("DG108", "the file is empty; it must hold a mapping", _at(self.file, 1, 1)))
            return None
        if not isinstance(node, Mapping):
            message = f"the file holds {describe(node)}; it must hold a mapping of keys to values"
            self.findings.append(error("DG108", message, node.span))
            return None
        return None if self.broken else node

    def _next_document(self) -> Any:
        event = next(self.events)
        return None if isinstance(event, yaml.StreamEndEvent) else event

    def _node(self, event: Any, depth: int) -> Node:
        span = self._span(event)
        if isinstance(event, yaml.AliasEvent):
            self.broken = True
            self._refuse("DG105", f"the alias `*{event.anchor}` stands for a value elsewhere", span, _WRITE_OUT)
            return Scalar("", True, span)
        if event.anchor is not None:
            self._refuse("DG105", f"the anchor `&{event.anchor}` names a value for use elsewhere", span, _WRITE_OUT)
        if event.tag is not None:
            fix = "leave the tag out; quote the value if it is text that starts with `!`"
            self._refuse("DG104", f"the tag `{event.tag}` asks for a type", span, fix)
        if isinstance(event, yaml.ScalarEvent):
            self._check_escapes(event, span)
            return Scalar(event.value, not event.style, span)
        if depth > MAX_DEPTH:
            raise _TooDeepError(span)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(event, span, depth)
        return self._mapping(event, span, depth)

    def _sequence(self, start: Any, span: Span, depth: int) -> Sequence:
        items = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            items.append(self._node(event, depth + 1))
        last = items[-1].span if items else span
        return Sequence(tuple(items), self._until(span, event if start.flow_style else None, last))

    def _mapping(self, start: Any, span: Span, depth: int) -> Mapping:
        entries: dict[str, Entry] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key = self._node(event, depth + 1)
            value = self._node(next(self.events), depth + 1)
            if not isinstance(key, Scalar):
                self.broken = True
                self._refuse("DG110", f"a key must be text, not {describe(key)}", key.span, "write a word")
            elif key.plain and key.text == "<<":
                self.broken = True
                self._refuse("DG106", "the merge key `<<` copies another mapping", key.span, _WRITE_OUT)
            elif key.text in entries:
                first = Related(entries[key.text].key.span, "first here")
                message = f"the key `{key.text}` stands here a second time"
                self.findings.append(
                    error("DG109", message, key.span, related=[first], fix="keep one of the two, or rename one")
                )
            else:
                entries[key.text] = Entry(key, value)
        last = list(entries.values())[-1].value.span if entries else span
        return Mapping(tuple(entries.values()), self._until(span, event if start.flow_style else None, last))

    def _check_escapes(self, event: Any, span: Span) -> None:
        """Refuse characters that a quoted text spells as an escape and that could not stand in the file."""
        if event.style == '"' and (hidden := re.search(_FORBIDDEN.pattern + "|\r|[\ud800-\udfff]", event.value)):
            message = f"an escape stands for {_character(hidden[0])}, which no text of a catalog needs"
            self.broken = True
            self._refuse("DG102", message, span, "leave the escape out")

    def _refuse(self, code: str, message: str, span: Span, fix: str) -> None:
        self.findings.append(error(code, message, span, fix=fix))

    def _span(self, event: Any) -> Span:
        start, end = event.start_mark, event.end_mark
        return Span(self.file, start.line + 1, start.column + 1, end.line + 1, end.column + 1)

    def _until(self, start: Span, end: Any | None, last: Span) -> Span:
        """A collection's place: to its closing bracket, or to the end of its last value in block style."""
        closing = self._span(end) if end is not None else last
        return Span(self.file, start.line, start.column, closing.end_line, closing.end_column)


_WRITE_OUT = "write the value out where it is used"


def describe(node: Node) -> str:
    """What a node is, for use in the middle of a sentence."""
    if isinstance(node, Sequence):
        return "a list"
    if isinstance(node, Mapping):
        return "a mapping"
    value = node.value
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"the boolean {node.text}"
    if isinstance(value, int):
        return f"the number {value}"
    text = " ".join(value.split())
    return f'the text "{text if len(text) <= 40 else text[:39] + "…"}"'


def _at(file: str, line: int, column: int) -> Span:
    return Span(file, line, column, line, column + 1)


def _character(character: str) -> str:
    name = unicodedata.name(character, "a control character")
    return f"U+{ord(character):04X} ({name.lower()})"


def _forbidden_characters(text: str, file: str) -> Iterator[Finding]:
    for match in _FORBIDDEN.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        column = match.start() - text.rfind("\n", 0, match.start())
        message = f"{_character(match[0][0])} cannot be seen and may not stand here"
        yield error("DG102", message, _at(file, line, column), fix="delete the character")


def _syntax_error(problem: yaml.MarkedYAMLError, text: str, file: str) -> Finding:
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
    return error("DG103", said, _at(file, line + 1, column + 1), fix=_quote_hint(problem, lines, line))


def _quote_hint(problem: yaml.MarkedYAMLError, lines: list[str], line: int) -> str | None:
    if problem.problem and "mapping values are not allowed" in problem.problem:
        return "quote the value: text with `: ` in it needs quotes"
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
    if special == "{":
        return "close the bracket, or quote the value if it is text that starts with `{`"
    return f"quote the value: plain text cannot start with `{special}`" if special else None


def _character_at(lines: list[str], line: int, column: int) -> str:
    return lines[line][column : column + 1] if 0 <= line < len(lines) else ""
