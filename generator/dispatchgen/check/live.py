"""Which code can run, as far as reading tells: not what stands behind a plainly false condition or after a return."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import lru_cache

_ENDS = (ast.Return, ast.Raise, ast.Break, ast.Continue)


def decided(test: ast.expr) -> bool | None:
    """What a condition is in every run of the program, or None where that depends. Type checkers do not run."""
    match test:
        case ast.Constant(value=value):
            return bool(value)
        case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
            return False
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = decided(operand)
            return None if inner is None else not inner
        case ast.BoolOp(op=op, values=values):
            found = [decided(each) for each in values]
            settles = isinstance(op, ast.Or)
            if settles in found:
                return settles
            return None if None in found else not settles
    return None


def taken(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body in order, up to one that leaves it; plain conditions give way to their branch."""
    for statement in body:
        match statement:
            case ast.If(test=test, body=then, orelse=otherwise) if (holds := decided(test)) is not None:
                chosen = [*taken(then if holds else otherwise)]
                yield from chosen
                if chosen and isinstance(chosen[-1], _ENDS):
                    return
            case ast.While(test=test, orelse=otherwise) if decided(test) is False:
                yield from taken(otherwise)
            case _:
                yield statement
                if isinstance(statement, _ENDS) or _is_endless(statement):
                    return


def _is_endless(statement: ast.stmt) -> bool:
    """Whether it is a loop that nothing but a return or an exception ends, as far as reading tells."""
    match statement:
        case ast.While(test=test, body=body):
            return decided(test) is True and not any(
                isinstance(node, ast.Break) for each in body for node in ast.walk(each)
            )
    return False


def nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The node and everything inside of it that can run, in the order of the text."""
    left = [node]
    while left:
        node = left.pop()
        yield node
        if isinstance(node, ast.IfExp) and (holds := decided(node.test)) is not None:
            left.append(node.body if holds else node.orelse)
            continue
        if isinstance(node, ast.BoolOp):
            settles = isinstance(node.op, ast.Or)
            last = next((place for place, each in enumerate(node.values) if decided(each) is settles), len(node.values))
            left += reversed(node.values[: last + 1])
            continue
        inner: list[ast.AST] = []
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, ast.AST):
                inner.append(value)
            elif isinstance(value, list):
                inner += taken(value) if value and isinstance(value[0], ast.stmt) else value
        left += reversed([each for each in inner if isinstance(each, ast.AST)])


@lru_cache(maxsize=65536)  # asked for every place of a file
def bound(statement: ast.AST) -> tuple[str, ...]:
    """The names that a statement of a module or class gives a value or takes one from, whatever stands inside of it."""
    return tuple(_bound(statement))


def _bound(statement: ast.AST) -> Iterator[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in names)
        case ast.AnnAssign(value=None):
            return
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return
        case (
            ast.ExceptHandler(name=str() as name) | ast.MatchAs(name=str() as name) | ast.MatchStar(name=str() as name)
        ):
            yield name
            yield from (each for inner in ast.iter_child_nodes(statement) for each in _bound(inner))
        case _:
            yield from (each for inner in ast.iter_child_nodes(statement) for each in _bound(inner))


def after_docstring(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statements of a body without its docstring."""
    match body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            return [*rest]
    return [*body]
