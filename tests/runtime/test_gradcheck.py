"""Gradients of every differentiable collective against differences of its values, first and second order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import torchdispatch as td
from tests.runtime.spread import ENGINES, Body, in_threads
from torchdispatch import ReduceOperation as Op

STEP = 1e-5

Apply = Callable[[Any, Any, torch.Tensor], list[torch.Tensor]]
"""The op on two rows of one rank, as the tensors that it gives the rank."""

OPS: dict[str, Apply] = {
    "all_reduce SUM": lambda context, device, x: [td.all_reduce(x, Op.SUM).resolve().torch()],
    "all_reduce MEAN": lambda context, device, x: [td.all_reduce(x, Op.MEAN).resolve().torch()],
    "broadcast": lambda context, device, x: [td.broadcast(x, context.devices[1]).resolve().torch()],
    "all_gather": lambda context, device, x: [each.torch() for each in td.all_gather(x).resolve()],
    "reduce_scatter SUM": lambda context, device, x: [td.reduce_scatter(list(x), Op.SUM).resolve().torch()],
    "all_to_all": lambda context, device, x: [each.torch() for each in td.all_to_all(list(x)).resolve()],
}


def _loss(context: Any, device: Any, name: str, x: torch.Tensor) -> torch.Tensor:
    """Every element of the result counts with another weight on every rank."""
    results = OPS[name](context, device, x.sin() * (1 + device.rank))
    total = torch.zeros((), dtype=torch.float64)
    for place, each in enumerate(results):
        weights = torch.arange(1.0, each.numel() + 1, dtype=torch.float64).view(each.shape) + place + 3 * device.rank
        total = total + (weights * each**3).sum()
    return total


def _input(device: Any) -> torch.Tensor:
    return torch.linspace(0.2 + device.rank, 1.4 + device.rank, 6, dtype=torch.float64).view(2, 3)


def _slope(context: Any, device: Any, value: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """How the sum of all ranks' values changes with this rank's input; every rank takes part in every difference."""
    slope = torch.zeros(6, dtype=torch.float64)
    for rank in range(context.size):
        for element in range(6):
            sides = []
            for sign in (1, -1):
                x = _input(device)
                if rank == device.rank:
                    x.view(-1)[element] += sign * STEP
                sides.append(td.all_reduce(value(x).detach(), Op.SUM).resolve().torch())
            if rank == device.rank:
                slope[element] = (sides[0] - sides[1]) / (2 * STEP)
    return slope.view(2, 3)


def _first(context: Any, device: Any, name: str) -> None:
    x = _input(device).requires_grad_()
    (found,) = torch.autograd.grad(_loss(context, device, name, x), x)
    with torch.no_grad():
        expected = _slope(context, device, lambda each: _loss(context, device, name, each))
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)


def _second(context: Any, device: Any, name: str) -> None:
    def projected(x: torch.Tensor, create_graph: bool) -> torch.Tensor:
        x = x.requires_grad_()
        (first,) = torch.autograd.grad(_loss(context, device, name, x), x, create_graph=create_graph)
        return (first * torch.arange(1.0, 7.0, dtype=torch.float64).view(2, 3) * (1 + device.rank)).sum()

    x = _input(device).requires_grad_()
    (found,) = torch.autograd.grad(projected(x, True), x)
    expected = _slope(context, device, lambda each: projected(each, False))
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


def _all(context: Any, device: Any) -> None:
    for name in OPS:
        _first(context, device, name)
        _second(context, device, name)


@pytest.mark.parametrize("spread", ENGINES)
def test_gradients_are_the_slopes(spread: Callable[[Body, int], list[Any]]) -> None:
    spread(_all, 2)


def _unused(context: Any, device: Any) -> None:
    """A result that a rank does not use has a gradient of zero, and a loss may leave results out."""
    x = _input(device).requires_grad_()
    gathered = td.all_gather(x).resolve()
    gathered[0].torch().sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, torch.full((2, 3), 2.0 if device.rank == 0 else 0.0, dtype=torch.float64))


@pytest.mark.parametrize("spread", ENGINES)
def test_results_that_are_not_used(spread: Callable[[Body, int], list[Any]]) -> None:
    spread(_unused, 2)


def _refused(context: Any, device: Any) -> list[str]:
    x = _input(device).requires_grad_()
    other = context.devices[1 - device.rank]
    calls: list[Callable[[], Any]] = [
        lambda: td.reduce(x, Op.SUM, context.devices[0]),
        lambda: td.gather(x, context.devices[0]),
        lambda: td.reduce_scatter(list(x), Op.MEAN),
        lambda: td.reduce_scatter([x[0], x[1, :1]], Op.SUM),
        lambda: td.send(x, other),
        lambda: td.recv(x, other),
    ]
    if device.rank == 0:  # the others bring nothing, so they could not see it
        calls.append(lambda: td.scatter(list(x), context.devices[0]))
    names = []
    for call in calls:
        with pytest.raises(td.DispatchError) as caught:
            call()
        names.append(type(caught.value).__name__)
    return names


def test_what_has_no_rule_is_refused_before_anything_moves() -> None:
    assert in_threads(_refused, 2) == [["NoBackward"] * 7, ["NoBackward"] * 6]


def _one_tracks(context: Any, device: Any) -> str:
    x = _input(device).requires_grad_(device.rank == 0)
    with pytest.raises(td.DispatchError) as caught:
        td.all_reduce(x, Op.SUM).resolve()
    assert td.all_reduce(x.detach(), Op.MAX).resolve().torch().max() > 2
    return str(caught.value.fields["differences"])


@pytest.mark.parametrize("spread", ENGINES)
def test_autograd_tracks_on_all_ranks_or_on_none(spread: Callable[[Body, int], list[Any]]) -> None:
    """Else the backward pass of one would wait for another that has none."""
    first, second = spread(_one_tracks, 2)
    assert first == second
    assert "tracked by autograd" in first
