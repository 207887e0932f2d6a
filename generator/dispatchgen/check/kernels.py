"""Spec against kernels: every promised method is there, takes what it is given, and does something."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dispatchgen.check.classes import Class, Method, Sources, UnreadableError
from dispatchgen.features import Build
from dispatchgen.findings import Finding, Related, error, note, warning
from dispatchgen.imports import imports
from dispatchgen.matrix import cells
from dispatchgen.plan.ops import kernel_signature

if TYPE_CHECKING:
    from dispatchgen.model.catalog import Backend, Catalog, Exemption, Op
    from dispatchgen.predicate import Predicate
    from dispatchgen.template_set import TemplateSet


@dataclass(frozen=True)
class Promise:
    """A kernel method that the catalog promises: for one op, or one direction of it, on one backend."""

    backend: Backend
    op: Op
    method: str
    exemption: Exemption | None


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

    @property
    def advice(self) -> str:
        """What to write."""
        return f"`{self.text}`" + (f"; its names come by `{self.needs}`" if self.needs else "")


ALONE = "; or else "
"""In the advice about a method that several classes lack: before the place in one of them."""


class _Everything(Build):
    """A build in which every predicate holds: what the catalog promises to anybody."""

    def holds(self, predicate: Predicate) -> bool:
        return True


def check(catalog: Catalog, template_set: TemplateSet, build: Build, sources: Sources) -> Iterator[Finding]:
    """What is wrong between the catalog and the kernels, for the backends of the build, and every exemption as a note."""
    signatures = _signatures(catalog, template_set)
    promises = promised(catalog, template_set, build)
    classes: dict[str, Class | None] = {}
    for backend in {promise.backend.name: promise.backend for promise in promises}.values():
        due = any(promise.exemption is None for promise in promises if promise.backend.name == backend.name)
        if backend.kernels is None:
            if due:
                yield _no_kernels(backend)
        elif backend.kernels not in classes:
            try:
                classes[backend.kernels] = sources.find(backend.kernels)
            except UnreadableError as cause:
                classes[backend.kernels] = None
                if due:
                    yield _not_found(backend, cause)
    due_of = [
        (promise, owner)
        for promise in promises
        if promise.exemption is None and (owner := classes.get(promise.backend.kernels or "")) is not None
    ]
    for promise, owner in due_of:
        lacking = [
            other for each, other in due_of if each.method == promise.method and each.method not in other.methods
        ]
        yield from _missing(promise, owner, signatures[promise.method], _shared(lacking, sources))
    yield from _unknown(classes, signatures, sources)
    yield from _exemptions(catalog, promises, promised(catalog, template_set, _Everything(build.features)), classes)


def promised(catalog: Catalog, template_set: TemplateSet, build: Build) -> tuple[Promise, ...]:
    """Every kernel method that some cell of the build would forward to if nothing were exempted."""
    backends = {backend.name: backend for backend in catalog.backends}
    ops = {op.name: op for _, op in catalog.ops}
    exempted = {(each.backend, each.op): each for each in reversed(catalog.exemptions)}
    found: dict[tuple[str, str], Promise] = {}
    for cell in cells(_all_have_kernels(catalog), template_set, build):
        if cell.arm.kind != "kernel":
            continue
        op = ops[cell.op]
        sides = [(cell.backend, op.pair.out if op.pair else op.name)]
        if op.pair and cell.target:
            sides.append((cell.target, op.pair.into))
        for name, method in sides:
            keys = ((name, op.name), (name, None), (None, op.name))
            exemption = next((exempted[key] for key in keys if key in exempted), None)
            found.setdefault((name, method), Promise(backends[name], op, method, exemption))
    return tuple(found.values())


def _all_have_kernels(catalog: Catalog) -> Catalog:
    """The catalog as if nothing were exempted and every backend named kernels."""
    backends = tuple(replace(backend, kernels=backend.kernels or "?:?") for backend in catalog.backends)
    return replace(catalog, backends=backends, exemptions=())


def _signatures(catalog: Catalog, template_set: TemplateSet) -> dict[str, Signature]:
    found = {}
    modules = {module.format(package=catalog.package): names for module, names in template_set.imports.items()}
    for _, op in catalog.ops:
        for method, parameters, returns in kernel_signature(op, template_set):
            text = f"def {method}({', '.join(filter(None, ('self', parameters)))}) -> {returns}:"
            arguments, result = _parsed(text)
            needs = "; ".join(line for line in imports(f"{text} ...", modules, catalog.package).split("\n") if line)
            found[method] = Signature(arguments, result, text, needs)
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


def _shared(lacking: list[Class], sources: Sources) -> str:
    """Where a method can be written once for all classes that lack it, and for which; empty where nowhere."""
    if len(lacking) < 2:
        return ""
    for name, end in lacking[0].lineage.items():
        if all(name in each.lineage for each in lacking) and sources.has(end.file):
            return (
                f"once to the class {name}, below {end.file}:{end.line}, for {', '.join(each.name for each in lacking)}"
            )
    return ""


def _missing(promise: Promise, owner: Class, wanted: Signature, shared: str) -> Iterator[Finding]:
    method = owner.methods.get(promise.method)
    related = [Related(promise.op.span, f"{promise.op.name} is declared here")]
    alone = f"to the class {owner.name}, below {owner.end.file}:{owner.end.line}"
    if method is None:
        yield error(
            "DG802",
            f"{promise.backend.name} has no kernel for {promise.op.name}: {owner.name} lacks the method {promise.method}",
            owner.end,
            related=related,
            fix=f"add {shared or alone}: {wanted.advice}" + (f"{ALONE}{alone}" if shared else ""),
        )
    elif method.is_stub:
        yield error(
            "DG803",
            f"{promise.backend.name} has no kernel for {promise.op.name}: {promise.method} is a stub",
            method.span,
            related=related,
            fix=f"write what it does: `{wanted.text}`",
        )
    elif problem := _misfit(method, wanted):
        yield error(
            "DG804",
            f"{promise.method} of {owner.name} {problem}",
            method.span,
            related=related,
            fix=f"write `{wanted.text}`",
        )


def _misfit(method: Method, wanted: Signature) -> str | None:
    """Why the method cannot be called with what it is given, or None where it can."""
    if not method.is_plain:
        return "is decorated, so nobody can tell by reading what it takes"
    if isinstance(method.node, ast.AsyncFunctionDef):
        return "is asynchronous"
    taken, defaults = _taken(method.node)
    names = [name for name, _ in wanted.parameters]
    needed = [name for name, _ in taken[: len(taken) - min(defaults, len(taken))]]
    if [name for name, _ in taken[: len(names)]] != names or len(needed) > len(names):
        return f"takes ({', '.join(name for name, _ in taken)}), and is called with ({', '.join(names)})"
    required = [
        each.arg
        for each, default in zip(method.node.args.kwonlyargs, method.node.args.kw_defaults, strict=True)
        if default is None
    ]
    if required:
        return f"demands the keyword {required[0]}, which it is not called with"
    for (name, annotation), (_, expected) in zip(taken, wanted.parameters, strict=False):
        if annotation != expected:
            return f"says {name}: {annotation or 'nothing'}, and is called with {expected}"
    returns = _annotation(method.node.returns)
    return (
        None
        if returns == wanted.returns
        else f"gives back {returns or 'nothing that it says'}, and {wanted.returns} is expected"
    )


def _unknown(classes: dict[str, Class | None], signatures: dict[str, Signature], sources: Sources) -> Iterator[Finding]:
    """The other direction: public methods of kernels that no op forwards to, but for those of installed base classes."""
    known = set(signatures)
    strays = {
        method.span: (owner, method)
        for owner in classes.values()
        if owner
        for method in owner.methods.values()
        if method.is_plain and not method.name.startswith("_") and method.name not in known
        if sources.has(method.span.file)
    }
    for span, (owner, method) in strays.items():
        yield warning(
            "DG805",
            f"no op of the catalog forwards to {method.name} of {owner.name}",
            span,
            fix="add the op to the catalog, or begin the name with an underscore",
        )


def _not_found(backend: Backend, cause: UnreadableError) -> Finding:
    return error(
        "DG801",
        f"the kernels of {backend.name} cannot be found: {cause}",
        backend.where("kernels"),
        fix="correct `kernels`, write the class, or add its folder to `sources` in [tool.dispatchgen]",
    )


def _no_kernels(backend: Backend) -> Finding:
    return error(
        "DG806",
        f"the catalog promises operations on {backend.name} and names no kernels for it",
        backend.span,
        fix="add `kernels: module:Class`, or an exemption with a reason and an end",
    )


def _exemptions(
    catalog: Catalog, promises: tuple[Promise, ...], ever: tuple[Promise, ...], classes: dict[str, Class | None]
) -> Iterator[Finding]:
    """A note for each exemption, or an error for one that excuses nothing."""
    for exemption in catalog.exemptions:
        subject = " of ".join(name for name in (exemption.op, exemption.backend) if name)
        if not any(promise.exemption == exemption for promise in ever):
            yield error(
                "DG807",
                f"the exemption of {subject} excuses nothing: the catalog promises no such kernel, or a closer exemption speaks of it",
                exemption.span,
                fix="delete it",
            )
            continue
        excused = [promise for promise in promises if promise.exemption == exemption]
        written = [promise for promise in excused if _is_written(promise, classes)]
        if excused and len(written) == len(excused):
            owners = [(classes.get(each.backend.kernels or ""), each.method) for each in written]
            places = [
                Related(owner.methods[method].span, "the kernel is here")
                for owner, method in owners
                if owner is not None
            ]
            yield error(
                "DG807",
                f"the exemption of {subject} excuses nothing: every kernel is there",
                exemption.span,
                related=places,
                fix="delete it",
            )
            continue
        there = (
            f"; already there: {', '.join(f'{each.backend.name}.{each.method}' for each in written)}" if written else ""
        )
        yield note("DG808", f"exempted until {exemption.until}: {subject}: {exemption.reason}{there}", exemption.span)


def _is_written(promise: Promise, classes: dict[str, Class | None]) -> bool:
    owner = classes.get(promise.backend.kernels or "")
    method = owner.methods.get(promise.method) if owner else None
    return method is not None and not method.is_stub
