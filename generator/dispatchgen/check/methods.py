"""The methods that a class body leaves behind when it has run, as reading tells."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from dispatchgen.check.live import after_docstring, decided, nodes, taken
from dispatchgen.node import Span

Function = ast.FunctionDef | ast.AsyncFunctionDef
_CHANGE_NOTHING = {"final", "override"}
"""Decorators that only speak to type checkers."""


@dataclass(frozen=True)
class Method:
    """One method, as it is written."""

    name: str
    node: Function = field(repr=False)
    span: Span
    doubt: str = ""
    """Why it may not be what is called under its name."""
    hollow: bool = False
    """Whether all that it does is to call a stub."""
    names: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Where the names of its module come from, as far as it imports them."""

    @property
    def is_stub(self) -> bool:
        """Whether it does nothing: no statement but constants and `pass`, or it ends with NotImplementedError."""
        return self.hollow or does_nothing(self.node)

    @property
    def is_abstract(self) -> bool:
        """Whether it only says that a class below has to have it."""
        return any("abstract" in ast.unparse(each) for each in self.node.decorator_list)

    @property
    def is_plain(self) -> bool:
        """Whether it is called on an instance: no property, class method or the like."""
        return all(ast.unparse(each).rpartition(".")[2] in _CHANGE_NOTHING for each in self.node.decorator_list)


def does_nothing(function: Function) -> bool:
    """Whether a function leaves undone what it is for.

    Its body has only `pass`, constants, `del`, and a `return` of nothing where that is no answer; or it comes to a `raise NotImplementedError`, an
    `assert False` or a `return NotImplemented` whatever happens.
    """
    body = [*taken(after_docstring(function.body))]
    if any(_gives_up(statement) for statement in body):
        return True
    optional = function.returns is not None and ast.unparse(function.returns).strip("'\"").endswith("| None")
    answers = optional and any(isinstance(each, ast.Return) and each.value is not None for each in body)
    return not answers and all(_is_idle(statement) for statement in body)


def _gives_up(statement: ast.stmt) -> bool:
    match statement:
        case ast.Raise(exc=ast.expr() as raised):
            named = raised.func if isinstance(raised, ast.Call) else raised
            return ast.unparse(named).rpartition(".")[2] == "NotImplementedError"
        case ast.Return(value=ast.Name(id="NotImplemented")):
            return True
        case ast.Assert(test=test):
            return decided(test) is False
    return False


def _is_idle(statement: ast.stmt) -> bool:
    match statement:
        case ast.Pass() | ast.Delete() | ast.Expr(value=ast.Constant() | ast.Name()) | ast.Return(value=None):
            return True
        case ast.Return(value=ast.Constant(value=value)):
            return value is None or value is ...
    return False


def is_generator(function: Function) -> bool:
    """Whether a call gives back something to iterate over, whatever the body computes."""
    left: list[ast.AST] = [*function.body]
    while left:
        node = left.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            left += ast.iter_child_nodes(node)
    return False


def apply(body: Sequence[ast.stmt], methods: dict[str, Method], make: Callable[[Function], Method]) -> None:
    """Change the methods that a class has as a class body does that runs over them."""
    for statement in taken(body):
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                methods[name] = _hollowed(make(statement), methods)
            case ast.Assign(targets=targets, value=ast.Name(id=original)) if original in methods:
                for name in _targets(targets):
                    methods[name] = methods[original]
            case ast.Assign(targets=targets) | ast.Delete(targets=targets):
                for name in _targets(targets):
                    methods.pop(name, None)
            case ast.AnnAssign(target=target, value=ast.expr()):
                for name in _targets([target]):
                    methods.pop(name, None)
            case ast.If(body=then, orelse=otherwise):
                _branched([then, otherwise], methods, make)
            case ast.Try(body=tried, handlers=handlers, orelse=otherwise, finalbody=last):
                _branched([[*tried, *otherwise], *(handler.body for handler in handlers)], methods, make, sure=1)
                apply(last, methods, make)
            case ast.With(body=inner):
                apply(inner, methods, make)
            case ast.For(body=inner, orelse=otherwise) | ast.While(body=inner, orelse=otherwise):
                _branched([inner, []], methods, make)
                apply(otherwise, methods, make)


