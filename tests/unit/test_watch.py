"""`dispatchgen watch`, as a process of its own: it generates again, goes on after findings, and ends well."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = 40.0


class Watching:
    """A `watch` that runs, and what it has said so far."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.said = folder / "said.txt"
        with self.said.open("w") as stream:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "dispatchgen", "watch", *words],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT / "generator")},
                stdout=stream,
                stderr=subprocess.STDOUT,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            )

    def until(self, reached: Callable[[str], bool]) -> str:
        """What it has said, once that is so."""
        end = time.monotonic() + PATIENCE
        while not reached(text := self.said.read_text()):
            assert time.monotonic() < end, text
            assert self.process.poll() is None, text
            time.sleep(0.05)
        return text

    def rounds(self, count: int) -> str:
        return self.until(lambda text: text.count("watching; Ctrl-C ends it") >= count)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE)


@pytest.fixture
def watching(toy_folder: Path) -> Iterator[Watching]:
    running = Watching(toy_folder)
    yield running
    if running.process.poll() is None:
        running.process.kill()
        running.process.wait()


def write(name: str, text: str) -> None:
    """As editors do it: a new file in the place of the old one."""
    Path(f"{name}~").write_text(text)
    Path(f"{name}~").replace(name)


def test_it_generates_again_and_goes_on_after_findings(watching: Watching) -> None:
    watching.rounds(1)
    about = Path("generated/toy/about.txt")
    assert about.exists()
    spec, good = "spec/ops/lift.yaml", Path("spec/ops/lift.yaml").read_text()

    write(spec, good.replace("Ways up.", "Ways down."))
    watching.rounds(2)
    assert "Ways down." in about.read_text()

    write(spec, good.replace("route: thing", "route: thign"))
    text = watching.rounds(3)
    assert "error[DG403]" in text
    assert "nothing was written: " in text
    assert "Ways down." in about.read_text()

    Path("templates/about.txt.jinja").write_text("new\n")
    write(spec, good)
    watching.until(lambda _: about.read_text() == "new\n")

    settings = Path("pyproject.toml").read_text()
    Path("pyproject.toml").write_text("[tool.dispatchgen]\nspek = 1\n")
    watching.until(lambda text: "has no setting 'spek'" in text)
    Path("pyproject.toml").write_text(settings)
    Path("spec/ops/carry.yaml").unlink()
    watching.until(lambda _: not Path("generated/toy/ops/carry.py").exists())

    assert watching.stop() == 0
    assert "Traceback" not in watching.said.read_text()
    assert watching.said.read_text().endswith("stopped\n")


def test_several_writes_in_a_row_are_one_round(watching: Watching) -> None:
    text = watching.rounds(1)
    for number in range(8):
        write("templates/about.txt.jinja", f"{number}\n")
        time.sleep(0.02)
    watching.rounds(2)
    time.sleep(1.0)
    assert Path("generated/toy/about.txt").read_text() == "7\n"
    assert watching.stop() == 0
    assert watching.said.read_text().count("watching; Ctrl-C ends it") - text.count("watching; Ctrl-C ends it") <= 2


def test_wrong_usage_is_told_before_anything_begins(toy_folder: Path) -> None:
    running = Watching(toy_folder, "--templates", "nowhere")
    assert running.process.wait(PATIENCE) == 2
    assert "'nowhere' is neither a folder nor a shipped template set" in running.said.read_text()
