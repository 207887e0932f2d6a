"""Exemptions: what they excuse must be there, and they must end on a day."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from dispatchgen.findings import Finding, error, near
from dispatchgen.model.catalog import Catalog, Exemption
from dispatchgen.template_set import TemplateSet, by_name
from dispatchgen.validate._unique import repeated


def check(catalog: Catalog, template_set: TemplateSet, today: date | None = None) -> Iterator[Finding]:
    """What exemptions refer to, and, given the day, which have expired."""
    backends = [backend.name for backend in catalog.backends]
    ops = [op.name for _, op in catalog.ops]
    situations = by_name(template_set.situations)
    for exemption in catalog.exemptions:
        if exemption.backend is None and exemption.op is None:
            yield error(
                "DG525", "the exemption excuses everything", exemption.span, fix="name a backend, an op, or both"
            )
        if not exemption.reason.strip():
            yield error("DG527", f"{title(exemption)} is excused without a reason", exemption.where("reason"))
        for key, name, known in (("backend", exemption.backend, backends), ("op", exemption.op, ops)):
            if name is not None and name not in known:
                yield error("DG521", f"there is no {key} `{name}`", exemption.where(key), fix=near(name, known))
        if exemption.answer not in situations:
            message = f"the template set `{template_set.name}` knows no situation `{exemption.answer}`"
            yield error("DG522", message, exemption.where("answer"), fix=near(exemption.answer, situations))
        yield from _until(exemption, today)
    yield from repeated(
        catalog.exemptions,
        lambda exemption: (exemption.backend, exemption.op),
        lambda exemption: exemption.span,
        "DG526",
        lambda later, _: f"{title(later)} is excused twice",
    )


def title(exemption: Exemption) -> str:
    """What the exemption excuses."""
    if exemption.backend and exemption.op:
        return f"`{exemption.op}` of {exemption.backend}"
    return exemption.backend or f"`{exemption.op}`"


def _until(exemption: Exemption, today: date | None) -> Iterator[Finding]:
    place = exemption.where("until")
    try:
        last = date.fromisoformat(exemption.until)
    except ValueError:
        last = None
    if last is None or last.isoformat() != exemption.until:
        yield error("DG523", f"`{exemption.until}` is no date", place, fix="write YYYY-MM-DD")
    elif today is not None and today > last:
        message = f"the excuse for {title(exemption)} ended on {exemption.until}"
        yield error("DG524", message, place, fix="write the kernel, or set another day and say why")
