"""Gaps in the functions of operations: in every match, every arm of it, and the functions around it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from dispatchgen import _names as names
from dispatchgen.check.arm import ArmReader, constant
from dispatchgen.check.functions import calls
from dispatchgen.check.live import after_docstring
from dispatchgen.check.things import Things
from dispatchgen.check.wanted import Match, Variant, Want
from dispatchgen.model.catalog import Catalog
from dispatchgen.selftest.mutation import Expected, Mutation
from dispatchgen.selftest.text import Edit, Text, code_of
from dispatchgen.selftest.words import lookalikes, method_to, module_to, next_name, renamed
from dispatchgen.template_set import TemplateSet

_BIND, _OP, _ARM, _WRONG, _EMPTY = (frozenset({code}) for code in ("DG824", "DG823", "DG825", "DG826", "DG822"))
_NOTHING = ("pass", "...", "raise NotImplementedError", "return None")


def mutations(
    catalog: Catalog, template_set: TemplateSet, things: Things, files: Mapping[Path, Text], *, left_out: bool
) -> Iterator[Mutation]:
    """Every gap in the functions of the families, of which `files` has all; or what a build leaves out, said there."""
    if template_set.binds is None:
        return
    methods = frozenset(match.method for match in things.matches)
    for file, text in files.items():
        overlaid = any(file.as_posix().endswith(f"/{path}") for path in things.overlaid)
        told = replace(template_set, arms=None) if overlaid else template_set
        own = [match for match in things.matches if _function(text, template_set.binds.format(method=match.method))]
        for match in own:
            reader = ArmReader(catalog, told, methods, match)
            matched = _Matched(file, text, match, reader, own, told)
            yield from matched.not_built() if left_out else matched.all()


def _function(text: Text, name: str) -> ast.FunctionDef | None:
    found = (each for each in text.tree.body if isinstance(each, ast.FunctionDef) and each.name == name)
    return next(found, None)


@dataclass(frozen=True)
class _Arm:
    variant: Variant
    want: Want
    case: ast.match_case

    @property
    def title(self) -> str:
        return f"{self.variant[0]}[{self.variant[1]}]" if self.variant[1] else self.variant[0]

    @property
    def line(self) -> int:
        return self.case.pattern.lineno

    @property
    def code(self) -> str:
        return code_of(self.case.body)


@dataclass(frozen=True)
class _Matched:
    """One match in one file."""

    file: Path
    text: Text
    match: Match
    reader: ArmReader
    family: Sequence[Match]
    """All that stand in the file."""
    template_set: TemplateSet

    @cached_property
    def function(self) -> ast.FunctionDef:
        """The function with the match."""
        found = _function(self.text, self._binder(self.match.method))
        assert found is not None
        return found

    def _binder(self, method: str) -> str:
        return (self.template_set.binds or "").format(method=method)

    @cached_property
    def matches(self) -> list[ast.Match]:
        """The match over backends, and those over runtimes inside of it."""
        return [node for node in ast.walk(self.function) if isinstance(node, ast.Match)]

    @cached_property
    def arms(self) -> list[_Arm]:
        """The arms with what they have to do."""
        found = []
        for case in (case for each in self.matches for case in each.cases):
            name = constant(case.pattern) or ""
            if not isinstance(case.body[0], ast.Match):
                for variant, want in self.match.wants.items():
                    if names.constant_name(variant[1] or variant[0]) == name:
                        found.append(_Arm(variant, want, case))
                        break
        return found

    def all(self) -> Iterator[Mutation]:
        """Every gap here."""
        for arm in self.arms:
            yield from self._one(arm)
        yield from self._swapped()
        yield from self._whole()
        yield from self._around(self.function.name, _BIND, [])
        shape = self.template_set.arms
        users = [(self.match.op.name, _OP)]
        if shape is not None and shape.through and self.match.forwards:
            users.append((shape.through.format(method=self.match.method), _BIND))
        for name, code in users:
            if _function(self.text, name) is not None:
                yield from self._around(name, code, [self.match.method])

    def _one(self, arm: _Arm) -> Iterator[Mutation]:
        first, last = arm.case.body[0], arm.case.body[-1]

        def say(kind: str, new: str) -> Mutation:
            return self._mutation(kind, arm.title, first.lineno, [self.text.replace(first, new, last)], _WRONG)

        backend, method = arm.variant[0], self.match.method
        if arm.want.forwards:
            if other := next_name([each.name for each in self.reader.catalog.backends], backend):
                yield say("forward to another kernel", renamed(arm.code, module_to(backend, other)))
            for other in lookalikes([each.method for each in self.family], method):
                yield say("forward to another method", renamed(arm.code, method_to(method, other)))
            for refusing in [each for each in self.arms if each.want.arm.kind == "error" and not each.want.wrapped][:1]:
                yield say("refuse where there is a kernel", refusing.code)
        elif forwarding := self._forwarding():
            theirs, code = forwarding
            code = renamed(code, module_to(theirs[0], backend))
            yield say("widen: forward where there is no kernel", renamed(code, method_to(theirs[1], method)))
        if arm.want.arm.kind == "error":
            situation = arm.want.arm.situation or ""
            other = next_name([each.name for each in self.template_set.situations], situation)
            if other and repr(situation) in arm.code:
                yield say("answer with another error", arm.code.replace(repr(situation), repr(other)))
        if arm.want.arm.kind == "value" and self.template_set.arms and self.template_set.arms.value:
            yield say(
                "answer with another value",
                renamed(arm.code, lambda word: "True" if word in ("None", "False") else word),
            )
        for nothing in _NOTHING:
            yield say("empty an arm", nothing)
        yield from self._cases(arm)

    def _cases(self, arm: _Arm) -> Iterator[Mutation]:
        pattern, last = arm.case.pattern, arm.case.body[-1]
        at_def, here, title = self.function.lineno, arm.line, arm.title
        yield self._mutation("drop an arm", title, here, [self.text.delete(pattern, last)], _ARM, at_def)
        again = f"case {ast.unparse(pattern)}:\n    {arm.code}"
        spaces = pattern.col_offset - len("case ")
        yield self._mutation(
            "double an arm", title, here, [self.text.append(last, again, spaces)], _ARM, (last.end_lineno or 0) + 1
        )
        yield self._mutation("make an arm a wildcard", title, here, [self.text.replace(pattern, "_")], _ARM, here)
        closed = self.text.replace(pattern, f"{ast.unparse(pattern)} if False")
        yield self._mutation("put a condition before an arm", title, here, [closed], _ARM, here)
        strange = renamed(ast.unparse(pattern), lambda word: "ORPHAN" if word == constant(pattern) else word)
        orphan = f"case {strange}:\n    {arm.code}"
        yield self._mutation(
            "add an orphan arm", title, here, [self.text.append(last, orphan, spaces)], _ARM, (last.end_lineno or 0) + 1
        )

    def _swapped(self) -> Iterator[Mutation]:
        for place, one in enumerate(self.arms):
            later = [*self.arms[place + 1 :], *self.arms[:place]]
            for other in [each for each in later if each.code != one.code][:1]:
                edits = [
                    self.text.replace(to.case.body[0], of.code, to.case.body[-1])
                    for to, of in ((one, other), (other, one))
                ]
                lines = (one.case.body[0].lineno, other.case.body[0].lineno)
                yield self._mutation("swap two arms", f"{one.title} and {other.title}", one.line, edits, _WRONG, *lines)

    def not_built(self) -> Iterator[Mutation]:
        """Arms of what the build leaves out."""
        built = {backend for backend, _ in self.match.wants}
        for arm in self.arms[:1]:
            if arm.variant[1] is not None:
                continue
            pattern, last = arm.case.pattern, arm.case.body[-1]
            for backend in self.reader.catalog.backends:
                if backend.name not in built:
                    own, name = constant(pattern) or "", names.constant_name(backend.name)
                    case = renamed(ast.unparse(pattern), lambda word, own=own, name=name: name if word == own else word)  # type: ignore[misc]
                    more = self.text.append(last, f"case {case}:\n    {arm.code}", pattern.col_offset - len("case "))
                    kind, line = "widen: an arm of what is not built", (last.end_lineno or 0) + 1
                    yield self._mutation(kind, backend.name, arm.line, [more], _ARM, line)

    def _whole(self) -> Iterator[Mutation]:
        """Gaps in the match as a whole."""
        for each in self.matches:
            if self.template_set.arms is not None:
                closing = each.cases[-1]
                gone = self.text.delete(closing.pattern, closing.body[-1])
                yield self._mutation(
                    "drop assert_never", "the last case", closing.pattern.lineno, [gone], _ARM, each.lineno
                )
                other = self.text.replace(each.subject, "object()")
                yield self._mutation("match something else", "the match", each.lineno, [other], _ARM, each.lineno)
        if self.arms and self.matches[0] in self.function.body:
            early = self.text.insert(self.matches[0], self.arms[0].code)
            line = self.matches[0].lineno
            yield self._mutation("return before the match", "the match", line, [early], _ARM, line)

    def _around(self, name: str, code: frozenset[str], methods: Sequence[str]) -> Iterator[Mutation]:
        """Gaps in a function as a whole; it uses what is bound for some methods."""
        function = _function(self.text, name)
        assert function is not None
        line, top = function.lineno, self.text.tree.body[-1]
        end = (top.end_lineno or 0) + 1
        yield self._mutation("drop a function", name, line, [self.text.delete(function)], code, 1)
        moved = self.text.replace(function, ast.unparse(function).replace(f"def {name}(", f"def {name}_orphan(", 1))
        yield self._mutation("rename a function", name, line, [moved], code, 1)
        hidden = self.text.indent(function, "if False:")
        yield self._mutation("hide a function behind a condition", name, line, [hidden], code, 1)
        for later in (f"{name} = None", f"del {name}", f"def {name}(*_):\n    return None"):
            yield self._mutation("give a name to something else", name, line, [self.text.append(top, later)], code, end)
        body = after_docstring(function.body)
        for nothing in _NOTHING:
            emptied = [self.text.replace(body[0], nothing, body[-1])]
            yield self._mutation(
                "empty a function", name, body[0].lineno, emptied, _EMPTY | code | _ARM, line, last=body[0].lineno
            )
        if methods:
            early = self.text.insert(body[0], "return object()")
            yield self._mutation("return before the call", name, body[0].lineno, [early], code, line)
        known = {each: method for method in methods for each in (method, self._binder(method))}
        for method, uses in calls(function, known).items():
            others = [each.method for each in self.family]
            for used in uses if (other := next(iter(lookalikes(others, method)), None)) else ():
                called = self.text.replace(used, renamed(ast.unparse(used), method_to(method, other or "")))
                what = f"{method} in {name}"
                yield self._mutation("call another method", what, used.lineno, [called], code, used.lineno)

    def _forwarding(self) -> tuple[tuple[str, str], str] | None:
        """An arm that forwards, of this match or another: its backend and method, and its code."""
        for match in [self.match, *self.family]:
            reader = ArmReader(self.reader.catalog, self.template_set, self.reader.methods, match)
            for arm in _Matched(self.file, self.text, match, reader, self.family, self.template_set).arms:
                if arm.want.forwards:
                    return (arm.variant[0], match.method), arm.code
        return None

    def _mutation(
        self, kind: str, what: str, line: int, edits: Sequence[Edit], codes: frozenset[str], *at: int, last: int = 0
    ) -> Mutation:
        where = f"{what} of {self.function.name}" if what != self.function.name else what
        expected = tuple(Expected(codes, self.file, each, max(each, last)) for each in at or (line,))
        return Mutation(kind, where, self.file, line, tuple(edits), expected)
