"""What once hurt does not any more; and a little more of the same at every run of the tests."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz import __main__ as fuzz
from tests.fuzz import targets
from tests.fuzz.inputs import files, predicates, projects

CORPUS = sorted(path for path in Path(fuzz.CORPUS).glob("*/*") if path.name != ".gitkeep")
QUICK = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_no_known_crasher_hurts(path: Path) -> None:
    with targets.in_time():
        targets.TARGETS[path.parent.name][0](path.read_bytes())


@settings(QUICK, max_examples=200)
@given(files())
def test_no_file_hurts(data: bytes) -> None:
    targets.source(data)


@settings(QUICK, max_examples=200)
@given(predicates())
def test_no_predicate_hurts(data: bytes) -> None:
    targets.predicate(data)


@settings(QUICK, max_examples=40)
@given(projects())
def test_no_damage_to_a_project_is_a_traceback_or_written(data: bytes) -> None:
    targets.project(data)


def test_what_hurts_is_found_shrunk_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fragile(data: bytes) -> None:
        if b"x" in data:
            raise KeyError("x")

    monkeypatch.setitem(targets.TARGETS, "source", (fragile, lambda: st.binary(max_size=50)))
    monkeypatch.setattr(fuzz, "CORPUS", tmp_path)
    monkeypatch.setattr("sys.argv", ["fuzz", "--seconds", "60", "--seed", "1", "--target", "source"])
    monkeypatch.setattr("resource.setrlimit", lambda *limits: None)
    assert fuzz.main() == 1
    assert [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()] == [b"x"]
    assert "KeyError" in capsys.readouterr().err


def test_what_hangs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(data: bytes) -> None:
        begun = time.monotonic()
        while time.monotonic() < begun + 5:
            pass

    monkeypatch.setitem(targets.TARGETS, "source", (endless, st.binary))
    monkeypatch.setattr(targets, "SECONDS", 0.2)
    assert isinstance(targets.hurt("source", b""), targets.HangError)
