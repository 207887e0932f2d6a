"""The builds that are compared, and what is in them: backends, their runtimes, and wrappers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from dispatchgen.diff.change import Change, Rating, sides, told
from dispatchgen.features import DEFAULT, Build, Selection, named_features, resolve

if TYPE_CHECKING:
    from dispatchgen.diff.compare import Spec
    from dispatchgen.model.catalog import Backend, Catalog, Runtime, Wrapper

MOST_TRIED = 8
"""Features of a changed predicate up to which every subset is tried; beyond, it is the pairs that tell."""


@dataclass(frozen=True)
class Pair:
    """One selection of features, and the build that it gives by either catalog."""

    label: str
    old: Build
    new: Build


def builds(old: Spec, new: Spec) -> tuple[Pair, ...]:
    """The builds that are compared: default features, none, each one, all, and each two that both catalogs have.

    Where the settings of a project choose features, what they choose is one more.
    """
    names = [each.name for _, each in sides(old.catalog.features, new.catalog.features).both if each.name != DEFAULT]
    chosen = {"default features": Selection(), "no features": Selection(default=False)}
    chosen |= {f"feature {name}": Selection((name,), default=False) for name in names}
    chosen["all features"] = Selection(all=True)
    chosen |= {f"features {one},{two}": Selection((one, two), default=False) for one, two in combinations(names, 2)}
    found = [*_pairs(old.catalog, new.catalog, {label: (each, each) for label, each in chosen.items()})]
    if old.selection != new.selection or old.selection not in chosen.values():
        found += _pairs(old.catalog, new.catalog, {"the features of the settings": (old.selection, new.selection)})
    return tuple(found)


def _pairs(old: Catalog, new: Catalog, chosen: Mapping[str, tuple[Selection, Selection]]) -> Iterator[Pair]:
    for label, (before, after) in chosen.items():
        was, now = resolve(old, before)[0], resolve(new, after)[0]
        if was is not None and now is not None:
            yield Pair(label, was, now)


@dataclass(frozen=True)
class _Unit:
    """Something that a build has or has not, by both catalogs, and the backend that it is a part of."""

    subject: str
    was: Backend | Runtime | Wrapper
    now: Backend | Runtime | Wrapper
    outer: tuple[Backend, Backend] | None = None


def presence(old: Catalog, new: Catalog, pairs: Iterable[Pair]) -> Iterator[Change]:
    """Backends, runtimes and wrappers of both catalogs that builds have now and did not have, or the other way round."""
    known = tuple(pairs)
    for unit in _units(old, new):
        was, now = unit.was.cfg, unit.now.cfg
        asked = [*known, *_subsets(unit, old, new)]
        if unit.outer:  # a runtime counts where its backend is in the build anyway
            before, after = unit.outer
            asked = [each for each in asked if each.old.holds(before.cfg) and each.new.holds(after.cfg)]
        lost = tuple(each.label for each in asked if each.old.holds(was) and not each.new.holds(now))
        gained = tuple(each.label for each in asked if each.new.holds(now) and not each.old.holds(was))
        by = f"cfg {was} -> {now}" if was != now else ""
        because = f" ({by})" if by else ""
        subject, places = unit.subject, (unit.now.where("cfg"), unit.was.where("cfg"))
        if lost:
            what = f"not any more with {told(lost)}{because}"
            yield Change(Rating.MAJOR, subject, what, "whoever builds so loses it", *places, lost)
        if gained:
            what = f"now also with {told(gained)}{because}"
            yield Change(Rating.MINOR, subject, what, "nothing is lost", *places, gained)
        if by and not lost and not gained:
            yield Change(Rating.PATCH, subject, by, "it holds in the same builds", *places)


def _units(old: Catalog, new: Catalog) -> Iterator[_Unit]:
    for was, now in sides(old.wrappers, new.wrappers).both:
        yield _Unit(f"wrapper {now.name}", was, now)
    for was, now in sides(old.backends, new.backends).both:
        yield _Unit(f"backend {now.name}", was, now)
        for inner, other in sides(was.runtimes, now.runtimes).both:
            yield _Unit(f"runtime {other.name} of {now.name}", inner, other, (was, now))


def _subsets(unit: _Unit, old: Catalog, new: Catalog) -> Iterator[Pair]:
    """More builds where predicates changed: every subset of the features that they name."""
    before, after = ({each.name: each.predicate for each in catalog.cfgs} for catalog in (old, new))
    if unit.was.cfg == unit.now.cfg and before == after:
        return
    both = {each.name for _, each in sides(old.features, new.features).both}
    named = dict.fromkeys((*named_features(unit.was.cfg, before), *named_features(unit.now.cfg, after)))
    names = [name for name in named if name in both]
    if len(names) <= MOST_TRIED:
        sets = (found for size in range(3, len(names) + 1) for found in combinations(names, size))
        chosen = {f"features {','.join(each)}": Selection(each, default=False) for each in sets}
        yield from _pairs(old, new, {label: (each, each) for label, each in chosen.items()})
