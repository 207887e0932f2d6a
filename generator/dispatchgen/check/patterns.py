"""Pieces of Python with gaps: whether code says what a piece does, layout and docstrings left aside.

`...` as a body, a value, or the last argument of a call stands for anything. A name or text with `ANY` in it stands for
every name or text that reads otherwise alike.
"""

from __future__ import annotations

import ast
import re
from functools import cache

from dispatchgen.check.live import after_docstring

ANY = "__any__"
"""Stands for any name, text or expression, and inside of a name or text for any part of it."""

_IGNORED = {"ctx", "type_comment", "kind", "type_params", "lineno", "col_offset", "end_lineno", "end_col_offset"}


@cache
def expression(code: str) -> ast.expr:
    """The expression that a piece of code is. Raises SyntaxError."""
    return ast.parse(code.strip(), mode="eval").body


@cache
def statement(code: str) -> ast.stmt:
    """The one statement that a piece of code is. Raises SyntaxError."""
    body = ast.parse(code).body
    if len(body) != 1:
        raise SyntaxError(f"it is {len(body)} statements, not one")
    return body[0]


def unlike(pattern: ast.AST, node: ast.AST) -> ast.AST | None:
    """The first piece of the node that the pattern does not say, or None where it says it all."""
    if _is_gap(pattern) or _is_any(pattern):
        return None
    if type(pattern) is not type(node):
        return node
    if isinstance(pattern, ast.Subscript) and any(map(_is_gap, ast.walk(pattern.slice))):
        return None if ast.dump(pattern) == ast.dump(node) else node  # the dots of `tuple[int, ...]` are no gap
    if isinstance(pattern, ast.Call) and isinstance(node, ast.Call) and pattern.args and _is_gap(pattern.args[-1]):
        return _unlike_call(pattern, node)
    for name in pattern._fields:
        if name in _IGNORED:
            continue
        wrong = _unlike_value(getattr(pattern, name, None), getattr(node, name, None), node, name)
        if wrong is not None:
            return wrong
    return None


def _unlike_value(wanted: object, found: object, node: ast.AST, name: str) -> ast.AST | None:
    if isinstance(wanted, ast.AST):
        if not isinstance(found, ast.AST):
            return None if _is_gap(wanted) or _is_any(wanted) else node
        wrong = unlike(wanted, found)
        return wrong if wrong is None or hasattr(wrong, "lineno") else node
    if isinstance(wanted, list) and isinstance(found, list):
        if name == "body":
            found = after_docstring(found)
            if len(wanted) == 1 and isinstance(wanted[0], ast.Expr) and _is_gap(wanted[0].value):
                return None
        if len(wanted) != len(found):
            return node
        pairs = (_unlike_value(one, other, node, "") for one, other in zip(wanted, found, strict=True))
        return next((wrong for wrong in pairs if wrong is not None), None)
    if isinstance(wanted, str) and isinstance(found, str) and ANY in wanted:
        return None if re.fullmatch(re.escape(wanted).replace(ANY, ".*"), found, re.DOTALL) else node
    return None if type(wanted) is type(found) and wanted == found else node


def _unlike_call(pattern: ast.Call, node: ast.Call) -> ast.AST | None:
    """The same for a call with a gap behind its arguments: what it has more is left aside."""
    wrong = unlike(pattern.func, node.func)
    wanted = pattern.args[:-1]
    if wrong is not None or len(node.args) < len(wanted):
        return wrong or node
    for one, other in zip(wanted, node.args, strict=False):
        if (wrong := unlike(one, other)) is not None:
            return wrong
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    for keyword in pattern.keywords:
        if keyword.arg not in given:
            return node
        if (wrong := unlike(keyword.value, given[keyword.arg])) is not None:
            return wrong
    return None


def _is_gap(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _is_any(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=value) | ast.Name(id=value):
            return value == ANY
        case ast.arguments(args=[*_, ast.arg(arg=name)]):
            return name.endswith(ANY)
        case ast.Expr(value=value):
            return _is_any(value)
    return False
