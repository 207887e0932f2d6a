"""What every operation does on every backend: the one truth about arms, for the generated code and for people.

The question is asked once per variant (a backend, one of its runtimes, a wrapper around it) and once per operation,
so the work grows with operations times variants; only operations between two backends look at pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from dispatchgen.features import Build, missing

if TYPE_CHECKING:
    from dispatchgen.model.catalog import Backend, Capability, Catalog, Exemption, Family, Op
    from dispatchgen.predicate import Predicate
    from dispatchgen.template_set import TemplateSet

Kind = Literal["kernel", "error", "value", "absent"]


@dataclass(frozen=True)
class Arm:
    """What one operation does on one variant.

    `kernel` forwards to `module:Class.method` (an operation between two backends also to `into`, on the target);
    `error` raises `situation`; `value` answers with the operation's `otherwise`; `absent` is not compiled in, and
    `situation` is what is raised where the backend is named nevertheless. `reason` says why it is not a kernel.
    """

    kind: Kind
    situation: str | None = None
    reason: str = ""
    kernel: str | None = None
    into: str | None = None


@dataclass(frozen=True)
class Cell:
    """One place of the support matrix. `target` is set for operations between two backends only."""

    family: str
    op: str
    backend: str
    runtime: str | None
    wrapper: str | None
    target: str | None
    arm: Arm


@dataclass(frozen=True)
class _Variant:
    """A backend, one of its runtimes, and a wrapper around it, as far as there are such."""

    backend: Backend
    runtime: str | None
    wrapper: str | None
    capabilities: Mapping[str, Capability]
    absent: Arm | None

    @property
    def title(self) -> str:
        return f"runtime {self.runtime} of {self.backend.name}" if self.runtime else self.backend.name


def cells(catalog: Catalog, template_set: TemplateSet, build: Build) -> tuple[Cell, ...]:
    """The whole matrix of a build, in the catalog's order: operations, backends, runtimes, wrappers, targets."""
    rules = _Rules(catalog, template_set, build)
    return tuple(cell for family, op in catalog.ops for cell in rules.row(family, op))


@dataclass(frozen=True)
class Side:
    """What one backend, or one runtime of it, does by itself for an operation between two: the way out, or the way in."""

    backend: str
    runtime: str | None
    arm: Arm


def sides(
    catalog: Catalog, template_set: TemplateSet, build: Build, family: Family, op: Op
) -> tuple[list[Side], list[Side]]:
    """The ways out and the ways in of an operation between two backends, for all that is in the build."""
    rules = _Rules(catalog, template_set, build)
    out = [
        Side(variant.backend.name, variant.runtime, rules.way_out(family, op, variant))
        for variant in rules.variants
        if variant.wrapper is None and variant.absent is None
    ]
    into = [
        Side(variant.backend.name, variant.runtime, rules.way_in(op, variant.backend))
        for variant in rules.variants
        if variant.wrapper is None and variant.absent is None
    ]
    return out, into


