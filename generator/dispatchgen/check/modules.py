"""Modules as their source text has them: read by `ast`, never imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from dispatchgen.check.live import decided, taken


@dataclass(frozen=True, eq=False)
class Module:
    """One module: what it says, and where it lies."""

    name: str
    path: Path
    body: tuple[ast.stmt, ...]
    """Its statements that run, those under `if`, `else` and `try` included."""
    conditional: frozenset[ast.stmt]
    """Those of them that run only sometimes: under a condition, or after something failed."""
    imports: tuple[ast.stmt, ...]
    """Its imports, those for the type checker included."""
    raises: ast.stmt | None
    """The statement with which importing it fails, whatever happens."""
    rebound: frozenset[str]
    """The names that its functions set, and `*` where any name may be set."""

    @property
    def package(self) -> str:
        """What relative imports in it are relative to."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]

    @cached_property
    def names(self) -> Mapping[str, str]:
        """What the names that it imports are called where they come from."""
        found = {each.name: f"{self.name}.{each.name}" for each in self.body if isinstance(each, ast.ClassDef)}
        for statement in self.imports:
            match statement:
                case ast.ImportFrom(module=source, names=names, level=level):
                    origin = absolute(self, source, level)
                    found |= {alias.asname or alias.name: f"{origin}.{alias.name}" for alias in names}
                case ast.Import(names=names):
                    found |= {
                        alias.asname
                        or alias.name.partition(".")[0]: alias.name if alias.asname else alias.name.partition(".")[0]
                        for alias in names
                    }
        return found


@lru_cache(maxsize=512)
def parse(
    content: bytes,
) -> tuple[tuple[ast.stmt, ...], frozenset[ast.stmt], tuple[ast.stmt, ...], ast.stmt | None, frozenset[str]]:
    """What a module says, as `Module` has it. Nobody may change it."""
    body = ast.parse(content).body
    flat, conditional = _flattened(body)
    raises = next((each for each in taken(body) if isinstance(each, ast.Raise)), None)
    rebound = frozenset(_rebound(body)) if any(word in content for word in _REBINDING) else frozenset()
    return flat, conditional, tuple(_imports(body)), raises, rebound


_REBINDING = (b"global", b"exec", b"sys.modules")
"""What a text holds at least that sets names of its module otherwise than by a statement of it."""


def _rebound(body: list[ast.stmt]) -> Iterator[str]:
    for node in (node for statement in body for node in ast.walk(statement)):
        match node:
            case ast.Global(names=names):
                yield from names
            case ast.Call(func=ast.Name(id="exec"), args=[_, *names]) if all(map(_is_module, names)):
                yield "*"
            case ast.Call(func=ast.Attribute(value=owner, attr="update" | "setdefault" | "pop")) if _is_module(owner):
                yield "*"
            case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[owner, *_]) if _is_module(owner):
                yield "*"
            case ast.Subscript(value=owner, ctx=ast.Store() | ast.Del()) if _is_module(owner):
                yield "*"


def _is_module(node: ast.expr) -> bool:
    """Whether it is the names of a module, or a module or all of them as the import system has them."""
    return ast.unparse(node).startswith(("globals()", "sys.modules", "vars(sys.modules"))


def _flattened(body: list[ast.stmt]) -> tuple[tuple[ast.stmt, ...], frozenset[ast.stmt]]:
    """The statements of a body, those under `if`, `else` and `try` included; and those that run only sometimes."""
    found = [*_flat(body)]
    return tuple(each for each, _ in found), frozenset(each for each, sometimes in found if sometimes)


def _flat(body: list[ast.stmt], sometimes: bool = False) -> Iterator[tuple[ast.stmt, bool]]:
    for statement in body:
        match statement:
            case ast.If(test=test, body=then, orelse=otherwise):
                holds = decided(test)
                yield from _flat(then, sometimes or holds is None) if holds is not False else ()
                yield from _flat(otherwise, sometimes or holds is None) if holds is not True else ()
            case ast.Try(body=tried, handlers=handlers, orelse=otherwise, finalbody=last):
                for part in (tried, otherwise, last):
                    yield from _flat(part, sometimes)
                for handler in handlers:
                    yield from _flat(handler.body, True)
            case _:
                yield statement, sometimes


def _imports(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        match statement:
            case ast.Import() | ast.ImportFrom():
                yield statement
            case ast.If(body=then, orelse=otherwise) | ast.Try(body=then, orelse=otherwise):
                yield from _imports([*then, *otherwise])


def absolute(module: Module, source: str | None, level: int) -> str:
    """The full name of what `from source import` names in a module, with so many dots before it."""
    if level == 0:
        return source or ""
    package = module.package.split(".")
    base = ".".join(package[: len(package) - level + 1])
    return f"{base}.{source}" if source else base
