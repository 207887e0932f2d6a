"""What every match of the generated code has to do, from the matrix alone: no plan and no template has a say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dispatchgen.matrix import Arm, cells, sides
from dispatchgen.plan.ops import kernel_signature

if TYPE_CHECKING:
    from dispatchgen.features import Build
    from dispatchgen.model.catalog import Catalog, Family, Op
    from dispatchgen.template_set import TemplateSet

Variant = tuple[str, str | None]
"""A backend, and where it has several the runtime."""


@dataclass(frozen=True)
class Want:
    """What one variant does: its plain arm, and whether a kernel stands behind it inside of a wrapper only."""

    arm: Arm
    wrapped: bool = False

    @property
    def forwards(self) -> bool:
        """Whether a kernel is behind it, in whatever wrapper."""
        return self.arm.kind == "kernel" or self.wrapped


@dataclass(frozen=True)
class Match:
    """One kernel method, and what every variant of the build does for it."""

    family: Family
    op: Op
    method: str
    parameters: str
    """Of the kernel method, after self."""
    returns: str
    wants: Mapping[Variant, Want]

    @property
    def forwards(self) -> bool:
        """Whether any variant has a kernel for it."""
        return any(want.forwards for want in self.wants.values())


def matches(catalog: Catalog, template_set: TemplateSet, build: Build) -> tuple[Match, ...]:
    """The matches of a build: one per op, two for an op between two backends."""
    plain: dict[str, dict[Variant, Arm]] = {op.name: {} for _, op in catalog.ops}
    wrapped: set[tuple[str, Variant]] = set()
    for cell in cells(catalog, template_set, build):
        variant = (cell.backend, cell.runtime)
        if cell.wrapper is None and cell.arm.kind != "absent":
            plain[cell.op].setdefault(variant, cell.arm)
        elif cell.arm.kind == "kernel":
            wrapped.add((cell.op, variant))
    found = []
    for family, op in catalog.ops:
        wants = {
            variant: Want(arm, arm.kind == "error" and (op.name, variant) in wrapped)
            for variant, arm in plain[op.name].items()
        }
        # The match of one end of a pair shows that end only, and what it does by itself is in no cell.
        ends = _ends(catalog, template_set, build, family, op) if op.pair else iter([wants])
        for signature, of_end in zip(kernel_signature(op, template_set), ends, strict=True):
            found.append(Match(family, op, *signature, of_end))
    return tuple(found)


def _ends(
    catalog: Catalog, template_set: TemplateSet, build: Build, family: Family, op: Op
) -> Iterator[dict[Variant, Want]]:
    for found in sides(catalog, template_set, build, family, op):
        yield {(end.backend, end.runtime): Want(end.arm) for end in found}


def forwarding(found: tuple[Match, ...]) -> set[str]:
    """The backends that some match forwards to."""
    return {variant[0] for match in found for variant, want in match.wants.items() if want.forwards}
