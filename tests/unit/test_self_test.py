"""`check --self-test`: every gap is made and found, and what is not found is told with its place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dispatchgen.check import statements
from dispatchgen.cli import main
from dispatchgen.findings import Finding
from dispatchgen.selftest import run
from dispatchgen.selftest.mutation import Expected, Mutation
from dispatchgen.selftest.run import Task, sampled
from dispatchgen.selftest.text import Text, edited
from tests.toy import Toy


@pytest.fixture
def toy(toy_folder: Path, capsys: pytest.CaptureFixture[str]) -> Toy:
    toy = Toy(Path())
    toy.tell_shapes()
    assert main(["generate"]) == 0
    capsys.readouterr()
    return toy


def contents() -> dict[Path, bytes]:
    """Every file of the project; what is remembered between runs is none."""
    return {path: path.read_bytes() for path in Path().rglob("*") if path.is_file() and "cache" not in path.parts}


def test_all_gaps_are_found_and_nothing_is_touched(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents()
    assert main(["check", "--self-test"]) == 0
    told = capsys.readouterr().out.splitlines()
    killed, total = told[-1].split(" gaps ")[0].split(" / ")
    assert killed == total
    assert int(total) > 300
    assert told[-1].endswith("in 4 builds")
    assert contents() == before


def test_the_numbers_are_told_to_machines(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--self-test", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["findings"] == []
    assert told["self_test"]["killed"] == told["self_test"]["total"] == told["self_test"]["possible"]
    kinds = told["self_test"]["kinds"]
    assert {"drop an arm", "swap two arms", "drop a kernel method", "rename a parameter", "drop op"} <= set(kinds)
    assert all(kind["total"] == kind["killed"] > 0 for kind in kinds.values())


def test_a_check_that_misses_something_is_told(
    toy: Toy, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = statements.check

    def blind(*given: object) -> Iterator[Finding]:
        return (each for each in real(*given) if each.code != "DG829")  # type: ignore[arg-type]

    monkeypatch.setattr(statements, "check", blind)
    assert main(["check", "--self-test"]) == 1
    told = capsys.readouterr().out
    assert "error[DG831]: nobody finds it where somebody does this: add an orphan: backend: 'Iron' in BACKENDS" in told
    assert "generated/toy/__init__.py:7:1: error[DG831]" in told
    assert main(["check", "--self-test", "--format", "github"]) == 1
    assert "::error file=generated/toy/__init__.py,line=7" in capsys.readouterr().out


def test_a_finding_in_another_line_does_not_count(
    toy: Toy, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = statements.check

    def elsewhere(*given: object) -> Iterator[Finding]:
        for each in real(*given):  # type: ignore[arg-type]
            assert each.span is not None
            yield replace(each, span=replace(each.span, line=each.span.line + 40))

    monkeypatch.setattr(statements, "check", elsewhere)
    assert main(["check", "--self-test"]) == 1
    assert "found was only: DG829 in line 4" in capsys.readouterr().out


def test_what_is_not_complete_is_not_tested(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path("generated/toy/ops/lift.py")
    path.write_text(path.read_text().replace("return iron_kernels.lift", "return None"))
    assert main(["check", "--self-test"]) == 1
    told = capsys.readouterr().out
    assert "generated/toy/ops/lift.py:" in told
    assert "error[DG826]" in told
    assert "not tested: what is there is not complete" in told
    path.unlink()
    assert main(["check", "--self-test"]) == 1
    assert "generated/toy/ops/lift.py:1:1: error[DG715]: ops/lift.py is missing" in capsys.readouterr().out


def test_a_set_that_tells_nothing_has_nothing_to_be_tested(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    settings = Path("templates/set.yaml").read_text()
    Path("templates/set.yaml").write_text(settings[: settings.index("\narms:")].replace("binds: bind_{method}\n", ""))
    exemptions = "version: 1\nexemptions:\n" + "".join(
        f"  - {{op: {op}, answer: unfinished, reason: later, until: 2999-01-01}}\n" for op in ("lift", "is_up", "carry")
    )
    for path in Path("src/toykernels").glob("*.py"):
        path.write_text("class Iron: pass\nclass Paper: pass\n")
    Path("spec/exemptions.yaml").write_text(exemptions)
    assert main(["generate"]) == 0
    capsys.readouterr()
    assert main(["check", "--self-test"]) == 0
    assert "warning[DG832]" in capsys.readouterr().out
    assert main(["check", "--self-test", "--deny", "warnings"]) == 1


def test_fast_and_self_test_do_not_go_together(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--fast", "--self-test"]) == 2
    assert "leave one of them out" in capsys.readouterr().err


def test_one_process_finds_the_same(
    toy: Toy, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["check", "--self-test", "--format", "json"]) == 0
    several = capsys.readouterr().out
    monkeypatch.setattr(run, "_workers", lambda: 1)
    assert main(["check", "--self-test", "--format", "json"]) == 0
    assert capsys.readouterr().out == several


def test_a_sample_is_drawn_where_there_are_too_many() -> None:
    mutations = tuple(Mutation("k", str(number), Path("f"), 1, (), ()) for number in range(100))
    tasks = [Task(None, mutations[:60]), Task(None, mutations[60:])]  # type: ignore[arg-type]
    drawn = sampled(tasks, 10)
    assert sum(len(task.mutations) for task in drawn) == 10
    assert drawn == sampled(tasks, 10)
    assert sampled(tasks, 100) == tasks


def test_edits_keep_the_lines() -> None:
    text = Text(b"def f(\n    a,\n):\n    return (\n        a,\n    )\n\n\ng = 1\n")
    function = text.tree.body[0]
    new = edited(text.content, [text.replace(function, "def f(): return 1"), text.replace(text.tree.body[1], "h = 2")])
    assert new == b"def f(): return 1\n\n\n\n\n\n\n\nh = 2\n"


def test_an_expected_finding_has_to_be_an_error_of_that_code_in_that_place() -> None:
    from dispatchgen._place import place
    from dispatchgen.findings import error, note

    expected = Expected(frozenset({"DG825"}), Path("a.py"), 3, 4)
    assert expected.is_met([error("DG825", "so", place("a.py", 4))])
    assert not expected.is_met([error("DG825", "so", place("a.py", 5))])
    assert not expected.is_met([error("DG825", "so", place("b.py", 4))])
    assert not expected.is_met([error("DG826", "so", place("a.py", 4))])
    assert not expected.is_met([note("DG825", "so", place("a.py", 4))])
