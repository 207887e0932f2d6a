"""Classes as their source text has them: found through folders, read by `ast`, never imported."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.metadata import distributions
from pathlib import Path
from urllib.parse import unquote, urlparse

from dispatchgen._place import place
from dispatchgen.check.live import decided
from dispatchgen.check.methods import Function, Method, apply, hollowed, replaced, set_in, set_on_self
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


@dataclass(frozen=True, eq=False)
class _Module:
    name: str
    path: Path
    body: tuple[ast.stmt, ...]
    """Its statements that run, those under `if`, `else` and `try` included."""
    imports: tuple[ast.stmt, ...]
    """Its imports, those for the type checker included."""

    @property
    def package(self) -> str:
        """What relative imports in it are relative to."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]

    @cached_property
    def names(self) -> Mapping[str, str]:
        """What the names that it imports are called where they come from."""
        found: dict[str, str] = {}
        for statement in self.imports:
            match statement:
                case ast.ImportFrom(module=source, names=names, level=level):
                    origin = _absolute(self, source, level)
                    found |= {alias.asname or alias.name: f"{origin}.{alias.name}" for alias in names}
                case ast.Import(names=names):
                    found |= {
                        alias.asname
                        or alias.name.partition(".")[0]: alias.name if alias.asname else alias.name.partition(".")[0]
                        for alias in names
                    }
        return found


class UnreadableError(Exception):
    """A module or class that is not there, or is not Python; says which, and where it was looked for."""


class Sources:
    """Python source below some folders, else on Python's path or in an installed distribution. Read once each."""

    def __init__(self, roots: tuple[Path, ...]) -> None:
        self.roots = roots
        self._path = tuple(Path(entry) for entry in dict.fromkeys(sys.path) if entry)
        self._modules: dict[str, _Module] = {}
        self._places: dict[str, Path | None] = {}

    def find(self, reference: str) -> Class:
        """The class that `module:Class` names. Raises UnreadableError."""
        module, _, name = reference.partition(":")
        found = self._definition(self._module(module), name, frozenset())
        if found is None:
            raise UnreadableError(f"{_shown(self._module(module).path)} has no class {name}")
        owner, node = found
        lineage = {each.name: _end(module, each) for module, each in self._lineage(owner, node)}
        return Class(node.name, _span(owner, node), _end(owner, node), self._methods(owner, node), lineage)

    @property
    def read(self) -> dict[str, Path]:
        """The modules that were read so far, and where each lies."""
        return {name: module.path for name, module in self._modules.items()}

    def has(self, file: str) -> bool:
        """Whether the file lies below one of the folders and not in something that is installed there."""
        path = Path(file).absolute()
        return "site-packages" not in path.parts and any(path.is_relative_to(root.absolute()) for root in self.roots)

    def _module(self, name: str) -> _Module:
        if name not in self._modules:
            path = self.locate(name)
            if path is None:
                looked = ", ".join(_shown(root) for root in self.roots)
                raise UnreadableError(f"there is no module {name} in {looked}, nor where Python looks for modules")
            try:
                tree = ast.parse(path.read_bytes(), str(path))
            except (SyntaxError, ValueError, OSError, RecursionError) as cause:
                raise UnreadableError(f"{_shown(path)} cannot be read as Python: {cause}") from cause
            self._modules[name] = _Module(name, path, tuple(_flat(tree.body)), tuple(_imports(tree.body)))
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

    def locate(self, name: str) -> Path | None:
        """The file of a module, or None where there is none. Metadata is asked only about packages that no folder has."""
        if name not in self._places:
            self._places[name] = self._locate(name)
        return self._places[name]

    def _locate(self, name: str) -> Path | None:
        package = name.partition(".")[0]
        folders = [root for root in (*self.roots, *self._path) if _has(root, package)]
        for root in folders or _installed(package):
            stem = root.joinpath(*name.split("."))
            for candidate in (stem.with_name(f"{stem.name}.py"), stem / "__init__.py"):
                if candidate.is_file():
                    return candidate
        return None

    def _definition(
        self, module: _Module, name: str, seen: frozenset[tuple[str, str]]
    ) -> tuple[_Module, ast.ClassDef] | None:
        """The class statement of a name that the module defines or imports; None where it cannot be followed."""
        if (module.name, name) in seen:
            return None
        seen |= {(module.name, name)}
        head, _, rest = name.partition(".")
        for statement in reversed(module.body):
            match statement:
                case ast.ClassDef(name=defined) if defined == name:
                    return module, statement
                case ast.FunctionDef(name=defined) | ast.AsyncFunctionDef(name=defined) if defined == head:
                    return None
                case ast.Assign(targets=[ast.Name(id=defined)], value=ast.Name() | ast.Attribute() as value) if (
                    defined == head and not rest
                ):
                    return self._definition(module, ast.unparse(value), seen)
                case ast.Assign(targets=targets) | ast.Delete(targets=targets):
                    if any(isinstance(each, ast.Name) and each.id == head for each in targets):
                        return None
                case ast.ImportFrom(module=source, names=names, level=level):
                    for alias in names:
                        if (alias.asname or alias.name) != head:
                            continue
                        origin = _absolute(module, source, level)
                        if not rest:
                            return self._imported(origin, alias.name, seen)
                        return self._imported(f"{origin}.{alias.name}" if origin else alias.name, rest, seen)
                case ast.Import(names=names):
                    for alias in names:
                        bound = alias.asname or alias.name
                        if name.startswith(f"{bound}."):
                            return self._imported(alias.name, name.removeprefix(f"{bound}."), seen)
        return None

    def _imported(
        self, module: str, name: str, seen: frozenset[tuple[str, str]]
    ) -> tuple[_Module, ast.ClassDef] | None:
        if module.partition(".")[0] in sys.stdlib_module_names:
            return None
        try:
            return self._definition(self._module(module), name, seen)
        except UnreadableError:
            return None

    def _lineage(
        self, module: _Module, node: ast.ClassDef, seen: frozenset[ast.ClassDef] = frozenset()
    ) -> list[tuple[_Module, ast.ClassDef]]:
        """The class and its bases in the order in which methods are looked for: a base after all that derive from it."""
        if node in seen:
            return []
        found = [(module, node)]
        for base in node.bases:
            name = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
            definition = self._definition(module, name, frozenset())
            if definition is not None:
                found += self._lineage(*definition, seen | {node})
        return [
            each for place, each in enumerate(found) if all(each[1] is not later for _, later in found[place + 1 :])
        ]

    def _methods(self, module: _Module, node: ast.ClassDef) -> dict[str, Method]:
        """The methods of a class, its own before those of its bases."""
        methods: dict[str, Method] = {}
        for owner, each in reversed(self._lineage(module, node)):
            made = partial(_method, owner)
            apply(each.body, methods, made)
            methods = replaced(methods, set_in(each.name, owner.body))
        methods = replaced(methods, set_on_self(methods))
        functions = {each.name: each for each in module.body if isinstance(each, ast.FunctionDef)}
        return hollowed(methods, functions)


