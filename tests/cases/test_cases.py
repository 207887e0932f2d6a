"""Every folder here is a case: what is done, what the command line says to it, and what lies there afterwards.

A case starts from a copy of `_base`, a catalog of things that move, with its own template set and kernels. Its
`case.yaml` lists steps: `run` a command, `write` or `append` to files, `remove` files. `transcript.txt` is what the
commands said, with their exit codes; `tree/`, where the case has one, is the output folder at the end.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from shlex import split
from typing import Any

import pytest
import yaml

from dispatchgen import __version__
from dispatchgen.cli import main
from dispatchgen.format import black_version

HERE = Path(__file__).parent
CASES = sorted(path.parent.name for path in HERE.glob("*/case.yaml"))
AGAIN = "to accept this: python -m pytest tests/cases --update"


def change(step: dict[str, Any], root: Path) -> None:
    for name, text in {**step.get("write", {}), **step.get("append", {})}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((path.read_text() if name in step.get("append", {}) else "") + text)
    for name in step.get("remove", []):
        (root / name).unlink()
    for name, (old, new) in step.get("replace", {}).items():
        text = (root / name).read_text()
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {name}"
        (root / name).write_text(text.replace(old, new))


def play(case: Path, root: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The transcript of the case, played in a folder that is the current one."""
    said = []
    for step in yaml.safe_load((case / "case.yaml").read_text())["steps"]:
        if "run" not in step:
            change(step, root)
            continue
        code = main(split(step["run"]))
        captured = capsys.readouterr()
        said.append(f"$ dispatchgen {step['run']}\n{captured.out}")
        said += [f"stderr: {line}\n" for line in captured.err.splitlines()]
        said.append(f"exit code {code}\n\n")
    return lasting("".join(said).rstrip("\n") + "\n", root)


def lasting(text: str, root: Path) -> str:
    """The text without what depends on the machine, on versions, and on hashes of more than the case is about."""
    text = text.replace(str(root), "<root>").replace(black_version(), "<black>")
    text = text.replace(f"dispatchgen {__version__}", "dispatchgen <version>")
    return re.sub(r"\b[0-9a-f]{64}\b", "<sha256>", text)


def files(folder: Path) -> dict[str, str]:
    found = {
        path.relative_to(folder).as_posix(): lasting(path.read_text(), folder)
        for path in folder.rglob("*")
        if path.is_file()
    }
    return {name: text for name, text in found.items() if not name.endswith((".lock", "MANIFEST.json"))}


@pytest.mark.parametrize("name", CASES)
def test_case(
    name: str,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    case = HERE / name
    shutil.copytree(HERE / "_base", tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISPATCHGEN_CACHE", str(tmp_path_factory.getbasetemp() / "formatted"))
    monkeypatch.setenv("NO_COLOR", "1")
    transcript = play(case, tmp_path, capsys)
    if request.config.getoption("--update", default=False):
        (case / "transcript.txt").write_text(transcript)
        if (case / "tree").is_dir():
            shutil.rmtree(case / "tree")
            for path, text in files(tmp_path / "generated").items():
                (case / "tree" / path).parent.mkdir(parents=True, exist_ok=True)
                (case / "tree" / path).write_text(text)
    assert transcript == (case / "transcript.txt").read_text(), AGAIN
    if (case / "tree").is_dir():
        assert files(tmp_path / "generated") == files(case / "tree"), AGAIN


def test_there_are_cases() -> None:
    assert len(CASES) >= 8
