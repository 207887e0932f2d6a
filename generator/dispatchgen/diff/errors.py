"""Errors, guards and exemptions of two catalogs side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dispatchgen.diff.change import TEXT, Change, Rating, Rule, sides, values

if TYPE_CHECKING:
    from dispatchgen.model.catalog import Catalog, ErrorEntry, Exemption

FIRST_WORDS = 3
"""Words of a message that people search for: as many of them are promised, up to the first field."""


def _begins(text: str) -> list[str]:
    """The words with which every message of the text begins."""
    return text.partition("{")[0].split()[:FIRST_WORDS]


def _message(was: str, now: str) -> Rating:
    return Rating.PATCH if _begins(was) == _begins(now) else Rating.MAJOR


ERROR = {
    "code": Rule(Rating.MAJOR, "whoever looks for the old code finds nothing"),
    "exception": Rule(Rating.MAJOR, "code that catches the old class does not catch it"),
    "message": Rule(_message, f"people and programs look for its first {FIRST_WORDS} words, and only for them"),
    "guard": Rule(Rating.PATCH, "another question is recommended; both answer as before"),
    "reason": TEXT,
    "help": TEXT,
    "cause": TEXT,
    "before": TEXT,
    "after": TEXT,
}
EXEMPTION = {
    "reason": TEXT,
    "until": Rule(Rating.PATCH, "only `check` asks for the day"),
    "answer": Rule(Rating.PATCH, "what it changes is told by the operations"),
}


def check(old: Catalog, new: Catalog) -> Iterator[Change]:
    """What changed in `errors.yaml` and `exemptions.yaml`."""
    found = sides(old.errors, new.errors, lambda each: each.when)
    moved = sides(found.gone, found.added, lambda each: each.code)  # a situation that is only called differently
    for was, now in (*found.both, *moved.both):
        yield from _error(was, now)
    for each in moved.gone:
        reason = "whoever handles it waits in vain"
        yield Change(Rating.MAJOR, f"error {each.code}", "removed", reason, before=each.span)
    for each in moved.added:
        yield Change(Rating.MINOR, f"error {each.code}", "added", "nothing raised it before", now=each.span)
    exemptions = sides(old.exemptions, new.exemptions, _excused)
    for each in exemptions.gone:
        yield _exemption(each, "removed", None, each)
    for each in exemptions.added:
        yield _exemption(each, "added", each, None)
    for was, now in exemptions.both:
        yield from values(f"exemption of {_excused(now)}", was, now, EXEMPTION)


def _error(old: ErrorEntry, new: ErrorEntry) -> Iterator[Change]:
    yield from values(f"error {old.code}", old, new, ERROR)
    if old.when != new.when:
        reason = "the situation is called differently, and what callers see is the same"
        yield from values(f"error {old.code}", old, new, {"when": Rule(Rating.PATCH, reason)})


def _excused(exemption: Exemption) -> str:
    return " on ".join(filter(None, (exemption.op, exemption.backend)))


def _exemption(each: Exemption, verb: str, new: Exemption | None, old: Exemption | None) -> Change:
    reason = "what it changes is told by the operations"
    places = (new.span if new else None, old.span if old else None)
    return Change(Rating.PATCH, f"exemption of {_excused(each)}", verb, reason, *places)
