"""Things of which there may be only one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from dispatchgen.findings import Finding, Related, error
from dispatchgen.source import Span

Thing = TypeVar("Thing")
Key = TypeVar("Key")


def repeated(
    things: Iterable[Thing],
    key: Callable[[Thing], Key | None],
    place: Callable[[Thing], Span],
    code: str,
    message: Callable[[Thing, Thing], str],
) -> Iterator[Finding]:
    """An error for each thing whose key an earlier one has. `message` is given the later thing and the first one."""
    first: dict[Key, Thing] = {}
    for thing in things:
        value = key(thing)
        if value is None:
            continue
        earlier = first.setdefault(value, thing)
        if earlier is not thing:
            yield error(code, message(thing, earlier), place(thing), related=[Related(place(earlier), "first here")])
