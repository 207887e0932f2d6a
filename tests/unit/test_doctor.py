"""What is found here, and a probe in a process of its own whatever it does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dispatchgen.cli import main
from dispatchgen.probe import probe

ROOT = Path(__file__).resolve().parents[2]
BASE = ROOT / "tests" / "cases" / "_base"

PROBE = """\
def look(kernels):
    print("chatter")
    known = {name: {"devices": len(name), "missing": None} for name in kernels if name != "Steam"}
    return {"weather": "fine", "winds": {"north": True, "south": False}, "backends": known}
"""


@pytest.fixture
def toy(toy_folder: Path) -> Path:
    Path("src/toyprobe.py").write_text(PROBE)
    with Path("templates/set.yaml").open("a") as stream:
        stream.write("probe: toyprobe:look\n")
    return toy_folder


def told(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(["doctor", *arguments]) == code
    return capsys.readouterr().out


def told_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    return json.loads(told(capsys, *arguments, "--format", "json"))


def test_files_are_counted_as_generate_and_check_count_them(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate"]) == 0
    written = len(list(Path("generated/toy").rglob("*.*")))
    assert capsys.readouterr().out.splitlines()[-1] == f"generated/toy: {written} written"
    assert main(["generate"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"generated/toy: {written} unchanged"
    assert main(["check", "--fast"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"generated/toy: {written} up to date by hashes alone"
    assert f"{written} files by dispatchgen" in told(capsys)


def test_what_the_probe_says(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = told_json(capsys)
    assert found["probe"] == {
        "facts": {
            "weather": "fine",
            "winds": {"north": True, "south": False},
            "backends": {"Iron": {"devices": 4, "missing": None}, "Paper": {"devices": 5, "missing": None}},
        },
        "why_not": None,
    }
    assert found["backends"] == [
        {"name": "Iron", "feature": "", "devices": 4, "missing": ""},
        {"name": "Paper", "feature": "", "devices": 5, "missing": ""},
        {"name": "Steam", "feature": "steam", "devices": None, "missing": "the probe does not know it"},
    ]
    text = told(capsys, "--no-default-features").splitlines()
    assert "winds      north (not south)" in text
    assert "help: feature iron would give Iron here" in text


def test_places(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def places() -> dict[str, Any]:
        return {place["name"]: place for place in told_json(capsys)["places"]}

    before = places()
    assert before["spec"] == {
        "name": "spec",
        "path": "spec",
        "found": True,
        "note": "3 backends, 3 operations, 4 features",
    }
    assert (before["package"]["found"], before["package"]["note"]) == (False, "not generated yet")
    assert main(["generate"]) == 0
    capsys.readouterr()
    after = places()
    assert after["package"]["note"].endswith("with iron, paper")
    assert after["cache"]["found"] is True


def test_a_broken_catalog_is_told_and_the_probe_still_runs(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("spec/backends.yaml").write_text("version: [\n")
    text = told(capsys, code=1)
    assert "1 error" in text
    assert "weather    fine" in text


def test_outside_of_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "there is no folder spec" in told(capsys, "--templates", str(BASE / "templates"))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("import nothing_of_the_kind", "ModuleNotFoundError: No module named 'nothing_of_the_kind'"),
        ("look = lambda: 1 / 0", "ZeroDivisionError: division by zero"),
        ("look = lambda: [1]", "it did not tell facts as a mapping"),
        ("look = lambda: object()", "TypeError: Object of type object is not JSON serializable"),
        ("import os\nlook = lambda: os._exit(7)", "it ended with exit code 7"),
        ("import time\nlook = lambda: time.sleep(60)", "it did not answer within 1 s"),
        ("", "AttributeError: module 'lookout' has no attribute 'look'"),
    ],
)
def test_a_probe_that_fails_says_why(tmp_path: Path, body: str, words: str) -> None:
    (tmp_path / "lookout.py").write_text(body + "\n")
    patience = 1.0 if "sleep" in body else 60.0
    assert probe("lookout:look", {}, [tmp_path], patience) == (None, words)


def test_a_probe_without_arguments_and_with_much_to_say(tmp_path: Path) -> None:
    (tmp_path / "lookout.py").write_text("def look():\n    print('x' * 100000, end='')\n    return {'a': 'ä' * 1000}\n")
    assert probe("lookout:look", {}, [tmp_path]) == ({"a": "ä" * 1000}, "")


def test_without_torch_it_says_so(tmp_path: Path) -> None:
    """As on a machine that has the generator only: a module in torch's place cannot be imported."""
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n")
    done = subprocess.run(
        [sys.executable, "-m", "dispatchgen", "doctor"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT / 'generator'}", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "cannot tell: ModuleNotFoundError: No module named 'torch'" in done.stdout
