"""The check for machines with GPUs, on CPU devices."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import torchdispatch as td

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "cuda_check.py"


@pytest.fixture(scope="module")
def check() -> Any:
    spec = importlib.util.spec_from_file_location("cuda_check", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_all_checks_pass_on_cpu_devices() -> None:
    path = os.pathsep.join(str(ROOT / part) for part in ("runtime", "generated"))
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        [sys.executable, SCRIPT, "--cpu", "2"],
        env=environment,
        timeout=100,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    lines = ended.stdout.splitlines()
    assert lines[-1] == "all checks passed"
    assert [line.split(":")[0] for line in lines[:-1]] == ["ok     one process, 2 devices"] * 8 + [
        "ok     2 processes"
    ] * 9


def test_a_wrong_result_is_told_and_counted(check: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def half(context: Any, device: Any) -> None:
        check.expect("the half", check.numbers(0), check.numbers(0) / 2)

    def unrefused(context: Any, device: Any) -> None:
        check.refused(td.Disagreement, td.barrier)

    assert check.run([td.Cpu(0), td.Cpu(1)], "here", [half, check.decisions, unrefused]) == 2
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.startswith("FAILED here: half: Wrong: the half: [1.0, 2.0, 3.0, 1.0] instead of [0.5")
    assert second == "ok     here: decisions"
    assert third == "FAILED here: unrefused: Wrong: it was not refused with Disagreement"


def test_without_a_gpu_there_is_nothing_to_check(check: Any, capsys: pytest.CaptureFixture[str]) -> None:
    if td.enumerate(td.Cuda):
        pytest.skip("this machine has a GPU")
    assert check.main([]) == 0
    assert "No CUDA device to check" in capsys.readouterr().out
