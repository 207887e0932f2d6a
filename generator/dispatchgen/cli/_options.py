"""Options of commands, said once: for typer, which explains them and complains, and for a reader that imports nothing.

Importing typer takes longer than comparing all hashes, so words that are plainly right never get there.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

Command = Callable[..., int | None]
"""Gives an exit code, or None for 0."""


@dataclass(frozen=True)
class Option:
    """What an annotation says about an option beside its type: how it is written, and what it does."""

    names: tuple[str, ...]
    help: str


def option(*names: str, help: str) -> Option:
    """The option that is written in one of these ways."""
    return Option(names, help)


def read(command: Command, words: Sequence[str]) -> dict[str, Any] | None:
    """The arguments that the words give to the command, or None where it takes somebody else to understand them."""
    known = {name: (parameter, kind) for parameter, kind, each in _options(command) for name in each.names}
    found: dict[str, Any] = {}
    left = list(words)
    while left:
        name, equals, value = left.pop(0).partition("=")
        if name not in known:
            return None
        parameter, kind = known[name]
        if kind is bool:
            if equals:
                return None
            found[parameter] = True
            continue
        if not equals:
            value = left.pop(0) if left else "-"
        if value.startswith("-") or not name.startswith("--"):
            return None
        many = get_origin(kind) is list
        try:
            one = _value(get_args(kind)[0] if many else kind, value)
        except ValueError:
            return None
        found[parameter] = [*found.get(parameter, []), one] if many else one
    return found


def _value(kind: Any, text: str) -> Any:
    """The value of a text. Raises ValueError where it has none of that kind."""
    if kind is str or kind is Path or (isinstance(kind, type) and issubclass(kind, Enum)):
        return kind(text)
    raise ValueError(kind)


def _options(command: Command) -> Iterator[tuple[str, Any, Option]]:
    """The parameters that are options, with their types, optional or not."""
    for parameter, hint in get_type_hints(command, include_extras=True).items():
        if get_origin(hint) is Annotated and isinstance(hint.__metadata__[0], Option):
            kinds = [kind for kind in get_args(hint.__origin__) if kind is not NoneType]
            optional = NoneType in get_args(hint.__origin__)
            yield parameter, kinds[0] if optional else hint.__origin__, hint.__metadata__[0]


def for_typer(command: Command) -> Callable[..., None]:
    """The command as typer takes it: with options of typer's, and an exception for its exit code."""
    import typer

    def run(**arguments: Any) -> None:
        raise typer.Exit(command(**arguments) or 0)

    def told(hint: Any) -> Any:
        meta = getattr(hint, "__metadata__", (None,))[0]
        return (
            Annotated[hint.__origin__, typer.Option(*meta.names, help=meta.help)] if isinstance(meta, Option) else hint
        )

    hints: Mapping[str, Any] = get_type_hints(command, include_extras=True)
    parameters = inspect.signature(command).parameters.values()
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {name: told(hint) for name, hint in hints.items()}
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [each.replace(annotation=run.__annotations__[each.name]) for each in parameters]
    )
    return run
