"""The commands and the options that they share."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

from dispatchgen import __version__
from dispatchgen.cli._options import for_typer

COMMANDS = (
    "generate",
    "check",
    "matrix",
    "explain",
    "init",
    "add-backend",
    "add-op",
    "where",
    "schema",
    "doctor",
    "diff",
    "watch",
)
"""As `--help` lists them: each is the function of that name in the module of that name."""


def app_for(words: Sequence[str]) -> typer.Typer:
    """The command line with the command that the words begin with, and with all of them where they begin otherwise."""
    app = typer.Typer(
        name="dispatchgen",
        help="Generate a complete dispatch layer from a catalog, and prove that nothing is missing and nothing is stale.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        epilog="Exit codes: 0 clean; 1 findings; 2 usage or environment; 3 a fault of dispatchgen.",
    )
    app.callback()(_options)
    asked = [name for name in COMMANDS if name in words[:1]]
    for name in asked or COMMANDS:
        module = name.replace("-", "_")
        app.command(name)(for_typer(getattr(import_module(f"dispatchgen.cli.{module}"), module)))
    return app


def _version(asked: bool) -> None:
    if asked:
        print(f"dispatchgen {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass
