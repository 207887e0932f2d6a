"""Node -> typed record: pydantic finds all that is wrong at once, and every error becomes a finding with its place."""

from __future__ import annotations

import json
import typing
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from dispatchgen.findings import Finding, closest, error, near
from dispatchgen.source import Entry, Mapping, Node, Scalar, Sequence, Span, describe, read

VERSION = 1
TAG = "\0"
"""Begins the tags of discriminated unions: they stand in an error's `loc`, and can stand nowhere in the YAML."""

Record = TypeVar("Record")


def load(path: Path, name: str, record: type[Record]) -> tuple[Record | None, Mapping | None, tuple[Finding, ...]]:
    """The record and the node that a YAML file of format version 1 holds, and what is wrong with it."""
    node, findings = load_node(path, name)
    if node is None:
        return None, None, findings
    value, problems = shape_file(node, record)
    return value, node, (*findings, *problems)


def load_node(path: Path, name: str, text: bytes | None = None) -> tuple[Mapping | None, tuple[Finding, ...]]:
    """The node that a YAML file holds, or that `text` does, which then counts as the file's content."""
    if text is None and path.exists() and not (path.is_file() or path.is_dir()):  # reading a pipe would wait for it
        return None, (error("DG112", f"{name} is no plain file", Span(name, 1, 1, 1, 1)),)
    try:
        return read(path.read_bytes() if text is None else text, name)
    except OSError as problem:
        missing = isinstance(problem, FileNotFoundError)
        message = f"{name} is not there" if missing else f"{name} cannot be read: {problem.strerror}"
        return None, (error("DG112", message, Span(name, 1, 1, 1, 1)),)


def shape_file(node: Mapping, record: type[Record]) -> tuple[Record | None, tuple[Finding, ...]]:
    """The record that the node of a whole file of format version 1 holds, and what is wrong with it."""
    if wrong := wrong_version(node):
        return None, (wrong,)
    return shape(node, record)


def wrong_version(node: Mapping) -> Finding | None:
    """A finding where a file says another format version than the one that is read here."""
    version = node.get("version")
    if version is None or type(version.value) is not int or version.value == VERSION:
        return None
    message = f"format version {version.value} is not known"
    return error("DG116", message, version.span, fix=f"write version: {VERSION}")


def shown(path: Path) -> str:
    """The path as people see it: relative to the current folder where it is below, else as it was given."""
    try:
        return path.relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.as_posix()


def shape(node: Node, record: type[Record]) -> tuple[Record | None, tuple[Finding, ...]]:
    """The record (a pydantic model or a dataclass with `__pydantic_config__`) that a node holds."""
    try:
        # Through JSON, because strict validation of Python values takes no list for a tuple.
        return TypeAdapter(record).validate_json(json.dumps(node.value), strict=True), ()
    except ValidationError as problem:
        return None, tuple(_finding(node, record, details) for details in problem.errors(include_url=False))


def _finding(node: Node, record: Any, details: ErrorDetails) -> Finding:
    loc = tuple(part for part in details["loc"] if not str(part).startswith(TAG))
    kind, key = details["type"], str(loc[-1]) if loc else ""
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        parent, entry = _walk(node, loc[:-1]), _entry(node, loc)
        span = entry.key.span if entry else parent.span
        fix = _COMMA if entry and _is_empty(entry.value) else near(key, _known(record, loc[:-1]))
        return error("DG113", f"unknown key `{key}`{_within(loc)}", span, fix=fix)
    if kind in ("missing", "missing_argument", "missing_keyword_only_argument"):
        told = f"the key `{key}` is missing{_within(loc)}"
        return error("DG114", told, _head(_walk(node, loc[:-1])), fix=f"write `{key}: ...` there")
    found = _walk(node, loc)
    label = f"`{_path(loc)}`" if loc else "the file"
    allowed = [str(value) for value in details.get("ctx", {}).get("allowed", ())]
    if kind == "literal_error":
        allowed = _literals(details["ctx"]["expected"])
    if allowed:
        meant = closest(found.text, allowed) if isinstance(found, Scalar) else None
        fix = f"did you mean `{meant}`?" if meant else None
        message = f"{label} must be {' or '.join(allowed)}, not {describe(found)}"
        return error("DG115", message, found.span, fix=fix)
    if kind in _EXPECTED:
        message = f"{label} must be {_EXPECTED[kind]}, not {describe(found)}"
        return error(
            "DG115", message, found.span, fix=_quotes(found) if kind == "string_type" else _written(_EXPECTED[kind])
        )
    return error("DG115", f"{label}: {details['msg']}", found.span)


