"""The errors of a storage package: one class per reason, their texts as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from textwrap import indent
from typing import Any


@dataclass(frozen=True)
class ErrorEntry:
    """What is said in one situation; `message`, `reason` and `help` are `str.format` templates."""

    situation: str
    code: str
    exception: type[StorageError]
    message: str
    reason: str
    help: str
    cause: str
    before: str
    after: str
    guard: str | None


class StorageError(Exception):
    """Base of everything that a storage package raises on purpose.

    `code` finds the long text, `op` is what was called, `subject` the store or key that it is about, `reason` says why
    and `help` what to do.
    """

    def __init__(self, entry: ErrorEntry, op: str, subject: str, fields: Mapping[str, str]) -> None:
        values = {"op": op, "subject": subject, **fields}
        self.entry, self.op, self.subject, self.fields = entry, op, subject, dict(fields)
        self.code = entry.code
        self.reason = entry.reason.format_map(values)
        self.help = entry.help.format_map(values)
        lines = [entry.message.format_map(values), f"  op:   {op}", f"  why:  {self.reason}", f"  help: {self.help}"]
        self.text = "\n".join([*lines, f"  code: {self.code}"])
        super().__init__(self.text)

    def __str__(self) -> str:
        return self.text  # a KeyError would show its repr

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.entry, self.op, self.subject, self.fields)

    def explain(self) -> str:
        """The long text about errors of this kind, with an example of before and after."""
        examples = [f"Instead of\n{indent(self.entry.before, '    ')}", f"write\n{indent(self.entry.after, '    ')}"]
        return "\n\n".join(part.strip() for part in (f"{self.code} {type(self).__name__}", self.entry.cause, *examples))


class ErrorTable:
    """The entries of one catalog by situation."""

    def __init__(self, entries: Iterable[ErrorEntry]) -> None:
        self.entries: Mapping[str, ErrorEntry] = {entry.situation: entry for entry in entries}

    def make(self, situation: str, op: str, subject: object, **fields: object) -> StorageError:
        """The exception for a situation, ready to raise."""
        entry = self.entries[situation]
        return entry.exception(entry, op, str(subject), {name: str(value) for name, value in fields.items()})


class NotBuilt(StorageError, AttributeError):
    """A backend or a wrapper that this build leaves out; looked up by name, a missing attribute."""


class UnknownStore(StorageError, ValueError):
    """Text that names no store."""


class BadKey(StorageError, ValueError):
    """Text that cannot be a key."""


class MissingKey(StorageError, KeyError):
    """No object under the key."""


class Unreachable(StorageError, OSError):
    """The place cannot be read or written."""
