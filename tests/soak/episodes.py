"""Playing episodes, one after the other, each in processes of its own."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.runtime.processes import free_port, outcomes
from tests.soak.judge import problems
from tests.soak.plan import draw
from tests.soak.play import play

DEADLINE = 75.0
"""Seconds after which an episode counts as hung: far more than all of its timeouts together."""


def episode(seed: int) -> list[str]:
    """What did not end as it had to in the episode of the seed, with where the threads were if it hung."""
    drawn = draw(seed)
    with tempfile.TemporaryDirectory() as folder:
        address, second = (
            f"tcp://127.0.0.1:{free_port()}" if drawn.scheme == "tcp" else f"file://{folder}/{name}"
            for name in ("first", "second")
        )
        stacks = f"{folder}/stacks"
        ended = outcomes(
            play, len(drawn.devices), drawn, second, stacks, DEADLINE - 10, address=address, deadline=DEADLINE
        )
        found = problems(drawn, ended)
        for path in sorted(Path(folder).glob("stacks.*")):
            if text := path.read_text():
                found.append(f"process {path.suffix[1:]} hung, or left threads behind:\n{text}")
    return found


def soak(seconds: float, seed: int, tell: Callable[[str], None], most: int | None = None) -> list[int]:
    """The seeds of the episodes that failed, beginning with `seed`, for so long; `tell` gets a line for each."""
    end, failed, at = time.monotonic() + seconds, [], seed
    while time.monotonic() < end and (most is None or at < seed + most):
        started = time.monotonic()
        found = episode(at)
        tell(f"{'FAILED' if found else 'ok'} {draw(at)} ({time.monotonic() - started:.1f} s)")
        if found:
            failed.append(at)
            for text in found:
                tell(f"  {text}")
            tell(f"  again: python -m tests.soak --seed {at} --episodes 1")
        at += 1
    return failed
