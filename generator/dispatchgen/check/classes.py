"""Classes as their source text has them: found through folders, read by `ast`, never imported."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
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
        self._lineages: dict[tuple[str, ast.ClassDef], list[tuple[Module, ast.ClassDef]]] = {}

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
        derived = self._lineage(owner, node)
        for where, each in derived:
            if self.has(str(where.path)) and (how := unreadable(each)):
                told = f"the class {each.name} {how}, so nobody can tell by reading what it has"
                raise UnreadableError(told, _span(where, each))
        modules = self._run_before((module, *(where.name for where, _ in derived)))
        for run in modules:
            if (failing := run.raises) is not None:
                told = f"{shown(run.path)} raises an exception whenever it is imported"
                raise UnreadableError(told, place(shown(run.path), failing.lineno, failing.col_offset + 1))
        lineage = {each.name: _end(where, each) for where, each in derived}
        return Class(node.name, _span(owner, node), _end(owner, node), self._methods(derived, modules), lineage)

    def _run_before(self, names: Iterable[str]) -> tuple[Module, ...]:
        """The modules of the folders that run where modules of these names are imported: they and their packages."""
        parts = [name.split(".") for name in names]
        found = dict.fromkeys(".".join(each[:last]) for each in parts for last in range(1, len(each) + 1))
        return tuple(self._module(name) for name in found if (path := self.locate(name)) and self.has(str(path)))

    def _doubt(self, module: Module, name: str, end: int | None = None) -> None:
        """Raises UnreadableError where it depends what a name of a module stands for, before a statement of it."""
        if {name, "*"} & module.rebound:
            told = f"{name} may be set to something else by a function of {shown(module.path)}"
            raise UnreadableError(f"{told}, so nobody can tell by reading which class it is", place(shown(module.path)))
        *others, made = [each for each in module.body[:end] if name in bound(each)] or [ast.Pass()]
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

    def _is_ours(self, name: str) -> bool:
        """Whether a module, or a package that it is in, lies in the folders."""
        parts = name.split(".")
        packages = (".".join(parts[:last]) for last in range(1, len(parts) + 1))
        return any((path := self.locate(each)) is not None and self.has(str(path)) for each in packages)

    def _module(self, name: str) -> Module:
        if name not in self._modules:
            path = self.locate(name)
            if path is None:
                looked = ", ".join(shown(root) for root in self.roots)
                raise UnreadableError(f"there is no module {name} in {looked}, nor where Python looks for modules")
            try:
                said = parse(self.content(path))
            except (SyntaxError, ValueError, OSError, RecursionError, MemoryError) as cause:
                line, column = (cause.lineno, cause.offset) if isinstance(cause, SyntaxError) else (None, None)
                problem = cause.msg if isinstance(cause, SyntaxError) else str(cause) or "it is nested too deeply"
                at = place(shown(path), line or 1, max(column or 1, 1))
                raise UnreadableError(f"{shown(path)} cannot be read as Python: {problem}", at) from cause
            self._modules[name] = Module(name, path, *said)
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
        match self._made(module, name):
            case (owner, ast.ClassDef() as node):
                return owner, node
        return None

    def _meaning(self, module: Module, named: ast.expr) -> ast.AST | None:
        """What a name or attribute in a module stands for, as far as it can be followed without leaving its project."""
        found = self._made(module, ast.unparse(named), home=module.name.partition(".")[0])
        return found[1] if found else None

    def _made(
        self,
        module: Module,
        name: str,
        seen: frozenset[tuple[str, str, int | None]] = frozenset(),
        home: str = "",
        end: int | None = None,
    ) -> tuple[Module, ast.stmt] | None:
        """The statement that gives a dotted name of a module its value last, and the module in which that stands.

        With a package that is its `home`, a name that comes from another project is where it is imported. With an
        `end`, only so many statements of the module have run.
        """
        if (module.name, name, end) in seen:
            return None
        seen |= {(module.name, name, end)}
        head, _, rest = name.partition(".")
        for at in reversed(range(len(module.body[:end]))):
            statement = module.body[at]
            match statement:
                case ast.ClassDef(name=defined) | ast.FunctionDef(name=defined) if defined == name:
                    return module, statement
                case ast.Assign(targets=[ast.Name(id=defined)], value=value) if (
                    defined == head and not rest and (named := _named(value)) is not None
                ):
                    return self._made(module, ast.unparse(named), seen, home, at) or (module, statement)
                case ast.ImportFrom(module=source, names=names, level=level):
                    for alias in names:
                        if (alias.asname or alias.name) != head:
                            continue
                        origin = absolute(module, source, level)
                        if not rest:
                            found = self._imported(origin, alias.name, seen, home)
                        else:
                            found = self._imported(f"{origin}.{alias.name}" if origin else alias.name, rest, seen, home)
                        return found or (module, ast.ImportFrom(source, [alias], level))
                case ast.Import(names=names):
                    for alias in names:
                        given = alias.asname or alias.name
                        if name.startswith(f"{given}."):
                            found = self._imported(alias.name, name.removeprefix(f"{given}."), seen, home)
                            return found or (module, ast.Import([alias]))
            if {head, "*"} & {*bound(statement)}:
                return None
        return None

    def _imported(
        self, module: str, name: str, seen: frozenset[tuple[str, str, int | None]], home: str
    ) -> tuple[Module, ast.stmt] | None:
        package = module.partition(".")[0]
        if package in sys.stdlib_module_names or (home and package != home and not self._is_ours(package)):
            return None
        try:
            return self._made(self._module(module), name, seen, home)
        except UnreadableError:
            return None

    def _base(self, module: Module, node: ast.ClassDef, base: ast.expr) -> tuple[Module, ast.ClassDef] | None:
        """The class statement of a base; None for one that comes from elsewhere.

        Raises UnreadableError where a class of the folders has a base of which reading does not tell what it is.
        """
        named = _named(base)
        name, end = ast.unparse(named or base), module.body.index(node)
        made = self._made(module, name, end=end) if named else None
        if self.has(str(module.path)):
            if not self._is_told(made, named or base, module.body[:end]):
                told = (
                    f"the class {node.name} derives from {ast.unparse(base)}, so nobody can tell by reading what it has"
                )
                raise UnreadableError(told, _span(module, node))
            if made is not None and self.has(str(made[0].path)):
                self._doubt(module, name.partition(".")[0], end)
        match made:
            case (owner, ast.ClassDef() as found):
                return owner, found
        return None

    def _is_told(self, made: tuple[Module, ast.stmt] | None, named: ast.expr, before: Iterable[ast.stmt]) -> bool:
        """Whether a base is a class that was found, or surely one of another project or of Python."""
        match made, named:
            case (_, ast.ClassDef()), _:
                return True
            case (module, ast.ImportFrom(module=source, level=level)), _:
                return not self._is_ours(absolute(module, source, level))
            case (_, ast.Import(names=[alias])), _:
                return not self._is_ours(alias.name)
            case (_, ast.Assign(value=value)), _:
                return hasattr(builtins, ast.unparse(_named(value) or value))
            case None, ast.Name(id=name):
                return hasattr(builtins, name) or not any({name, "*"} & {*bound(each)} for each in before)
            case None, ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                return name in ("NamedTuple", "namedtuple")
        return False

    def _lineage(
        self, module: Module, node: ast.ClassDef, seen: frozenset[tuple[str, ast.ClassDef]] = frozenset()
    ) -> list[tuple[Module, ast.ClassDef]]:
        """The class and its bases in the order in which methods are looked for: a base after all that derive from it."""
        known = (module.name, node)  # modules that hold the same share what was parsed
        if known in seen:
            return []
        if known in self._lineages:
            return self._lineages[known]
        found = [(module, node)]
        for base in node.bases:
            if (definition := self._base(module, node, base)) is not None:
                found += self._lineage(*definition, seen | {known})
        last = {(owner.name, each): (owner, each) for owner, each in reversed(found)}
        self._lineages[known] = [*reversed(last.values())]
        return self._lineages[known]

    def _methods(self, lineage: Sequence[tuple[Module, ast.ClassDef]], modules: Iterable[Module]) -> dict[str, Method]:
        """The methods of a class, its own before those of its bases, as these modules and its own leave them."""
        methods: dict[str, Method] = {}
        run = {each.name: each for each in (*(where for where, _ in lineage), *modules)}.values()
        for owner, each in reversed(lineage):
            apply(each.body, methods, partial(self._method, owner))
            methods = replaced(methods, self._patched(owner, each, run, methods))
        return hollowed(replaced(methods, set_on_self(methods)))

    def _patched(
        self, owner: Module, node: ast.ClassDef, modules: Iterable[Module], methods: Container[str]
    ) -> Iterator[tuple[str | None, int]]:
        """Those of its methods that these modules set or delete after a class was made, and where."""
        for module in modules:
            for name, attribute, line in patches(module.body):
                if attribute is not None and attribute not in methods:
                    continue
                made = self._definition(module, name)
                if made is not None and (made[0].name, made[1]) == (owner.name, node):
                    yield attribute, line

    def _method(self, owner: Module, node: Function) -> Method:
        meaning = partial(self._meaning, owner)
        return Method(node.name, node, _span(owner, node), names=owner.names, meaning=meaning)


_HARMLESS = {"dataclass", "final", "runtime_checkable", "total_ordering"}
"""Decorators after which a class has the methods that it is written with."""

_NAMESPACES = {"exec", "eval", "locals", "vars"}
"""What changes a class body that runs where nobody can tell how."""


def _named(value: ast.expr) -> ast.Name | ast.Attribute | None:
    """The name or attribute that a value is, or that it is a subscript of, as generic classes are."""
    named = value.value if isinstance(value, ast.Subscript) else value
    return named if isinstance(named, ast.Name | ast.Attribute) else None


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
