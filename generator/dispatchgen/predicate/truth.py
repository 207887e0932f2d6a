"""What a predicate says about a build: whether it holds, why, and how to say the same in fewer words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dispatchgen.predicate.tree import All, Any, Cfgs, Const, Feature, Flag, Not, Predicate, mentions

MAX_UNFOLDED = 10
"""How many definitions of derived cfgs an explanation unfolds inside of each other."""


def evaluate(predicate: Predicate, features: frozenset[str], cfgs: Cfgs) -> bool:
    """Whether the predicate holds in a build with these features. An undeclared cfg, or one in a circle, does not."""
    return _holds(predicate, features, _flags(predicate, features, cfgs))


def _flags(predicate: Predicate, features: frozenset[str], cfgs: Cfgs) -> dict[str, bool]:
    """The truth of every cfg that the predicate leads to, each evaluated once and after those that it names."""
    values: dict[str, bool] = {}
    begun: set[str] = set()
    pending = list(mentions(predicate).flags)
    while pending:
        name = pending[-1]
        if name in values or name not in cfgs:
            pending.pop()
        elif name in begun:
            values[name] = _holds(cfgs[name], features, values)
        else:
            begun.add(name)
            pending.extend(mentions(cfgs[name]).flags)
    return values


def _holds(predicate: Predicate, features: frozenset[str], flags: Mapping[str, bool]) -> bool:
    match predicate:
        case Feature(name):
            return name in features
        case Flag(name):
            return flags.get(name, False)
        case All(parts):
            return all(_holds(part, features, flags) for part in parts)
        case Any(parts):
            return any(_holds(part, features, flags) for part in parts)
        case Not(part):
            return not _holds(part, features, flags)
        case Const(value):
            return value


@dataclass(frozen=True)
class Explained:
    """A predicate's text, whether it holds, and the same for each of its parts; a cfg's part is its definition."""

    text: str
    holds: bool
    parts: tuple[Explained, ...] = ()


def explain(predicate: Predicate, features: frozenset[str], cfgs: Cfgs) -> Explained:
    """Why the predicate holds in a build with these features, or why not."""
    return _explain(predicate, features, _flags(predicate, features, cfgs), cfgs, frozenset())


def _explain(
    predicate: Predicate, features: frozenset[str], flags: Mapping[str, bool], cfgs: Cfgs, above: frozenset[str]
) -> Explained:
    inner: tuple[Predicate, ...] = ()
    match predicate:
        case Flag(name) if name in cfgs and name not in above and len(above) < MAX_UNFOLDED:
            inner, above = (cfgs[name],), above | {name}
        case All(parts) | Any(parts):
            inner = parts
        case Not(part):
            inner = (part,)
    explained = tuple(_explain(part, features, flags, cfgs, above) for part in inner)
    return Explained(str(predicate), _holds(predicate, features, flags), explained)


def simplify(predicate: Predicate) -> Predicate:
    """An equal predicate without constants, repetitions, double negations and lists of one."""
    match predicate:
        case Not(part):
            match simplify(part):
                case Const(value):
                    return Const(not value)
                case Not(inner):
                    return inner
                case other:
                    return Not(other)
        case All(parts):
            return _merged(All, parts)
        case Any(parts):
            return _merged(Any, parts)
        case _:
            return predicate


def _merged(kind: type[All] | type[Any], parts: tuple[Predicate, ...]) -> Predicate:
    neutral = kind is All
    kept: dict[Predicate, None] = {}
    for part in map(simplify, parts):
        for inner in part.parts if isinstance(part, kind) else (part,):
            if inner == Const(not neutral):
                return Const(not neutral)
            if inner != Const(neutral):
                kept[inner] = None
    if any(Not(part) in kept for part in kept):
        return Const(not neutral)
    if not kept:
        return Const(neutral)
    return next(iter(kept)) if len(kept) == 1 else kind(tuple(kept))
