"""Gaps in kernels: every promised method dropped, emptied, hidden, and changed in each part of its signature."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

from dispatchgen.check.classes import Class, Sources, UnreadableError
from dispatchgen.check.kernels import promised
from dispatchgen.check.live import after_docstring
from dispatchgen.check.methods import Function, Method
from dispatchgen.features import Build
from dispatchgen.model.catalog import Catalog
from dispatchgen.selftest.mutation import Expected, Mutation
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
            for kind, change in _OF_PARAMETER.items():
                yield self._changed(kind, change, place, f"({parameter.arg})")
        for kind, change in _OF_FUNCTION.items():
            if parameters or kind not in _NEED_PARAMETERS:
                yield self._changed(kind, change, 0, "")

    def _changed(self, kind: str, change: Callable[[Function, int], None], place: int, what: str) -> Mutation:
        made = deepcopy(self._node)
        change(made, place)
        if isinstance(made, ast.AsyncFunctionDef) or kind == _ASYNC:
            made = ast.AsyncFunctionDef(**{name: getattr(made, name) for name in made._fields})
        code = ast.unparse(ast.fix_missing_locations(made))
        return self._mutation(kind, [self.text.replace(self._node, code)], self._here(_MISFIT), what=what)

    def _here(self, codes: frozenset[str], below: int = 0) -> Expected:
        return Expected(codes, self.file, self.method.node.lineno, self.method.node.lineno + below)

    def _mutation(self, kind: str, edits: list[Edit], *expected: Expected, what: str = "") -> Mutation:
        return Mutation(
            kind, f"{self.method.name}{what}", self.file, self.method.node.lineno, tuple(edits), tuple(expected)
        )


_ASYNC = "make a kernel method asynchronous"


def _rename(node: Function, place: int) -> None:
    parameter = node.args.args[place + 1]
    parameter.arg += "_other"


def _annotate(node: Function, place: int) -> None:
    node.args.args[place + 1].annotation = ast.Name("object")


def _bare(node: Function, place: int) -> None:
    node.args.args[place + 1].annotation = None


def _default(node: Function, place: int) -> None:
    count = len(node.args.args) - 1 - place
    node.args.defaults = [ast.Constant(None)] * count


def _drop(node: Function, place: int) -> None:
    del node.args.args[place + 1]


def _by_keyword(node: Function, place: int) -> None:
    node.args.kwonlyargs = node.args.args[place + 1 :]
    node.args.kw_defaults = [None] * len(node.args.kwonlyargs)
    node.args.args = node.args.args[: place + 1]


def _by_position(node: Function, place: int) -> None:
    node.args.posonlyargs = node.args.args[: place + 2]
    node.args.args = node.args.args[place + 2 :]


def _reorder(node: Function, place: int) -> None:
    node.args.args = [node.args.args[0], *reversed(node.args.args[1:])]
    if len(node.args.args) == 2:
        node.args.args.reverse()


_OF_PARAMETER: Mapping[str, Callable[[Function, int], None]] = {
    "rename a parameter": _rename,
    "change an annotation": _annotate,
    "drop an annotation": _bare,
    "give a default": _default,
    "drop a parameter": _drop,
    "take a parameter by keyword only": _by_keyword,
    "take a parameter by position only": _by_position,
}
_NEED_PARAMETERS = {"reorder parameters"}


def _returns(node: Function, place: int) -> None:
    node.returns = ast.Name("object")


def _returns_nothing(node: Function, place: int) -> None:
    node.returns = None


def _more(node: Function, place: int) -> None:
    node.args.args.append(ast.arg("more", ast.Name("object")))


def _more_with_default(node: Function, place: int) -> None:
    _more(node, place)
    node.args.defaults = [ast.Constant(None)]


def _anything(node: Function, place: int) -> None:
    node.args.vararg = ast.arg("rest")


def _any_keyword(node: Function, place: int) -> None:
    node.args.kwarg = ast.arg("options")


def _keyword(node: Function, place: int) -> None:
    node.args.kwonlyargs, node.args.kw_defaults = [ast.arg("option")], [ast.Constant(None)]


def _selfless(node: Function, place: int) -> None:
    node.args.args = node.args.args[1:]


def _unchanged(node: Function, place: int) -> None:
    pass


_OF_FUNCTION: Mapping[str, Callable[[Function, int], None]] = {
    "reorder parameters": _reorder,
    "change the return annotation": _returns,
    "drop the return annotation": _returns_nothing,
    "take one more": _more,
    "take one more with a default": _more_with_default,
    "take a keyword": _keyword,
    "take anything": _anything,
    "take any keyword": _any_keyword,
    "take no self": _selfless,
    _ASYNC: _unchanged,
}
