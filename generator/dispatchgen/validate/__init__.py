"""What is wrong with what a catalog says, beyond the shape of its files: one module per subject."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from dispatchgen.features import Build
from dispatchgen.findings import Finding, in_order
from dispatchgen.model.catalog import Catalog
from dispatchgen.template_set import TemplateSet
from dispatchgen.validate import backends, errors, exemptions, features, ops

__all__ = ["validate"]


def validate(
    catalog: Catalog, template_set: TemplateSet, *, build: Build | None = None, today: date | None = None
) -> tuple[Finding, ...]:
    """All findings about a catalog, in order.

    With a `build`, also what only goes wrong in that build; with `today`, also the exemptions that have expired.
    """

    def findings() -> Iterator[Finding]:
        yield from features.check(catalog, template_set)
        yield from backends.check(catalog, template_set)
        yield from ops.check(catalog, template_set)
        yield from errors.check(catalog, template_set)
        yield from exemptions.check(catalog, template_set, today)
        if build is not None:
            yield from backends.conflicts(catalog, template_set, build)

    return in_order(findings())
