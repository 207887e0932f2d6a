"""The errors of a dispatch layer: one class per reason, their texts as data.

A catalog's `errors.yaml` says what each *situation* is called and how it reads. The generated package turns it into an
`ErrorTable`; whoever finds a situation asks the table for the exception and raises it. Run-time faults have their
classes here, because the runtime has to catch some of them; the generated package adds a class for each other reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True)
class ErrorEntry:
    """One entry of `errors.yaml`; `message`, `reason` and `help` are `str.format` templates."""

    situation: str
    code: str
    exception: type[DispatchError]
    message: str
    reason: str
    help: str
    cause: str
    before: str
    after: str
    guard: str | None = None

    def explain(self) -> str:
        """The long text: what it means, where it comes from, what to write instead."""
        parts = [f"{self.code} {self.exception.__name__}", self.cause, f"What to do: {self.help}"]
        parts += [f"Instead of\n{_indent(self.before)}", f"write\n{_indent(self.after)}"]
        if self.guard:
            parts.append(f"Guard: {self.guard}")
        return "\n\n".join(part.strip() for part in parts)


def _indent(text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in text.strip().splitlines())


class DispatchError(RuntimeError):
    """Base of everything that a dispatch layer raises on purpose.

    `code` finds the long text (`explain()`), `op` is the operation that was called, `subject` the device, tensor or
    value that it is about, `reason` says why and `help` what to do. `fields` are the raw facts behind the text.
    """

    def __init__(self, entry: ErrorEntry, op: str, subject: str, fields: Mapping[str, Any]) -> None:
        values = {"op": op, "subject": subject, **fields}
        self.entry = entry
        self.code = entry.code
        self.op = op
        self.subject = subject
        self.reason = entry.reason.format_map(values)
        self.help = entry.help.format_map(values)
        self.fields = dict(fields)
        lines = [entry.message.format_map(values).rstrip()]
        lines += [f"  op:   {op}"] if op else []
        lines += [f"  why:  {self.reason}", f"  help: {self.help}", f"  code: {self.code}"]
        super().__init__("\n".join(lines))

    def of(self, op: str) -> Self:
        """The error itself where it names an operation, else the same about this one."""
        return self if self.op else type(self)(self.entry, op, self.subject, self.fields)

    def explain(self) -> str:
        """The long text about errors of this kind, with an example of before and after."""
        return self.entry.explain()

    def __reduce__(self) -> tuple[Any, ...]:
        fields = {
            key: value if isinstance(value, int | float | str | tuple) else str(value)
            for key, value in self.fields.items()
        }
        return type(self), (self.entry, self.op, self.subject, fields)


class ErrorTable:
    """The entries of one catalog by situation."""

    def __init__(self, entries: Iterable[ErrorEntry]) -> None:
        self.entries: Mapping[str, ErrorEntry] = {entry.situation: entry for entry in entries}

    def make(self, situation: str, op: str = "", subject: object = "", **fields: Any) -> DispatchError:
        """The exception for a situation, ready to raise.

        A field that the entry's templates ask for and the caller leaves out is a fault of the caller: KeyError.
        """
        entry = self.entries[situation]
        return entry.exception(entry, op, str(subject), fields)


class NotBuilt(DispatchError, AttributeError):
    """A backend, a runtime of one, or a wrapper that this build leaves out; looked up by name, a missing attribute."""


class UnknownDevice(DispatchError, ValueError):
    """Text or a value that names no device."""


class RuntimeFault(DispatchError):
    """Something about the device group itself, not about a backend."""


class NoContext(RuntimeFault):
    """No open device group has the device."""


class AmbiguousContext(RuntimeFault):
    """Several open device groups have the device."""


class NotInContext(RuntimeFault):
    """A device that is not of this group."""


class AlreadyOpen(RuntimeFault):
    """The device was opened by `start_communication_server` before."""


class ContextClosed(RuntimeFault):
    """The device group was closed."""


class ContextFailed(RuntimeFault):
    """The device group failed earlier; the text carries the first cause."""


class Disagreement(RuntimeFault):
    """The ranks did not bring the same call. Nothing was moved; the group goes on."""


class CollectiveTimeout(RuntimeFault, TimeoutError):
    """The deadline passed before all ranks were there."""


class PeerFailed(RuntimeFault):
    """Another rank failed or died."""


class PeerClosed(RuntimeFault):
    """Another rank closed the group."""


class RendezvousFailed(RuntimeFault):
    """The group could not meet."""


class BadConfig(RuntimeFault, ValueError):
    """A setting of the group that makes no sense."""


class ConcurrentUse(RuntimeFault):
    """Two threads in one device of a group at once."""


class AfterFork(RuntimeFault):
    """The group was opened by the parent process."""


class MeaninglessReduction(RuntimeFault, TypeError):
    """A reduction without a meaning for the dtype."""


class UnsupportedTensor(RuntimeFault, TypeError):
    """A layout or dtype that the operation does not do."""


class NoBackward(RuntimeFault):
    """The gradient of the operation has no rule."""


class Unresolved(RuntimeFault):
    """A handle was read before it was resolved."""


class NotRegistered(RuntimeFault):
    """A gradient of a parameter that was not registered."""


class ParametersChanged(RuntimeFault):
    """A parameter is not what it was when its module was distributed."""
