"""Spec against kernels: every promised method is there, takes what it is given, and does something."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dispatchgen.check.classes import Class, Sources, UnreadableError
from dispatchgen.check.signatures import Signature, misfits_in, signatures
from dispatchgen.features import Build
from dispatchgen.findings import Finding, Related, error, note, warning
from dispatchgen.matrix import cells

if TYPE_CHECKING:
    from dispatchgen.check.methods import Method
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


ALONE = "; or else "
"""In the advice about a method that several classes lack: before the place in one of them."""


class _Everything(Build):
    """A build in which every predicate holds: what the catalog promises to anybody."""

    def holds(self, predicate: Predicate) -> bool:
        return True


def check(catalog: Catalog, template_set: TemplateSet, build: Build, sources: Sources) -> Iterator[Finding]:
    """What is wrong between the catalog and the kernels, for the backends of the build, and every exemption as a note."""
    wanted, misfits = signatures(catalog, template_set), misfits_in(sources)
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
        yield from _missing(promise, owner, wanted[promise.method], _shared(lacking, sources), misfits)
    yield from _unknown(classes, wanted, sources)
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


def _missing(
    promise: Promise, owner: Class, wanted: Signature, shared: str, misfits: Callable[[Method, Signature], str | None]
) -> Iterator[Finding]:
    method = owner.methods.get(promise.method)
    related = [Related(promise.op.span, f"{promise.op.name} is declared here")]
    alone = f"to the class {owner.name}, below {owner.end.file}:{owner.end.line}"
    if method is not None and method.is_abstract:
        related.append(Related(method.span, "a base class only says that it has to be there"))
    if method is None or method.is_abstract:
        yield error(
            "DG802",
            f"{promise.backend.name} has no kernel for {promise.op.name}: {owner.name} lacks the method {promise.method}",
            owner.end,
            related=related,
            fix=f"add {shared or alone}: {wanted.advice}" + (f"{ALONE}{alone}" if shared else ""),
        )
        return
    if method.is_stub:
        yield error(
            "DG803",
            f"{promise.backend.name} has no kernel for {promise.op.name}: {promise.method} is a stub",
            method.span,
            related=related,
            fix=f"write what it does: `{wanted.text}`",
        )
    if problem := misfits(method, wanted):
        yield error(
            "DG804",
            f"{promise.method} of {owner.name} {problem}",
            method.span,
            related=related,
            fix=f"write `{wanted.text}`",
        )


def _unknown(classes: dict[str, Class | None], wanted: dict[str, Signature], sources: Sources) -> Iterator[Finding]:
    """The other direction: public methods of kernels that no op forwards to, but for those of installed base classes."""
    known = set(wanted)
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
    named = backend.where("kernels")
    if cause.span is not None:
        told = f"the kernels of {backend.name} cannot be told: {cause}"
        related = [Related(named, f"{backend.name} names them here")]
        return error("DG801", told, cause.span, related=related, fix="correct the module, so that reading it tells")
    return error(
        "DG801",
        f"the kernels of {backend.name} cannot be found: {cause}",
        named,
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
