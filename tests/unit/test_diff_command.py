"""`dispatchgen diff`: folders and revisions, formats, what fails a run, and what cannot be compared."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dispatchgen.cli import main
from tests.toy import swap
from tests.unit.test_sarif import log_of


@pytest.fixture
def toy(toy_folder: Path) -> Path:
    """A project under version control: one commit, and nothing changed since."""
    git("init", "--quiet", "--initial-branch", "main")
    commit("first")
    return toy_folder


def git(*words: str) -> str:
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    alone = {**os.environ, **who, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True, env=alone).stdout


def commit(message: str) -> None:
    git("add", "--all")
    git("commit", "--quiet", "--message", message)


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str]]:
    code = main(["diff", *words])
    return code, capsys.readouterr().out.splitlines()


def facts(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code = main(["diff", *words, "--format", "json"])
    return code, json.loads(capsys.readouterr().out)


def renumber() -> None:
    swap("spec/backends.yaml", "id: 1\n", "id: 3\n")


def test_nothing_changed(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = said(capsys, "main", ".")
    assert code == 0
    [line] = lines
    assert line.startswith("main -> .: nothing changed (")
    assert said(capsys, "HEAD")[0] == 0, "the working tree is what is compared with unless somebody says otherwise"


def test_a_revision_with_the_working_tree(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    renumber()
    code, lines = said(capsys, "main", ".")
    assert code == 0
    assert lines[0].startswith("major  backend ")
    assert lines[0].endswith(": id 1 -> 3; what was stored or sent under the old id belongs to something else")
    assert lines[1].strip().startswith("spec/backends.yaml:")
    assert lines[-1].startswith("main -> .: 1 major (")
    commit("second")
    assert said(capsys, "main~1", "main")[1][:-1] == lines[:-1]
    assert git("status", "--porcelain") == ""


def test_what_is_not_committed_is_not_in_a_revision(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    renumber()
    assert facts(capsys, "main", "main")[1]["rating"] is None
    assert facts(capsys, ".", "main")[1]["changes"][0]["what"] == "id 3 -> 1"


def test_projects_and_specs_in_folders(
    toy: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path_factory.mktemp("other")
    shutil.copytree(toy, other / "project", ignore=shutil.ignore_patterns(".git"))
    renumber()
    for old in (other / "project", other / "project" / "spec"):
        code, found = facts(capsys, str(old), ".")
        assert code == 0
        [change] = found["changes"]
        assert (change["rating"], change["what"]) == ("major", "id 1 -> 3")
        assert change["before"]["file"] == str(other / "project" / "spec" / "backends.yaml")
        assert change["place"]["file"] == "spec/backends.yaml"
    (other / "project" / "pyproject.toml").unlink()  # a copy of a spec is read with the template set that is used here
    assert facts(capsys, str(other / "project"), "spec")[1]["rating"] == "major"


def test_a_revision_is_read_with_its_own_settings(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    git("mv", "spec", "catalog")
    git("mv", "templates", "sets")
    Path("pyproject.toml").write_text('[tool.dispatchgen]\nspec = "catalog"\ntemplates = "sets"\n')
    commit("moved")
    assert facts(capsys, "main~1", "main")[1]["rating"] is None
    assert facts(capsys, "main~1", ".")[1]["rating"] is None


def test_a_project_below_the_top_of_a_repository(
    toy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("deep/inner").mkdir(parents=True)
    for name in ("spec", "pyproject.toml"):
        git("mv", name, f"deep/inner/{name}")
    Path("deep/inner/pyproject.toml").write_text('[tool.dispatchgen]\ntemplates = "../../templates"\n')
    commit("moved")
    monkeypatch.chdir(toy / "deep" / "inner")
    renumber()
    code, found = facts(capsys, "main", ".")
    assert code == 0
    assert [each["what"] for each in found["changes"]] == ["id 1 -> 3"]
    assert found["changes"][0]["before"]["file"] == "main:deep/inner/spec/backends.yaml"


def test_an_overlay_counts(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("more.yaml").write_text("version: 1\nfeatures:\n  extra: []\n")
    swap("pyproject.toml", "[tool.dispatchgen]\n", '[tool.dispatchgen]\noverlays = ["more.yaml"]\n')
    commit("more")
    _, found = facts(capsys, "main~1", "main")
    assert [each["subject"] for each in found["changes"]] == ["feature extra"]
    assert found["changes"][0]["rating"] == "minor"


@pytest.mark.parametrize(
    ("edit", "ratings"),
    [
        (("spec/ops/lift.yaml", "Bring a thing up.", "Bring a thing up high."), {"patch"}),
        (("spec/backends.yaml", "  steam: []\n", "  steam: []\n  coal: []\n"), {"patch", "minor"}),
        (("spec/backends.yaml", "id: 1\n", "id: 3\n"), {"patch", "minor", "major"}),
    ],
)
def test_what_fails(
    toy: Path, capsys: pytest.CaptureFixture[str], edit: tuple[str, str, str], ratings: set[str]
) -> None:
    swap(*edit)
    failing = {each for each in ("major", "minor", "patch") if said(capsys, "main", ".", "--fail-on", each)[0] == 1}
    assert failing == ratings


def test_formats(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    renumber()
    swap("spec/ops/lift.yaml", "Bring a thing up.", "Bring a thing up high.")
    assert main(["diff", "main", ".", "--format", "github", "--fail-on", "major"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("::error file=spec/backends.yaml,line=")
    assert "title=DG901::major: backend " in lines[0]
    assert lines[1].startswith("::notice file=spec/ops/lift.yaml,line=")
    assert len(lines) == 2
    assert main(["diff", "main", ".", "--format", "github"]) == 0
    assert capsys.readouterr().out.startswith("::warning file=")
    assert main(["diff", "main", ".", "--format", "sarif"]) == 0
    results = log_of(capsys.readouterr().out)["runs"][0]["results"]
    assert [(each["ruleId"], each["level"]) for each in results] == [("DG901", "warning"), ("DG903", "note")]
    _, found = facts(capsys, "main", ".")
    assert {key: found[key] for key in ("version", "old", "new", "rating")} == {
        "version": 1,
        "old": "main",
        "new": ".",
        "rating": "major",
    }
    assert [each["code"] for each in found["findings"]] == ["DG901", "DG903"]
    assert found["cells"] > found["builds"] > 3


def test_the_builds_of_a_change(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    swap("spec/backends.yaml", "default: [iron, paper]", "default: [iron]")
    _, found = facts(capsys, "main", ".")
    assert [(each["rating"], each["builds"]) for each in found["changes"]] == [
        ("major", []),
        ("major", ["default features"]),
    ]


@pytest.mark.parametrize("broken", ["main", "."])
def test_a_spec_with_findings(toy: Path, capsys: pytest.CaptureFixture[str], broken: str) -> None:
    good = Path("spec/backends.yaml").read_text()
    swap("spec/backends.yaml", 'cfg: feature = "iron"', 'cfg: feature = "irn"')
    if broken == "main":
        commit("broken")
        Path("spec/backends.yaml").write_text(good)
    code, lines = said(capsys, "main", ".")
    assert code == 1
    file = "main:spec/backends.yaml" if broken == "main" else "spec/backends.yaml"
    assert lines[0].startswith(f"{file}:")
    assert "error[DG203]: there is no feature `irn`" in lines[0]
    assert 'cfg: feature = "irn"' in lines[2]
    assert lines[-1] == f"not compared: {broken} has 1 error"
    assert facts(capsys, "main", ".")[0] == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere", "."], "nowhere is neither a folder nor a revision that git knows here"),
        ([".", "--", "--output=x"], "--output=x is neither a folder nor a revision"),
        (["src", "."], "src has no catalog: neither backends.yaml, nor spec/backends.yaml, nor a pyproject.toml"),
        (["empty", "."], "empty has no catalog: neither backends.yaml"),
        (["odd", "."], "at odd: pyproject.toml: [tool.dispatchgen] has no setting 'spek'"),
        (["main", ".", "--fail-on", "huge"], "Invalid value for '--fail-on'"),
    ],
)
def test_what_cannot_be_compared(toy: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    git("checkout", "--quiet", "--orphan", "empty")
    git("rm", "-r", "--quiet", "--cached", ".")
    git("commit", "--quiet", "--allow-empty", "--message", "nothing")
    git("checkout", "--quiet", "--force", "main")
    git("checkout", "--quiet", "-b", "odd")
    swap("pyproject.toml", "[tool.dispatchgen]\n", '[tool.dispatchgen]\nspek = "x"\n')
    commit("odd")
    git("checkout", "--quiet", "main")
    assert main(["diff", *words]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err


def test_without_a_repository_or_git(
    toy_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(toy_folder.parent))
    assert main(["diff", "main", "."]) == 2
    assert "main is neither a folder nor a revision that git knows here" in capsys.readouterr().err
    assert main(["diff", "spec", "."]) == 0
    monkeypatch.setenv("PATH", str(toy_folder))
    assert main(["diff", "main", "."]) == 2
    assert "git cannot be run, so there are no revisions to compare" in capsys.readouterr().err
