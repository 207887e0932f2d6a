"""Runs of `generate` that die at a chosen operation on the disk, and what they leave.

`python -m tests.hostile.crashes SCENARIO NUMBER...` prints how many operations there are, then one line of JSON for the
point that each number stands for.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.hostile.stage import SCENARIOS, Stage, in_child, run


class Torn:
    """A stream that dies in the middle of a write, where it is that write's turn."""

    def __init__(self, stream: Any, tick: Callable[[], bool]) -> None:
        self.stream, self.tick = stream, tick

    def __enter__(self) -> Torn:
        self.stream.__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        self.stream.__exit__(*problem)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, content: Any) -> int:
        if self.tick():
            self.stream.write(content[: len(content) // 2])
            self.stream.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        return int(self.stream.write(content))


def die_at(point: int) -> Callable[[], int]:
    """Kill this process in place of its `point`-th operation on the disk. What it gives back says how many there were."""
    made = 0

    def turn() -> bool:
        nonlocal made
        made += 1
        return made == point

    def tick() -> None:
        if turn():
            os.kill(os.getpid(), signal.SIGKILL)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if writes or event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir"):
            tick()

    fsync, opened = os.fsync, Path.open

    def synced(descriptor: int) -> None:
        tick()
        fsync(descriptor)

    def torn(self: Path, mode: str = "r", *more: Any, **options: Any) -> Any:
        stream = opened(self, mode, *more, **options)
        return Torn(stream, turn) if set(mode) & set("wxa") else stream

    os.fsync, Path.open = synced, torn  # type: ignore[assignment]
    sys.addaudithook(hook)
    return lambda: made


def count(stage: Stage) -> int:
    """How many operations on the disk a run takes that is left alone."""
    from dispatchgen.cli import main

    project = stage.project()

    def work() -> int:
        os.chdir(project)
        made = die_at(0)
        with contextlib.redirect_stdout(io.StringIO()):
            main(["generate", *stage.scenario.now])
        return made()

    return int(in_child(work)[1])


def crash(stage: Stage, point: int) -> dict[str, Any]:
    """What is found after a crash at a point, and what is wrong with it."""
    project = stage.project()
    ended, _ = run(project, "generate", *stage.scenario.now, under=lambda: die_at(point))
    found = stage.look(project)
    if ended != -signal.SIGKILL:
        found["wrong"].append(f"the run ended with {ended} and was not killed")
    return {"point": point, **found}


def main(name: str, *numbers: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(SCENARIOS[name], Path(folder))
        points = count(stage)
        print(json.dumps({"points": points}))
        for number in numbers:
            print(json.dumps(crash(stage, 1 + int(number) % points)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
