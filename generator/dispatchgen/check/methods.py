"""The methods that a class body leaves behind when it has run, as reading tells."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from dispatchgen.check.bodies import Function, Meaning, does_nothing, gives_nothing_back, gives_up, unknown
from dispatchgen.check.live import after_docstring, bound, nodes, taken
from dispatchgen.node import Span

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
    meaning: Meaning = field(default=unknown, repr=False, compare=False)
    """What the names of its module stand for."""

    @property
    def is_stub(self) -> bool:
        """Whether it does nothing: no statement but constants and `pass`, or it ends with NotImplementedError."""
        return self.hollow or does_nothing(self.node) or (self.is_plain and self._gives_nothing_back)

    @property
    def _gives_nothing_back(self) -> bool:
        return isinstance(self.node, ast.FunctionDef) and gives_nothing_back(self.node)

    @property
    def is_abstract(self) -> bool:
        """Whether it only says that a class below has to have it."""
        return any("abstract" in ast.unparse(each) for each in self.node.decorator_list)

    @property
    def is_plain(self) -> bool:
        """Whether it is called on an instance: no property, class method or the like."""
        return all(ast.unparse(each).rpartition(".")[2] in _CHANGE_NOTHING for each in self.node.decorator_list)


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
            case ast.With(items=items, body=inner):
                _lose((name for each in items for name in bound(each)), methods)
                apply(inner, methods, make)
            case ast.For(body=inner, orelse=otherwise) | ast.While(body=inner, orelse=otherwise):
                _lose(bound(statement.target) if isinstance(statement, ast.For) else (), methods)
                _branched([inner, []], methods, make)
                apply(otherwise, methods, make)
            case ast.Match(cases=cases):
                _lose((name for each in cases for name in bound(each.pattern)), methods)
                _branched([*(each.body for each in cases), []], methods, make)
            case ast.AnnAssign(value=None):
                pass
            case _:
                _lose(bound(statement), methods)


def _lose(names: Iterable[str], methods: dict[str, Method]) -> None:
    """Forget methods whose names stand for something else from here on."""
    for name in names:
        methods.pop(name, None)


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


def hollowed(methods: dict[str, Method]) -> dict[str, Method]:
    """The methods of a class, those marked that do nothing but to call a stub of it, or of their module, or come to one."""
    found = dict(methods)
    for _ in range(3):  # a stub behind a stub behind a stub
        more = {
            name: replace(method, hollow=True)
            for name, method in found.items()
            if not method.hollow and (_comes_to_a_stub(method, found) or _only_calls_a_stub(method, found))
        }
        if not more:
            break
        found |= more
    return found


def _comes_to_a_stub(method: Method, methods: Mapping[str, Method]) -> bool:
    inside = {each.name: each for each in method.node.body if isinstance(each, ast.FunctionDef)}

    def meaning(named: ast.expr) -> ast.AST | None:
        match named:
            case ast.Attribute(value=ast.Name(id="self"), attr=called):
                return methods[called].node if called in methods and called != method.name else None
            case ast.Name(id=called) if called in inside:
                return inside[called]
        return method.meaning(named)

    return gives_up(method.node, meaning)


def _only_calls_a_stub(method: Method, methods: Mapping[str, Method]) -> bool:
    match _only_call(method.node):
        case ast.Attribute(value=ast.Name(id="self"), attr=called) if called in methods and called != method.name:
            return methods[called].is_stub
        case ast.Name() | ast.Attribute() as called:
            function = method.meaning(called)
            return isinstance(function, ast.FunctionDef) and does_nothing(function)
    return False


@lru_cache(maxsize=4096)
def _only_call(function: Function) -> ast.expr | None:
    """What a function calls that does nothing else."""
    match [*taken(after_docstring(function.body))]:
        case [ast.Return(value=ast.Call(func=called)) | ast.Expr(value=ast.Call(func=called))]:
            return called
    return None


def replaced(methods: Mapping[str, Method], places: Iterable[tuple[str | None, int]]) -> dict[str, Method]:
    """The methods of a class, those in doubt whose names are set to something else in these lines; None is any name."""
    found = dict(methods)
    for attribute, line in places:
        for name in [*found] if attribute is None else [attribute]:
            if name in found:
                found[name] = replace(found[name], doubt=f"is replaced in line {line}")
    return found


Patch = tuple[str, str | None, int]
"""What a class is called, the attribute of it that is set or deleted, where reading tells, and the line."""


@lru_cache(maxsize=4096)  # asked for every class of a module
def patches(module: tuple[ast.stmt, ...]) -> tuple[Patch, ...]:
    """What a module sets or deletes of its classes after they were made, in a function of it too."""
    found = ((node, _patch(node)) for statement in module for node in nodes(statement))
    return tuple(
        (ast.unparse(owner), attribute, getattr(node, "lineno", 1))
        for node, (owner, attribute) in found
        if isinstance(owner, ast.Name | ast.Attribute) and not ast.unparse(owner).startswith("self.")
    )


_ALL = ("__bases__", "__class__", "__dict__")
"""Attributes with which all others change."""


def _patch(node: ast.AST) -> tuple[ast.expr | None, str | None]:
    """What has an attribute set or deleted in this place, and which, None where any; nothing where none is."""
    match node:
        case ast.Attribute(value=owner, attr=attribute, ctx=ast.Store() | ast.Del()):
            return owner, None if attribute in _ALL else attribute
        case ast.Call(
            func=ast.Name(id="setattr" | "delattr") | ast.Attribute(attr="__setattr__" | "__delattr__"),
            args=[owner, attribute, *_],
        ):
            return owner, _text(attribute)
        case ast.Subscript(
            value=ast.Attribute(value=owner, attr="__dict__") | ast.Call(func=ast.Name(id="vars"), args=[owner]),
            slice=attribute,
            ctx=ast.Store() | ast.Del(),
        ):
            return owner, _text(attribute)
    return None, None


def _text(value: ast.expr) -> str | None:
    match value:
        case ast.Constant(value=str() as text):
            return text
    return None


def set_on_self(methods: Mapping[str, Method]) -> Iterator[tuple[str, int]]:
    """The attributes of an instance or of its class that the methods of the class set or delete, and where."""
    for method in methods.values():
        yield from _set_by(method.node)


@lru_cache(maxsize=4096)  # classes share methods
def _set_by(function: Function) -> tuple[tuple[str, int], ...]:
    own = next((each.arg for each in (*function.args.posonlyargs, *function.args.args)), "self")
    found = ((node, _patch(node)) for node in nodes(function))
    return tuple(
        (attribute, getattr(node, "lineno", 1))
        for node, (owner, attribute) in found
        if owner is not None and attribute is not None and _is_own(owner, own)
    )


def _is_own(owner: ast.expr, own: str) -> bool:
    """Whether it is the first argument of a method, or the class of that."""
    match owner:
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id=name), attr="__class__"):
            return name == own
        case ast.Call(func=ast.Name(id="type"), args=[ast.Name(id=name)]):
            return name == own
    return False
