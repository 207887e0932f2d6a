"""Why an operation does what it does on a backend: the facts of the catalog behind one cell of the matrix, with places."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dispatchgen.features import Build, missing
from dispatchgen.findings import near
from dispatchgen.matrix import Cell
from dispatchgen.predicate import Explained, Predicate, explain

if TYPE_CHECKING:
    from dispatchgen.model.catalog import Backend, Catalog, Entry, ErrorEntry, Op
    from dispatchgen.source import Span
    from dispatchgen.template_set import TemplateSet

_DEVICE = re.compile(
    r"(?:(?P<wrapper>\w+)\()?(?P<name>[A-Za-z_][\w+.-]*?)(?:\[(?P<runtime>[\w+.-]+)\])?(?:\((?P<index>\d*)\)|:\d+)?\)?",
    re.ASCII,
)


@dataclass(frozen=True)
class Fact:
    """One thing that the answer follows from; `holds` is None for a statement that is neither true nor false."""

    text: str
    holds: bool | None
    span: Span | None = None
    parts: tuple[Fact, ...] = ()


@dataclass(frozen=True)
class Variant:
    """What a text such as `Wrapper(Backend[runtime])` or `backend:0` names; None where it leaves something open."""

    backend: str
    runtime: str | None = None
    wrapper: str | None = None

    def takes(self, cell: Cell, op: Op) -> bool:
        """Whether the cell is about it. Left open, the wrapper is none, or the one that the operation insists on."""
        wrappers = (self.wrapper,) if self.wrapper else (None, op.wrapper)
        return (
            cell.backend == self.backend
            and self.runtime in (None, cell.runtime)
            and cell.wrapper in dict.fromkeys(wrappers)
        )


def variant(text: str, catalog: Catalog, template_set: TemplateSet) -> Variant:
    """What a text names: a backend, one of its runtimes, or the value of an identity key, with an index or without.

    Case does not count. Raises ValueError, which says what is known.
    """
    found = _DEVICE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} names no device; write Backend, Backend[runtime], backend:0 or Wrapper(Backend)")
    wrapper = _named(found["wrapper"], [each.name for each in catalog.wrappers]) if found["wrapper"] else None
    name, runtime = found["name"].casefold(), found["runtime"]
    for backend in catalog.backends:
        if backend.name.casefold() == name:
            inner = _named(runtime, [each.name for each in backend.runtimes]) if runtime else None
            return Variant(backend.name, inner, wrapper)
    for backend in catalog.backends:
        for each in backend.runtimes:
            if each.name.casefold() == name:
                return Variant(backend.name, each.name, wrapper)
    identities = [key.name for key in template_set.backend_keys if key.identity]
    for backend in catalog.backends:
        if any(str(backend.keys.get(key, "")).casefold() == name for key in identities):
            return Variant(backend.name, None, wrapper)
    raise ValueError(f"there is no backend {found['name']!r}; {near(name, [each.name for each in catalog.backends])}")


def _named(text: str, known: list[str]) -> str:
    for name in known:
        if name.casefold() == text.casefold():
            return name
    raise ValueError(f"there is no {text!r} here; {near(text, known) or 'the catalog has none'}")


def facts(cell: Cell, catalog: Catalog, build: Build) -> Iterator[Fact]:
    """The facts that decide a cell, in the order in which they do."""
    backends = {backend.name: backend for backend in catalog.backends}
    backend = backends[cell.backend]
    family, op = next((family, op) for family, op in catalog.ops if op.name == cell.op)
    yield _predicate(f"{backend.name} is in a build with", backend.cfg, backend.where("cfg"), catalog, build)
    runtime = next((each for each in backend.runtimes if each.name == cell.runtime), None)
    if runtime is not None:
        head = f"its runtime {runtime.name} is in a build with"
        yield _predicate(head, runtime.cfg, runtime.where("cfg"), catalog, build)
    for wrapper in catalog.wrappers:
        if wrapper.name == cell.wrapper:
            yield _predicate(f"{wrapper.name} is in a build with", wrapper.cfg, wrapper.where("cfg"), catalog, build)
    if family.requires is not None:
        holder: Entry = runtime or backend
        capable = family.requires in (runtime or backend).capabilities
        yield Fact(f"{family.name} requires {family.requires}", None, family.where("requires"))
        said = (runtime or backend).capabilities[family.requires].engine if capable else "not listed"
        title = f"runtime {runtime.name}" if runtime else backend.name
        yield Fact(f"{family.requires} of {title}: {said}", capable, holder.where(family.requires))
    if op.pair is not None and cell.target is not None:
        yield from _pair(backend, backends[cell.target], op, catalog, build)
    for exemption in catalog.exemptions:
        if exemption.backend in (None, backend.name) and exemption.op in (None, op.name):
            text = f"exempted until {exemption.until}: {exemption.reason}"
            yield Fact(text, None, exemption.span)
    if backend.kernels is None:
        yield Fact(f"{backend.name} names kernels", False, backend.span)
    else:
        yield Fact(f"kernels of {backend.name}: {backend.kernels}", True, backend.where("kernels"))
    if op.wrapper is not None:
        yield Fact(f"{op.name} works inside of {op.wrapper} only", cell.wrapper == op.wrapper, op.where("wrapper"))


def _pair(source: Backend, target: Backend, op: Op, catalog: Catalog, build: Build) -> Iterator[Fact]:
    if target.name != source.name:
        yield _predicate(f"{target.name} is in a build with", target.cfg, target.where("cfg"), catalog, build)
    out, into = source.transfer in ("both", "out"), target.transfer in ("both", "into")
    yield Fact(f"out of {source.name}: its transfer is {source.transfer}", out, source.where("transfer"))
    yield Fact(f"into {target.name}: its transfer is {target.transfer}", into, target.where("transfer"))
    for each in op.exceptions:
        if (each.source, each.target) == (source.name, target.name):
            yield Fact(f"an exception: {each.reason}", False, each.span)


def _predicate(head: str, predicate: Predicate, span: Span, catalog: Catalog, build: Build) -> Fact:
    """The predicate with the truth of each of its parts, and where its features and cfgs are declared."""
    places: dict[str, Span] = {f'feature = "{each.name}"': each.span for each in catalog.features}
    places |= {each.name: each.span for each in catalog.cfgs}

    def fact(explained: Explained) -> Fact:
        return Fact(explained.text, explained.holds, places.get(explained.text), tuple(map(fact, explained.parts)))

    whole = fact(explain(predicate, build.features, build.cfgs))
    parts = whole.parts or (() if whole.span is None else (whole,))
    return Fact(f"{head} {whole.text}", whole.holds, span, parts)


def remedy(cell: Cell, catalog: Catalog, template_set: TemplateSet, build: Build, cells: Iterable[Cell]) -> str | None:
    """What would make the cell a kernel, or what to take instead; None where it is one or nothing would."""
    arm, decisions = cell.arm, template_set.decisions
    if arm.kind == "absent":
        wanted = [_cfg_of(catalog, name) for name in (cell.backend, cell.wrapper, cell.target) if name]
        features = dict.fromkeys(name for cfg in wanted for name in missing(build, cfg))
        on = sorted({*build.flags, *features})
        return f"dispatchgen generate --no-default-features --features {','.join(on)}" if features else None
    if arm.situation == decisions.not_capable or arm.kind == "value":
        there = dict.fromkeys(_title(each) for each in cells if each.op == cell.op and each.arm.kind == "kernel")
        return f"take one of this build that can: {', '.join(there)}" if there else None
    if arm.situation == decisions.wrong_wrapper:
        op = next(op for _, op in catalog.ops if op.name == cell.op)
        return f"put {op.wrapper} around it"
    if arm.situation == decisions.no_kernel:
        return "write the kernel; `dispatchgen check` says its signature and where it goes"
    return None


def _cfg_of(catalog: Catalog, name: str) -> Predicate:
    cfgs: dict[str, Predicate] = {each.name: each.cfg for each in catalog.wrappers}
    cfgs |= {each.name: each.cfg for each in catalog.backends}
    return cfgs[name]


def _title(cell: Cell) -> str:
    return f"{cell.backend}[{cell.runtime}]" if cell.runtime else cell.backend


def title(cell: Cell) -> str:
    """How a person writes the variant of a cell, and its target."""
    inner = _title(cell)
    whole = f"{cell.wrapper}({inner})" if cell.wrapper else inner
    return f"{whole} to {cell.target}" if cell.target else whole


def told_by(situation: str | None, catalog: Catalog) -> ErrorEntry | None:
    """The error that is raised in a situation."""
    return next((each for each in catalog.errors if each.when == situation), None)
