"""The same work on the ranks of one process, of several, and of several with several each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import torchdispatch as td
from tests.runtime.processes import Spot, values

Body = Callable[[Any, Any], Any]
"""What one rank does: called with the group and the rank's device."""


def in_threads(body: Body, size: int) -> list[Any]:
    with td.DistributedContext([td.Cpu(index) for index in range(size)], td.DistributedConfig(timeout=20)) as context:
        return context.run(lambda device: body(context, device))


def _spread(spot: Spot, body: Body, devices: int) -> list[Any]:
    with spot.open(devices) as context:
        return context.run(lambda device: body(context, device))


def in_processes(body: Body, size: int) -> list[Any]:
    return [value for results in values(_spread, size, body, 1) for value in results]


def in_both(body: Body, size: int) -> list[Any]:
    """Several processes with several devices each."""
    return [value for results in values(_spread, size // 2, body, 2) for value in results]


ENGINES = [pytest.param(in_threads, id="threads"), pytest.param(in_processes, id="processes")]
