"""Tensors of more elements than 32 bits count."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import torchdispatch as td
from tests.runtime.processes import Spot, values
from torchdispatch import ReduceOperation as Op

COUNT = (1 << 31) + 8
NEEDED = 16
"""GiB of memory that has to be free."""


def free() -> float:
    """GiB that new work can have."""
    with open("/proc/meminfo") as file:
        found = next(line for line in file if line.startswith("MemAvailable:"))
    return int(found.split()[1]) / (1 << 20)


pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(free() < NEEDED, reason=f"{free():.0f} GiB of memory are free, and it takes {NEEDED}"),
]


def whole(tensor: torch.Tensor) -> tuple[list[int], tuple[int, int]]:
    """The values at the ends and around what 32 bits count to, and the least and greatest of all others."""
    assert tensor.numel() == COUNT
    marks = [0, (1 << 31) - 1, 1 << 31, COUNT - 1]
    seen = tensor[marks].tolist()
    tensor[marks] = int(tensor[1])
    low, high = zip(*((each.min().item(), each.max().item()) for each in tensor.split(1 << 28)), strict=True)
    return seen, (min(low), max(high))


def contribution(rank: int) -> torch.Tensor:
    tensor = torch.full((COUNT,), 1 + rank, dtype=torch.int8)
    for place, at in enumerate([0, (1 << 31) - 1, 1 << 31, COUNT - 1]):
        tensor[at] = 10 * (place + 1) + rank
    return tensor


RIGHT = {
    "all_reduce": ([21, 41, 61, 81], (3, 3)),
    "broadcast": ([11, 21, 31, 41], (2, 2)),
}


def _call(name: str, context: Any, device: Any) -> Any:
    mine = contribution(device.rank)
    handle = td.all_reduce(mine, Op.SUM) if name == "all_reduce" else td.broadcast(mine, context.devices[1])
    del mine
    return whole(handle.resolve().primitive)


@pytest.mark.parametrize("name", RIGHT)
def test_in_one_process(name: str) -> None:
    with td.DistributedContext([td.Cpu(0), td.Cpu(1)], td.DistributedConfig(timeout=400)) as context:
        assert context.run(lambda device: _call(name, context, device)) == [RIGHT[name]] * 2


def _over_gloo(spot: Spot, name: str) -> Any:
    with spot.open(timeout=400.0) as context:
        return _call(name, context, context.local_devices[0])


@pytest.mark.parametrize("name", RIGHT)
def test_over_gloo(name: str) -> None:
    assert values(_over_gloo, 2, name, deadline=450) == [RIGHT[name]] * 2