def _written(expected: str) -> str | None:
    """How to write what was expected, where the message does not say so already."""
    return f"write {_EXAMPLES[expected]}" if expected in _EXAMPLES else None


_COMMA = "quote the value before it: between brackets, a comma ends plain text"

_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dataclass_type": "a mapping",
    "scalar_type": "a single value",
    "predicate_type": 'a predicate, such as feature = "x"',
}
_EXAMPLES = {
    "text": "one value of plain text",
    "a whole number": "digits alone, such as 7",
    "true or false": "true or false, without quotes",
    "a list": "a list, such as [a, b]",
    "a mapping": "keys with values, such as {key: value}",
    "a single value": "one value, without brackets",
}


def _is_empty(node: Node) -> bool:
    return isinstance(node, Scalar) and node.plain and not node.text


def _quotes(node: Node) -> str | None:
    """The advice to quote, for a value that only looks like something other than text."""
    if not isinstance(node, Scalar):
        return _written("text")
    return f'put it in quotes: "{node.text}"' if node.text else "write it; text that begins with `#` needs quotes"


def _literals(expected: str) -> list[str]:
    """The values of pydantic's list `'a', 'b' or 'c'`."""
    return [part.strip("'") for part in expected.replace(" or ", ", ").split(", ")]


def _path(loc: Iterable[str | int]) -> str:
    """`backends[1].cfg`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)
    return text.removeprefix(".")


def _within(loc: tuple[str | int, ...]) -> str:
    return f" in `{_path(loc[:-1])}`" if len(loc) > 1 else ""


def _entry(node: Node, loc: tuple[str | int, ...]) -> Entry | None:
    parent = _walk(node, loc[:-1])
    return parent.entry(str(loc[-1])) if isinstance(parent, Mapping) else None


def _walk(node: Node, loc: Iterable[str | int]) -> Node:
    """The node at `loc`, or the deepest one on the way there."""
    for part in loc:
        inner: Node | None = None
        if isinstance(node, Mapping):
            inner = node.get(str(part))
        elif isinstance(node, Sequence) and isinstance(part, int) and part < len(node.items):
            inner = node.items[part]
        if inner is None:
            return node
        node = inner
    return node


def _head(node: Node) -> Span:
    """The first words of a node: what a message about all of it points at."""
    return node.entries[0].key.span if isinstance(node, Mapping) and node.entries else node.span


def _known(record: Any, loc: Iterable[str | int]) -> list[str]:
    """The keys that the record at `loc` has."""
    for part in loc:
        step = _keys(record).get(str(part)) if isinstance(part, str) and _keys(record) else None
        record = _record(step if step is not None else record)
    return list(_keys(_record(record)))


def _keys(record: Any) -> dict[str, Any]:
    """The keys of a record as they stand in the YAML, with their types."""
    if isinstance(record, type) and issubclass(record, BaseModel):
        return {field.alias or name: field.annotation for name, field in record.model_fields.items()}
    if isinstance(record, type) and is_dataclass(record):
        hints = typing.get_type_hints(record)
        return {field.name.rstrip("_"): hints[field.name] for field in fields(record) if field.init}
    return {}


def _record(annotation: Any) -> Any:
    """The record inside an annotation such as `list[Record] | None`, or the annotation itself."""
    if _keys(annotation):
        return annotation
    inner = (_record(argument) for argument in typing.get_args(annotation))
    return next((found for found in inner if _keys(found)), annotation)
