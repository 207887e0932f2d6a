"""No crash and no refusal of the system, however timed, leaves a package that imports and is a mixture."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.stage import SCENARIOS
from tests.shipped import ROOT

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forks")

POINTS = 200
PARTS = [
    *(("first", 25), ("grown", 25), ("grown", 25), ("shrunk", 20), ("shrunk", 20), ("again", 20), ("again", 15)),
    *(("shipped first", 15), ("shipped", 20), ("shipped", 15)),
]
"""How many of the points fall on each scenario, in parts that take a minute at most."""


def slow(scenario: str) -> Any:
    return pytest.param(scenario, marks=pytest.mark.slow)


def found(module: str, *words: str) -> list[Any]:
    """What a run of a module of this folder prints, line by line."""
    path = os.pathsep.join(map(str, [ROOT, ROOT / "generator", ROOT / "runtime"]))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-m", f"tests.hostile.{module}", *words],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=290,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def survived(scenario: str, seed: int, points: int) -> None:
    chosen = random.Random(seed)
    known, *after = found("crashes", scenario, *(str(chosen.randrange(10**6)) for _ in range(points)))
    assert known["points"] > 20
    assert len(after) == points
    assert not [each for each in after if each["wrong"]]


@pytest.mark.parametrize("scenario", ["first", "grown", "again"])
def test_a_crash_leaves_whole_files_that_one_run_repairs(scenario: str) -> None:
    survived(scenario, seed=1, points=4)


def test_the_points_are_as_many_as_promised() -> None:
    assert {scenario for scenario, _ in PARTS} == SCENARIOS.keys()
    assert sum(points for _, points in PARTS) == POINTS


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", range(len(PARTS)), ids=lambda part: f"{PARTS[part][0]}-{part}")
def test_two_hundred_crashes(part: int) -> None:
    scenario, points = PARTS[part]
    survived(scenario, seed=2 + part, points=points)


@pytest.mark.parametrize("scenario", [*map(slow, ["first", "again"]), "grown"])
def test_a_full_disk_is_one_sentence_and_leaves_no_trace(scenario: str) -> None:
    tries = found("denials", scenario, "full")
    print("\n".join(f"{each['how']}: {each['said']}" for each in tries))
    assert not [each for each in tries if each["wrong"]]
    assert sum("cannot write" in each["said"] for each in tries) >= 4


def others_may_enter(folder: Path) -> bool:
    return all(each.stat().st_mode & 0o001 for each in (folder, *folder.parents))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.skipif(
    not others_may_enter(Path(sys.prefix)), reason="the checkout lies where nobody but its owner may read Python's path"
)
@pytest.mark.parametrize("scenario", [slow("first"), "grown"])
def test_a_folder_that_may_not_be_written_is_one_sentence_and_stays_as_it_was(scenario: str) -> None:
    tries = found("denials", scenario, "forbidden")
    assert not [each for each in tries if each["wrong"]]
    assert any("Permission denied" in each["said"] for each in tries)
