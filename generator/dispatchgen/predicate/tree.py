"""What a predicate is: a small tree that prints itself in the grammar it was written in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Feature:
    """Holds in builds that have the feature."""

    name: str

    def __str__(self) -> str:
        return f'feature = "{self.name}"'


@dataclass(frozen=True)
class Flag:
    """Holds where the derived cfg of that name does."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class All:
    """Holds where every part does; with no part, always."""

    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return f"all({', '.join(map(str, self.parts))})"


@dataclass(frozen=True)
class Any:
    """Holds where at least one part does; with no part, never."""

    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return f"any({', '.join(map(str, self.parts))})"


@dataclass(frozen=True)
class Not:
    """Holds where its part does not."""

    part: Predicate

    def __str__(self) -> str:
        return f"not({self.part})"


@dataclass(frozen=True)
class Const:
    """Always holds, or never."""

    value: bool

    def __str__(self) -> str:
        return "true" if self.value else "false"


Predicate = Feature | Flag | All | Any | Not | Const

Cfgs = Mapping[str, Predicate]
"""The derived cfgs of a catalog, by name."""


class Mentions(NamedTuple):
    """What a predicate names itself, in the order of its text, each once."""

    features: tuple[str, ...]
    flags: tuple[str, ...]


def atoms(predicate: Predicate) -> Iterator[Feature | Flag | Const]:
    """The leaves, from left to right."""
    match predicate:
        case All(parts) | Any(parts):
            for part in parts:
                yield from atoms(part)
        case Not(part):
            yield from atoms(part)
        case _:
            yield predicate


def mentions(predicate: Predicate) -> Mentions:
    """The features and the derived cfgs that the predicate names, without following the latter."""
    leaves = list(atoms(predicate))
    features = dict.fromkeys(leaf.name for leaf in leaves if isinstance(leaf, Feature))
    flags = dict.fromkeys(leaf.name for leaf in leaves if isinstance(leaf, Flag))
    return Mentions(tuple(features), tuple(flags))
