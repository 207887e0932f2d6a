"""Entries that only got another name: told as such once, and compared under the new one everywhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any as Value
from typing import NamedTuple

from dispatchgen.diff.change import Change, Rating, sides
from dispatchgen.model.catalog import Backend, Catalog, Family, Feature, Op, Wrapper
from dispatchgen.predicate import All, Any, Not, Predicate, mentions
from dispatchgen.predicate import Feature as Named

Names = Mapping[str, str]
"""New names by old ones."""


class _Kind(NamedTuple):
    """A kind of entry that may get another name."""

    entries: Callable[[Catalog], Iterable[Value]]
    mark: Callable[[Catalog, Value, Names], Value]
    """What an entry and the one that it became have in common, given the names to leave aside; None: it has nothing."""
    apply: Callable[[Catalog, Names], Catalog]
    reason: str


def renamed(old: Catalog, new: Catalog) -> tuple[Catalog, tuple[Change, ...]]:
    """The old catalog with the names that the new one has for the same things, and a change for each of them.

    Features are the same where they are used in the same places, backends where the id is, families where the
    operations are, operations where all but name and doc is; and only where no other one could be meant.
    """
    changes: list[Change] = []
    for title, kind in _KINDS.items():
        found = sides(kind.entries(old), kind.entries(new))
        names: dict[str, str] = {}
        for gone in found.gone:
            mark = kind.mark(old, gone, {gone.name: "?"})
            rivals = [each for each in found.gone if kind.mark(old, each, {each.name: "?"}) == mark]
            alike = [each for each in found.added if kind.mark(new, each, {each.name: "?"}) == mark]
            if mark is not None and len(alike) == len(rivals) == 1:
                names[gone.name] = alike[0].name
                subject, what = f"{title} {gone.name}", f"renamed to {alike[0].name}"
                changes.append(Change(Rating.MAJOR, subject, what, kind.reason, alike[0].span, gone.span))
        old = kind.apply(old, names) if names else old
    return old, tuple(changes)


def _uses(catalog: Catalog, feature: Feature, names: Names) -> Value:
    """Where the feature is used, in words that do not name it."""
    holders = [(each.name, each.predicate) for each in catalog.cfgs]
    runtimes = (each for backend in catalog.backends for each in backend.runtimes)
    for holder in (catalog.wrappers, catalog.backends, runtimes):
        holders += [(each.name, each.cfg) for each in holder]
    used = {f"{name}: {_swapped(cfg, names)}" for name, cfg in holders if feature.name in mentions(cfg).features}
    used |= {f"implied by {each.name}" for each in catalog.features if feature.name in each.implies}
    return frozenset(used | {f"implies {name}" for name in feature.implies}) or None


def _with_features(catalog: Catalog, names: Names) -> Catalog:
    def feature(each: Feature) -> Feature:
        implies = tuple(names.get(name, name) for name in each.implies)
        return replace(each, name=names.get(each.name, each.name), implies=implies)

    def wrapper(each: Wrapper) -> Wrapper:
        return replace(each, cfg=_swapped(each.cfg, names))

    def backend(each: Backend) -> Backend:
        runtimes = tuple(replace(inner, cfg=_swapped(inner.cfg, names)) for inner in each.runtimes)
        return replace(each, cfg=_swapped(each.cfg, names), runtimes=runtimes)

    return replace(
        catalog,
        features=tuple(map(feature, catalog.features)),
        cfgs=tuple(replace(each, predicate=_swapped(each.predicate, names)) for each in catalog.cfgs),
        wrappers=tuple(map(wrapper, catalog.wrappers)),
        backends=tuple(map(backend, catalog.backends)),
    )


def _swapped(predicate: Predicate, names: Names) -> Predicate:
    match predicate:
        case Named(name):
            return Named(names.get(name, name))
        case All(parts):
            return All(tuple(_swapped(part, names) for part in parts))
        case Any(parts):
            return Any(tuple(_swapped(part, names) for part in parts))
        case Not(part):
            return Not(_swapped(part, names))
    return predicate


def _with_backends(catalog: Catalog, names: Names) -> Catalog:
    def op(each: Op) -> Op:
        pairs = (
            replace(pair, source=names.get(pair.source, pair.source), target=names.get(pair.target, pair.target))
            for pair in each.exceptions
        )
        return replace(each, exceptions=tuple(pairs))

    exemptions = (replace(each, backend=names.get(each.backend or "", each.backend)) for each in catalog.exemptions)
    return replace(
        catalog,
        backends=tuple(replace(each, name=names.get(each.name, each.name)) for each in catalog.backends),
        families=tuple(replace(family, ops=tuple(map(op, family.ops))) for family in catalog.families),
        exemptions=tuple(exemptions),
    )


def _op(op: Op, names: Names) -> Op:
    rules = op.backward
    if not isinstance(rules, str):
        rules = tuple(replace(rule, op=names.get(rule.op, rule.op)) for rule in rules)
    return replace(op, name=names.get(op.name, op.name), backward=rules)


def _op_mark(catalog: Catalog, op: Op, names: Names) -> Op:
    return replace(_op(op, names), doc="")


def _with_ops(catalog: Catalog, names: Names) -> Catalog:
    families = (replace(family, ops=tuple(_op(op, names) for op in family.ops)) for family in catalog.families)
    exemptions = (replace(each, op=names.get(each.op or "", each.op)) for each in catalog.exemptions)
    return replace(catalog, families=tuple(families), exemptions=tuple(exemptions))


def _family_mark(catalog: Catalog, family: Family, names: Names) -> frozenset[str] | None:
    return frozenset(op.name for op in family.ops) or None


def _with_families(catalog: Catalog, names: Names) -> Catalog:
    families = (replace(each, name=names.get(each.name, each.name)) for each in catalog.families)
    return replace(catalog, families=tuple(families))


_KINDS = {
    "feature": _Kind(lambda each: each.features, _uses, _with_features, "builds that ask for the old name fail"),
    "backend": _Kind(
        lambda each: each.backends, lambda catalog, each, names: each.id, _with_backends, "code that names it fails"
    ),
    "op": _Kind(
        lambda each: (op for _, op in each.ops), _op_mark, _with_ops, "calls fail, and kernels call their method so"
    ),
    "family": _Kind(lambda each: each.families, _family_mark, _with_families, "its module is called differently"),
}
