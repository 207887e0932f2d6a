"""YAML text -> values that know where they stand.

A small YAML on purpose: scalars, sequences and mappings. What surprises people (`no` as a boolean, dates, octal
numbers, merge keys, anchors, tags, a repeated key that wins silently) is read as text or refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from dispatchgen._syntax import FORBIDDEN, character_name, forbidden_characters, syntax_error
from dispatchgen.findings import Finding, Related, error, in_order
from dispatchgen.node import Entry, Mapping, Node, Scalar, Sequence, Span, at, describe

__all__ = ["MAX_DEPTH", "Entry", "Mapping", "Node", "Scalar", "Sequence", "Span", "describe", "read"]

MAX_DEPTH = 40
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


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
        return None, (error("DG101", message, at(file, line, column), fix="save the file as UTF-8"),)
    forbidden = tuple(forbidden_characters(decoded, file))
    if forbidden:
        return None, forbidden
    reader = _Reader(decoded, file)
    try:
        node = reader.document()
    except yaml.MarkedYAMLError as problem:
        if "nesting depth" in (problem.problem or ""):  # the parser's own limit, met by what it reads ahead
            mark = problem.problem_mark
            place = at(file, mark.line + 1, mark.column + 1) if mark else at(file, 1, 1)
            reader.findings.append(_too_deep(place))
            return None, in_order(reader.findings)
        return None, in_order([*reader.findings, syntax_error(problem, decoded, file)])
    except yaml.YAMLError as problem:
        message = " ".join(str(problem).split())
        return None, in_order([*reader.findings, error("DG103", message, at(file, 1, 1))])
    except _TooDeepError as problem:
        node = None
        reader.findings.append(_too_deep(problem.span))
    return node, in_order(reader.findings)


def _too_deep(span: Span) -> Finding:
    return error("DG111", f"nested more than {MAX_DEPTH} levels deep", span)


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
            self.findings.append(error("DG108", "the file is empty; it must hold a mapping", at(self.file, 1, 1)))
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
                fix = "write a word, or quote the whole value if it is text that begins with a bracket"
                self._refuse("DG110", f"a key must be text, not {describe(key)}", key.span, fix)
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
        if event.style == '"' and (hidden := re.search(FORBIDDEN.pattern + "|\r|[\ud800-\udfff]", event.value)):
            message = f"an escape stands for {character_name(hidden[0])}, which no text of a catalog needs"
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
