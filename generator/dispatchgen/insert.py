"""YAML text with an entry added where it belongs: comments, layout and all else stay as they are.

Nothing is parsed and printed again: the places of the nodes say where a line goes in. What comes out is read once
more, and is given back only if it says what the old text said and the new entry.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dispatchgen import source
from dispatchgen.source import Node, Span, read

Block = Mapping[str, "str | Sequence[str]"]
"""The keys of an entry with their values as YAML in flow style; several values become a list of one per line."""


class InsertError(Exception):
    """The text has a layout into which nothing can be put safely. The words say what to write by hand, and where."""


def scalar(value: str) -> str:
    """The text as a YAML scalar that reads back as that text, also between brackets; plain where that is possible.

    Raises InsertError for a text with characters that no catalog may hold.
    """
    for written in (value, "'" + value.replace("'", "''") + "'", json.dumps(value, ensure_ascii=False)):
        node, findings = read(f"x: [{written}]\ny: {written}\n".encode(), "")
        if node is not None and not findings and node.value == {"x": [value], "y": value}:
            return written
    raise InsertError(f"{value!r} has a character that no catalog may hold")


def flow(items: Mapping[str, str]) -> str:
    """The mapping on one line, its values written in flow style already."""
    return "{" + ", ".join(f"{scalar(key)}: {value}" for key, value in items.items()) + "}"


def add_item(text: str, path: tuple[str, ...], block: Block) -> str:
    """The text with another item at the end of the list at `path`, which is begun where it is not there.

    Raises InsertError.
    """
    parsed = _parsed(text)
    node, rest = _walk(parsed, path)
    lines = _item(block)
    if not rest and isinstance(node, source.Sequence) and _is_flow(text, node.span):
        if node.items:
            new = _insert(text, _end(node.items[-1].span), f", {_on_one_line(block)}")
        else:
            margin = " " * (_margin(parsed, path) + 2)
            new = _replace(text, node.span, "\n" + "\n".join(margin + line for line in lines))
    elif not rest and isinstance(node, source.Sequence):
        margin = " " * (node.span.column - 1)
        new = _after(text, node, [margin + line for line in lines], apart=_are_apart(text, node, len(lines)))
    else:
        new = _begun(text, node, path, rest, lines)
    wanted = parsed.value
    _at(wanted, path, []).append(_plain(block))
    return _checked(new, wanted, f"add to the list `{'.'.join(path)}`:\n" + "\n".join(lines))


def add_text(text: str, path: tuple[str, ...], value: str) -> str:
    """The text with another plain text at the end of the list at `path`, such as a list of names. Raises InsertError."""
    parsed = _parsed(text)
    node, rest = _walk(parsed, path)
    if rest or not isinstance(node, source.Sequence):
        new = add_entry(text, path[:-1], path[-1], f"[{value}]", first=True)
    elif not _is_flow(text, node.span):
        new = _after(text, node, [" " * (node.span.column - 1) + f"- {value}"])
    elif node.items:
        new = _insert(text, _end(node.items[-1].span), f", {value}")
    else:
        new = _replace(text, node.span, f"[{value}]")
    wanted = parsed.value
    _at(wanted, path, []).append(_value(value))
    return _checked(new, wanted, f"add {value} to `{'.'.join(path)}`")


def add_entry(text: str, path: tuple[str, ...], key: str, value: str, *, first: bool = False) -> str:
    """The text with another key, and its value in flow style, at the end of the mapping at `path`, or as its first.

    Raises InsertError.
    """
    parsed = _parsed(text)
    node, rest = _walk(parsed, path)
    line = f"{scalar(key)}: {value}"
    if rest or not isinstance(node, source.Mapping):
        new = _begun(text, node, path, rest, [line])
    elif _is_flow(text, node.span):
        if not node.entries:
            new = _replace(text, node.span, "{" + line + "}")
        elif first:
            new = _insert(text, (node.span.line, node.span.column + 1), f"{line}, ")
        else:
            new = _insert(text, _end(node.entries[-1].value.span), f", {line}")
    else:
        margin = " " * (node.entries[0].key.span.column - 1)
        if first:
            new = _insert(text, (node.entries[0].key.span.line, 1), f"{margin}{line}{_newline(text)}")
        else:
            new = _after(text, node, [margin + line])
    wanted = parsed.value
    _at(wanted, path, {})[key] = _value(value)
    return _checked(new, wanted, f"add to `{'.'.join(path)}`: {line}")


def _item(block: Block) -> list[str]:
    """The lines of an item of a block list."""
    lines = []
    for key, value in block.items():
        if isinstance(value, str):
            lines.append(f"  {scalar(key)}: {value}")
        else:
            lines += [f"  {scalar(key)}:", *(f"    - {each}" for each in value)]
    return ["- " + lines[0][2:], *lines[1:]]


def _on_one_line(block: Block) -> str:
    return flow({key: value if isinstance(value, str) else f"[{', '.join(value)}]" for key, value in block.items()})


def _plain(block: Block) -> dict[str, Any]:
    return {
        key: _value(each) if isinstance(each, str) else [_value(one) for one in each] for key, each in block.items()
    }


def _value(written: str) -> Any:
    """What a value in flow style reads as."""
    node, _ = read(f"x: {written}\n".encode(), "")
    return node.value["x"] if node else None


def _parsed(text: str) -> source.Mapping:
    node, findings = read(text.encode(), "")
    if node is None or findings:
        raise InsertError("the file cannot be read as it is")
    return node


def _walk(node: source.Mapping, path: tuple[str, ...]) -> tuple[Node, tuple[str, ...]]:
    """The deepest node on the path that has content, and the keys for which nothing is there."""
    found: Node = node
    for depth, key in enumerate(path):
        inner = found.get(key) if isinstance(found, source.Mapping) else None
        if inner is None or (isinstance(inner, source.Scalar) and inner.value is None):
            return found, path[depth:]
        found = inner
    return found, ()


def _at(value: Any, path: tuple[str, ...], empty: Any) -> Any:
    """The list or mapping at a path of plain values, begun where there is none."""
    for depth, key in enumerate(path):
        if value.get(key) is None:
            value[key] = empty if depth == len(path) - 1 else {}
        value = value[key]
    return value


def _begun(text: str, node: Node, path: tuple[str, ...], rest: tuple[str, ...], lines: list[str]) -> str:
    """The text with the keys `rest` begun below `node`, and the lines below them."""
    if not isinstance(node, source.Mapping) or (node.entries and _is_flow(text, node.span)) or not rest:
        raise InsertError(f"add to `{'.'.join(path)}`:\n" + "\n".join(lines))
    depth = node.entries[0].key.span.column - 1 if node.entries else 0
    body = [" " * (depth + 2 * level) + f"{scalar(key)}:" for level, key in enumerate(rest)]
    margin = " " * (depth + 2 * len(rest))
    body += [margin + line for line in lines]
    empty = node.entry(rest[0])
    if empty is None:
        return _after(text, node, body, apart=depth == 0)
    if isinstance(empty.value, source.Scalar) and empty.value.text:
        text = _replace(text, empty.value.span, "")
    return _below(text, empty.key.span.line, body[1:])


def _after(text: str, node: source.Mapping | source.Sequence, new: list[str], *, apart: bool = False) -> str:
    """The text with new lines below the last line of a node."""
    return _below(text, _last_line(text.split("\n"), node.span), ["", *new] if apart else new)


def _below(text: str, line: int, new: list[str]) -> str:
    """The text with new lines below one of its lines, with that line's kind of line break."""
    rows = text.split("\n")
    ending = "\r" if _newline(text) == "\r\n" else ""
    if line == len(rows):  # the file does not end with a line break
        rows[-1] += ending
        rows.append("")
    rows[line:line] = [each + ending for each in new]
    return "\n".join(rows)


