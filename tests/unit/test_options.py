"""Options are read twice, by a reader that imports nothing and by typer: both understand the same."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from dispatchgen.cli._app import COMMANDS, app_for
from dispatchgen.cli._options import for_typer, option, read
from dispatchgen.cli._report import Deny, Format
from dispatchgen.cli.check import check
from dispatchgen.cli.generate import generate

WORDS = [
    "",
    "--spec a --out b --package c",
    "--spec=a --out=b=c --package=",
    "--features a,b --features c",
    "--no-default-features --all-features",
    "--templates torch --templates mine --overlay x.yaml --overlay=y.yaml",
    "--format json --deny warnings",
    "--format sarif",
    "--spec a --spec b",
]


def typers(command: Any, words: list[str]) -> dict[str, Any]:
    """The arguments that typer makes of the words, without those that nobody gave."""
    got: dict[str, Any] = {}

    def taken(**arguments: Any) -> int:
        got.update(arguments)
        return 0

    taken.__name__, taken.__annotations__ = command.__name__, command.__annotations__
    taken.__wrapped__ = command  # type: ignore[attr-defined]
    app = typer.Typer()
    app.callback()(lambda: None)
    app.command("it")(for_typer(taken))
    with pytest.raises(SystemExit) as done:
        app(args=["it", *words])
    assert done.value.code == 0
    return {name: value for name, value in got.items() if value not in (None, False, [])}


@pytest.mark.parametrize("words", [*WORDS, "--fast -v", "--verbose --fast"])
def test_check_is_read_as_typer_reads_it(words: str) -> None:
    found = read(check, words.split())
    assert found is not None
    defaults = {"format": Format.TEXT}
    assert {**defaults, **{key: value for key, value in found.items() if value != []}} == typers(check, words.split())


@pytest.mark.parametrize("words", [*WORDS, "--dry-run --force"])
def test_generate_is_read_as_typer_reads_it(words: str) -> None:
    found = read(generate, words.split())
    assert found is not None
    assert {"format": Format.TEXT, **found} == typers(generate, words.split())


def test_values_are_of_the_kind_that_is_wanted() -> None:
    found = read(check, ["--spec", "a", "--overlay", "b", "--format", "json", "--deny", "warnings", "--templates", "c"])
    assert found == {
        "spec": Path("a"),
        "overlay": [Path("b")],
        "format": Format.JSON,
        "deny": Deny.WARNINGS,
        "templates": ["c"],
    }


@pytest.mark.parametrize(
    "words",
    [
        "--help", "--fsat", "--fas", "extra", "--spec", "--spec --fast", "--format yaml", "--fast=1", "-vv", "-x",
        "--", "--deny errors", "-v=1", "--out -",
    ],
)  # fmt: skip
def test_doubtful_words_are_left_to_typer(words: str) -> None:
    assert read(check, words.split()) is None


def test_other_kinds_of_parameters_are_left_to_typer() -> None:
    def command(count: Annotated[int, option("--count", help="How many.")] = 1, name: str = "") -> None: ...

    assert read(command, ["--count", "2"]) is None
    assert read(command, []) == {}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there_alone_and_with_the_others(name: str) -> None:
    alone = [command.name for command in app_for([name]).registered_commands]
    assert alone == [name]
    assert name in [command.name for command in app_for(["--help"]).registered_commands]
