"""What two template sets declare, side by side: what catalogs may say, and what callers may ask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dispatchgen.diff.change import Change, Rating, sides

if TYPE_CHECKING:
    from dispatchgen.template_set import TemplateSet

_SECTIONS = {
    "capabilities": ("capability", "engines", "engine"),
    "wrappers": ("kind of wrapper", "", ""),
    "backend_keys": ("backend key", "values", "value"),
    "op_keys": ("op key", "values", "value"),
    "routes": ("route", "", ""),
    "arguments": ("argument type", "choices", "choice"),
    "returns": ("return type", "", ""),
    "guards": ("guard", "", ""),
}
"""By section of a set: what one of it is called, and the names that it has inside."""


def check(old: TemplateSet, new: TemplateSet) -> Iterator[Change]:
    """Names that catalogs and callers may use and might not before, or the other way round."""
    for section, (kind, inner, one) in _SECTIONS.items():
        found = sides(getattr(old, section), getattr(new, section))
        for each in found.gone:
            yield Change(Rating.MAJOR, f"{kind} {each.name}", "removed", "whoever names it is refused")
        for each in found.added:
            yield Change(Rating.MINOR, f"{kind} {each.name}", "added", "nothing names it yet")
        for was, now in found.both if inner else ():
            before, after = getattr(was, inner), getattr(now, inner)
            for name in (name for name in before if name not in after):
                subject = f"{kind} {now.name}"
                yield Change(Rating.MAJOR, subject, f"{one} {name} removed", "whoever names it is refused")
            for name in (name for name in after if name not in before):
                yield Change(Rating.MINOR, f"{kind} {now.name}", f"{one} {name} added", "nothing names it yet")
    for was, now in sides(old.guards, new.guards).both:
        if (was.parameters, was.returns) != (now.parameters, now.returns):
            what = f"({was.parameters}) -> {was.returns} is now ({now.parameters}) -> {now.returns}"
            yield Change(Rating.MAJOR, f"guard {now.name}", what, "callers pass and get something else")
        if was.doc != now.doc:
            yield Change(Rating.PATCH, f"guard {now.name}", "doc changed", "only people read it")