def _last_line(rows: list[str], span: Span) -> int:
    """The last line with content of a node. A block of text ends where the next thing begins, so blank lines are left."""
    last = span.end_line - (span.end_column == 1 and span.end_line > span.line)
    last = min(last, len(rows))
    while last > span.line and not rows[last - 1].strip():
        last -= 1
    return last


def _are_apart(text: str, node: source.Sequence, size: int) -> bool:
    """Whether the items of a list stand apart by blank lines."""
    if len(node.items) < 2:
        return size > 3
    rows = text.split("\n")
    between = rows[_last_line(rows, node.items[-2].span) : node.items[-1].span.line - 1]
    return any(not row.strip() for row in between)


def _margin(node: source.Mapping, path: tuple[str, ...]) -> int:
    """How far the key at `path` is indented."""
    parent, _ = _walk(node, path[:-1])
    entry = parent.entry(path[-1]) if isinstance(parent, source.Mapping) else None
    return entry.key.span.column - 1 if entry else 0


def _is_flow(text: str, span: Span) -> bool:
    row = text.split("\n")[span.line - 1]
    return row[span.column - 1 : span.column] in ("[", "{")


def _end(span: Span) -> tuple[int, int]:
    return span.end_line, span.end_column


def _insert(text: str, place: tuple[int, int], new: str) -> str:
    offset = _offset(text, *place)
    return text[:offset] + new + text[offset:]


def _replace(text: str, span: Span, new: str) -> str:
    start, end = _offset(text, span.line, span.column), _offset(text, *_end(span))
    if new.startswith("\n"):
        new, start = new.replace("\n", _newline(text)), len(text[:start].rstrip(" "))
    return text[:start] + new + text[end:]


def _offset(text: str, line: int, column: int) -> int:
    rows = text.split("\n")
    return sum(len(row) + 1 for row in rows[: line - 1]) + column - 1


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _checked(text: str, wanted: Any, by_hand: str) -> str:
    """The text, if it reads as what is wanted."""
    node, findings = read(text.encode(), "")
    if node is None or findings or node.value != wanted:
        raise InsertError(by_hand)
    return text
