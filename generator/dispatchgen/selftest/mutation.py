"""One gap that is made on purpose, and where it has to be found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dispatchgen.findings import Finding, Severity
from dispatchgen.selftest.text import Edit


@dataclass(frozen=True)
class Expected:
    """A finding that has to come: one of these codes, in one of these lines of a file as it is then."""

    codes: frozenset[str]
    file: Path
    first: int
    last: int

    def is_met(self, findings: Iterable[Finding]) -> bool:
        """Whether it is among the findings."""
        return any(
            each.severity is Severity.ERROR
            and each.code in self.codes
            and each.span is not None
            and Path(each.span.file).absolute() == self.file.absolute()
            and self.first <= each.span.line <= self.last
            for each in findings
        )


@dataclass(frozen=True)
class Mutation:
    """A change of one file, the findings that must come of it, and how people are told."""

    kind: str
    what: str
    file: Path
    """In the copy."""
    line: int
    """Of the change, in the file as it was."""
    edits: tuple[Edit, ...]
    expected: tuple[Expected, ...]
    """All of them have to come."""
