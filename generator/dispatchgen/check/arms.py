"""Spec against the matches of generated code: each does for every variant what the matrix says."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from dispatchgen import _names as names
from dispatchgen._place import place
from dispatchgen.check.arm import ArmReader
from dispatchgen.check.bodies import does_nothing, gives_nothing_back
from dispatchgen.check.bound import Bound
from dispatchgen.check.functions import Functions, astray, calls, suspects
from dispatchgen.check.methods import is_generator
from dispatchgen.check.statements import REGENERATE, parsed
from dispatchgen.check.things import Things
from dispatchgen.check.wanted import Match
from dispatchgen.findings import Finding, Related, error

if TYPE_CHECKING:
    from dispatchgen.model.catalog import Catalog, Family
    from dispatchgen.template_set import TemplateSet


def check(
    catalog: Catalog, template_set: TemplateSet, things: Things, folder: Path, files: Mapping[str, bytes]
) -> Iterator[Finding]:
    """What the functions of the families lack of the matrix or have beyond it.

    Nothing is said about a template set that does not tell how its functions with a match are called.
    """
    if template_set.binds is None:
        return
    declared = [file.path for file in template_set.files if file.each == "family" and file.path.endswith(".py")]
    for family in catalog.families:
        paths = [path.format(module=names.family_module(family.name)) for path in declared]
        trees = {folder / path: parsed(files[path]) for path in paths if path in files}  # missing files have a verdict
        if trees and not any(isinstance(tree, Exception) for tree in trees.values()):
            functions = Functions.of({path: tree for path, tree in trees.items() if isinstance(tree, ast.Module)})
            told = replace(template_set, arms=None) if things.overlaid & {*paths} else template_set
            yield from _Family(catalog, told, things, family, functions, folder / paths[0]).check()


@dataclass(frozen=True)
class _Family:
    """The functions of a family, and what they are to do."""

    catalog: Catalog
    template_set: TemplateSet
    things: Things
    family: Family
    functions: Functions
    path: Path
    """Where functions that are not there are missed."""

    def check(self) -> Iterator[Finding]:
        """What is wrong with them."""
        yield from self._stubs()
        matches = [match for match in self.things.matches if match.family is self.family]
        for op in self.family.ops:
            of_op = [match for match in matches if match.op is op]
            related = [Related(op.span, f"{op.name} is declared here")]
            yield from self._reaches("DG823", op.name, [match.method for match in of_op], related)
            for match in of_op:
                yield from self._bound(match, related)
                shape = self.template_set.arms
                if shape is not None and shape.through and match.forwards:
                    through = shape.through.format(method=match.method)
                    yield from self._reaches("DG824", through, [match.method], related)

    def _stubs(self) -> Iterator[Finding]:
        for path, function in self.functions.bodies:
            if does_nothing(function):
                told = f"the generated function {function.name} does nothing"
                yield error("DG822", told, place(path, function.lineno), fix=REGENERATE)

    @cached_property
    def _known(self) -> Mapping[str, str]:
        """Every method of the catalog by the names that stand for it: its own, and that of the function with its match."""
        methods = [match.method for match in self.things.matches]
        return {name: method for method in methods for name in (method, self._binder(method))}

    def _binder(self, method: str) -> str:
        return (self.template_set.binds or "").format(method=method)

    def _reaches(self, code: str, name: str, methods: Sequence[str], related: list[Related]) -> Iterator[Finding]:
        """What is wrong with a function that has to use what is bound for some methods."""
        found = self.functions.named(name)
        if found is None:
            told = f"the generated code has no function {name}"
            yield error(code, told, place(self.path), related=related, fix=REGENERATE)
            return
        path, function = found
        yield from self._plain(code, name)
        if gives_nothing_back(function) and not does_nothing(function):
            yield error("DG822", f"{name} gives nothing back", place(path, function.lineno), fix=REGENERATE)
        if is_generator(function):
            yield error(
                "DG822",
                f"{name} is a generator: a call runs nothing of it",
                place(path, function.lineno),
                fix=REGENERATE,
            )
        used = calls(function, self._known)
        for method in [method for method in methods if method not in used]:
            for line in [at.lineno for at in suspects(used, methods)] or [function.lineno]:
                told = f"{name} does not call what is bound for {method}"
                yield error(code, told, place(path, line), related=related, fix=REGENERATE)
        for at in astray(used, methods):
            told = f"{name} calls `{ast.unparse(at)}`, which is bound for something else"
            yield error(code, told, place(path, at.lineno), related=related, fix=REGENERATE)

    def _plain(self, code: str, name: str) -> Iterator[Finding]:
        """A finding for everything that keeps the function of that name from being the one that is called."""
        for path, node, what in self.functions.doubts(name):
            yield error(code, f"{name} {what}", place(path, node.lineno), fix=REGENERATE)

    def _bound(self, match: Match, related: list[Related]) -> Iterator[Finding]:
        name = self._binder(match.method)
        found = self.functions.named(name)
        if found is None:
            told = f"the generated code has no function {name}"
            yield error("DG824", told, place(self.path), related=related, fix=REGENERATE)
            return
        yield from self._plain("DG824", name)
        reader = ArmReader(self.catalog, self.template_set, frozenset(self._known.values()), match)
        for code, told, line in Bound(name, match, reader, *found).check():
            yield error(code, told, place(found[0], line), fix=REGENERATE)
