"""The pre-commit hooks and the GitHub Action: their fields, and that what they run does what they are for."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.toy import swap

ROOT = Path(__file__).resolve().parents[2]
HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]

HOOK_KEYS = {"id", "name", "entry", "language", "description", "pass_filenames", "always_run", "stages"}
"""Those of pre-commit's manifest that are used here: it warns of any that it does not know."""


@pytest.fixture
def project(toy_folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A generated package that is up to date, in a clone of a repository with a base branch."""
    commands = tmp_path_factory.mktemp("bin")
    (commands / "dispatchgen").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m dispatchgen "$@"\n')
    (commands / "dispatchgen").chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "generator"))
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    for name, value in {**who, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}.items():
        monkeypatch.setenv(name, value)
    origin = tmp_path_factory.mktemp("origin")
    assert shell("dispatchgen generate").returncode == 0
    Path(".gitignore").write_text("cache/\n")
    for line in (
        f"git init --quiet --bare --initial-branch trunk {origin}",
        "git init --quiet --initial-branch trunk",
        "git add --all",
        "git commit --quiet --message first",
        f"git remote add origin {origin}",
        "git push --quiet origin trunk",
        "git checkout --quiet -b change",
        "git branch --quiet -D trunk",
        "git update-ref -d refs/remotes/origin/trunk",
    ):
        assert shell(line).returncode == 0, line
    return toy_folder


def shell(line: str, cwd: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    """As GitHub runs a step with `shell: bash`."""
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", line]
    return subprocess.run(words, cwd=cwd, env={**os.environ, **more}, capture_output=True, text=True, timeout=90)


def stale() -> None:
    swap("spec/ops/lift.yaml", "Bring a thing up.", "Bring a thing up high.")


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_the_fields_of_a_hook(hook: dict[str, Any]) -> None:
    assert {"id", "name", "entry", "language"} <= set(hook) <= HOOK_KEYS
    assert re.fullmatch(r"[a-z-]+", hook["id"])
    assert hook["language"] == "python"
    assert hook["pass_filenames"] is False, "the command takes no file names"
    assert hook["always_run"] is True, "nobody knows beforehand which files a package depends on"
    assert set(hook.get("stages", [])) <= {"pre-commit", "pre-push"}


def test_the_ids_of_hooks_differ() -> None:
    assert len({hook["id"] for hook in HOOKS}) == len(HOOKS)


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_a_hook_passes_and_bites(hook: dict[str, Any], project: Path) -> None:
    assert shell(hook["entry"]).returncode == 0
    stale()
    done = shell(hook["entry"])
    assert done.returncode == 1
    assert "spec changed" in done.stdout


def test_the_fields_of_the_action() -> None:
    assert set(ACTION) == {"name", "description", "branding", "inputs", "runs"}
    assert ACTION["runs"]["using"] == "composite"
    for name, about in ACTION["inputs"].items():
        assert set(about) == {"description", "default"}, name
        assert isinstance(about["default"], str), name
    for step in STEPS:
        assert "uses" in step or {"name", "shell", "run"} <= set(step)
        assert "${{" not in step.get("run", ""), "an input could end the command and begin another one"
    named = set(re.findall(r"inputs\.([\w-]+)", str(STEPS)))
    assert named == set(ACTION["inputs"])


def value(expression: str, inputs: dict[str, str]) -> str:
    """What GitHub makes of `${{ … }}`, as far as the action needs it: inputs, its own folder, and `||`."""
    known = {**{f"inputs.{name}": text for name, text in inputs.items()}, "github.action_path": str(ROOT)}

    def told(match: re.Match[str]) -> str:
        return next(filter(None, (known[name.strip()] for name in match[1].split("||"))), "")

    return re.sub(r"\$\{\{(.*?)\}\}", told, expression)


def play(name: str, top: Path, **given: str) -> subprocess.CompletedProcess[str]:
    """One step of the action, with inputs that are not left at their defaults."""
    [step] = [each for each in STEPS if each.get("name") == name]
    inputs = {each: about["default"] for each, about in ACTION["inputs"].items()}
    inputs |= {each.replace("_", "-"): text for each, text in given.items()}
    environment = {key: value(text, inputs) for key, text in step.get("env", {}).items()}
    folder = top / value(step.get("working-directory", "."), inputs)
    return shell(step["run"], folder, GITHUB_WORKSPACE=str(top), **environment)


def test_what_the_action_installs() -> None:
    [step] = [each for each in STEPS if each.get("name") == "Install dispatchgen"]
    inputs = {each: about["default"] for each, about in ACTION["inputs"].items()}
    assert value(step["env"]["REQUIREMENT"], inputs) == str(ROOT), "itself, unless somebody says otherwise"
    assert value(step["env"]["REQUIREMENT"], {**inputs, "requirement": "dispatchgen==0.1.0"}) == "dispatchgen==0.1.0"
    done = play("Install dispatchgen", ROOT, requirement="/nowhere; touch /nowhere/else")
    assert done.returncode != 0
    assert "nowhere" in done.stderr


def test_the_action_checks_and_annotates(project: Path) -> None:
    assert play("Check what is generated", project).returncode == 0
    stale()
    done = play("Check what is generated", project, arguments="--fast --deny warnings")
    assert done.returncode == 1
    assert "::error file=generated/toy/ops/lift.py,line=1,col=1,endLine=1,title=DG711::spec changed" in done.stdout
    assert play("Check what is generated", project, arguments="--wrong").returncode == 2


def test_annotations_name_files_from_the_top_of_the_checkout(project: Path) -> None:
    (project / "deep").mkdir()
    for name in ("spec", "templates", "src", "generated", "pyproject.toml"):
        (project / name).rename(project / "deep" / name)
    swap("deep/spec/backends.yaml", 'feature = "iron"', 'feature = "irn"')
    done = play("Check what is generated", project, working_directory="deep")
    assert "::error file=deep/spec/backends.yaml,line=" in done.stdout


def test_the_action_compares_with_the_base_branch(project: Path) -> None:
    done = play("Compare the catalog with the base branch", project, diff_against="trunk")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    swap("spec/backends.yaml", "id: 1\n", "id: 3\n")
    done = play("Compare the catalog with the base branch", project, diff_against="trunk")
    assert done.returncode == 1
    assert done.stdout.startswith("::error file=spec/backends.yaml,line=")
    done = play("Compare the catalog with the base branch", project, diff_against="trunk", fail_on="")
    assert done.returncode == 0
    assert done.stdout.startswith("::warning file=spec/backends.yaml,line=")
    done = play("Compare the catalog with the base branch", project, diff_against="gone")
    assert done.returncode != 0
    assert "gone" in done.stderr


def test_the_comparison_runs_after_findings_too_and_only_where_it_is_asked_for() -> None:
    [step] = [each for each in STEPS if each.get("name") == "Compare the catalog with the base branch"]
    assert step["if"] == "(success() || failure()) && inputs.diff-against != ''"