def _branched(
    branches: Sequence[Sequence[ast.stmt]],
    methods: dict[str, Method],
    make: Callable[[Function], Method],
    sure: int = 0,
) -> None:
    """The same for branches of which one is taken; a method that only some of them have is in doubt.

    The first `sure` ones are what usually happens, and their methods are not.
    """
    outcomes = [dict(methods) for _ in branches]
    for branch, outcome in zip(branches, outcomes, strict=True):
        apply(branch, outcome, make)
    for name in dict.fromkeys(name for outcome in outcomes for name in outcome):
        before = methods.get(name)
        empty = before is not None and (before.is_stub or before.is_abstract)
        found = [outcome[name] for outcome in outcomes if name in outcome and not (empty and outcome[name] is before)]
        if not found:
            continue
        chosen = next((each for each in found if each.is_stub), found[0])
        if len(found) < len(branches) and not any(outcome.get(name) in found for outcome in outcomes[:sure]):
            chosen = replace(chosen, doubt="is there under a condition only")
        methods[name] = chosen
    for name in [name for name in methods if not any(name in outcome for outcome in outcomes)]:
        del methods[name]


def _targets(targets: Iterable[ast.expr]) -> Iterator[str]:
    for target in targets:
        yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


def _hollowed(method: Method, inherited: Mapping[str, Method]) -> Method:
    """The method, marked where all that it does is to call a stub of the bases."""
    match _only_call(method.node):
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=name) if name in inherited:
            return replace(method, hollow=inherited[name].is_stub)
    return method


def hollowed(methods: dict[str, Method], functions: Mapping[str, ast.FunctionDef]) -> dict[str, Method]:
    """The methods of a class, those marked that do nothing but to call a stub of it, or of their module."""
    found = dict(methods)
    for _ in range(3):  # a stub behind a stub behind a stub
        for name, method in found.items():
            match _only_call(method.node):
                case ast.Attribute(value=ast.Name(id="self"), attr=called) if called in found and called != name:
                    found[name] = replace(method, hollow=found[called].is_stub)
                case ast.Name(id=called) if called in functions:
                    found[name] = replace(method, hollow=does_nothing(functions[called]))
    return found


@lru_cache(maxsize=4096)
def _only_call(function: Function) -> ast.expr | None:
    """What a function calls that does nothing else."""
    match [*taken(after_docstring(function.body))]:
        case [ast.Return(value=ast.Call(func=called)) | ast.Expr(value=ast.Call(func=called))]:
            return called
    return None


def replaced(methods: Mapping[str, Method], places: Iterable[tuple[str, int]]) -> dict[str, Method]:
    """The methods of a class, those in doubt whose names are set to something else in these lines."""
    found = dict(methods)
    for attribute, line in places:
        if attribute in found:
            found[attribute] = replace(found[attribute], doubt=f"is replaced in line {line}")
    return found


def set_in(name: str, module: Sequence[ast.stmt]) -> Iterator[tuple[str, int]]:
    """The attributes of a class of that name that its module sets or deletes, and where."""
    for statement in module:
        for node in nodes(statement) if not isinstance(statement, ast.ClassDef | ast.FunctionDef) else ():
            match node:
                case ast.Attribute(value=ast.Name(id=owner), attr=attribute, ctx=ast.Store() | ast.Del()) if (
                    owner == name
                ):
                    yield attribute, node.lineno
                case ast.Call(
                    func=ast.Name(id="setattr" | "delattr"),
                    args=[ast.Name(id=owner), ast.Constant(value=str() as attribute), *_],
                ) if (
                    owner == name
                ):
                    yield attribute, node.lineno


def set_on_self(methods: Mapping[str, Method]) -> Iterator[tuple[str, int]]:
    """The attributes of an instance that the methods of its class set or delete, and where."""
    for method in methods.values():
        yield from _set_by(method.node)


@lru_cache(maxsize=4096)  # classes share methods
def _set_by(function: Function) -> tuple[tuple[str, int], ...]:
    found = []
    for node in nodes(function):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=attribute, ctx=ast.Store() | ast.Del()):
                found.append((attribute, node.lineno))
            case ast.Call(
                func=ast.Name(id="setattr" | "delattr"),
                args=[ast.Name(id="self"), ast.Constant(value=str() as attribute), *_],
            ):
                found.append((attribute, node.lineno))
    return tuple(found)
