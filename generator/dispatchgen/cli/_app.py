"""The commands and the options that they share."""

from __future__ import annotations

from typing import Annotated

import typer

from dispatchgen import __version__
from dispatchgen.cli import check, explain, generate, matrix

app = typer.Typer(
    name="dispatchgen",
    help="Generate a complete dispatch layer from a catalog, and prove that nothing is missing and nothing is stale.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog="Exit codes: 0 clean; 1 findings; 2 usage or environment; 3 a fault of dispatchgen.",
)
app.command("generate")(generate.generate)
app.command("check")(check.check)
app.command("matrix")(matrix.matrix)
app.command("explain")(explain.explain)


def _version(asked: bool) -> None:
    if asked:
        print(f"dispatchgen {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass
