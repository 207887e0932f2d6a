"""Signatures that are not what was asked for: each change takes a function and, where it needs one, a parameter."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from dispatchgen.check.bodies import Function

ASYNC = "make a kernel method asynchronous"
"""What is done to the function itself, not to its parameters."""


def _rename(node: Function, place: int) -> None:
    parameter = node.args.args[place + 1]
    parameter.arg += "_other"


def _annotate(node: Function, place: int) -> None:
    node.args.args[place + 1].annotation = ast.Name("object")


def _bare(node: Function, place: int) -> None:
    node.args.args[place + 1].annotation = None


def _default(node: Function, place: int) -> None:
    count = len(node.args.args) - 1 - place
    node.args.defaults = [ast.Constant(None)] * count


def _drop(node: Function, place: int) -> None:
    del node.args.args[place + 1]


def _by_keyword(node: Function, place: int) -> None:
    node.args.kwonlyargs = node.args.args[place + 1 :]
    node.args.kw_defaults = [None] * len(node.args.kwonlyargs)
    node.args.args = node.args.args[: place + 1]


def _by_position(node: Function, place: int) -> None:
    node.args.posonlyargs = node.args.args[: place + 2]
    node.args.args = node.args.args[place + 2 :]


def _reorder(node: Function, place: int) -> None:
    node.args.args = [node.args.args[0], *reversed(node.args.args[1:])]
    if len(node.args.args) == 2:
        node.args.args.reverse()


OF_PARAMETER: Mapping[str, Callable[[Function, int], None]] = {
    "rename a parameter": _rename,
    "change an annotation": _annotate,
    "drop an annotation": _bare,
    "give a default": _default,
    "drop a parameter": _drop,
    "take a parameter by keyword only": _by_keyword,
    "take a parameter by position only": _by_position,
}
"""What can be done to one parameter after self, which is told by its place."""
NEED_PARAMETERS = {"reorder parameters"}
"""What cannot be done where there is none."""


def _returns(node: Function, place: int) -> None:
    node.returns = ast.Name("object")


def _returns_nothing(node: Function, place: int) -> None:
    node.returns = None


def _more(node: Function, place: int) -> None:
    node.args.args.append(ast.arg("more", ast.Name("object")))


def _more_with_default(node: Function, place: int) -> None:
    _more(node, place)
    node.args.defaults = [ast.Constant(None)]


def _anything(node: Function, place: int) -> None:
    node.args.vararg = ast.arg("rest")


def _any_keyword(node: Function, place: int) -> None:
    node.args.kwarg = ast.arg("options")


def _keyword(node: Function, place: int) -> None:
    node.args.kwonlyargs, node.args.kw_defaults = [ast.arg("option")], [ast.Constant(None)]


def _selfless(node: Function, place: int) -> None:
    node.args.args = node.args.args[1:]


def _unchanged(node: Function, place: int) -> None:
    pass


OF_FUNCTION: Mapping[str, Callable[[Function, int], None]] = {
    "reorder parameters": _reorder,
    "change the return annotation": _returns,
    "drop the return annotation": _returns_nothing,
    "take one more": _more,
    "take one more with a default": _more_with_default,
    "take a keyword": _keyword,
    "take anything": _anything,
    "take any keyword": _any_keyword,
    "take no self": _selfless,
    ASYNC: _unchanged,
}
"""What can be done to a signature as a whole."""
