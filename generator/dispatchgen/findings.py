"""What is wrong with something that a person wrote, as values: where, how bad, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from dispatchgen._codes import CODES

if TYPE_CHECKING:
    from dispatchgen.node import Span

__all__ = [
    "CODES",
    "Finding",
    "Related",
    "Severity",
    "closest",
    "error",
    "from_json",
    "has_errors",
    "in_order",
    "near",
    "note",
    "to_json",
    "warning",
]


class Severity(Enum):
    """How much a finding counts: errors alone make a run fail."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Related:
    """Another place that a finding is about, and what is there."""

    span: Span
    message: str


@dataclass(frozen=True)
class Finding:
    """One thing to tell: `code` is a key of `CODES`, `fix` is one sentence or line that says what to write."""

    code: str
    severity: Severity
    message: str
    span: Span | None = None
    related: tuple[Related, ...] = ()
    fix: str | None = None

    @property
    def key(self) -> tuple[str, int, int, str, str]:
        """What findings are sorted by: file, line, column, code, message; those without a place come first."""
        file, line, column = (self.span.file, self.span.line, self.span.column) if self.span else ("", 0, 0)
        return file, line, column, self.code, self.message


def error(
    code: str, message: str, span: Span | None = None, *, related: Iterable[Related] = (), fix: str | None = None
) -> Finding:
    """A finding that makes the run fail."""
    return Finding(code, Severity.ERROR, message, span, tuple(related), fix)


def warning(
    code: str, message: str, span: Span | None = None, *, related: Iterable[Related] = (), fix: str | None = None
) -> Finding:
    """A finding that counts only where warnings are denied."""
    return Finding(code, Severity.WARNING, message, span, tuple(related), fix)


def note(
    code: str, message: str, span: Span | None = None, *, related: Iterable[Related] = (), fix: str | None = None
) -> Finding:
    """A finding that never counts."""
    return Finding(code, Severity.NOTE, message, span, tuple(related), fix)


def to_json(finding: Finding) -> dict[str, Any]:
    """The finding as plain values."""
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "message": finding.message,
        "place": vars(finding.span) if finding.span else None,
        "related": [{"message": related.message, "place": vars(related.span)} for related in finding.related],
        "fix": finding.fix,
    }


def from_json(value: Mapping[str, Any]) -> Finding:
    """The finding that `to_json` made the values of."""
    from dispatchgen.node import Span

    return Finding(
        code=value["code"],
        severity=Severity(value["severity"]),
        message=value["message"],
        span=Span(**value["place"]) if value["place"] else None,
        related=tuple(Related(Span(**each["place"]), each["message"]) for each in value["related"]),
        fix=value["fix"],
    )


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings by place, code and message, each once."""
    return tuple(sorted(dict.fromkeys(findings), key=lambda finding: finding.key))


def has_errors(findings: Iterable[Finding]) -> bool:
    """Whether one of the findings is an error."""
    return any(finding.severity is Severity.ERROR for finding in findings)


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was most likely meant, or None where none is like it."""
    from difflib import get_close_matches  # costs more to import than all else here, and is needed for errors only

    folded = {name.casefold(): name for name in known}
    return next((folded[name] for name in get_close_matches(word.casefold(), folded, n=1)), None)


def near(word: str, known: Iterable[str]) -> str | None:
    """What to write instead of `word`: the closest of the known words, else all of them; None where there are none."""
    words = list(dict.fromkeys(known))
    if found := closest(word, words):
        return f"did you mean `{found}`?"
    listed = ", ".join(words[:12]) + (", …" if len(words) > 12 else "")
    return f"known here: {listed}" if words else None
