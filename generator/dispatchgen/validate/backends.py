"""Backends, wrappers, and the name of the package."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dispatchgen._names import (
    constant_name,
    family_module,
    is_class_path,
    module_name,
    unusable,
    unusable_module,
    unusable_package,
)
from dispatchgen.features import Build
from dispatchgen.findings import Finding, Related, error, near, warning
from dispatchgen.model.catalog import Backend, Capability, Catalog, Family, Runtime, Wrapper
from dispatchgen.template_set import CapabilityKind, TemplateSet, by_name
from dispatchgen.validate._unique import repeated

LARGEST_ID = 65535


def check(catalog: Catalog, template_set: TemplateSet) -> Iterator[Finding]:
    """Names and ids, and what refers to something that the template set does not declare."""
    yield from _package(catalog, template_set)
    yield from _names(catalog, template_set)
    yield from _paths(catalog, template_set)
    for backend in catalog.backends:
        yield from _backend(backend, catalog, template_set)
    yield from repeated(
        catalog.backends,
        lambda backend: backend.id,
        lambda backend: backend.where("id"),
        "DG303",
        lambda later, first: f"{later.name} has the id {later.id}, which is that of {first.name}",
    )
    yield from repeated(
        catalog.backends,
        lambda backend: backend.priority,
        lambda backend: backend.where("priority"),
        "DG308",
        lambda later, first: f"{later.name} has the priority {later.priority}, which is that of {first.name}",
    )
    kinds = by_name(template_set.wrappers)
    for wrapper in catalog.wrappers:
        if wrapper.name not in kinds:
            message = f"the template set `{template_set.name}` knows no wrapper `{wrapper.name}`"
            yield error("DG307", message, wrapper.span, fix=near(wrapper.name, kinds))


def conflicts(catalog: Catalog, template_set: TemplateSet, build: Build) -> Iterator[Finding]:
    """An error for each backend of the build that stands for the same thing as an earlier one of it."""
    identity = [key.name for key in template_set.backend_keys if key.identity]

    def values(backend: Backend) -> tuple[object, ...] | None:
        found = tuple(backend.keys.get(name) for name in identity)
        return found if any(value is not None for value in found) else None

    def message(later: Backend, first: Backend) -> str:
        same = ", ".join(f"{name}: {later.keys[name]}" for name in identity if name in later.keys)
        return f"this build has both {first.name} and {later.name}, and both are {same}"

    built = [backend for backend in catalog.backends if build.holds(backend.cfg)]
    yield from repeated(built, values, lambda backend: backend.span, "DG309", message)


def _package(catalog: Catalog, template_set: TemplateSet) -> Iterator[Finding]:
    place = catalog.at.get("package")
    if not catalog.package:
        yield error("DG312", "the catalog names no package", place, fix="write package: name, or pass --package")
    elif problem := unusable_package(catalog.package, template_set.taken):
        yield error("DG312", f"the package cannot be called `{catalog.package}`: it {problem}", place)
    for backend in catalog.backends:
        if backend.kernels is not None and re.split("[.:]", backend.kernels)[0] == catalog.package:
            message = (
                f"the generated package and that of the kernels of {backend.name} are both called `{catalog.package}`"
            )
            related = [Related(backend.where("kernels"), "the kernels")]
            yield error("DG312", message, place, related=related, fix="give one of the two another name")
            return


def _names(catalog: Catalog, template_set: TemplateSet) -> Iterator[Finding]:
    """Backends, wrappers and families share the package's names; case alone does not tell them apart."""
    reserved = frozenset(template_set.reserved)
    for backend in catalog.backends:
        if problem := unusable(backend.name, reserved) or unusable_module(module_name(backend.name)):
            yield error("DG301", f"a backend cannot be called `{backend.name}`: it {problem}", backend.span)
        yield from repeated(
            backend.runtimes,
            lambda runtime: constant_name(runtime.name),
            lambda runtime: runtime.span,
            "DG311",
            lambda later, first: (
                f"the runtime `{later.name}` stands twice"
                if later.name == first.name
                else f"the runtime `{later.name}` cannot be told from `{first.name}` in the generated package"
            ),
        )
    for wrapper in catalog.wrappers:
        if problem := unusable(wrapper.name, reserved):
            yield error("DG301", f"a wrapper cannot be called `{wrapper.name}`: it {problem}", wrapper.span)
    things: list[Backend | Wrapper | Family] = [*catalog.backends, *catalog.wrappers, *catalog.families]
    yield from repeated(
        things,
        lambda thing: module_name(thing.name).casefold(),
        lambda thing: thing.span,
        "DG302",
        lambda later, first: f"`{later.name}` cannot be told from `{first.name}` in the generated package",
    )


def _paths(catalog: Catalog, template_set: TemplateSet) -> Iterator[Finding]:
    """Two generated files with one path, where case does not count: not every file system sees it."""
    taken: dict[str, Backend | Family | None] = {
        file.path.casefold(): None for file in template_set.files if not file.each
    }
    for file in template_set.files:
        entries: tuple[Backend | Family, ...] = ()
        if file.each is not None:
            entries = catalog.backends if file.each == "backend" else catalog.families
        for entry in entries:
            module = module_name(entry.name) if isinstance(entry, Backend) else family_module(entry.name)
            path = file.path.replace("{module}", module)
            first = taken.setdefault(path.casefold(), entry)
            if first is not entry and (first is None or module_name(first.name) != module_name(entry.name)):
                message = f"`{entry.name}` becomes the file {path}, which is there already"
                related = [Related(first.span, "first here")] if first else []
                yield error("DG302", message, entry.span, related=related)


def _backend(backend: Backend, catalog: Catalog, template_set: TemplateSet) -> Iterator[Finding]:
    if not 0 <= backend.id <= LARGEST_ID:
        message = f"the id of {backend.name} is {backend.id}; ids are 0 to {LARGEST_ID}"
        yield error("DG304", message, backend.where("id"))
    if backend.kernels is not None and not is_class_path(backend.kernels):
        message = f"`{backend.kernels}` names no class"
        yield error("DG310", message, backend.where("kernels"), fix="write package.module:Class")
    kinds = by_name(template_set.capabilities)
    holders: tuple[Backend | Runtime, ...] = (backend, *backend.runtimes)
    for holder in holders:
        for capability in holder.capabilities.values():
            yield from _engine(capability, kinds[capability.name])
    if backend.runtimes:
        for name in backend.capabilities:
            message = f"{backend.name} has runtimes, so `{name}` is asked of each of them and not of the backend"
            yield error("DG311", message, backend.where(name), fix=f"move `{name}:` to the runtimes that have it")
    promised = dict.fromkeys(name for holder in holders for name in holder.capabilities)
    excused = any(each.backend == backend.name and each.op is None for each in catalog.exemptions)
    if promised and backend.kernels is None and not excused:
        message = f"{backend.name} promises `{', '.join(promised)}` and names no kernels"
        yield warning("DG313", message, backend.span, fix="write kernels: package.module:Class")


def _engine(capability: Capability, kind: CapabilityKind) -> Iterator[Finding]:
    if kind.engines and capability.engine not in kind.engines:
        message = f"`{capability.name}` knows no engine `{capability.engine}`"
        yield error("DG305", message, capability.where("engine"), fix=near(capability.engine, kind.engines))
