"""Which features a build has, as Cargo resolves them, and which predicates hold in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, combinations, islice
from typing import TYPE_CHECKING

from dispatchgen.findings import Finding, error, in_order, near
from dispatchgen.predicate import All, Predicate, evaluate, mentions, simplify
from dispatchgen.selection import Selection

if TYPE_CHECKING:
    from dispatchgen.model.catalog import Backend, Catalog, Runtime

__all__ = ["DEFAULT", "Build", "Selection", "missing", "named_features", "resolve"]

DEFAULT = "default"
_MOST_TRIED = 4096


@dataclass(frozen=True)
class Build:
    """The features of one build, and what the catalog says about features."""

    features: frozenset[str]
    cfgs: Mapping[str, Predicate] = field(default_factory=dict)
    implies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What each feature turns on, itself left aside."""

    def holds(self, predicate: Predicate) -> bool:
        """Whether the predicate holds in this build."""
        return evaluate(predicate, self.features, self.cfgs)

    @property
    def flags(self) -> tuple[str, ...]:
        """The features for people to see: sorted, without `default`, which only stands for others."""
        return tuple(sorted(self.features - {DEFAULT}))


def resolve(catalog: Catalog, selection: Selection) -> tuple[Build | None, tuple[Finding, ...]]:
    """The build that a selection asks for, or a finding for each feature that the catalog does not declare."""
    implies = {feature.name: feature.implies for feature in catalog.features}
    unknown = [name for name in dict.fromkeys(selection.features) if name not in implies]
    if unknown:
        return None, in_order(
            error("DG208", f"the catalog has no feature `{name}`", fix=near(name, implies)) for name in unknown
        )
    roots = [*implies] if selection.all else [*selection.features]
    if selection.default and DEFAULT in implies:
        roots.append(DEFAULT)
    cfgs = {cfg.name: cfg.predicate for cfg in catalog.cfgs}
    return Build(_turned_on(roots, implies), cfgs, implies), ()


def _turned_on(roots: Iterable[str], implies: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    """The features, those that they turn on, and so on."""
    found: set[str] = set()
    pending = list(roots)
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending.extend(implies.get(name, ()))
    return frozenset(found)


def told_cfg(build: Build, backend: Backend, runtime: Runtime) -> Predicate:
    """What a build says that a runtime needs: its own predicate, and the backend's where that does not hold."""
    return runtime.cfg if build.holds(backend.cfg) else simplify(All((backend.cfg, runtime.cfg)))


def missing(build: Build, predicate: Predicate) -> tuple[str, ...]:
    """A smallest set of features that, turned on too, makes the predicate hold; empty where it holds or none does.

    Of several smallest sets, the one whose features the predicate names first. The search ends after a few thousand
    sets, so that no predicate can hold a message up.
    """
    if build.holds(predicate):
        return ()
    candidates = [name for name in named_features(predicate, build.cfgs) if name not in build.features]
    sets = chain.from_iterable(combinations(candidates, size) for size in range(1, len(candidates) + 1))
    for added in islice(sets, _MOST_TRIED):
        if evaluate(predicate, build.features | _turned_on(added, build.implies), build.cfgs):
            return added
    return ()


def named_features(predicate: Predicate, cfgs: Mapping[str, Predicate]) -> tuple[str, ...]:
    """The features that the predicate depends on, also through derived cfgs, in the order in which they are met."""
    features: dict[str, None] = {}
    seen: set[str] = set()
    pending = [predicate]
    while pending:
        named = mentions(pending.pop())
        features.update(dict.fromkeys(named.features))
        inner = [name for name in named.flags if name in cfgs and name not in seen]
        seen.update(inner)
        pending.extend(cfgs[name] for name in reversed(inner))
    return tuple(features)
