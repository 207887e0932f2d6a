"""Places in generated code that hold one thing beside the other: bodies, and literals behind a name."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dispatchgen.check.live import after_docstring, bound
from dispatchgen.check.patterns import expression, statement


@dataclass(frozen=True)
class Place:
    """What stands in one place, and how a piece of code for it is read."""

    node: ast.AST
    elements: tuple[ast.AST, ...]
    read: Callable[[str], ast.AST]
    """Raises SyntaxError."""
    only: bool
    """Whether nothing else can have a reason to stand there, as in a literal."""
    parts: frozenset[ast.AST] = frozenset()
    """The elements that are one of several things that a statement imports."""


def place_in(tree: ast.Module, path: str) -> Place | None:
    """The place that a path leads to; None where it leads nowhere, or to more than one."""
    found: ast.AST | None = tree
    for name in filter(None, path.split(".")):
        found = _step(found, name)
    return None if found is None else _place(found)


def _step(node: ast.AST | None, name: str) -> ast.AST | None:
    match node:
        case ast.Module(body=body) | ast.ClassDef(body=body):
            makers = [each for each in body if name in bound(each)]
            match makers:
                case [ast.ClassDef(decorator_list=[]) as made]:
                    return made
                case [ast.Assign(targets=[ast.Name()], value=value) | ast.AnnAssign(value=ast.expr() as value)]:
                    return _opened(value)
        case ast.Dict(keys=keys, values=values):
            found = [
                value
                for key, value in zip(keys, values, strict=True)
                if isinstance(key, ast.Constant) and key.value == name
            ]
            return _opened(found[0]) if len(found) == 1 else None
        case ast.Call(keywords=keywords):
            given = [each.value for each in keywords if each.arg == name]
            return _opened(given[0]) if len(given) == 1 else None
    return None


def _opened(value: ast.expr) -> ast.expr:
    """The value, or what a call is made of it with alone: the list in `Table([...])`."""
    match value:
        case ast.Call(args=[ast.List() | ast.Tuple() | ast.Set() | ast.Dict() as inner], keywords=[]):
            return inner
    return value


def _place(node: ast.AST) -> Place | None:
    match node:
        case ast.Module(body=body) | ast.ClassDef(body=body):
            elements = [part for each in after_docstring(body) for part in _imported(each)]
            return Place(node, tuple(elements), statement, only=False, parts=frozenset({*elements} - {*body}))
        case ast.Dict(keys=keys, values=values):
            return Place(node, tuple(map(_entry, keys, values)), lambda code: expression(f"{{{code}}}"), only=True)
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return Place(node, tuple(items), expression, only=True)
        case ast.Call(args=arguments, keywords=keywords):
            return Place(node, (*arguments, *keywords), _argument, only=False)
    return None


def _imported(each: ast.stmt) -> Sequence[ast.stmt]:
    """A statement, or what imports several things as one statement for each of them."""
    match each:
        case ast.ImportFrom(module=module, names=[_, _, *_] as names, level=level):
            return [ast.copy_location(ast.ImportFrom(module, [alias], level), alias) for alias in names]
    return [each]


def _entry(key: ast.expr | None, value: ast.expr) -> ast.Dict:
    entry = ast.copy_location(ast.Dict([key], [value]), key or value)
    entry.end_lineno, entry.end_col_offset = value.end_lineno, value.end_col_offset
    return entry


def _argument(code: str) -> ast.AST:
    call = expression(f"_({code})")
    assert isinstance(call, ast.Call)
    found: Sequence[ast.AST] = (*call.args, *call.keywords)
    if len(found) != 1:
        raise SyntaxError("it is not one argument")
    return found[0]


def label(node: ast.AST) -> str:
    """What an element goes by: its name, its key, or for a call what it is given first."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.Assign(targets=[target, *_]) | ast.AnnAssign(target=target):
            return _text(target)
        case ast.stmt() if not isinstance(node, ast.Expr):
            return ", ".join(dict.fromkeys(bound(node)))
        case ast.Dict(keys=[ast.expr() as key]):
            return _text(key)
        case ast.Call(args=[first, *_]):
            return _text(first)
        case ast.Call(keywords=[first, *_]):
            return _text(first.value)
        case ast.keyword(arg=str() as name):
            return name
    return _text(node)


def _text(node: ast.AST) -> str:
    match node:  # the usual ones, for which unparsing takes its time
        case ast.Constant(value=str() as value):
            return repr(value)
        case ast.Name(id=name):
            return name
    return ast.unparse(node)
