"""What the files of a package must say for every thing of the catalog, as a template set declares it.

Templates make the files, and this says what has to stand in them: `check` holds the one against the other.
"""

from __future__ import annotations

import ast
import string
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "package", "family", "op", "exception", "method", "kernels", "backend", "runtime", "wrapper", "guard", "error"
]

_OF_CATALOG = {"package"}
_FIELDS: Mapping[str, set[str]] = {
    "package": {"features"},
    "family": {"family", "name"},
    "op": {"family", "op", "title", "parameters", "returns", "question", "excepts"},
    "exception": {"family", "op", "constant", "source", "target", "reason"},
    "method": {"family", "op", "method", "title", "parameters", "returns", "forwards"},
    "kernels": {"family", "module", "backend"},
    "backend": {"name", "module", "constant", "id", "cfg", "built", "kernels", "kernel_module", "kernel_class"}
    | {"forwards", "engines", "capable", "wraps", "transfer", "priority", "keys"},
    "runtime": {"backend", "name", "constant", "cfg", "built", "holds", "engines", "capable"},
    "wrapper": {"name", "cfg", "built"},
    "guard": {"name", "parameters", "returns", "value", "answer"},
    "error": {
        "code",
        "when",
        "name",
        "module",
        "new",
        "message",
        "reason",
        "help",
        "cause",
        "before",
        "after",
        "guard",
    },
}
FIELDS: Mapping[str, frozenset[str]] = {kind: frozenset(own | _OF_CATALOG) for kind, own in _FIELDS.items()}
"""The fields of each kind of thing."""
_ARM_FIELDS = frozenset(
    {"op", "method", "module", "backend", "constant", "runtime", "situation", "reason", "value", "kernel", "error"}
)


@dataclass(frozen=True)
class Statement:
    """A piece of code that must stand in a file once for each thing of a kind, and nothing else of that form.

    `in` leads to where: names of classes and variables, keys of dictionaries and keywords of calls, with dots between;
    left out, it is the file itself. `where` names a field that must hold. Texts take the fields of the thing: `{name}`
    as it is, `{name!r}` as a literal.
    """

    file: str
    each: Kind
    code: str
    in_: str = ""
    where: str = ""


@dataclass(frozen=True)
class ArmShape:
    """How the match of a method and its arms are written; each is one expression.

    `match` is what is matched, `variant` a case of it; `runtimes` and `runtime` are the same for a backend that stands
    for several. An arm returns `kernel`, `error`, `value` or `wrapped`. `none` is returned where there is no variant.
    `through` names the function that stands between an arm and the kernel's method.
    """

    match: str
    variant: str
    kernel: str
    error: str
    value: str = ""
    wrapped: str = ""
    none: str = ""
    runtimes: str = ""
    runtime: str = ""
    through: str = ""


def problems(statement: Statement, declared: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Why a statement cannot be looked for; `declared` has the names that stand in brackets, by field."""
    known = FIELDS[statement.each]
    if statement.where and statement.where not in known:
        yield f"{statement.each} has no field `{statement.where}`"
    for text in (statement.file, statement.in_, statement.code):
        yield from _unknown(text, known, declared)


def arm_problems(shape: ArmShape) -> Iterator[str]:
    """Why an arm cannot be looked for."""
    for name, text in vars(shape).items():
        wrong = [*_unknown(text, _ARM_FIELDS, {})]
        yield from wrong
        if text and not wrong and name != "through":
            try:
                ast.parse(string.Formatter().vformat(text, (), _Words()), mode="eval")
            except (SyntaxError, ValueError):
                yield f"`{text}` is no expression"


def form_problems(text: str, *known: str) -> Iterator[str]:
    """Why a text with these fields in it cannot be filled in."""
    wrong = [*_unknown(text, known, {})]
    yield from wrong
    if not wrong:
        try:
            text.format(**dict.fromkeys(known, "word"))
        except (LookupError, ValueError, AttributeError, TypeError) as cause:
            yield f"`{text}` cannot be read: {cause}"


class _Words(dict[str, object]):
    def __missing__(self, key: str) -> str:
        return "word"


def _unknown(text: str, known: Collection[str], declared: Mapping[str, Collection[str]]) -> Iterator[str]:
    try:
        parts = [part for part in string.Formatter().parse(text) if part[1] is not None]
    except ValueError as cause:
        yield f"`{text}` cannot be read: {cause}"
        return
    for _, found, spec, conversion in parts:
        name = found or ""
        if spec or conversion not in (None, "r", "s", "a"):
            yield f"`{text}` cannot be read: `{name}` has more to it than !r or !s"
            continue
        field, bracket, key = name.partition("[")
        if field not in known or (bool(bracket) != (field in declared)):
            yield f"`{{{name}}}` is no field here; there are {', '.join(sorted(known))}"
        elif bracket and key.removesuffix("]") not in declared[field]:
            yield f"`{{{name}}}` speaks of something that is not declared"
