"""A rated change, and how entries of two catalogs are laid side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from dispatchgen.model.catalog import Entry
from dispatchgen.source import Span


class Rating(Enum):
    """What a change means for those who rely on what was there, the worst first."""

    MAJOR = "major"
    MINOR = "minor"
    PATCH = "patch"

    @property
    def order(self) -> int:
        """0 for the worst."""
        return [*Rating].index(self)


@dataclass(frozen=True)
class Change:
    """One difference between two catalogs: of what, what it is, and the reason for its rating."""

    rating: Rating
    subject: str
    what: str
    reason: str
    now: Span | None = None
    """Where it stands in the new catalog; None where it is in the old one only."""
    before: Span | None = None
    builds: tuple[str, ...] = ()
    """The builds that see it, where not all do."""
    cells: int = 0
    """How many cells of the matrix say something else, over all builds."""

    def __str__(self) -> str:
        return f"{self.rating.value}: {self.subject}: {self.what}"


class Rule(NamedTuple):
    """How another value of one key is rated, and why."""

    rating: Rating | Callable[[Any, Any], Rating]
    reason: str


TEXT = Rule(Rating.PATCH, "only people read it")

Item = TypeVar("Item")
Named = TypeVar("Named", bound=Entry)


class Sides(NamedTuple):
    """Entries of one kind: those that only the old catalog has, those that only the new one has, and those of both."""

    gone: list[Any]
    added: list[Any]
    both: list[tuple[Any, Any]]


def sides(old: Iterable[Item], new: Iterable[Item], key: Callable[[Item], Any] = lambda item: item.name) -> Sides:  # type: ignore[attr-defined]
    """Entries that have the same key side by side, in the new catalog's order."""
    was, now = {key(each): each for each in old}, {key(each): each for each in new}
    return Sides(
        gone=[each for name, each in was.items() if name not in now],
        added=[each for name, each in now.items() if name not in was],
        both=[(was[name], each) for name, each in now.items() if name in was],
    )


def listed(kind: str, found: Sides, gone: str, added: str, of: str = "") -> Iterator[Change]:
    """Entries that came and went, with what that means for others; `of` says what they are a part of."""
    for each in found.gone:
        yield Change(Rating.MAJOR, f"{kind} {each.name}{of}", "removed", gone, before=each.span)
    for each in found.added:
        yield Change(Rating.MINOR, f"{kind} {each.name}{of}", "added", added, now=each.span)


def values(subject: str, old: Entry, new: Entry, rules: Mapping[str, Rule]) -> Iterator[Change]:
    """A change for each key whose value is another one."""
    for key, rule in rules.items():
        was, now = getattr(old, key), getattr(new, key)
        if was == now:
            continue
        rating = rule.rating if isinstance(rule.rating, Rating) else rule.rating(was, now)
        what = f"{key} changed" if rule is TEXT else f"{key} {shown(was)} -> {shown(now)}"
        yield Change(rating, subject, what, rule.reason, new.where(key), old.where(key))


def shown(value: Any) -> str:
    """A value for people."""
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(shown, value))}]"
    return "nothing" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def set_of(old: Iterable[str], new: Iterable[str], less: Rating, more: Rating) -> Rating:
    """The rating of a set of things that a person may say: fewer of them, or only more."""
    return less if set(old) - set(new) else more


def told(names: Iterable[str]) -> str:
    """The first few of several names, and how many more there are."""
    every = [*names]
    return ", ".join(every) if len(every) <= 4 else f"{', '.join(every[:3])} and {len(every) - 3} more"
