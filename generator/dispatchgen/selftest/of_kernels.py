"""Gaps in kernels: every promised method dropped, emptied, hidden, and changed in each part of its signature."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

from dispatchgen.check.bodies import Function
from dispatchgen.check.classes import Class, Sources, UnreadableError
from dispatchgen.check.kernels import promised
from dispatchgen.check.live import after_docstring
from dispatchgen.check.methods import Method
from dispatchgen.features import Build
from dispatchgen.model.catalog import Catalog
from dispatchgen.selftest.mutation import Expected, Mutation
from dispatchgen.selftest.signature_changes import ASYNC, NEED_PARAMETERS, OF_FUNCTION, OF_PARAMETER
from dispatchgen.selftest.text import Edit, Text, edited
from dispatchgen.template_set import TemplateSet

_GONE, _STUB, _MISFIT = (frozenset({code}) for code in ("DG802", "DG803", "DG804"))
_NOTHING = ("pass", "...", "raise NotImplementedError", '"""What it does."""', "assert False", "return NotImplemented")


def mutations(
    catalog: Catalog,
    template_set: TemplateSet,
    build: Build,
    sources: Sources,
    files: Mapping[Path, Text],
    find: Callable[[Path, bytes, str], Class | None],
) -> Iterator[Mutation]:
    """Every gap in the kernels of a build that are there and not exempted.

    `find` gives the class of that reference as it is when one file has another content.
    """
    seen: dict[tuple[Path, int], tuple[Method, list[str]]] = {}
    for promise in promised(catalog, template_set, build):
        if promise.exemption is None and promise.backend.kernels is not None:
            try:
                method = sources.find(promise.backend.kernels).methods.get(promise.method)
            except UnreadableError:
                continue
            at = (Path(method.span.file).absolute(), method.span.line) if method else (Path(), 0)
            if method is not None and method.name == promise.method and at[0] in files:
                seen.setdefault(at, (method, []))[1].append(promise.backend.kernels)
    for (file, _), (method, owners) in seen.items():
        yield from _Written(file, files[file], method, tuple(owners), find).all()


@dataclass(frozen=True)
class _Written:
    """One method where it is written, and the kernel classes that have it."""

    file: Path
    text: Text
    method: Method
    owners: tuple[str, ...]
    find: Callable[[Path, bytes, str], Class | None]

    def all(self) -> Iterator[Mutation]:
        """Every gap here."""
        yield from self._absent()
        yield from self._empty()
        yield from self._signature()

    @property
    def _node(self) -> Function:
        """The method in this file's tree."""
        return next(
            node
            for node in ast.walk(self.text.tree)
            if isinstance(node, Function) and (node.name, node.lineno) == (self.method.name, self.method.node.lineno)
        )

    def _absent(self) -> Iterator[Mutation]:
        node, name = self._node, self.method.name
        # A class is never left without a body; what else stands there does not matter.
        for kind, edit in [
            ("drop a kernel method", self.text.delete(node, instead="pass")),
            ("hide a kernel method behind a condition", self.text.indent(node, "if False:")),
            ("delete a kernel method", self.text.append(node, f"del {name}")),
            ("give a kernel method's name to something else", self.text.append(node, f"{name} = None")),
        ]:
            if places := self._places(edit):
                yield self._mutation(kind, [edit], *places)
        if self._places(self.text.delete(node, instead="pass")):  # else a condition chooses between two that are there
            edit = self.text.indent(node, "if name_of_a_condition:")
            yield self._mutation("have a kernel method under a condition only", [edit], self._here(_MISFIT | _GONE, 1))
        for kind, edit in [
            ("decorate a kernel method", self.text.insert(node, "@staticmethod")),
            ("make a kernel method a property", self.text.insert(node, "@property")),
        ]:
            yield self._mutation(kind, [edit], self._here(_MISFIT | _GONE, 1))

    def _places(self, edit: Edit) -> list[Expected]:
        """Where a missing method is missed: at the end of every class that lacks it, or at what a base has instead.

        None where a base of every class has another one: nothing is missing then.
        """
        places = []
        for owner in self.owners:
            found = self.find(self.file, edited(self.text.content, [edit]), owner)
            behind = found.methods.get(self.method.name) if found else None
            if found is None or (
                behind is not None and not behind.is_abstract and not behind.is_stub and not behind.doubt
            ):
                continue
            lines = {(found.end.file, found.end.line)} | ({(behind.span.file, behind.span.line)} if behind else set())
            file, line = max(lines) if behind and not behind.is_abstract else (found.end.file, found.end.line)
            places.append(Expected(_GONE | _STUB | _MISFIT, Path(file), line, line))
        return places

    def _empty(self) -> Iterator[Mutation]:
        body = self._node.body
        for nothing in _NOTHING:
            edit = self.text.replace(body[0], nothing, body[-1])
            yield self._mutation("empty a kernel method", [edit], self._here(_STUB))
        rest = after_docstring(body)
        if rest:
            early = self.text.insert(rest[0], 'raise NotImplementedError("later")')
            yield self._mutation("give up in a kernel method", [early], self._here(_STUB))
            lazy = self.text.insert(rest[0], "yield")
            yield self._mutation("make a kernel method a generator", [lazy], self._here(_MISFIT))

    def _signature(self) -> Iterator[Mutation]:
        parameters = [*self._node.args.posonlyargs, *self._node.args.args][1:]
        for place, parameter in enumerate(parameters):
            for kind, change in OF_PARAMETER.items():
                yield self._changed(kind, change, place, f"({parameter.arg})")
        for kind, change in OF_FUNCTION.items():
            if parameters or kind not in NEED_PARAMETERS:
                yield self._changed(kind, change, 0, "")

    def _changed(self, kind: str, change: Callable[[Function, int], None], place: int, what: str) -> Mutation:
        made = deepcopy(self._node)
        change(made, place)
        if isinstance(made, ast.AsyncFunctionDef) or kind == ASYNC:
            made = ast.AsyncFunctionDef(**{name: getattr(made, name) for name in made._fields})
        code = ast.unparse(ast.fix_missing_locations(made))
        return self._mutation(kind, [self.text.replace(self._node, code)], self._here(_MISFIT), what=what)

    def _here(self, codes: frozenset[str], below: int = 0) -> Expected:
        return Expected(codes, self.file, self.method.node.lineno, self.method.node.lineno + below)

    def _mutation(self, kind: str, edits: list[Edit], *expected: Expected, what: str = "") -> Mutation:
        return Mutation(
            kind, f"{self.method.name}{what}", self.file, self.method.node.lineno, tuple(edits), tuple(expected)
        )
