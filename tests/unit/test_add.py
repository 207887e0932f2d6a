"""add-backend and add-op on files as people keep them: byte for byte, or not at all."""

from __future__ import annotations

import difflib
import os
import stat
from pathlib import Path

import pytest

from dispatchgen.cli import _edits, main
from dispatchgen.cli._problem import Problem

ROOT = Path(__file__).resolve().parents[2]
BASE = ROOT / "tests" / "cases" / "_base"
SPEC = Path("spec/backends.yaml")


@pytest.fixture(autouse=True)
def _toy(toy_folder: Path) -> None:
    """Every test works on a copy."""


def gained(old: str, new: str) -> list[str]:
    """The lines that came, where none went away."""
    changes = [line for line in difflib.ndiff(old.splitlines(), new.splitlines()) if line[0] in "+-"]
    assert all(line[0] == "+" for line in changes), changes
    return [line[2:] for line in changes]


def test_only_lines_are_gained() -> None:
    old = SPEC.read_text()
    assert main(["add-backend", "Gold", "--not-default"]) == 0
    assert gained(old, SPEC.read_text()) == ["  gold: []", "  - name: Gold", "    id: 3", '    cfg: feature = "gold"']


def test_line_breaks_and_byte_order_mark_and_permissions_stay() -> None:
    SPEC.write_bytes(b"\xef\xbb\xbf" + SPEC.read_bytes().replace(b"\n", b"\r\n"))
    SPEC.chmod(0o640)
    assert main(["add-backend", "Gold"]) == 0
    new = SPEC.read_bytes()
    assert new.startswith(b"\xef\xbb\xbfversion: 1\r\n")
    assert new.count(b"\n") == new.count(b"\r\n")
    assert stat.S_IMODE(SPEC.stat().st_mode) == 0o640
    assert main(["matrix"]) == 0


def test_a_link_is_followed_and_stays_one(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.yaml"
    SPEC.rename(elsewhere)
    SPEC.symlink_to(elsewhere)
    assert main(["add-backend", "Gold"]) == 0
    assert SPEC.is_symlink()
    assert "name: Gold" in elsewhere.read_text()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["add-backend", "Iron"], 1),
        (["add-backend", "not a name"], 1),
        (["add-backend", "Gold", "--id", "70000"], 1),
        (["add-backend", "Gold", "--id", "x"], 2),
        (["add-backend", "Gold", "--cfg", "feature = gold"], 1),
        (["add-backend", "Gold", "--feature", "no such: name"], 1),
        (["add-backend", "Gold", "--kernels", "nowhere"], 1),
        (["add-backend", "Gold", "--transfer", "sideways"], 1),
        (["add-backend", "Gold", "--doc", "bad\x07bell"], 2),
        (["add-backend", "Gold", "--into", "spec"], 2),
        (["add-op", "LiftOps", "lift", "--route", "thing", "--returns", "thing"], 1),
        (["add-op", "LiftOps", "x", "--route", "thing", "--returns", "thing"], 1),
        (["add-op", "LiftOps", "x", "--route", "thing", "--arg", "thing:thing", "--returns", ""], 2),
        (["add-op", "LiftOps", "x", "--route", "thing", "--arg", "thing:thing", "--returns", "thing", "--key", "a"], 2),
    ],
)
def test_what_is_refused_changes_nothing(
    arguments: list[str], code: int, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def contents() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    before = contents()
    assert main(arguments) == code
    said = "".join(capsys.readouterr())
    assert "report" not in said
    assert "Traceback" not in said
    assert contents() == before


def test_a_pipe_is_not_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo("more.yaml")
    assert main(["add-backend", "Gold", "--into", "more.yaml"]) == 2
    assert capsys.readouterr().err == "error: more.yaml is no plain file\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_file_that_cannot_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    SPEC.parent.chmod(0o555)
    try:
        assert main(["add-backend", "Gold"]) == 2
    finally:
        SPEC.parent.chmod(0o755)
    assert "cannot write" in capsys.readouterr().err


def test_a_gap_in_the_ids_is_left_until_nothing_is_above() -> None:
    assert main(["add-backend", "Gold", "--id", "65535"]) == 0
    assert main(["add-backend", "Silver"]) == 0
    assert "  - name: Silver\n    id: 3\n" in SPEC.read_text()


def test_warnings_that_the_change_brings_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["add-backend", "Gold", "--feature", "gold", "--cfg", 'feature = "iron"']) == 0
    assert "spec/backends.yaml:8:3: warning[DG209]: nothing uses the feature `gold`" in capsys.readouterr().out


