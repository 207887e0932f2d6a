"""A short soak; `python -m tests.soak` does more of it, and again what failed."""

from __future__ import annotations

import time

import pytest

from tests.soak.episodes import soak
from tests.soak.plan import DEADLY, HARMLESS, MISMATCHES, OPS, draw


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_random_calls_and_faults_end_as_they_have_to() -> None:
    told: list[str] = []
    seed = int(time.time()) // 3600 % 10_000_000  # others every hour; a failure says which
    assert not soak(20.0, seed, told.append), "\n".join(told)
    assert told


def test_a_seed_is_an_episode_and_all_kinds_come_up() -> None:
    drawn = [draw(seed) for seed in range(400)]
    assert drawn == [draw(seed) for seed in range(400)]
    assert {fault.kind for episode in drawn for fault in episode.faults} == {*DEADLY, *HARMLESS, *MISMATCHES}
    assert {step.op for episode in drawn for batch in episode.batches for step in batch} == set(OPS)
    for episode in drawn:
        numbers = [step.number for batch in episode.batches for step in batch]
        assert numbers == list(range(len(numbers)))
        assert all(step.takes(step.root) for batch in episode.batches for step in batch)
