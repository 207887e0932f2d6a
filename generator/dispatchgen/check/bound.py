"""One function with a match: whether it names every variant of the build once, and its arms do what they have to."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dispatchgen.check.arm import ArmReader, constant
from dispatchgen.check.live import after_docstring, nodes
from dispatchgen.check.patterns import expression, unlike
from dispatchgen.check.wanted import Match, Variant


@dataclass(frozen=True)
class Bound:
    """One function with a match: findings as code, message and line."""

    name: str
    match: Match
    reader: ArmReader
    path: Path
    function: ast.FunctionDef
    arms: dict[Variant, list[ast.match_case]] = field(default_factory=dict)

    def check(self) -> Iterator[tuple[str, str, int]]:
        """What is wrong with it."""
        yield from self._around()
        for body in [after_docstring(self.function.body)]:
            for each in body:
                if isinstance(each, ast.Match):
                    yield from self._backends(each)
        for variant, want in self.match.wants.items():
            arms = self.arms.pop(variant, [])
            if len(arms) != 1:
                again = arms[1].pattern.lineno if arms else self.function.lineno
                how = f"names {_title(variant)} {len(arms)} times" if arms else f"does not name {_title(variant)}"
                yield "DG825", f"{self.name} {how}", again
            elif found := self.reader.wrong(arms[0].body, variant, want):
                problem, node = found
                yield "DG826", f"the arm of {_title(variant)} in {self.name} {problem}", node.lineno
        for variant, arms in self.arms.items():
            told = f"{self.name} names {_title(variant)}, which is not in this build"
            yield "DG825", told, arms[0].pattern.lineno

    def _around(self) -> Iterator[tuple[str, str, int]]:
        """What else the function does than to match, where it may do nothing else."""
        body = after_docstring(self.function.body)
        shape = self.reader.shape
        none = self.reader.text("none", ("", None)) if shape and shape.none else ""
        if not self.match.wants and none:
            wrong = unlike(ast.Return(expression(none)), body[0]) if body else self.function
            if wrong is not None or len(body) != 1:
                yield "DG825", f"{self.name} does not say that the build has no variant", (wrong or body[-1]).lineno  # type: ignore[attr-defined]
            return
        for each in body:
            if not isinstance(each, ast.Match) and (shape is not None or _leaves(each)):
                yield "DG825", f"{self.name} does something beside its match", each.lineno
        matches = [each for each in body if isinstance(each, ast.Match)]
        if len(matches) > 1:
            yield "DG825", f"{self.name} has {len(matches)} matches", matches[1].lineno
        for each in matches if shape else ():
            if unlike(expression(self.reader.text("match", ("", None))), each.subject) is not None:
                yield "DG825", f"{self.name} matches something else than `{shape.match if shape else ''}`", each.lineno

    def _backends(self, statement: ast.Match) -> Iterator[tuple[str, str, int]]:
        for case in statement.cases:
            backend = self.reader.backends.get(constant(case.pattern) or "")
            if backend is None or not self.reader.is_case(case, (backend, None)):
                yield from self._other(case, statement, f"an arm of {self.name} names no variant of the catalog")
                continue
            yield from self._conditional(case)
            inner = [each for each in case.body if isinstance(each, ast.Match)]
            if inner and self.reader.runtimes[backend]:
                yield from self._runtimes(case, inner[0], backend)
                continue
            for variant in [each for each in self.match.wants if each[0] == backend] or [(backend, None)]:
                self.arms.setdefault(variant, []).append(case)
        yield from self._closed(statement)

    def _runtimes(self, case: ast.match_case, inner: ast.Match, backend: str) -> Iterator[tuple[str, str, int]]:
        shape = self.reader.shape
        if len(case.body) != 1:
            yield "DG825", f"the arm of {backend} in {self.name} does something beside its match", case.body[0].lineno
        if shape and shape.runtimes:
            wrong = unlike(expression(self.reader.text("runtimes", (backend, None))), inner.subject)
            if wrong is not None:
                yield "DG825", f"the arm of {backend} in {self.name} does not match its runtime", inner.lineno
        for each in inner.cases:
            runtime = self.reader.runtimes[backend].get(constant(each.pattern) or "")
            if runtime is None or not self.reader.is_case(each, (backend, runtime)):
                yield from self._other(each, inner, f"an arm of {self.name} names no runtime of {backend}")
                continue
            yield from self._conditional(each)
            self.arms.setdefault((backend, runtime), []).append(each)
        yield from self._closed(inner)

    def _other(self, case: ast.match_case, statement: ast.Match, told: str) -> Iterator[tuple[str, str, int]]:
        if not _closes(case) or case is not statement.cases[-1]:
            yield "DG825", told, case.pattern.lineno

    def _conditional(self, case: ast.match_case) -> Iterator[tuple[str, str, int]]:
        if case.guard is not None:
            told = f"an arm of {self.name} has a condition, so it may not be taken"
            yield "DG825", told, case.pattern.lineno

    def _closed(self, statement: ast.Match) -> Iterator[tuple[str, str, int]]:
        if self.reader.shape is not None and not _closes(statement.cases[-1]):
            told = f"{self.name} does not end with assert_never, which has the type checker prove it complete"
            yield "DG825", told, statement.lineno


def _leaves(statement: ast.stmt) -> bool:
    """Whether a function may end there."""
    return any(isinstance(node, ast.Return | ast.Raise | ast.Yield | ast.YieldFrom) for node in nodes(statement))


def _title(variant: Variant) -> str:
    backend, runtime = variant
    return f"{backend}[{runtime}]" if runtime else backend


def _closes(case: ast.match_case) -> bool:
    """Whether it is a case that the type checker proves unreachable."""
    match case:
        case ast.match_case(
            pattern=ast.MatchAs(pattern=None, name=str() as name),
            guard=None,
            body=[ast.Expr(value=ast.Call(func=ast.Name(id="assert_never"), args=[ast.Name(id=given)]))],
        ):
            return name == given
    return False
