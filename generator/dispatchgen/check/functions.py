"""The functions of generated modules: which one a name stands for, and what it uses."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dispatchgen.check.live import bound, decided, nodes


@dataclass(frozen=True)
class Functions:
    """The functions that some modules have at their top, and what else gives names a value there."""

    plain: Mapping[str, tuple[Path, ast.FunctionDef]]
    binding: Mapping[str, list[tuple[Path, ast.stmt]]]
    """The statements that give each name a value, in order."""
    bodies: list[tuple[Path, ast.FunctionDef]]
    """Every function that has to have a body, at whatever depth."""

    @classmethod
    def of(cls, trees: Mapping[Path, ast.Module]) -> Functions:
        """What the modules have."""
        plain: dict[str, tuple[Path, ast.FunctionDef]] = {}
        binding: dict[str, list[tuple[Path, ast.stmt]]] = {}
        bodies: list[tuple[Path, ast.FunctionDef]] = []
        for path, tree in trees.items():
            for statement in tree.body:
                for name in bound(statement):
                    binding.setdefault(name, []).append((path, statement))
                if isinstance(statement, ast.FunctionDef):
                    plain.setdefault(statement.name, (path, statement))
            bodies += [(path, function) for function in _with_body(tree)]
        return cls(plain, binding, bodies)

    def named(self, name: str) -> tuple[Path, ast.FunctionDef] | None:
        """The first function of that name, and where it stands."""
        return self.plain.get(name)

    def doubts(self, name: str) -> Iterator[tuple[Path, ast.stmt, str]]:
        """Why the first function of a name may not be the one that is called under it."""
        path, function = self.plain[name]
        if function.decorator_list:
            yield path, function, "is decorated, so nobody can tell by reading what it does"
        for other, statement in self.binding[name]:
            if statement is not function:
                yield other, statement, "stands for something else too"


def calls(function: ast.FunctionDef, known: Mapping[str, str]) -> dict[str, list[ast.expr]]:
    """Where a function uses each of the known methods, in code that can run: as an attribute or a global name.

    To set or delete one, or only to name it, is no use.
    """
    found: dict[str, list[ast.expr]] = {}
    inside = [*nodes(function)]
    named = [node.value for node in inside if isinstance(node, ast.Expr)]
    own = {node.arg for node in inside if isinstance(node, ast.arg)}
    own |= {node.name for node in inside if isinstance(node, ast.FunctionDef) and node is not function}
    own |= {node.id for node in inside if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    for node in inside:
        if node in named:
            continue
        if isinstance(node, ast.Attribute) and node.attr in known and isinstance(node.ctx, ast.Load):
            found.setdefault(known[node.attr], []).append(node)
        elif isinstance(node, ast.Name) and node.id in known and node.id not in own:
            found.setdefault(known[node.id], []).append(node)
    return found


def astray(used: Mapping[str, list[ast.expr]], methods: Sequence[str]) -> Iterator[ast.expr]:
    """The uses of other methods of the very values of which the right ones are used."""
    owners = {
        ast.dump(node.value) for each in methods for node in used.get(each, ()) if isinstance(node, ast.Attribute)
    }
    for method, uses in used.items():
        for node in uses:
            if method not in methods and isinstance(node, ast.Attribute) and ast.dump(node.value) in owners:
                yield node


def suspects(used: Mapping[str, list[ast.expr]], methods: Sequence[str]) -> list[ast.expr]:
    """The uses that may stand where the use of a missing method belongs: of other methods, else those that repeat."""
    others = [node for method, uses in used.items() if method not in methods for node in uses]
    return others or [node for uses in used.values() if len(uses) > 1 for node in uses]


def _with_body(node: ast.AST) -> Iterator[ast.FunctionDef]:
    """The functions inside, but for those that only say what a protocol demands, and those that never run."""
    match node:
        case ast.ClassDef(bases=bases) if any("Protocol" in ast.unparse(base) for base in bases):
            return
        case ast.If(test=test) if decided(test) is False:
            return
        case ast.FunctionDef():
            yield node
    for each in [*getattr(node, "body", ()), *getattr(node, "orelse", ())]:
        yield from _with_body(each)