def test_a_file_that_is_broken_is_told_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.yaml").write_text("version: 1\nbackends: &all []\n")
    assert main(["add-backend", "Gold", "--into", "mine.yaml"]) == 1
    said = capsys.readouterr().out
    assert "mine.yaml:2:11: error[DG105]: the anchor `&all` names a value for use elsewhere" in said
    assert said.endswith("nothing was changed: mend the file first\n")


def test_flow_style_is_kept() -> None:
    SPEC.write_text(
        "version: 1\npackage: toy\nfeatures: {default: [iron], iron: []}\n"
        'backends: [{name: Iron, id: 4, cfg: feature = "iron", kernels: toykernels.iron:Iron}]  # one\n'
    )
    assert main(["add-backend", "Gold", "--transfer", "none"]) == 0
    assert SPEC.read_text() == (
        "version: 1\npackage: toy\nfeatures: {default: [iron, gold], iron: [], gold: []}\n"
        'backends: [{name: Iron, id: 4, cfg: feature = "iron", kernels: toykernels.iron:Iron}, '
        '{name: Gold, id: 5, cfg: feature = "gold", transfer: none}]  # one\n'
    )


def test_a_layout_that_is_not_touched_is_told_with_what_to_write(capsys: pytest.CaptureFixture[str]) -> None:
    SPEC.write_text('{version: 1, package: toy, backends: [{name: Iron, id: 4, cfg: "true"}]}\n')
    assert main(["add-backend", "Gold"]) == 2
    error = capsys.readouterr().err
    assert "spec/backends.yaml has a layout that is not changed safely; by hand, add to `features`:\ngold: []" in error


def test_a_method_that_many_lack_is_asked_for_once_in_what_they_share(capsys: pytest.CaptureFixture[str]) -> None:
    Path("src/toykernels/_base.py").write_text("class Thingy:\n    pass\n")
    for name in ("iron", "paper"):
        path = Path(f"src/toykernels/{name}.py")
        text = path.read_text().replace(f"class {name.title()}:", f"class {name.title()}(Thingy):")
        path.write_text("from toykernels._base import Thingy\n" + text)
    assert main(["add-op", "CarryOps", "hold", "--route", "thing", "--arg", "t:thing", "--returns", "truth"]) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("to do")]
    assert told == [
        "to do: add once to the class Thingy, below src/toykernels/_base.py:2, for Iron, Paper: `def hold(self, t: Thing) -> bool:`"
    ]
    assert main(["generate"]) == 0
    assert main(["check"]) == 1
    assert "-> bool:`; or else to the class Paper, below src/toykernels/paper.py:14" in capsys.readouterr().out


def test_an_overlay_of_its_own_grows_by_both_commands() -> None:
    assert main(["add-backend", "Gold", "--into", "gold.yaml", "--kernels", "gold.kernels:Gold"]) == 0
    call = ["add-op", "LiftOps", "hoist", "--route", "thing", "--arg", "t:thing", "--returns", "thing"]
    assert main([*call, "--into", "gold.yaml"]) == 0
    assert Path("gold.yaml").read_text() == (
        "version: 1\n\nfeatures:\n  default: [gold]\n  gold: []\n\nbackends:\n  - name: Gold\n    id: 3\n"
        '    cfg: feature = "gold"\n    kernels: gold.kernels:Gold\n\nops:\n  LiftOps:\n    - name: hoist\n'
        "      doc: Hoist.\n      route: thing\n      args:\n        - {name: t, type: thing}\n"
        "      returns: {type: thing}\n      otherwise: error\n"
    )
    assert main(["matrix", "--overlay", "gold.yaml"]) == 0


@pytest.mark.parametrize("there", ["", "another\n", None])
def test_what_somebody_else_wrote_meanwhile_stays(there: str | None) -> None:
    first, second = Path("first.yaml"), Path("new/second.py")
    first.write_text("old\n")
    edits = [_edits.Edit(first, "old\n", "new\n"), _edits.Edit(second, None, "begun\n")]
    if there is None:
        second.parent.mkdir()
        second.write_text("somebody's\n")
    else:
        first.write_text(there)
    with pytest.raises(Problem, match="was changed meanwhile, and nothing was written"):
        _edits.made(edits, dry_run=False)
    assert first.read_text() == ("old\n" if there is None else there)
    assert second.read_text() == "somebody's\n" if there is None else not second.exists()


def test_what_somebody_else_wrote_in_the_same_words_is_no_change() -> None:
    first, second = Path("first.yaml"), Path("new/second.py")
    first.write_text("old\n")
    second.parent.mkdir()
    second.write_text("begun\n")
    _edits.made([_edits.Edit(first, "old\n", "new\n"), _edits.Edit(second, None, "begun\n")], dry_run=False)
    assert first.read_text() == "new\n"
