"""The feature space on a few builds; `.ci/run` goes through all pairs, `python -m tests.feature_space` through all sets."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.feature_space import space
from tests.feature_space.space import CATALOGS, explore, feature_sets, prepare
from tests.shipped import ROOT, SPEC


@pytest.mark.parametrize("name", CATALOGS)
def test_the_smallest_and_the_largest_build(name: str, tmp_path: Path) -> None:
    spec = prepare(name, tmp_path)
    sets = feature_sets(spec, pairs=True)
    for features in (sets[0], sets[-1]):
        found = explore(spec, features, tmp_path)
        assert not found.wrong
        assert found.executed == found.expected
        assert len(found.executed) > 200


def test_how_many_builds_there_are(tmp_path: Path) -> None:
    sizes = {name: [len(feature_sets(prepare(name, tmp_path), pairs)) for pairs in (False, True)] for name in CATALOGS}
    assert sizes["shipped"] == [2**10, 1 + 10 + 45 + 1]
    assert sizes["burn_2026_08"] == [1 + 17 + 136 + 1] * 2


def swapped(text: str) -> str:
    return text.replace(
        "_forward_broadcast(device, cpu_kernels.kernel)", "_forward_broadcast(device, cuda_kernels.kernel)"
    )


def silenced(text: str) -> str:
    return text.replace('"not_capable"', '"no_kernel"')


def forgotten(text: str) -> str:
    return text.replace("        case k.METAL:", "        case k.CPU:")


def astray(text: str) -> str:
    return text.replace("kernel.all_gather(", "kernel.broadcast(")


@pytest.mark.parametrize("fault", [swapped, silenced, forgotten, astray])
def test_what_does_not_do_as_the_catalog_says_is_found(
    fault: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    render = space.render

    def faulty(*arguments: Any) -> Any:
        files, findings = render(*arguments)
        changed = [replace(file, text=fault(file.text)) if "ops/" in file.path else file for file in files]
        assert [file.text for file in changed] != [file.text for file in files]
        return changed, findings

    monkeypatch.setattr(space, "render", faulty)
    assert explore(SPEC, ("cpu", "cuda", "metal"), tmp_path).wrong


@pytest.mark.slow
def test_the_command_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    state = tmp_path / "state"
    command = [sys.executable, "-m", "tests.feature_space", "--pairs", "--catalog", "burn_2026_09"]
    code = f"import sys; sys.argv[1:] = {[*command[3:], '--state', str(state)]!r}; " + ONLY_SOME
    first = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert "6 builds, 0 things wrong" in first.stdout, first.stdout + first.stderr
    assert first.stdout.count("never executed:") > 10
    assert first.returncode == 1
    with state.open("a", encoding="utf-8") as stream:
        stream.write('[["cut off')
    again = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert again.stdout == first.stdout
    assert len(state.read_text(encoding="utf-8").splitlines()) == 7


ONLY_SOME = """
from itertools import islice
from tests.feature_space import __main__ as command, work
if __name__ == "__main__":
    command.tasks = lambda *options: islice(work.tasks(*options), 6)
    sys.exit(command.main())
"""
