"""What a generated file takes back of what it says: read as a whole, every name in it stands for one thing, and stays so."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dispatchgen._place import place
from dispatchgen.check.classes import unreadable
from dispatchgen.check.live import bound, nodes
from dispatchgen.check.places import label
from dispatchgen.check.statements import REGENERATE, Spot, parsed
from dispatchgen.findings import Finding, error

if TYPE_CHECKING:
    from dispatchgen.check.things import Things
    from dispatchgen.template_set import TemplateSet

_UNREADABLE = {"globals", "locals", "vars", "exec", "eval", "setattr", "delattr"}
"""Functions that change names where nobody can tell which."""
_CHANGING = {
    "add",
    "append",
    "clear",
    "discard",
    "extend",
    "insert",
    "pop",
    "popitem",
    "remove",
    "reverse",
    "setdefault",
}
_CHANGING |= {"sort", "update", "__delattr__", "__delitem__", "__init__", "__setattr__", "__setitem__"}
"""Methods that change what they are called on."""


def check(
    template_set: TemplateSet, things: Things, spots: Collection[Spot], folder: Path, files: Mapping[str, bytes]
) -> Iterator[Finding]:
    """Every statement at the top of a file that may take back what another one says, where a set tells of its code."""
    if not (template_set.arms or template_set.statements):
        return
    for path, content in files.items():
        tree = parsed(content) if path.endswith(".py") and path not in things.overlaid else None
        if isinstance(tree, ast.Module):
            for statement, told in _undone(tree, _said(spot for spot in spots if spot.file == path)):
                yield error("DG834", told, place(folder / path, statement.lineno), fix=REGENERATE)


def _said(spots: Iterator[Spot]) -> frozenset[str]:
    """The names that a file has to give a value: whether it does so once is told with them."""
    found = set()
    for spot in spots:
        head = spot.path.partition(".")[0]
        found |= {head} if head else {label(_first(code)) for demand in spot.demands for code in demand.codes}
    return frozenset(found)


def _first(code: str) -> ast.AST:
    try:
        return next(iter(ast.parse(code).body), ast.Pass())
    except SyntaxError:
        return ast.Pass()  # the statements say what is wrong


def _undone(tree: ast.Module, said: Collection[str]) -> Iterator[tuple[ast.stmt, str]]:
    given: dict[str, ast.stmt] = {}
    for statement in tree.body:
        for name in dict.fromkeys(bound(statement)):
            if name == "*":
                yield statement, "what is imported by `*` may take the place of anything"
            elif name in given and name not in said:
                yield statement, f"{name} stands for something else than in line {given[name].lineno}"
            elif name not in said and _is_taken(statement, name):
                yield statement, f"{name} is no longer what Python has under that name"
            given.setdefault(name, statement)
        if isinstance(statement, ast.ClassDef) and statement.name in said and (how := unreadable(statement)):
            yield statement, f"the class {statement.name} {how}"
    own = {name for name, statement in given.items() if not isinstance(statement, ast.Import | ast.ImportFrom)}
    for statement in tree.body:
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for changed in dict.fromkeys(filter(None, (_changed(node, own) for node in nodes(statement)))):
                yield statement, f"this may change {changed} after it was made"


def _is_taken(statement: ast.stmt, name: str) -> bool:
    """Whether Python's own thing of that name is given up for something that is no function or class of its own."""
    makes = isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom)
    return not makes and hasattr(builtins, name) and not name.startswith("__")


def _changed(node: ast.AST, own: Collection[str]) -> str | None:
    """What a piece of a statement changes otherwise than by giving a name of the file a value."""
    match node:
        case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
            return ast.unparse(node)
        case ast.Call(func=ast.Name(id=name)) if name in _UNREADABLE:
            return f"what `{name}` reaches"
        case ast.Call(func=ast.Attribute(value=owner, attr=method)) if method in _CHANGING:
            return ast.unparse(owner)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner))) if _root(owner) in own:
            return ast.unparse(owner)
    return None


def _root(node: ast.expr) -> str | None:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
