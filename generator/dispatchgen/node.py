"""Values that know where they stand: what is read from YAML."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")


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


def at(file: str, line: int, column: int) -> Span:
    """The place of one character."""
    return Span(file, line, column, line, column + 1)
