"""What else can be wrong with files: links, manifests that lie, line ends, long names, many writers at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dispatchgen.cli import main
from dispatchgen.digests import sha256
from tests.shipped import ROOT

PACKAGE = Path("generated/toy")
NO_DEFAULT = "--no-default-features"


def contents(folder: Path) -> dict[str, bytes]:
    """What a project holds, the cache apart, which any command may fill."""
    ours = (path for path in folder.rglob("*") if path.is_file() and path.name != ".dispatchgen.lock")
    ours = (path for path in ours if path.relative_to(folder).parts[0] != "cache")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in ours}


def start(*options: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "dispatchgen", *options],
        env={**os.environ, "PYTHONPATH": str(ROOT / "generator"), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_eight_at_once_end_in_the_work_of_one(toy_folder: Path) -> None:
    selections = [[], [NO_DEFAULT], [NO_DEFAULT, "--features", "iron"], [NO_DEFAULT, "--features", "paper"]] * 2
    wholes = []
    for number, selection in enumerate(selections[:4]):
        assert main(["generate", "--out", f"alone{number}", *selection]) == 0
        wholes.append(contents(Path(f"alone{number}")))
    running = [start("generate", *selection) for selection in selections]
    for process in running:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, ""), out
    assert contents(Path("generated")) in wholes
    assert sum(main(["check", *selection]) == 0 for selection in selections[:4]) >= 1


@pytest.mark.parametrize("lie", ["../../victim.txt", "/tmp/victim.txt", "sub/../../../victim.txt", "C:victim.txt"])
def test_a_manifest_that_lists_what_is_elsewhere_harms_nothing(
    toy_folder: Path, capsys: pytest.CaptureFixture[str], lie: str
) -> None:
    assert main(["generate"]) == 0
    victim = toy_folder / "victim.txt"
    victim.write_text("mine")
    manifest = json.loads((PACKAGE / "MANIFEST.json").read_text())
    record = {**manifest["files"]["about.txt"], "sha256": sha256("mine")}
    manifest["files"][lie] = record
    (PACKAGE / "MANIFEST.json").write_text(json.dumps(manifest))
    before = contents(toy_folder)
    assert main(["check"]) == 1
    assert contents(toy_folder) == before
    assert "not a path inside the package" in capsys.readouterr().out
    assert main(["generate", "--force"]) == 0
    assert victim.read_text() == "mine"
    assert lie not in (PACKAGE / "MANIFEST.json").read_text()


@pytest.mark.parametrize("lie", ["about.txt", "ops"])
def test_a_journal_that_lies_harms_nothing(toy_folder: Path, lie: str) -> None:
    """It can only name files as our own whose content it knows, and none outside the package."""
    assert main(["generate"]) == 0
    (PACKAGE / "mine.txt").write_text("mine")
    Path("victim.txt").write_text("mine")
    lies = ["../../victim.txt", "mine.txt ", lie, "\0", "x" * 5000]
    (PACKAGE / ".dispatchgen.journal").write_text("".join(f"{sha256('mine')} {path}\n" for path in lies) + "\udcff"[:0])
    assert main(["generate"]) == 0
    assert Path("victim.txt").read_text() == (PACKAGE / "mine.txt").read_text() == "mine"
    assert not (PACKAGE / ".dispatchgen.journal").exists()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\0\0", b"\n" * 10_000, b"a" * 1_000_000])
def test_a_damaged_journal_is_no_obstacle(toy_folder: Path, content: bytes) -> None:
    assert main(["generate"]) == 0
    (PACKAGE / ".dispatchgen.journal").write_bytes(content)
    assert main(["check"]) == 1
    assert main(["generate"]) == 0
    assert main(["check"]) == 0


def test_a_link_on_the_way_to_the_output_folder_is_followed(toy_folder: Path) -> None:
    Path("elsewhere/deeper").mkdir(parents=True)
    Path("generated").symlink_to("elsewhere/deeper")
    Path("parent").symlink_to("elsewhere")
    assert main(["generate"]) == 0
    assert Path("generated").is_symlink()
    assert main(["generate", "--out", "parent/deeper"]) == 0
    assert main(["check", "--out", "elsewhere/deeper"]) == 0


def test_a_link_in_a_cut_off_first_run_is_not_followed(toy_folder: Path) -> None:
    Path("mine").mkdir()
    Path("mine/a.txt").write_text("mine")
    Path("generated").mkdir()
    Path("generated/.toy.01234567.dispatchgen").symlink_to(toy_folder / "mine")
    Path("generated/.toy.89abcdef.dispatchgen").mkdir()
    Path("generated/.toy.89abcdef.dispatchgen/inner").symlink_to(toy_folder / "mine")
    Path("generated/.other.89abcdef.dispatchgen").mkdir()
    assert main(["generate"]) == 0
    assert Path("mine/a.txt").read_text() == "mine"
    assert sorted(path.name for path in Path("generated").iterdir()) == [
        ".dispatchgen.lock",
        ".other.89abcdef.dispatchgen",
        ".toy.01234567.dispatchgen",
        "toy",
    ]


def test_line_ends_that_version_control_changed_are_no_edit(toy_folder: Path) -> None:
    assert main(["generate"]) == 0
    for path in [*Path().rglob("*.py"), *Path().rglob("*.yaml"), *Path().rglob("*.jinja"), *PACKAGE.rglob("*.*")]:
        if path.is_file():
            path.write_bytes(path.read_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"))
    before = contents(PACKAGE)
    assert main(["check"]) == main(["check", "--fast"]) == 0
    assert main(["generate"]) == 0
    assert contents(PACKAGE) == before
    assert main(["generate", NO_DEFAULT, "--features", "iron"]) == 0
    assert main(["check", NO_DEFAULT, "--features", "iron"]) == 0


def test_one_line_end_that_was_changed_is_an_edit(toy_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate"]) == 0
    about = PACKAGE / "about.txt"
    about.write_bytes(about.read_bytes().replace(b"\n", b"\r\n", 1))
    assert main(["check"]) == 1
    assert "edited by hand" in capsys.readouterr().out


@pytest.mark.parametrize("depth", [3, 12, 40])
def test_long_paths_work_or_are_one_sentence(toy_folder: Path, capsys: pytest.CaptureFixture[str], depth: int) -> None:
    out = Path(*["n" * 200] * depth)
    code = main(["generate", "--out", str(out)])
    told = capsys.readouterr()
    assert code == (0 if depth < 20 else 2)
    assert "Traceback" not in told.out + told.err
    assert code == 0 or (told.err.count("\n") == 1 and "File name too long" in told.err)
    assert code == 2 or main(["check", "--out", str(out)]) == 0


LOCALES = [
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"},
    {"LC_ALL": "C.UTF-8"},
]


def test_no_locale_changes_what_is_written_or_keeps_it_from_being_written(toy_folder: Path) -> None:
    ops = Path("spec/ops/lift.yaml")
    ops.write_text(ops.read_text().replace("Ways up.", "Wege nach oben, größer, 上, ⬆, \U0001f680."), encoding="utf-8")
    folder = Path("größer-上")
    found = []
    for number, locale in enumerate(LOCALES):
        out = folder / str(number)
        for command in ("generate", "check", "check --fast"):
            process = start(*command.split(), "--out", str(out), DISPATCHGEN_CACHE="", PYTHONWARNINGS="error", **locale)
            told, err = process.communicate(timeout=60)
            assert (process.returncode, err) == (0, ""), (locale, told)
        found.append(contents(out))
    assert found[0] == found[1] == found[2]
    assert "größer, 上".encode() in found[0]["toy/about.txt"] + found[0]["toy/ops/lift.py"]
