"""What a kernel method is called with, and why one that is written is not that."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dispatchgen.check.classes import Sources
from dispatchgen.check.methods import Method, is_generator
from dispatchgen.imports import imports
from dispatchgen.plan.ops import kernel_signature

if TYPE_CHECKING:
    from dispatchgen.model.catalog import Catalog
    from dispatchgen.template_set import TemplateSet


@dataclass(frozen=True)
class Signature:
    """What a kernel method is called with, by position, and gives back."""

    parameters: tuple[tuple[str, str], ...]
    """Name and annotation of each parameter after self."""
    returns: str
    text: str
    """As a line of Python."""
    needs: str
    """The lines that import the names in it."""
    names: Mapping[str, str]
    """Where the names come from that the template set imports."""
    package: str
    """The one that is generated."""

    @property
    def advice(self) -> str:
        """What to write."""
        return f"`{self.text}`" + (f"; its names come by `{self.needs}`" if self.needs else "")


def signatures(catalog: Catalog, template_set: TemplateSet) -> dict[str, Signature]:
    """What each kernel method of the catalog is called with."""
    found = {}
    modules = {module.format(package=catalog.package): names for module, names in template_set.imports.items()}
    origins = {module.partition(".")[0]: module.partition(".")[0] for module in modules}
    for module, given in modules.items():
        for original, _, alias in (name.partition(" as ") for name in given):
            origins[alias or original] = f"{module}.{original}"
    for _, op in catalog.ops:
        for method, parameters, returns in kernel_signature(op, template_set):
            text = f"def {method}({', '.join(filter(None, ('self', parameters)))}) -> {returns}:"
            arguments, result = _parsed(text)
            needs = "; ".join(line for line in imports(f"{text} ...", modules, catalog.package).split("\n") if line)
            found[method] = Signature(arguments, result, text, needs, origins, catalog.package)
    return found


def _parsed(text: str) -> tuple[tuple[tuple[str, str], ...], str]:
    function = ast.parse(f"{text} ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    return tuple(_taken(function)[0]), _annotation(function.returns)


def _taken(function: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[list[tuple[str, str]], int]:
    """The parameters after self that can be passed by position, and how many of them have a default."""
    arguments = [*function.args.posonlyargs, *function.args.args][1:]
    return [(each.arg, _annotation(each.annotation)) for each in arguments], len(function.args.defaults)


def _annotation(node: ast.expr | None) -> str:
    """An annotation as text: unquoted, names without the modules they come from, Optional as `| None`."""
    if node is None:
        return ""
    match node:
        case ast.Constant(value=str() as quoted):
            try:
                node = ast.parse(quoted, mode="eval").body
            except SyntaxError:
                return quoted
    return ast.unparse(_Bare().visit(node))


class _Bare(ast.NodeTransformer):
    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return ast.Name(node.attr)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id == "Optional":
            return ast.BinOp(node.slice, ast.BitOr(), ast.Constant(None))
        return node


def misfit(method: Method, wanted: Signature) -> str | None:
    """Why the method is not what it is called as, or None where it is.

    As mypy's stubtest compares: names, order and kinds of the parameters, defaults, annotations. A parameter with an
    underscore before its name and a default is the method's own affair.
    """
    if method.doubt:
        return method.doubt
    if not method.is_plain:
        return "is decorated, so nobody can tell by reading what it takes"
    if isinstance(method.node, ast.AsyncFunctionDef):
        return "is asynchronous"
    if is_generator(method.node):
        return "is a generator: a call runs nothing of it"
    arguments = method.node.args
    if not (arguments.posonlyargs or arguments.args):
        return "takes no self"
    taken, defaults = _taken(method.node)
    names = [name for name, _ in wanted.parameters]
    optional = [name for name, _ in taken[len(taken) - min(defaults, len(taken)) :]]
    beyond = [name for name, _ in taken[len(names) :] if not (name in optional and name.startswith("_"))]
    if [name for name, _ in taken[: len(names)]] != names or beyond:
        return f"takes ({', '.join(name for name, _ in taken)}), and is called with ({', '.join(names)})"
    if given := [name for name in names if name in optional]:
        return f"gives {given[0]} a default, and the catalog gives none"
    if len(arguments.posonlyargs) > 1:
        return f"takes {arguments.posonlyargs[1].arg} by position only"
    if rest := [f"{stars}{each.arg}" for stars, each in (("*", arguments.vararg), ("**", arguments.kwarg)) if each]:
        return f"takes {rest[0]}, so nobody can tell by reading what it takes"
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is None:
            return f"demands the keyword {each.arg}, which it is not called with"
        if not each.arg.startswith("_"):
            return f"takes the keyword {each.arg}, which it is not called with"
    for (name, annotation), (_, expected) in zip(taken, wanted.parameters, strict=False):
        if annotation != expected:
            return f"says {name}: {annotation or 'nothing'}, and is called with {expected}"
    returns = _annotation(method.node.returns)
    return (
        None
        if returns == wanted.returns
        else f"gives back {returns or 'nothing that it says'}, and {wanted.returns} is expected"
    )


def misfits_in(sources: Sources) -> Callable[[Method, Signature], str | None]:
    """What tells why a method is not what it is called as; classes share methods, and are told the same."""
    known: dict[tuple[str, str], str | None] = {}

    def told(method: Method, wanted: Signature) -> str | None:
        key = (f"{method.span} {method.doubt}", wanted.text)
        if key not in known:
            known[key] = misfit(method, wanted) or elsewhere(method, wanted, sources)
        return known[key]

    return told


def elsewhere(method: Method, wanted: Signature, sources: Sources) -> str | None:
    """Why an annotation that reads as it should means something else, because its name is that of another package.

    A name of the generated package is left aside: kernels cannot import it, and take what it derives from.
    """
    expected = ast.parse(f"{wanted.text} ...").body[0]
    assert isinstance(expected, ast.FunctionDef)
    count = len(wanted.parameters)
    for own, theirs in zip(_annotations(method.node, count), _annotations(expected, count), strict=True):
        for one, other in zip(_dotted(own, method.names), _dotted(theirs, wanted.names), strict=False):
            if not (one and other) or _package(other) in (wanted.package, _package(one)):
                continue
            if _package(other) != _package(sources.origin(one)):
                return f"means {sources.origin(one)}, and {other} is expected"
    return None


def _annotations(function: ast.FunctionDef | ast.AsyncFunctionDef, count: int) -> Iterator[ast.expr]:
    """The annotations of so many parameters after self, and of the result."""
    arguments = [*function.args.posonlyargs, *function.args.args][1 : count + 1]
    for annotation in [*(each.annotation for each in arguments), function.returns]:
        match annotation:
            case ast.Constant(value=str() as quoted):
                yield ast.parse(quoted, mode="eval").body
            case ast.expr():
                yield annotation


def _dotted(node: ast.expr, names: Mapping[str, str]) -> Iterator[str | None]:
    """The names in an annotation as they are called where they come from; None for one that nobody imports."""
    match node:
        case ast.Name() | ast.Attribute():
            head, dot, rest = ast.unparse(node).partition(".")
            yield f"{names[head]}{dot}{rest}" if head in names else None
        case _:
            for each in ast.iter_child_nodes(node):
                if isinstance(each, ast.expr):
                    yield from _dotted(each, names)


def _package(name: str) -> str:
    return name.partition(".")[0]
