"""Code that says one thing in the place of another, wherever it stands in what a piece of code leaves open."""

from __future__ import annotations

import ast
from copy import deepcopy

from dispatchgen.check.live import after_docstring


def graft(old: ast.AST, new: ast.AST, node: ast.AST) -> ast.AST:
    """The node, which `old` says, as it is where it says `new`: what `old` leaves open stays."""
    if ast.dump(old) == ast.dump(new):
        return deepcopy(node)
    if type(old) is not type(new) or type(old) is not type(node):
        return deepcopy(new)
    if isinstance(old, ast.Call) and isinstance(new, ast.Call) and isinstance(node, ast.Call):
        return _call(old, new, node)
    made = deepcopy(node)
    for name in old._fields:
        setattr(made, name, _value(getattr(old, name, None), getattr(new, name, None), getattr(node, name, None), name))
    return made


def _value(old: object, new: object, there: object, name: str) -> object:
    if isinstance(old, ast.AST) and isinstance(new, ast.AST) and isinstance(there, ast.AST):
        return graft(old, new, there)
    if isinstance(old, list) and isinstance(new, list) and isinstance(there, list):
        body = after_docstring(there) if name == "body" else there
        if len(old) == len(new) == len(body):
            made = [_value(*each, "") for each in zip(old, new, body, strict=True)]
            return [*there[: len(there) - len(body)], *made]
        if [ast.dump(each) for each in old] == [ast.dump(each) for each in new]:
            return deepcopy(there)
    return deepcopy(there) if old == new else deepcopy(new)


def _call(old: ast.Call, new: ast.Call, node: ast.Call) -> ast.Call:
    """The same for calls, whose pieces may end with a gap: keywords go by their names."""
    made = deepcopy(node)
    made.func = graft(old.func, new.func, node.func)  # type: ignore[assignment]
    for place, (one, other) in enumerate(zip(old.args, new.args, strict=False)):
        if place < len(node.args):
            made.args[place] = graft(one, other, node.args[place])  # type: ignore[call-overload]
    olds, news = ({each.arg: each.value for each in call.keywords} for call in (old, new))
    for keyword in made.keywords:
        if keyword.arg in olds and keyword.arg in news:
            keyword.value = graft(olds[keyword.arg], news[keyword.arg], keyword.value)  # type: ignore[assignment]
    return made
