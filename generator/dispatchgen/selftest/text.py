"""Python source that is to be changed at a node of its tree: every edit says which bytes become which."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Edit:
    """Bytes from `start` up to `end` that become `new`."""

    start: int
    end: int
    new: bytes


def edited(content: bytes, edits: Sequence[Edit]) -> bytes:
    """The content with edits that do not overlap."""
    for edit in sorted(edits, key=lambda each: each.start, reverse=True):
        content = content[: edit.start] + edit.new + content[edit.end :]
    return content


@dataclass(frozen=True)
class Text:
    """A file, and the bytes behind the nodes of its tree."""

    content: bytes

    @cached_property
    def tree(self) -> ast.Module:
        """The tree of the whole file."""
        return ast.parse(self.content)

    @cached_property
    def _lines(self) -> list[int]:
        """Where every line begins, and where the file ends."""
        starts = [0]
        for line in self.content.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        return starts

    def start(self, node: ast.AST) -> int:
        """Where a node begins."""
        return self._lines[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined, no-any-return]

    def end(self, node: ast.AST) -> int:
        """Where a node ends."""
        return self._lines[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined, no-any-return]

    def replace(self, first: ast.AST, new: str, last: ast.AST | None = None) -> Edit:
        """The code from one node to another, by default only the one, as something else; as many lines as before."""
        start, end = self.start(first), self.end(last or first)
        indent = b" " * first.col_offset  # type: ignore[attr-defined]
        text = new.encode().replace(b"\n", b"\n" + indent)
        missing = self.content[start:end].count(b"\n") - text.count(b"\n")
        return Edit(start, end, text + b"\n" * max(missing, 0))

    def insert(self, before: ast.AST, new: str) -> Edit:
        """Statements on lines of their own before a statement."""
        indent = b" " * before.col_offset  # type: ignore[attr-defined]
        start = self._lines[first_line(before) - 1]
        return Edit(start, start, indent + new.encode().replace(b"\n", b"\n" + indent) + b"\n")

    def append(self, after: ast.AST, new: str, indent: int | None = None) -> Edit:
        """Statements on lines of their own after a statement."""
        spaces = b" " * (after.col_offset if indent is None else indent)  # type: ignore[attr-defined]
        end = self._lines[after.end_lineno]  # type: ignore[attr-defined]
        gap = b"" if self.content[:end].endswith(b"\n") else b"\n"
        return Edit(end, end, gap + spaces + new.encode().replace(b"\n", b"\n" + spaces) + b"\n")

    def delete(self, first: ast.AST, last: ast.AST | None = None, instead: str = "") -> Edit:
        """The lines of statements gone, or with something else on them."""
        start = self._lines[first_line(first) - 1]
        end = self._lines[(last or first).end_lineno]  # type: ignore[attr-defined]
        indent = b" " * first.col_offset  # type: ignore[attr-defined]
        return Edit(start, end, indent + instead.encode() + b"\n" if instead else b"")

    def indent(self, first: ast.AST, head: str) -> Edit:
        """The lines of a statement below another one."""
        start, end = self._lines[first_line(first) - 1], self._lines[first.end_lineno]  # type: ignore[attr-defined]
        indent = " " * first.col_offset  # type: ignore[attr-defined]
        lines = self.content[start:end].decode().splitlines(keepends=True)
        return Edit(start, end, "".join([f"{indent}{head}\n", *(f"    {line}" for line in lines)]).encode())


def first_line(node: ast.AST) -> int:
    """The first line of a statement, with its decorators."""
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)])  # type: ignore[attr-defined, no-any-return]


def code_of(body: Sequence[ast.stmt]) -> str:
    """Statements as code, each on one line where it is simple."""
    return "\n".join(map(ast.unparse, body))
