"""Collectives of the program beside those of gradient sync: whatever the order on each rank, no value of one is the other's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import torchdispatch as td
from tests.runtime.processes import Spot, values
from torchdispatch import ReduceOperation as Op

Body = Callable[[Any, Any], Any]


def _spread(spot: Spot, body: Body, devices: int, settings: dict[str, Any]) -> list[Any]:
    with spot.open(devices, **settings) as context:
        return context.run(lambda device: body(context, device))


def on_two(body: Body, how: str, **settings: Any) -> list[Any]:
    if how == "processes":
        return [value for results in values(_spread, 2, body, 1, settings) for value in results]
    with td.DistributedContext([td.Cpu(0), td.Cpu(1)], td.DistributedConfig(timeout=20, **settings)) as context:
        return context.run(lambda device: body(context, device))


every_way = pytest.mark.parametrize(
    ("how", "overlap"), [(how, overlap) for how in ("threads", "processes") for overlap in ("on", "off", "auto")]
)


class Alike(nn.Module):
    """Three parameters and a buffer that no shape or dtype tells from what the program itself reduces."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(torch.ones(1)) for _ in range(3)])
        self.register_buffer("mean", torch.ones(1))

    def forward(self, scale: float) -> torch.Tensor:
        found = torch.full((1,), scale)
        for weight in self.weights:
            found = found * weight
        return found.sum()


def _begin(device: Any, value: float) -> Any:
    return td.all_reduce(td.from_torch(torch.tensor([value + device.rank]), device), Op.MEAN)


def _around(context: Any, device: Any) -> list[Any]:
    """The same calls, begun before forward on one rank, between forward and backward or after it on the other."""
    own: list[Any] = []

    def begin(step: int, moment: int) -> None:
        if moment == (step + device.rank) % 3:
            own.append(_begin(device, 100.0 * step))

    module = Alike()
    if device.rank == 0:
        own.append(_begin(device, 1000.0))
    td.distribute(module, context)
    if device.rank == 1:
        own.append(_begin(device, 1000.0))
    seen = []
    for step in range(6):
        module.zero_grad()
        begin(step, 0)
        loss = module(1.0 + 2 * device.rank)
        begin(step, 1)
        loss.backward()
        begin(step, 2)
        seen.append([weight.grad.item() for weight in module.weights])
    return [seen, [handle.resolve().item() for handle in own]]


@every_way
def test_calls_around_a_backward_pass(how: str, overlap: str) -> None:
    for seen, own in on_two(_around, how, overlap=overlap):
        assert seen == [[2.0] * 3] * 6
        assert own == [1000.5, *(100.0 * step + 0.5 for step in range(6))]


def _in_hooks(context: Any, device: Any) -> list[Any]:
    """Begun in the hook of another parameter on each rank, and in every second step resolved there."""
    module = td.distribute(Alike(), context)
    own: list[float] = []
    handles: list[Any] = []
    steps = [0]

    def hook(place: int) -> Callable[[torch.Tensor], None]:
        def called(_: torch.Tensor) -> None:
            step = steps[-1]
            if place == (step + device.rank) % 3:
                handle = _begin(device, 100.0 * step)
                if step % 2:
                    own.append(handle.resolve().item())
                else:
                    handles.append(handle)

        return called

    for place, weight in enumerate(module.weights):
        weight.register_hook(hook(place))
    seen = []
    for step in range(6):
        steps.append(step)
        module.zero_grad()
        module(1.0 + 2 * device.rank).backward()
        seen.append([weight.grad.item() for weight in module.weights])
    return [seen, [handle.resolve().item() for handle in handles], own]


@every_way
def test_calls_in_hooks(how: str, overlap: str) -> None:
    for seen, unread, own in on_two(_in_hooks, how, overlap=overlap):
        assert seen == [[2.0] * 3] * 6
        assert unread == [0.5, 200.5, 400.5]
        assert own == [100.5, 300.5, 500.5]


def _crossed(context: Any, device: Any) -> list[Any]:
    """One rank waits for its own call before the pass, the other after it: neither can come to where the other is."""
    module = td.distribute(Alike(), context)
    errors = []
    for _ in range(2):
        module.zero_grad()
        loss = module(1.0 + 2 * device.rank)
        calls: list[Callable[[], Any]] = [loss.backward, lambda: _begin(device, 0.0).resolve()]
        with pytest.raises(td.Disagreement) as caught:
            calls[device.rank]()
        errors.append(str(caught.value.fields["differences"]))
        module.zero_grad()
        module(1.0 + 2 * device.rank).backward()
        assert [weight.grad.item() for weight in module.weights] == [2.0] * 3
        assert _begin(device, 0.0).resolve().item() == 0.5
    return errors


@every_way
def test_calls_that_wait_for_each_other_are_a_disagreement(how: str, overlap: str) -> None:
    first, second = on_two(_crossed, how, overlap=overlap)
    assert first == second
    assert all("all_reduce(MEAN) of float32[1]" in text for text in first)


def _while_distributing(context: Any, device: Any) -> list[Any]:
    """A broadcast of the program, in flight while the parameters are given out on one rank and begun later on the other."""
    seen = []
    for step in range(4):
        mine = td.from_torch(torch.full((1, 1), 10.0 * step + device.rank), device)
        module = nn.Linear(1, 1, bias=False)
        torch.nn.init.constant_(module.weight, 7.0 + device.rank)
        early = (step + device.rank) % 2 == 0
        handle = td.broadcast(mine, context.devices[0]) if early else None
        td.distribute(module, context)
        handle = td.broadcast(mine, context.devices[0]) if handle is None else handle
        seen.append((module.weight.item(), handle.resolve().item()))
    return seen


@every_way
def test_a_broadcast_while_parameters_are_given_out(how: str, overlap: str) -> None:
    for seen in on_two(_while_distributing, how, overlap=overlap):
        assert seen == [(7.0, 10.0 * step) for step in range(4)]
