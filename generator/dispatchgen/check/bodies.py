"""Whether a function does what it is for, as far as reading its body tells."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from dispatchgen.check.live import after_docstring, decided, nodes, taken

Function = ast.FunctionDef | ast.AsyncFunctionDef
Meaning = Callable[[ast.expr], ast.AST | None]
"""What a name or attribute in a function stands for: the function or class, or None where that cannot be followed."""
_DEEPEST = 4
"""How many names that stand for one another are followed."""


def unknown(_: ast.expr) -> None:
    """The meaning of names where nobody looks for it."""


def does_nothing(function: Function) -> bool:
    """Whether a function leaves undone what it is for.

    Its body has only `pass`, constants, `del`, and a `return` of nothing where that is no answer; or it comes to a `raise NotImplementedError`, an
    `assert False` or a `return NotImplemented` whatever happens.
    """
    body = [*taken(after_docstring(function.body))]
    if gives_up(function):
        return True
    answers = _may_be_none(function) and any(isinstance(each, ast.Return) and each.value is not None for each in body)
    return not answers and all(map(_is_idle, body))


def gives_up(function: Function, meaning: Meaning = unknown, deep: int = 0) -> bool:
    """Whether it comes to say that it is not implemented, whatever happens."""
    return _comes_to_nothing(after_docstring(function.body), meaning, deep)


def gives_nothing_back(function: Function) -> bool:
    """Whether it is to give a value back, and neither does so anywhere nor says why not."""
    if function.returns is None or _may_be_none(function):
        return False
    for node in nodes(function):
        match node:
            case ast.Return(value=ast.expr() as value) if not _is_nothing(value):
                return False
            case ast.Raise() | ast.Yield() | ast.YieldFrom():
                return False
    return True


def _may_be_none(function: Function) -> bool:
    if function.returns is None:
        return False
    says = ast.unparse(function.returns).strip("'\"")
    return (
        says.endswith("| None")
        or says.rpartition(".")[2] in ("None", "Any", "object", "NoReturn", "Never")
        or (says.rpartition(".")[2].startswith("Optional["))
    )


def _comes_to_nothing(body: Sequence[ast.stmt], meaning: Meaning, deep: int) -> bool:
    return any(_is_end(each, meaning, deep) for each in taken(body))


def _is_end(statement: ast.stmt, meaning: Meaning, deep: int) -> bool:
    match statement:
        case ast.Raise(exc=ast.expr() as raised):
            return _is_later(raised, meaning, deep)
        case (
            ast.Return(value=ast.expr() as value)
            | ast.Expr(value=value)
            | ast.Assign(value=value)
            | ast.AnnAssign(value=ast.expr() as value)
        ):
            return _is_later(value, meaning, deep) or _calls_end(value, meaning, deep)
        case ast.Assert(test=test):
            return decided(test) is False
        case ast.With(body=body):
            return _comes_to_nothing(body, meaning, deep)
        case ast.While(test=test, body=body):
            return decided(test) is True and _comes_to_nothing(body, meaning, deep)
        case ast.If(body=body, orelse=otherwise):
            return all(_comes_to_nothing(each, meaning, deep) for each in (body, otherwise))
        case ast.Try(body=body, handlers=handlers, finalbody=last):
            caught = all(_comes_to_nothing(each.body, meaning, deep) for each in handlers)
            return _comes_to_nothing(last, meaning, deep) or (_comes_to_nothing(body, meaning, deep) and caught)
        case ast.Match(cases=cases):
            closed = isinstance(cases[-1].pattern, ast.MatchAs) and cases[-1].pattern.pattern is None
            return closed and all(_comes_to_nothing(each.body, meaning, deep) for each in cases)
    return False


def _is_later(value: ast.expr, meaning: Meaning, deep: int) -> bool:
    """Whether it says that something is not implemented: the exception, one that derives from it, or what makes one."""
    called = isinstance(value, ast.Call)
    named = value.func if isinstance(value, ast.Call) else value
    if not isinstance(named, ast.Name | ast.Attribute):
        return False
    if ast.unparse(named).rpartition(".")[2] in ("NotImplementedError", "NotImplemented"):
        return True
    if deep >= _DEEPEST:
        return False
    match meaning(named):
        case ast.ClassDef(bases=bases):
            return any(_is_later(each, meaning, deep + 1) for each in bases)
        case ast.Assign(value=original):
            return _is_later(original, meaning, deep + 1)
        case ast.ImportFrom(names=[ast.alias(name="NotImplementedError")]):
            return True
        case ast.FunctionDef(body=body) if called:
            match [*taken(after_docstring(body))]:
                case [ast.Return(value=ast.expr() as made)]:
                    return _is_later(made, meaning, deep + 1)
    return False


def _calls_end(value: ast.expr, meaning: Meaning, deep: int) -> bool:
    """Whether it is a call of something that gives up itself."""
    match value:
        case ast.Call(func=ast.Name() | ast.Attribute() as called) if deep < _DEEPEST:
            function = meaning(called)
            return isinstance(function, ast.FunctionDef) and gives_up(function, meaning, deep + 1)
    return False


def _is_idle(statement: ast.stmt) -> bool:
    match statement:
        case ast.Pass() | ast.Delete() | ast.Import() | ast.ImportFrom() | ast.Global() | ast.Nonlocal():
            return True
        case ast.FunctionDef(decorator_list=[]) | ast.Expr(value=ast.Constant() | ast.Name() | ast.Attribute()):
            return True
        case ast.Assign(targets=[ast.Name()], value=ast.Constant() | ast.Name() | ast.Lambda()):
            return True
        case ast.Return(value=value):
            return value is None or _is_nothing(value)
        case ast.If(test=ast.Constant() | ast.Name() | ast.Attribute() | ast.Compare(), body=body, orelse=otherwise):
            return all(map(_is_idle, [*body, *otherwise]))
        case ast.Try(body=body, handlers=handlers, orelse=otherwise, finalbody=last):
            inner = [each for handler in handlers for each in handler.body]
            return all(map(_is_idle, [*body, *inner, *otherwise, *last]))
    return False


def _is_nothing(value: ast.expr) -> bool:
    match value:
        case ast.Constant(value=constant):
            return constant is None or constant is ...
        case ast.Call(func=ast.Name(id="cast") | ast.Attribute(attr="cast"), args=[_, inner]):
            return _is_nothing(inner)
    return False
