"""Classes as their source text has them: found through folders, read by `ast`, never imported."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from dispatchgen._place import place
from dispatchgen.check.bodies import Function
from dispatchgen.check.folders import Folders, shown
from dispatchgen.check.live import bound, nodes
from dispatchgen.check.methods import Method, apply, hollowed, patches, replaced, set_on_self
from dispatchgen.check.modules import Module, absolute, parse
from dispatchgen.source import Span


@dataclass(frozen=True)
class Class:
    """One class with the methods that it has itself or from bases that could be found."""

    name: str
    span: Span
    """Its first line."""
    end: Span
    """Its last line: where a new method goes."""
    methods: Mapping[str, Method]
    lineage: Mapping[str, Span]
    """The class and its bases by name, nearest first, with the last line of each."""


class UnreadableError(Exception):
    """A module or class that is not there, or cannot be told; says which, and where it was looked for."""

    def __init__(self, problem: str, span: Span | None = None) -> None:
        super().__init__(problem)
        self.span = span
        """Where in the module that is, if it was found."""


class Sources(Folders):
    """Python source in folders. Each module is read once."""

    def __init__(self, roots: tuple[Path, ...]) -> None:
        super().__init__(roots)
        self._modules: dict[str, Module] = {}
        self._lineages: dict[ast.ClassDef, list[tuple[Module, ast.ClassDef]]] = {}

    def find(self, reference: str) -> Class:
        """The class that `module:Class` names. Raises UnreadableError."""
        try:
            return self._find(reference)
        except RecursionError:
            raise UnreadableError(f"too many names lead from one to the other behind {reference}") from None

    def _find(self, reference: str) -> Class:
        module, _, name = reference.partition(":")
        found = self._definition(self._module(module), name)
        if found is None:
            raise UnreadableError(f"{shown(self._module(module).path)} has no class {name}")
        owner, node = found
        self._doubt(self._module(module), name.partition(".")[0])
        self._doubt(owner, node.name)
        for where, each in self._lineage(owner, node):
            if self.has(str(where.path)) and (how := unreadable(each)):
                told = f"the class {each.name} {how}, so nobody can tell by reading what it has"
                raise UnreadableError(told, _span(where, each))
        lineage = {each.name: _end(module, each) for module, each in self._lineage(owner, node)}
        return Class(node.name, _span(owner, node), _end(owner, node), self._methods(owner, node), lineage)

    def _doubt(self, module: Module, name: str) -> None:
        """Raises UnreadableError where it depends what a name of a module stands for."""
        *others, made = [each for each in module.body if name in bound(each)] or [ast.Pass()]
        if made not in module.conditional or (
            others and not any(self._leads_on(module, each, name) for each in others)
        ):
            return
        told = f"{name} is made under a condition only, so nobody can tell by reading which class it is"
        raise UnreadableError(told, place(shown(module.path), made.lineno, made.col_offset + 1))

    def _leads_on(self, module: Module, statement: ast.stmt, name: str) -> bool:
        """Whether a statement gives a name something else than what can be imported elsewhere only."""
        alone = replace(module, body=(statement,))
        return not isinstance(statement, ast.ImportFrom) or self._definition(alone, name) is not None

    @property
    def read(self) -> dict[str, Path]:
        """The modules that were read so far, and where each lies."""
        return {name: module.path for name, module in self._modules.items()}

    def _is_ours(self, package: str) -> bool:
        path = self.locate(package)
        return path is not None and self.has(str(path))

    def _module(self, name: str) -> Module:
        if name not in self._modules:
            path = self.locate(name)
            if path is None:
                looked = ", ".join(shown(root) for root in self.roots)
                raise UnreadableError(f"there is no module {name} in {looked}, nor where Python looks for modules")
            try:
                body, conditional, imports = parse(self.content(path))
            except (SyntaxError, ValueError, OSError, RecursionError, MemoryError) as cause:
                line, column = (cause.lineno, cause.offset) if isinstance(cause, SyntaxError) else (None, None)
                problem = cause.msg if isinstance(cause, SyntaxError) else str(cause) or "it is nested too deeply"
                at = place(shown(path), line or 1, max(column or 1, 1))
                raise UnreadableError(f"{shown(path)} cannot be read as Python: {problem}", at) from cause
            self._modules[name] = Module(name, path, body, conditional, imports)
        return self._modules[name]

    def origin(self, name: str) -> str:
        """What a dotted name is called where it comes from, as far as modules of the folders hand it on."""
        module, _, last = name.rpartition(".")
        path = self.locate(module) if module else None
        if path is None or not self.has(str(path)):
            return name
        try:
            given = self._module(module).names.get(last, name)
        except UnreadableError:
            return name
        return name if given == name else self.origin(given)

    def _definition(self, module: Module, name: str) -> tuple[Module, ast.ClassDef] | None:
        """The class statement of a name that the module defines or imports; None where it cannot be followed."""
        match self._made(module, name, frozenset()):
            case (owner, ast.ClassDef() as node):
                return owner, node
        return None

    def _meaning(self, module: Module, named: ast.expr) -> ast.AST | None:
        """What a name or attribute in a module stands for, as far as it can be followed without leaving its project."""
        found = self._made(module, ast.unparse(named), frozenset(), home=module.name.partition(".")[0])
        return found[1] if found else None

    def _made(
        self, module: Module, name: str, seen: frozenset[tuple[str, str]], home: str = ""
    ) -> tuple[Module, ast.stmt] | None:
        """The statement that gives a dotted name of a module its value last, and the module in which that stands.

        With a package that is its `home`, a name that comes from another project is where it is imported.
        """
        if (module.name, name) in seen:
            return None
        seen |= {(module.name, name)}
        head, _, rest = name.partition(".")
        for statement in reversed(module.body):
            match statement:
                case ast.ClassDef(name=defined) | ast.FunctionDef(name=defined) if defined == name:
                    return module, statement
                case ast.Assign(targets=[ast.Name(id=defined)], value=ast.Name() | ast.Attribute() as value) if (
                    defined == head and not rest
                ):
                    return self._made(module, ast.unparse(value), seen, home) or (module, statement)
                case ast.ImportFrom(module=source, names=names, level=level):
                    for alias in names:
                        if (alias.asname or alias.name) != head:
                            continue
                        origin = absolute(module, source, level)
                        if not rest:
                            found = self._imported(origin, alias.name, seen, home)
                            return found or (module, ast.ImportFrom(source, [alias], level))
                        return self._imported(f"{origin}.{alias.name}" if origin else alias.name, rest, seen, home)
                case ast.Import(names=names):
                    for alias in names:
                        given = alias.asname or alias.name
                        if name.startswith(f"{given}."):
                            return self._imported(alias.name, name.removeprefix(f"{given}."), seen, home)
            if {head, "*"} & {*bound(statement)}:
                return None
        return None

    def _imported(
        self, module: str, name: str, seen: frozenset[tuple[str, str]], home: str
    ) -> tuple[Module, ast.stmt] | None:
        package = module.partition(".")[0]
        if package in sys.stdlib_module_names or (home and package != home and not self._is_ours(package)):
            return None
        try:
            return self._made(self._module(module), name, seen, home)
        except UnreadableError:
            return None

    def _lineage(
        self, module: Module, node: ast.ClassDef, seen: frozenset[ast.ClassDef] = frozenset()
    ) -> list[tuple[Module, ast.ClassDef]]:
        """The class and its bases in the order in which methods are looked for: a base after all that derive from it."""
        if node in seen:
            return []
        if node in self._lineages:
            return self._lineages[node]
        found = [(module, node)]
        for base in node.bases:
            name = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
            definition = self._definition(module, name)
            if definition is not None:
                found += self._lineage(*definition, seen | {node})
        last = {each: (owner, each) for owner, each in reversed(found)}
        self._lineages[node] = [*reversed(last.values())]
        return self._lineages[node]

    def _methods(self, module: Module, node: ast.ClassDef) -> dict[str, Method]:
        """The methods of a class, its own before those of its bases."""
        methods: dict[str, Method] = {}
        lineage = self._lineage(module, node)
        for owner, each in reversed(lineage):
            apply(each.body, methods, partial(self._method, owner))
            methods = replaced(methods, self._patched(each, {where.name: where for where, _ in lineage}.values()))
        return hollowed(replaced(methods, set_on_self(methods)))

    def _patched(self, node: ast.ClassDef, modules: Iterable[Module]) -> Iterator[tuple[str | None, int]]:
        """The attributes of a class that these modules set or delete after it was made, and where."""
        for module in modules:
            for name, attribute, line in patches(module.body):
                made = self._definition(module, name)
                if made is not None and made[1] is node:
                    yield attribute, line

    def _method(self, owner: Module, node: Function) -> Method:
        meaning = partial(self._meaning, owner)
        return Method(node.name, node, _span(owner, node), names=owner.names, meaning=meaning)


_HARMLESS = {"dataclass", "final", "runtime_checkable", "total_ordering"}
"""Decorators after which a class has the methods that it is written with."""

_NAMESPACES = {"exec", "eval", "locals", "vars"}
"""What changes a class body that runs where nobody can tell how."""


def _called(statement: ast.stmt) -> Iterator[str]:
    return (node.func.id for node in nodes(statement) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name))


def unreadable(node: ast.ClassDef) -> str | None:
    """Why a class may have other methods than those that it is written with."""
    for decorator in node.decorator_list:
        named = ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)
        if named.rpartition(".")[2] not in _HARMLESS:
            return f"is decorated with {named}"
    for keyword in node.keywords:
        if keyword.arg == "metaclass" and (named := ast.unparse(keyword.value)).rpartition(".")[2] != "ABCMeta":
            return f"is made by the metaclass {named}"
    for each in node.body:
        if "__getattribute__" in bound(each):
            return "decides by its own __getattribute__"
        if not isinstance(each, ast.ClassDef | Function) and (called := _NAMESPACES & {*_called(each)}):
            return f"is changed by {min(called)}()"
    return None


def _span(module: Module, node: ast.ClassDef | Function) -> Span:
    return place(shown(module.path), node.lineno, node.col_offset + 1)


def _end(module: Module, node: ast.ClassDef) -> Span:
    return place(shown(module.path), node.end_lineno or node.lineno, node.col_offset + 1)
