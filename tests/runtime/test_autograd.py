"""Gradients through collectives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import torchdispatch as td

MEAN, SUM = td.ReduceOperation.MEAN, td.ReduceOperation.SUM
INPUTS = ([2.0, 5.0], [4.0, 1.0])


def on_each(fn: Callable[[Any], Any]) -> list[Any]:
    with td.DistributedContext([td.Cpu(0), td.Cpu(1)], td.DistributedConfig(timeout=20)) as context:
        return context.run(fn)


def tracked(device: Any, values: list[float]) -> torch.Tensor:
    return torch.tensor(values, requires_grad=True)


@pytest.mark.parametrize(("op", "result", "gradient"), [(SUM, [6.0, 6.0], [2.0, 2.0]), (MEAN, [3.0, 3.0], [1.0, 1.0])])
def test_the_gradient_is_the_same_reduction(op: td.ReduceOperation, result: list[float], gradient: list[float]) -> None:
    def step(device: Any) -> Any:
        x = tracked(device, INPUTS[device.rank])
        y = td.all_reduce(td.Tensor(x, device), op).resolve().torch()
        y.sum().backward()
        return y.tolist(), x.grad.tolist()

    assert on_each(step) == [(result, gradient)] * 2


def test_losses_that_differ_by_rank_are_added() -> None:
    def step(device: Any) -> Any:
        x = tracked(device, INPUTS[device.rank])
        y = td.all_reduce(td.Tensor(x, device), SUM).resolve().torch()
        (y * (1.0 if device.rank == 0 else 4.0)).sum().backward()
        return x.grad.tolist()

    assert on_each(step) == [[5.0, 5.0]] * 2


def test_inside_a_graph() -> None:
    """y = 3x reduced by SUM, losses y and 2y: the upstream gradients add up to 3, so x gets 9."""

    def step(device: Any) -> float:
        x = torch.tensor(1.0 + device.rank, requires_grad=True)
        y = td.all_reduce(td.Tensor(3 * x, device), SUM).resolve().torch()
        ((1.0 + device.rank) * y).backward()
        assert x.grad is not None
        return x.grad.item()

    assert on_each(step) == [9.0, 9.0]


def test_double_backward() -> None:
    """s = x0 + x1, loss s**3 on both: d/dx = 2 * 3 s**2, and the gradient of that again is 2 * 2 * 6 s."""

    def step(device: Any) -> tuple[float, float, float]:
        x = torch.tensor(1.0 + device.rank, dtype=torch.float64, requires_grad=True)
        s = td.all_reduce(td.Tensor(x, device), SUM).resolve().torch()
        (first,) = torch.autograd.grad(s**3, x, create_graph=True)
        (second,) = torch.autograd.grad(first, x)
        return s.item(), first.item(), second.item()

    assert on_each(step) == [(3.0, 54.0, 72.0)] * 2


def test_double_backward_agrees_with_one_process() -> None:
    def step(device: Any) -> torch.Tensor:
        x = torch.tensor([0.3, -1.2, 2.0], dtype=torch.float64, requires_grad=True)
        y = td.all_reduce(td.Tensor(x.sin() * (1 + device.rank), device), MEAN).resolve().torch()
        (first,) = torch.autograd.grad((y**2).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        return second

    x = [torch.tensor([0.3, -1.2, 2.0], dtype=torch.float64, requires_grad=True) for _ in range(2)]
    y = (x[0].sin() + 2 * x[1].sin()) / 2
    first = torch.autograd.grad(2 * (y**2).sum(), x, create_graph=True)
    second = torch.autograd.grad(first[0].sum() + first[1].sum(), x)
    for got, expected in zip(on_each(step), second, strict=True):
        torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("op", [td.ReduceOperation.MIN, td.ReduceOperation.MAX, td.ReduceOperation.PRODUCT])
def test_a_reduction_without_a_rule_is_refused_before_anything_moves(op: td.ReduceOperation) -> None:
    def step(device: Any) -> bool:
        x = tracked(device, INPUTS[device.rank])
        with pytest.raises(td.NoBackward):
            td.all_reduce(td.Tensor(x, device), op)
        return True

    assert on_each(step) == [True, True]


def test_no_grad_decides_at_the_call() -> None:
    def step(device: Any) -> tuple[bool, bool]:
        x = td.Tensor(tracked(device, INPUTS[device.rank]), device)
        with torch.no_grad():
            outside = td.all_reduce(x, SUM)
        inside = td.all_reduce(x, SUM)
        with torch.no_grad():
            resolved = inside.resolve()
        return outside.resolve().requires_grad, resolved.requires_grad

    assert on_each(step) == [(False, True)] * 2


def test_the_input_is_left_as_it_was() -> None:
    def step(device: Any) -> Any:
        x = tracked(device, INPUTS[device.rank])
        td.all_reduce(td.Tensor(x, device), SUM).resolve()
        return x.tolist()

    assert on_each(step) == list(INPUTS)
