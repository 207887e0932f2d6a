"""Gradients that lie in the same memory: of two parameters of a rank, or of two ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import torchdispatch as td
from tests.runtime.processes import Spot, values
from tests.runtime.spread import ENGINES, Body, in_processes, in_threads
from tests.runtime.subclasses import Standing

SIZES = [4, 100_000, 400_000]


def _sums(a: torch.Tensor, b: torch.Tensor) -> list[Callable[[], torch.Tensor]]:
    return [
        lambda: torch.stack([a, b]).sum(0),
        lambda: a.unsqueeze(0) + b.unsqueeze(0),
        lambda: a.view(-1) + b.view(-1),
    ]


def _added(context: Any, device: Any) -> None:
    """Autograd gives both summands views of one gradient."""
    mean = (context.size + 1) / 2
    for size in SIZES:
        for which in range(3):
            module = nn.Module()
            module.a, module.b = nn.Parameter(torch.zeros(size)), nn.Parameter(torch.zeros(size))
            td.distribute(module, context)
            for _ in range(3):
                module.zero_grad()
                total = _sums(module.a, module.b)[which]()
                (total * torch.full((size,), device.rank + 1.0)).sum().backward()
                for parameter in (module.a, module.b):
                    assert parameter.grad is not None
                    assert parameter.grad.unique().tolist() == [mean], (size, which)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("spread", ENGINES)
def test_two_parameters_that_are_added(spread: Callable[[Body, int], list[Any]], size: int) -> None:
    spread(_added, size)


@pytest.mark.parametrize("shared", [False, True])
def test_replicas_whose_gradients_are_one_constant(shared: bool) -> None:
    constants = {size: torch.ones(size) for size in SIZES}
    config = td.DistributedConfig(shared_gradients=shared)
    with td.DistributedContext([td.Cpu(0), td.Cpu(1), td.Cpu(2)], config) as context:

        def body(device: Any) -> None:
            for size, constant in constants.items():
                module = nn.Module()
                module.w = nn.Parameter(torch.zeros(size, 1))
                td.distribute(module, context)
                for _ in range(3):
                    module.zero_grad()
                    module.w.view(-1).backward(constant)
                    assert module.w.grad.unique().tolist() == [1.0]

        context.run(body)


def _one_constant(context: Any, device: Any, constants: dict[tuple[int, int], torch.Tensor]) -> list[float]:
    seen = []
    for size in SIZES:
        module = nn.Module()
        module.w = nn.Parameter(torch.zeros(size, 1))
        td.distribute(module, context)
        for step in range(3):
            module.zero_grad()
            module.w.view(-1).backward(constants[size, step])
            seen += module.w.grad.unique().tolist()
    return seen


def _on_two_devices(spot: Spot, op: td.ReduceOperation, overlap: Any) -> list[list[float]]:
    constants = {(size, step): torch.full((size,), spot.rank + 1.0) for size in SIZES for step in range(3)}
    with spot.open(2, all_reduce_op=op, overlap=overlap) as context:
        return context.run(lambda device: _one_constant(context, device, constants))


@pytest.mark.parametrize("overlap", ["off", "on"])
@pytest.mark.parametrize("op", [td.ReduceOperation.MEAN, td.ReduceOperation.SUM])
def test_replicas_of_several_processes_whose_gradients_are_one_constant(op: td.ReduceOperation, overlap: str) -> None:
    expected = 1.5 if op is td.ReduceOperation.MEAN else 6.0
    assert values(_on_two_devices, 2, op, overlap) == [[[expected] * 9] * 2] * 2


def _conjugate(context: Any, device: Any) -> None:
    module = nn.Module()
    module.w = nn.Parameter(torch.zeros(4, dtype=torch.complex64))
    td.distribute(module, context)
    gradient = torch.full((4,), complex(device.rank + 1, 10), dtype=torch.complex64)
    for conj in (False, True, True, False):
        module.zero_grad()
        (module.w.view(-1).conj() if conj else module.w * 1).backward(gradient.clone())
        assert module.w.grad.tolist() == [complex(1.5, -10 if conj else 10)] * 4


def test_conjugates_in_later_steps() -> None:
    in_threads(_conjugate, 2)
    in_processes(_conjugate, 2)


def _in_inference_mode() -> torch.Tensor:
    with torch.inference_mode():
        return torch.zeros(1)


@pytest.mark.parametrize(
    ("buffer", "problem"),
    [
        (torch.zeros(1).expand(4), "several of its elements share memory"),
        (torch.eye(2).to_sparse(), "it is sparse_coo"),
        (Standing(), "it is a Standing, which stands for other tensors"),
        (_in_inference_mode(), "it was made in inference mode"),
    ],
)
def test_buffers_that_cannot_be_given_to_the_replicas_are_named(buffer: torch.Tensor, problem: str) -> None:
    module = nn.Linear(2, 2)
    module.register_buffer("b", buffer)
    with (
        td.DistributedContext([td.Cpu(0)]) as context,
        pytest.raises(td.UnsupportedTensor, match=f"About b: {problem}"),
    ):
        td.distribute(module, context)
