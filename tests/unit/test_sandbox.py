"""Templates from anywhere: they see values and nothing behind them, run once, and may lie over a set's own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dispatchgen.cache import FolderCache
from dispatchgen.cli import _inputs, main
from dispatchgen.cli._problem import Problem
from dispatchgen.plan import plan
from dispatchgen.render import render

ROOT = Path(__file__).parents[2]
BASE = ROOT / "tests" / "cases" / "_base"


@pytest.fixture
def toy(toy_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DISPATCHGEN_CACHE", "")
    Path("mine").mkdir()
    return toy_folder


def over(name: str, text: str) -> None:
    path = Path("mine", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def generated(name: str) -> str:
    return Path("generated/toy", name).read_text()


OVER = ["--templates", "templates", "--templates", "mine"]


@pytest.mark.parametrize(
    "expression",
    [
        "''.__class__.__mro__",
        "''['__class__']",
        "package.format.__globals__",
        "('{0.__class__}').format(package)",
        "built.__class__.__subclasses__()",
        "families[0].ops[0].__init__.__globals__",
        "cycler.__init__.__globals__.os",
        "self.__init__.__globals__",
        "modules.clear()",
        "modules.update(a=1)",
        "range(10000000) | list",
        "undefined_name",
        "family.no_such_thing",
        "7 * 7",
    ],
)
def test_what_no_template_may_do(toy: Path, capsys: pytest.CaptureFixture[str], expression: str) -> None:
    over("about.txt.jinja", "one\n{{ " + expression + " }}\n")
    assert main(["generate", *OVER]) == 1
    out = capsys.readouterr().out
    assert "mine/about.txt.jinja:2:1: error[DG701]" in out
    assert not Path("generated").exists()


@pytest.mark.parametrize("text", ["{{ 7 * 7 }}", "{% raw %}", "{# gone #}", "{{ package.__class__ }}", "{%- endfor %}"])
def test_text_of_the_spec_is_no_template(toy: Path, text: str) -> None:
    spec = Path("spec/ops/lift.yaml")
    spec.write_text(spec.read_text().replace("doc: Bring a thing up.", f"doc: 'Up {text} it goes.'"))
    assert main(["generate"]) == 0
    assert f"Up {text} it goes." in generated("ops/lift.py")


def test_an_overlay_takes_the_place_of_a_template(toy: Path) -> None:
    over("about.txt.jinja", "Mine, about {{ package }}.\n")
    assert main(["generate", *OVER]) == 0
    assert generated("about.txt") == "Mine, about toy.\n"
    assert "def bind_lift" in generated("ops/lift.py")
    assert main(["check", *OVER]) == main(["check", "--fast", *OVER]) == 0
    over("about.txt.jinja", "Mine, of {{ package }}.\n")
    assert main(["check", *OVER]) == main(["check", "--fast", *OVER]) == 1
    assert main(["check", "--fast"]) == 1


def test_an_overlay_takes_the_place_of_what_is_taken_in(toy: Path) -> None:
    assert main(["generate"]) == 0
    assert "iron_kernels.lift" in generated("ops/lift.py")
    over(
        "ops/arm.jinja",
        Path("templates/ops/arm.jinja")
        .read_text()
        .replace("return refuse", "return my_refuse")
        .replace("_kernels.", "_own."),
    )
    assert main(["generate", *OVER]) == 0
    assert "iron_own.lift" in generated("ops/lift.py")


def test_the_last_overlay_wins(toy: Path) -> None:
    over("about.txt.jinja", "mine\n")
    shutil.copytree("mine", "yours")
    Path("yours/about.txt.jinja").write_text("yours\n")
    assert main(["generate", *OVER, "--templates", "yours"]) == 0
    assert generated("about.txt") == "yours\n"


def test_an_overlay_alone_lies_over_the_usual_set(toy: Path) -> None:
    over("about.txt.jinja", "mine\n")
    assert main(["generate", "--templates", "mine"]) == 0
    assert generated("about.txt") == "mine\n"
    Path("pyproject.toml").write_text('[tool.dispatchgen]\ntemplates = ["templates", "mine"]\n')
    assert main(["check"]) == main(["check", "--fast"]) == 0
    assert _inputs.settings().template_overlays == (Path("mine"),)


def test_two_sets_are_one_too_many(toy: Path) -> None:
    with pytest.raises(Problem, match="both template sets"):
        _inputs.settings(templates=["templates", "torch"])


def test_a_folder_that_replaces_nothing_is_a_mistake(toy: Path) -> None:
    over("abuot.txt.jinja", "mine\n")
    with pytest.raises(Problem, match=r"has no set\.yaml, and no template of"):
        _inputs.settings(templates=["mine"])


def test_a_template_that_replaces_nothing_is_a_warning(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    over("about.txt.jinja", "{% include 'part.jinja' %}\n")
    over("part.jinja", "mine\n")
    over("ops/famly.py.jinja", "mine\n")
    assert main(["generate", *OVER]) == 0
    out = capsys.readouterr().out
    assert out.count("warning[") == 1
    assert "mine/ops/famly.py.jinja:1:1: warning[DG719]" in out
    assert main(["generate", *OVER, "--deny", "warnings"]) == 1


def test_what_is_remembered_changes_nothing(toy: Path) -> None:
    inputs, _ = _inputs.read(_inputs.settings())
    assert inputs is not None
    planned = plan(inputs.catalog, inputs.template_set, inputs.build)
    cache = FolderCache(Path("cache"))
    fresh = render(planned, inputs.template_set)
    assert render(planned, inputs.template_set, cache) == render(planned, inputs.template_set, cache) == fresh
    assert list(Path("cache").rglob("*"))
    changed = Path("templates/about.txt.jinja")
    changed.write_text(changed.read_text() + "more\n")
    again = render(planned, inputs.template_set, cache)
    assert again == render(planned, inputs.template_set)
    assert again != fresh


def test_what_does_not_compile_is_told_again(toy: Path) -> None:
    Path("templates/__init__.py.jinja").write_text("x = (\n")
    inputs, _ = _inputs.read(_inputs.settings())
    assert inputs is not None
    planned, cache = plan(inputs.catalog, inputs.template_set, inputs.build), FolderCache(Path("cache"))
    for _ in range(2):
        _, findings = render(planned, inputs.template_set, cache)
        assert [finding.code for finding in findings] == ["DG702"]