class _Rules:
    """The rules of one build, with what they need to look up."""

    def __init__(self, catalog: Catalog, template_set: TemplateSet, build: Build) -> None:
        self.build = build
        self.situations = template_set.decisions
        self.wrappers = {wrapper.name: wrapper.cfg for wrapper in catalog.wrappers}
        self.helping: dict[Predicate, tuple[str, ...]] = {}
        self.exemptions: dict[tuple[str | None, str | None], Exemption] = {}
        for exemption in catalog.exemptions:
            self.exemptions.setdefault((exemption.backend, exemption.op), exemption)
        self.variants = [variant for backend in catalog.backends for variant in self._variants(backend)]
        self.targets = [(backend, self._absent(backend.name, backend.cfg)) for backend in catalog.backends]

    def row(self, family: Family, op: Op) -> Iterator[Cell]:
        """The cells of one operation."""
        for variant in self.variants:
            arm = variant.absent or (self.way_out(family, op, variant) if op.pair else self._arm(family, op, variant))
            at = (family.name, op.name, variant.backend.name, variant.runtime, variant.wrapper)
            if op.pair is None:
                yield Cell(*at, None, arm)
                continue
            forbidden = {each.target: each.reason for each in op.exceptions if each.source == variant.backend.name}
            for target, absent in self.targets:
                paired = arm
                if arm.kind != "absent":
                    paired = absent or self._paired(op, arm, target, forbidden)
                yield Cell(*at, target.name, paired)

    def _variants(self, backend: Backend) -> Iterator[_Variant]:
        gone = self._absent(backend.name, backend.cfg)
        for runtime in backend.runtimes or (None,):
            name, capabilities, absent = None, backend.capabilities, gone
            if runtime is not None:
                name, capabilities = runtime.name, runtime.capabilities
                absent = gone or self._absent(f"runtime {name} of {backend.name}", runtime.cfg)
            for wrapper in (None, *backend.wrappers):
                outer = self._absent(f"wrapper {wrapper}", self.wrappers[wrapper]) if wrapper else None
                yield _Variant(backend, name, wrapper, capabilities, absent or outer)

    def _absent(self, what: str, cfg: Predicate) -> Arm | None:
        """The arm of something that is not in the build, with what would bring it in; None where it is in it."""
        if self.build.holds(cfg):
            return None
        if cfg not in self.helping:
            self.helping[cfg] = missing(self.build, cfg)
        features = self.helping[cfg]
        remedy = f"; turn on {_listed(features)}" if features else ""
        return Arm("absent", self.situations.not_built, f"{what} is not in this build: {cfg} does not hold{remedy}")

    def _arm(self, family: Family, op: Op, variant: _Variant) -> Arm:
        backend = variant.backend
        if family.requires is not None and family.requires not in variant.capabilities:
            reason = f"the catalog lists no {family.requires} for {variant.title}"
            return _answered(op, Arm("error", self.situations.not_capable, reason))
        if excused := self._exemption(backend, op):
            return _answered(op, Arm("error", excused.answer, excused.reason))
        if backend.kernels is None:
            return _answered(
                op, Arm("error", self.situations.no_kernel, f"the catalog names no kernels for {backend.name}")
            )
        if op.wrapper is not None and variant.wrapper != op.wrapper:
            allowed = op.wrapper in backend.wrappers
            if allowed and (gone := self._absent(f"wrapper {op.wrapper}", self.wrappers[op.wrapper])):
                return replace(gone, kind="error")
            return Arm("error", self.situations.wrong_wrapper, f"{op.name} works inside of {op.wrapper} only")
        return Arm("kernel", kernel=f"{backend.kernels}.{op.pair.out if op.pair else op.name}")

    def _paired(self, op: Op, arm: Arm, target: Backend, forbidden: Mapping[str, str]) -> Arm:
        """The arm between two backends that are both in the build, where `arm` is what the source does by itself."""
        if target.name in forbidden:
            return Arm("error", self.situations.no_transfer, forbidden[target.name])
        if arm.kind != "kernel":
            return arm
        way_in = self.way_in(op, target)
        return way_in if way_in.kind != "kernel" else replace(arm, into=way_in.kernel)

    def way_out(self, family: Family, op: Op, variant: _Variant) -> Arm:
        """What the source of an operation between two backends does by itself."""
        backend = variant.backend
        if backend.transfer not in ("both", "out"):
            reason = f"nothing goes out of {backend.name}: its transfer is {backend.transfer}"
            return Arm("error", self.situations.no_transfer, reason)
        return self._arm(family, op, variant)

    def way_in(self, op: Op, target: Backend) -> Arm:
        """What the target of an operation between two backends does by itself."""
        assert op.pair is not None
        if target.transfer not in ("both", "into"):
            reason = f"nothing goes into {target.name}: its transfer is {target.transfer}"
            return Arm("error", self.situations.no_transfer, reason)
        if excused := self._exemption(target, op):
            return Arm("error", excused.answer, excused.reason)
        if target.kernels is None:
            return Arm("error", self.situations.no_kernel, f"the catalog names no kernels for {target.name}")
        return Arm("kernel", kernel=f"{target.kernels}.{op.pair.into}")

    def _exemption(self, backend: Backend, op: Op) -> Exemption | None:
        """The exemption that speaks of the backend and the op most closely."""
        keys = ((backend.name, op.name), (backend.name, None), (None, op.name))
        return next((self.exemptions[key] for key in keys if key in self.exemptions), None)


def _answered(op: Op, arm: Arm) -> Arm:
    """The arm of an operation that answers instead of raising where it cannot run."""
    return Arm("value", reason=arm.reason) if op.otherwise in ("none", "false") else arm


def _listed(features: tuple[str, ...]) -> str:
    return f"feature {features[0]}" if len(features) == 1 else f"features {', '.join(features)}"