def _method(owner: _Module, node: Function) -> Method:
    return Method(node.name, node, _span(owner, node), names=owner.names)


def default_roots(here: Path) -> tuple[Path, ...]:
    """Where modules are looked for unless somebody says otherwise: the usual folders of a project."""
    return tuple(path for path in (here / "runtime", here / "src", here) if path.is_dir())


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body, those under `if`, `else` and `try` included."""
    for statement in body:
        match statement:
            case ast.If(test=test, body=then, orelse=otherwise):
                holds = decided(test)
                yield from _flat(then) if holds is not False else ()
                yield from _flat(otherwise) if holds is not True else ()
            case ast.Try(body=tried, handlers=handlers, orelse=otherwise, finalbody=finally_):
                for part in (tried, *(handler.body for handler in handlers), otherwise, finally_):
                    yield from _flat(part)
            case _:
                yield statement


def _imports(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        match statement:
            case ast.Import() | ast.ImportFrom():
                yield statement
            case ast.If(body=then, orelse=otherwise) | ast.Try(body=then, orelse=otherwise):
                yield from _imports([*then, *otherwise])


def _absolute(module: _Module, source: str | None, level: int) -> str:
    if level == 0:
        return source or ""
    package = module.package.split(".")
    base = ".".join(package[: len(package) - level + 1])
    return f"{base}.{source}" if source else base


def _span(module: _Module, node: ast.ClassDef | Function) -> Span:
    return place(_shown(module.path), node.lineno, node.col_offset + 1)


def _end(module: _Module, node: ast.ClassDef) -> Span:
    return place(_shown(module.path), node.end_lineno or node.lineno, node.col_offset + 1)


def _shown(path: Path) -> str:
    """The path as people see it: relative where it lies below the current folder."""
    here = os.path.join(os.getcwd(), "")  # asked for every method: paths as objects would cost more than the rest
    absolute = os.path.abspath(path)
    return absolute.removeprefix(here) if absolute.startswith(here) else str(path)


def _has(root: Path, package: str) -> bool:
    return (root / package).is_dir() or (root / f"{package}.py").is_file()


def _installed(package: str) -> Iterator[Path]:
    """Folders in which an installed distribution has the package, by its metadata: for installs in development mode."""
    import json

    for distribution in distributions():
        files = distribution.files or ()
        if any(file.parts[0] == package for file in files):
            yield Path(str(distribution.locate_file("")))
        text = distribution.read_text("direct_url.json")
        url = json.loads(text).get("url", "") if text else ""
        if url.startswith("file:"):
            root = Path(unquote(urlparse(url).path))
            yield from (root, root / "src")
