"""What `distribute` promises of `backward()`, with the values that two ranks have to get.

The local gradients are 1 and 3 unless said: MEAN is 2, SUM is 4.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import io
import pickle
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import torchdispatch as td
from tests.runtime import processes

MEAN, SUM = td.ReduceOperation.MEAN, td.ReduceOperation.SUM
LOCAL = (1.0, 3.0)
SETTINGS: dict[str, Any] = {}


@pytest.fixture(
    autouse=True, params=[{}, {"overlap": "on"}, {"shared_gradients": True}], ids=["plain", "overlap", "shared"]
)
def _manner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every promise holds in every manner of sync."""
    for name, value in request.param.items():
        monkeypatch.setitem(SETTINGS, name, value)


class Two(nn.Module):
    """Two parameters, so that one can be used without the other."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.ones(1))
        self.b = nn.Parameter(torch.ones(1))

    def forward(self, scale: float) -> torch.Tensor:
        return scale * (self.a + self.b)


def on_each(fn: Callable[[Any, Any], Any], size: int = 2, op: td.ReduceOperation = MEAN, **config: Any) -> list[Any]:
    """What `fn(context, device)` returns or raises on each device of a fresh group."""

    def caught(device: Any) -> Any:
        try:
            return fn(context, device)
        except td.DispatchError as error:
            return error

    settings = td.DistributedConfig(all_reduce_op=op, timeout=20, **{**SETTINGS, **config})
    with td.DistributedContext([td.Cpu(index) for index in range(size)], settings) as context:
        return context.run(caught)


def values(module: nn.Module) -> dict[str, float | None]:
    return {name: None if p.grad is None else p.grad.sum().item() for name, p in module.named_parameters()}


both_ops = pytest.mark.parametrize(("op", "factor"), [(MEAN, 0.5), (SUM, 1.0)])


@both_ops
def test_backward_leaves_the_reduction(op: td.ReduceOperation, factor: float) -> None:
    def step(context: Any, device: Any) -> Any:
        module = td.distribute(Two(), context)
        module(LOCAL[device.rank]).backward()
        return values(module)

    assert on_each(step, op=op) == [{"a": 4 * factor, "b": 4 * factor}] * 2


def test_four_replicas_train_like_one() -> None:
    def network(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)).double()

    def train(module: nn.Module, rows: slice) -> nn.Module:
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        for _ in range(20):
            optimizer.zero_grad()
            nn.functional.mse_loss(module(x[rows]), y[rows]).backward()
            optimizer.step()
        return module

    generator = torch.Generator().manual_seed(1)
    x = torch.randn(12, 5, generator=generator, dtype=torch.float64)
    y = torch.randn(12, 3, generator=generator, dtype=torch.float64)
    replicas = [network(seed) for seed in range(4)]

    def step(context: Any, device: Any) -> nn.Module:
        return train(td.distribute(replicas[device.rank], context), slice(3 * device.rank, 3 * device.rank + 3))

    alone = train(network(0), slice(None))
    for replica in on_each(step, size=4):
        for got, expected in zip(replica.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)


def test_every_replica_gets_the_values_and_buffers_of_rank_0() -> None:
    class Full(nn.Module):
        def __init__(self, rank: int) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.full((2, 2), float(rank)))
            self.large = nn.Parameter(torch.full((600, 600), float(rank)))
            self.frozen = nn.Parameter(torch.full((3,), float(rank)), requires_grad=False)
            self.register_buffer("count", torch.tensor(rank))
            self.register_buffer("mask", torch.tensor([rank == 0]))

    def step(context: Any, device: Any) -> list[Any]:
        module = td.distribute(Full(device.rank), context)
        return [each.unique().tolist() for each in module.state_dict().values()]

    assert on_each(step) == [[[0.0], [0.0], [0.0], [0], [True]]] * 2
    assert on_each(step, broadcast_buffers=False)[1][3:] == [[1], [False]]


@both_ops
def test_used_on_one_rank_only(op: td.ReduceOperation, factor: float) -> None:
    def step(context: Any, device: Any) -> Any:
        module = td.distribute(Two(), context)
        loss = LOCAL[device.rank] * module.a
        (loss + module.b if device.rank == 0 else loss).backward()
        return values(module)

    assert on_each(step, op=op) == [{"a": 4 * factor, "b": factor}] * 2


@both_ops
def test_used_nowhere_stays_none_or_what_it_was(op: td.ReduceOperation, factor: float) -> None:
    def step(context: Any, device: Any) -> Any:
        module = td.distribute(Two(), context)
        (LOCAL[device.rank] * module.a).backward()
        before = module.b.grad
        module.b.grad = torch.zeros(1)
        (LOCAL[device.rank] * module.a).backward()
        return before, values(module)

    assert on_each(step, op=op) == [(None, {"a": 8 * factor, "b": 0.0})] * 2


@both_ops
def test_accumulated_under_no_sync_and_not_used_in_the_last_step(op: td.ReduceOperation, factor: float) -> None:
    def step(context: Any, device: Any) -> Any:
        module = td.distribute(Two(), context)
        with context.no_sync():
            module(LOCAL[device.rank]).backward()
        local = values(module)
        (LOCAL[device.rank] * module.a).backward()
        return local, values(module)

    first, second = on_each(step, op=op)
    assert first[0] == {"a": 1.0, "b": 1.0}
    assert second[0] == {"a": 3.0, "b": 3.0}
    assert first[1] == second[1] == {"a": 8 * factor, "b": 4 * factor}


def test_no_sync_counts_where_backward_runs() -> None:
    def step(context: Any, device: Any) -> Any:
        module = td.distribute(Two(), context)
        with context.no_sync():
            loss = LOCAL[device.rank] * module.a
        loss.backward()
        synced = module.a.grad.item()
        module.zero_grad()
        loss = LOCAL[device.rank] * module.a
        with context.no_sync():
            loss.backward()
        return synced, module.a.grad.item()

    assert on_each(step) == [(2.0, 1.0), (2.0, 3.0)]


@both_ops
@pytest.mark.parametrize("to_none", [True, False])
def test_gradients_that_are_kept_zeroed_or_dropped(op: td.ReduceOperation, factor: float, to_none: bool) -> None:
    """Over several synced backward passes only what came since the last one is reduced again."""

    def step(context: Any, device: Any) -> list[float]:
        module = td.distribute(Two(), context)
        seen = []
        for turn in range(5):
            if turn == 3:
                module.zero_grad(set_to_none=to_none)
            (LOCAL[device.rank] * module.a).backward()
            seen.append(module.a.grad.item())
        return seen

    expected = [4 * factor * times for times in (1, 2, 3, 1, 2)]
    assert on_each(step, op=op) == [expected, expected]


@both_ops
def test_clipping_between_two_backward_passes(op: td.ReduceOperation, factor: float) -> None:
    def step(context: Any, device: Any) -> float:
        module = td.distribute(Two(), context)
        (LOCAL[device.rank] * module.a).backward()
        with torch.no_grad():
            module.a.grad.mul_(0.5)
        (LOCAL[device.rank] * module.a).backward()
        return module.a.grad.item()

    assert on_each(step, op=op) == [6 * factor] * 2


@both_ops
def test_a_retained_graph_twice(op: td.ReduceOperation, factor: float) -> None:
    def step(context: Any, device: Any) -> float:
        module = td.distribute(Two(), context)
        loss = LOCAL[device.rank] * module.a
        loss.backward(retain_graph=True)
        loss.backward()
        return module.a.grad.item()

    assert on_each(step, op=op) == [8 * factor] * 2


def test_a_tied_parameter_is_marked_and_reduced_once() -> None:
    def step(context: Any, device: Any) -> Any:
        module = Two()
        module.b = module.a
        td.distribute(module, context)
        module(LOCAL[device.rank]).backward()
        return values(module), td.distributed_params(module.b)

    assert on_each(step) == [({"a": 4.0}, td.DistributedParams("0:a"))] * 2


@both_ops
@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing(op: td.ReduceOperation, factor: float, reentrant: bool) -> None:
    def step(context: Any, device: Any) -> Any:
        module = td.distribute(Two(), context)
        x = torch.ones(1, requires_grad=True)
        y = checkpoint(lambda value: value * module.a, x, use_reentrant=reentrant)
        y = checkpoint(lambda value: value * module.b, y, use_reentrant=reentrant)
        (LOCAL[device.rank] * y * module.a).backward()
        return values(module)

    assert on_each(step, op=op) == [{"a": 8 * factor, "b": 4 * factor}] * 2


def test_a_frozen_parameter_is_left_alone_until_it_thaws() -> None:
    def step(context: Any, device: Any) -> Any:
        module = Two()
        module.b.requires_grad_(False)
        td.distribute(module, context)
        module(LOCAL[device.rank]).backward()
        frozen = values(module), td.is_distributed(module.b)
        module.b.requires_grad_(True)
        module.zero_grad()
        module(LOCAL[device.rank]).backward()
        return frozen, values(module), td.is_distributed(module.b)

    assert on_each(step) == [(({"a": 2.0, "b": None}, False), {"a": 2.0, "b": 2.0}, True)] * 2


def test_a_parameter_frozen_later() -> None:
    def step(context: Any, device: Any) -> Any:
        module = td.distribute(Two(), context)
        module(LOCAL[device.rank]).backward()
        module.b.requires_grad_(False)
        module.zero_grad()
        module(LOCAL[device.rank]).backward()
        return values(module)

    assert on_each(step) == [{"a": 2.0, "b": None}] * 2


def test_frozen_on_one_rank_only_is_a_disagreement() -> None:
    def step(context: Any, device: Any) -> Any:
        module = td.distribute(Two(), context)
        module.b.requires_grad_(device.rank == 0)
        (LOCAL[device.rank] * module.a).backward()

    for error in on_each(step):
        assert isinstance(error, td.Disagreement)
        assert error.fields["differences"].startswith("parameter 0:b: float32 of shape (1,) on rank 0, not registered")


def test_nothing_to_train() -> None:
    def step(context: Any, device: Any) -> Any:
        empty = td.distribute(nn.ReLU(), context)
        module = td.distribute(Two().requires_grad_(False), context)
        x = torch.ones(1, requires_grad=True)
        (empty(x) * module(1.0)).backward()
        return x.grad.item(), values(module)

    assert on_each(step) == [(2.0, {"a": None, "b": None})] * 2


def test_a_parameter_of_size_zero_beside_a_normal_one() -> None:
    def step(context: Any, device: Any) -> Any:
        module = Two()
        module.b = nn.Parameter(torch.empty(0, 3))
        td.distribute(module, context)
        (LOCAL[device.rank] * (module.a.sum() + module.b.sum())).backward()
        return values(module), tuple(module.b.grad.shape)

    assert on_each(step) == [({"a": 2.0, "b": 0.0}, (0, 3))] * 2


@both_ops
def test_the_loss_is_the_parameter(op: td.ReduceOperation, factor: float) -> None:
    def step(context: Any, device: Any) -> float:
        module = td.distribute(Two(), context)
        module.a.backward()
        return module.a.grad.item()

    assert on_each(step, op=op) == [2 * factor] * 2


def test_the_forward_of_an_inner_module_and_custom_outputs() -> None:
    def step(context: Any, device: Any) -> Any:
        module = td.distribute(nn.ModuleDict({"inner": Two()}), context)
        output = {"loss": module["inner"](LOCAL[device.rank])}
        output["loss"].backward()
        return values(module)

    assert on_each(step) == [{"inner.a": 2.0, "inner.b": 2.0}] * 2


def test_nested_modules_reduce_once() -> None:
    def step(context: Any, device: Any) -> Any:
        inner = td.distribute(Two(), context)
        outer = td.distribute(nn.Sequential(inner, Two()), context)
        (outer[0](LOCAL[device.rank]) + outer[1](LOCAL[device.rank])).backward()
        return values(outer), td.distributed_params(inner.a), td.distributed_params(outer[1].a)

    names = {"0.a": 2.0, "0.b": 2.0, "1.a": 2.0, "1.b": 2.0}
    marks = td.DistributedParams("0:a"), td.DistributedParams("1:1.a")
    assert on_each(step) == [(names, *marks)] * 2


def test_two_modules_of_which_each_rank_uses_another() -> None:
    def step(context: Any, device: Any) -> Any:
        modules = [td.distribute(Two(), context) for _ in range(2)]
        modules[device.rank](LOCAL[device.rank]).backward()
        return [values(module)["a"] for module in modules]

    assert on_each(step) == [[0.5, 1.5]] * 2


def test_an_exception_in_forward_or_backward_and_going_on() -> None:
    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
            raise ValueError("broken")

    def step(context: Any, device: Any) -> Any:
        module = td.distribute(Two(), context)
        if device.rank == 0:
            with pytest.raises(ValueError, match="broken"):
                (Broken.apply(module.a) + module.b).backward()
            module.zero_grad()
        (LOCAL[device.rank] * module.a).backward()
        return values(module)

    assert on_each(step) == [{"a": 2.0, "b": None}] * 2


@pytest.mark.parametrize("ranks", [(0, 1), (1,)])
@pytest.mark.parametrize("through", ["attribute", "dictionary"])
def test_a_replaced_parameter_is_an_error_in_the_same_step(ranks: tuple[int, ...], through: str) -> None:
    def step(context: Any, device: Any) -> None:
        module = td.distribute(Two(), context)
        if device.rank in ranks and through == "attribute":
            module.b = nn.Parameter(torch.ones(1))
        elif device.rank in ranks:
            module._parameters["b"] = nn.Parameter(torch.ones(1))
        module(LOCAL[device.rank]).backward()

    for rank, error in enumerate(on_each(step)):
        if rank in ranks:
            assert isinstance(error, td.ParametersChanged)
            assert error.fields["param"] == "b"
        else:
            assert isinstance(error, td.Disagreement)
            assert "refused: parameter b: It was replaced or added" in error.fields["differences"]


def test_a_replaced_parameter_that_alone_is_used() -> None:
    def step(context: Any, device: Any) -> None:
        module = td.distribute(Two(), context)
        module.b = nn.Parameter(torch.ones(1))
        module.b.backward()

    assert [type(error) for error in on_each(step)] == [td.ParametersChanged] * 2


def test_a_changed_module_does_not_keep_others_from_training() -> None:
    def step(context: Any, device: Any) -> Any:
        changed, other = td.distribute(Two(), context), td.distribute(Two(), context)
        changed.b = nn.Parameter(torch.ones(1))
        with pytest.raises(td.ParametersChanged):
            changed(1.0).backward()
        other(LOCAL[device.rank]).backward()
        return values(other)

    assert on_each(step) == [{"a": 2.0, "b": 2.0}] * 2


def test_a_head_that_is_added_later() -> None:
    def step(context: Any, device: Any) -> None:
        module = td.distribute(Two(), context)
        module.head = nn.Linear(1, 1)
        module.head(torch.ones(1)).backward()

    assert [error.fields["param"] for error in on_each(step)] == ["head.weight"] * 2


def test_a_module_cast_after_it_was_distributed() -> None:
    def step(context: Any, device: Any) -> Any:
        module = td.distribute(Two(), context).double()
        module(LOCAL[device.rank]).backward()
        return values(module), module.a.grad.dtype

    assert on_each(step) == [({"a": 2.0, "b": 2.0}, torch.float64)] * 2


def test_a_module_cast_on_one_rank_only() -> None:
    def step(context: Any, device: Any) -> None:
        module = td.distribute(Two(), context)
        module.to(torch.float64 if device.rank else torch.float32)
        module(LOCAL[device.rank]).backward()

    for error in on_each(step):
        assert isinstance(error, td.Disagreement)
        assert "float32 of shape (1,) on rank 0, float64 of shape (1,) on rank 1" in error.fields["differences"]


def test_a_module_is_distributed_once() -> None:
    def step(context: Any, device: Any) -> None:
        module = td.distribute(Two(), context)
        td.distribute(module, context)

    for error in on_each(step):
        assert isinstance(error, td.ParametersChanged)
        assert "by this context already" in error.reason


def test_one_module_cannot_be_two_replicas() -> None:
    module = Two()

    def step(device: Any) -> None:
        td.distribute(module, context)

    with (
        pytest.raises(td.ParametersChanged, match="deepcopy"),
        td.DistributedContext([td.Cpu(0), td.Cpu(1)], td.DistributedConfig(timeout=20)) as context,
    ):
        context.run(step)


@pytest.mark.parametrize("way", ["load_state_dict(assign=True)", "data"])
def test_replicas_in_one_memory_are_refused(way: str) -> None:
    """Each would take its own step of the same numbers."""
    common = Two()

    def step(device: Any) -> None:
        module = Two()
        if way == "data":
            module.b.data = common.b.data
        else:
            module.load_state_dict(common.state_dict(), assign=True)
        td.distribute(module, context)

    with (
        pytest.raises(td.ParametersChanged, match="lies in the memory of a parameter of Cpu"),
        td.DistributedContext([td.Cpu(0), td.Cpu(1)], td.DistributedConfig(timeout=20)) as context,
    ):
        context.run(step)


def test_replicas_side_by_side_in_one_tensor() -> None:
    whole = torch.ones(4)

    def step(context: Any, device: Any) -> Any:
        module = Two()
        module.a.data, module.b.data = whole[2 * device.rank :][:1], whole[2 * device.rank + 1 :][:1]
        td.distribute(module, context)
        module(LOCAL[device.rank]).backward()
        return values(module)

    assert on_each(step) == [{"a": 2.0, "b": 2.0}] * 2


@pytest.mark.parametrize("module", [[nn.Linear(1, 1)], nn.Parameter(torch.ones(1)), None])
def test_what_is_no_module(module: Any) -> None:
    with td.DistributedContext([td.Cpu(0)]) as context:
        with pytest.raises(TypeError, match=f"distribute takes a Module, not {type(module).__name__}"):
            td.distribute(module, context)
        with pytest.raises(TypeError, match="distribute takes a DistributedContext, not Cpu"):
            td.distribute(Two(), context.devices[0])


@pytest.mark.filterwarnings("ignore:`torch.jit", "ignore:.*is deprecated:DeprecationWarning")
@pytest.mark.parametrize("way", ["script", "trace"])
def test_a_module_of_torchscript(way: str) -> None:
    inputs = torch.ones(1, 2)
    made = [nn.Sequential(nn.Linear(2, 1), nn.Tanh(), nn.Linear(1, 1)) for _ in range(2)]
    modules = [torch.jit.script(each) if way == "script" else torch.jit.trace(each, inputs) for each in made]

    def step(context: Any, device: Any) -> Any:
        module = td.distribute(modules[device.rank], context)
        (module(inputs) * LOCAL[device.rank]).sum().backward()
        return dict(module.named_parameters())["2.bias"].grad.tolist()

    assert on_each(step) == [[2.0]] * 2


def test_outside_run_nobody_knows_which_replica_it_is() -> None:
    with (
        pytest.raises(td.Unplaced, match="the module"),
        td.DistributedContext([td.Cpu(0), td.Cpu(1)], td.DistributedConfig(timeout=20)) as context,
    ):
        td.distribute(Two(), context)


def test_modules_that_differ_are_named_on_both_ranks() -> None:
    def step(context: Any, device: Any) -> None:
        td.distribute(nn.Linear(2 + device.rank, 2), context)

    first, second = on_each(step)
    assert isinstance(first, td.Disagreement)
    assert first.fields == second.fields
    assert (
        first.fields["differences"]
        == "parameter 0:weight: float32 of shape (2, 2) on rank 0, float32 of shape (2, 3) on rank 1"
    )


def test_a_module_that_was_refused_can_be_distributed_when_it_is_right() -> None:
    def step(context: Any, device: Any) -> Any:
        module = Two()
        if device.rank:
            module.b = nn.Parameter(torch.ones(2))
        with pytest.raises(td.Disagreement):
            td.distribute(module, context)
        module.b = nn.Parameter(torch.ones(1))
        td.distribute(module, context)
        module(LOCAL[device.rank]).backward()
        return values(module)

    assert on_each(step) == [{"a": 2.0, "b": 2.0}] * 2


def test_a_lazy_module_is_refused() -> None:
    def step(context: Any, device: Any) -> None:
        td.distribute(nn.LazyLinear(2), context)

    assert all("lazy" in error.reason for error in on_each(step))


def test_a_lazy_module_that_comes_later() -> None:
    def step(context: Any, device: Any) -> None:
        module = td.distribute(Two(), context)
        module.head = nn.LazyLinear(2)
        module.head(torch.ones(1, 3)).sum().backward()

    for error in on_each(step):
        assert isinstance(error, td.ParametersChanged)
        assert "head." in str(error)
        assert "replaced or added" in error.reason


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("ranks", [(0, 1), (1,)])
def test_a_hook_that_takes_a_gradient_away(ranks: tuple[int, ...], early: bool) -> None:
    """As one does that steps an optimizer in the backward pass: each rank would use its own gradient."""

    def step(context: Any, device: Any) -> Any:
        module = Two()
        if not early:
            td.distribute(module, context)

        def take(parameter: torch.Tensor) -> None:
            parameter.grad = None

        hook = module.b.register_post_accumulate_grad_hook(take) if device.rank in ranks else None
        if early:
            td.distribute(module, context)
        with context.no_sync():
            module(LOCAL[device.rank]).backward()
        with pytest.raises((td.ParametersChanged, td.Disagreement)) as caught:
            module(LOCAL[device.rank]).backward()
        if hook is not None:
            hook.remove()
        module.zero_grad()
        module(LOCAL[device.rank]).backward()
        return type(caught.value).__name__, "A hook took its gradient away" in str(caught.value), values(module)

    right = {"a": 2.0, "b": 2.0}
    names = ["ParametersChanged" if rank in ranks else "Disagreement" for rank in (0, 1)]
    assert on_each(step) == [(name, True, right) for name in names]


@pytest.mark.parametrize("size", [1, 2])
def test_a_hook_that_changes_a_gradient(size: int) -> None:
    """What it leaves is what is synchronised, however early gradients are sent."""

    def step(context: Any, device: Any) -> Any:
        module = td.distribute(Two(), context)

        def double(parameter: torch.Tensor) -> None:
            parameter.grad = parameter.grad * 2

        def triple(parameter: torch.Tensor) -> None:
            parameter.grad.mul_(3)

        module.a.register_post_accumulate_grad_hook(double)
        module.b.register_post_accumulate_grad_hook(triple)
        seen = []
        for _ in range(3):
            module.zero_grad()
            module(LOCAL[device.rank]).backward()
            seen.append(values(module))
        return seen

    mean = 1.0 if size == 1 else 2.0
    assert on_each(step, size) == [[{"a": 2 * mean, "b": 3 * mean}] * 3] * size


def test_gradients_that_are_dropped_between_passes() -> None:
    def step(context: Any, device: Any) -> Any:
        module = td.distribute(Two(), context)
        with context.no_sync():
            module(LOCAL[device.rank]).backward()
        module.zero_grad()
        (module.a * LOCAL[device.rank]).backward()
        return values(module)

    assert on_each(step) == [{"a": 2.0, "b": None}] * 2


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")
def test_create_graph_is_refused() -> None:
    def step(context: Any, device: Any) -> None:
        module = td.distribute(Two(), context)
        (module.a**3).backward(create_graph=True)

    assert [type(error) for error in on_each(step)] == [td.UnsupportedTensor] * 2


def test_a_gradient_penalty() -> None:
    """f = a**3 x with x 1 and 2: the penalty (df/da)**2 = 9 a**4 x**2 has the gradient 36 a**3 x**2."""

    def step(context: Any, device: Any) -> float:
        module = td.distribute(Two(), context)
        (inner,) = torch.autograd.grad(module.a**3 * (1 + device.rank), module.a, create_graph=True)
        (inner**2).backward()
        return module.a.grad.item()

    assert on_each(step) == [(36 + 144) / 2] * 2


def test_complex_half_and_mixed_dtypes() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wave = nn.Parameter(torch.ones(1, dtype=torch.complex64))
            self.low = nn.Parameter(torch.ones(1, dtype=torch.float16))

    def step(context: Any, device: Any) -> Any:
        module = td.distribute(Mixed(), context)
        scale = (10 + 10j, 90 + 90j)[device.rank]
        module.wave.backward(torch.tensor([scale]))
        module.low.backward(torch.tensor([60000.0], dtype=torch.float16))
        return module.wave.grad.item(), module.low.grad.item()

    assert on_each(step) == [(50 + 50j, 60000.0)] * 2


@both_ops
def test_sparse_embeddings(op: td.ReduceOperation, factor: float) -> None:
    def step(context: Any, device: Any) -> Any:
        module = td.distribute(nn.Embedding(4, 1, sparse=True), context)
        seen = []
        for _ in range(2):
            module(torch.tensor([0, 1] if device.rank == 0 else [3, 3])).sum().backward()
            seen.append((module.weight.grad.is_sparse, module.weight.grad.to_dense().flatten().tolist()))
        return seen

    once = [factor, factor, 0.0, 2 * factor]
    assert on_each(step, op=op) == [[(True, once), (True, [2 * value for value in once])]] * 2


def test_a_large_parameter_is_reduced_like_a_small_one() -> None:
    def step(context: Any, device: Any) -> Any:
        module = td.distribute(nn.Linear(600, 600), context)
        module(torch.full((1, 600), LOCAL[device.rank])).sum().backward()
        return module.weight.grad.unique().tolist(), module.bias.grad.unique().tolist()

    assert on_each(step) == [([2.0], [1.0])] * 2


def test_copies_are_ordinary_modules() -> None:
    def step(context: Any, device: Any) -> Any:
        module = td.distribute(Two(), context)
        twin = copy.deepcopy(module)
        (LOCAL[device.rank] * twin.a).backward()
        saved = io.BytesIO()
        torch.save(module.state_dict(), saved)
        saved.seek(0)
        return (
            twin.a.grad.item(),
            td.is_distributed(twin.a),
            module.a.grad,
            sorted(torch.load(saved)),
            len(pickle.dumps(module)) > 0,
        )

    assert on_each(step) == [(local, False, None, ["a", "b"], True) for local in LOCAL]


def test_a_new_context_takes_a_module_over() -> None:
    modules = [Two(), Two()]

    def step(context: Any, device: Any) -> Any:
        module = td.distribute(modules[device.rank], context)
        module.zero_grad()
        module(LOCAL[device.rank]).backward()
        return values(module), td.distributed_params(module.a).param_id

    assert on_each(step) == on_each(step) == [({"a": 2.0, "b": 2.0}, "0:a")] * 2


def test_after_the_context_is_closed_backward_says_so() -> None:
    module = Two()
    with td.DistributedContext([td.Cpu(0)]) as context:
        td.distribute(module, context)
        module(3.0).backward()
        assert values(module) == {"a": 3.0, "b": 3.0}
    with pytest.raises(td.ContextClosed):
        module(3.0).backward()


def test_one_device_needs_no_run() -> None:
    with td.DistributedContext([td.Cpu(0)]) as context:
        module = td.distribute(Two(), context)
        module(3.0).backward()
        module(3.0).backward()
        assert values(module) == {"a": 6.0, "b": 6.0}


def test_a_module_is_freed_with_its_context() -> None:
    modules = []

    def step(context: Any, device: Any) -> None:
        module = td.distribute(nn.Linear(2, 2), context)
        module(torch.ones(1, 2)).sum().backward()
        modules.append(weakref.ref(module))

    on_each(step)
    gc.collect()
    assert [ref() for ref in modules] == [None, None]


def test_a_hundred_steps_of_many_parameters() -> None:
    def step(context: Any, device: Any) -> list[float]:
        module = td.distribute(nn.Sequential(*(nn.Linear(3, 3) for _ in range(20))), context)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
        generator = torch.Generator().manual_seed(device.rank)
        for _ in range(100):
            optimizer.zero_grad()
            module(torch.randn(4, 3, generator=generator)).square().mean().backward()
            optimizer.step()
        return [parameter.double().sum().item() for parameter in module.parameters()]

    first, second = on_each(step)
    assert first == second


@both_ops
def test_large_gradients_over_several_passes(op: td.ReduceOperation, factor: float) -> None:
    """Reduced where they lie, or left in memory that replicas share: what comes next must not add to that twice."""

    def step(context: Any, device: Any) -> list[Any]:
        module = td.distribute(nn.Linear(600, 600, bias=False), context)
        x, seen = torch.full((1, 600), LOCAL[device.rank]), []
        for turn in range(6):
            if turn == 2:
                module.zero_grad(set_to_none=False)
            if turn == 4:
                nn.utils.clip_grad_value_(module.parameters(), 1.0)
            with context.no_sync() if turn == 3 else contextlib.nullcontext():
                module(x).sum().backward()
            if turn != 3:
                seen.append(module.weight.grad.unique().tolist())
        return seen

    mean = 4 * factor
    after_no_sync = 1.0 if op is MEAN else None
    first, second = on_each(step, op=op)
    assert first == second
    assert first[:2] == [[mean], [2 * mean]]
    assert first[2] == [mean]
    assert after_no_sync is None or first[3] == [after_no_sync + mean]


def test_frozen_with_a_gradient_that_is_not_synced_yet() -> None:
    def step(context: Any, device: Any) -> Any:
        module = td.distribute(Two(), context)
        with context.no_sync():
            module(LOCAL[device.rank]).backward()
        module.b.requires_grad_(False)
        (LOCAL[device.rank] * module.a).backward()
        return values(module)

    assert on_each(step) == [{"a": 4.0, "b": 2.0}] * 2


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")
def test_what_one_rank_refuses_the_others_learn() -> None:
    def step(context: Any, device: Any) -> Any:
        module = td.distribute(Two(), context)
        try:
            (module.a**3).backward(create_graph=device.rank == 0)
        except td.DispatchError as error:
            module.zero_grad()
            (LOCAL[device.rank] * module.a).backward()
            return type(error), str(error.reason), values(module)

    first, second = on_each(step)
    assert first[0] is td.UnsupportedTensor
    assert second[0] is td.Disagreement
    assert second[1].startswith("rank 0 refused: About parameter 0:a: its gradient is part of a graph")
    assert first[2] == second[2] == {"a": 2.0, "b": None}


def test_a_module_moved_away_on_one_rank() -> None:
    def step(context: Any, device: Any) -> Any:
        module = td.distribute(Two(), context)
        if device.rank:
            module.to("meta")
        module(1.0).backward()

    first, second = on_each(step)
    assert isinstance(first, td.Disagreement)
    assert first.fields["differences"].startswith("rank 1 refused: parameter")
    assert isinstance(second, td.ParametersChanged)


def test_two_modules_that_share_a_parameter() -> None:
    def step(context: Any, device: Any) -> Any:
        first, second = Two(), Two()
        second.b = first.b
        td.distribute(first, context)
        td.distribute(second, context)
        (first(LOCAL[device.rank]) + second(LOCAL[device.rank])).backward()
        return values(first), values(second), td.distributed_params(second.b)

    assert on_each(step) == [({"a": 2.0, "b": 4.0}, {"a": 2.0, "b": 4.0}, td.DistributedParams("0:b"))] * 2


def test_a_hook_that_raises_on_all_ranks_and_going_on() -> None:
    def step(context: Any, device: Any) -> Any:
        module = td.distribute(Two(), context)

        def broken(gradient: torch.Tensor) -> None:
            raise ValueError("broken")

        hook = module.b.register_hook(broken)
        with pytest.raises(ValueError, match="broken"):
            module(LOCAL[device.rank]).backward()
        hook.remove()
        module.zero_grad()
        module(LOCAL[device.rank]).backward()
        return values(module)

    assert on_each(step) == [{"a": 2.0, "b": 2.0}] * 2


def test_autograd_grad_stays_local() -> None:
    def step(context: Any, device: Any) -> Any:
        module = td.distribute(Two(), context)
        (local,) = torch.autograd.grad(LOCAL[device.rank] * module.a, module.a)
        untouched = module.a.grad
        module(LOCAL[device.rank]).backward()
        return local.item(), untouched, values(module)

    assert on_each(step) == [(local, None, {"a": 2.0, "b": 2.0}) for local in LOCAL]


def test_two_groups_do_not_disturb_each_other() -> None:

    def step(context: Any, device: Any) -> Any:
        with td.DistributedContext([td.Cpu(7)]) as other:
            alone = td.distribute(Two(), other)
        module = td.distribute(Two(), context)
        module(LOCAL[device.rank]).backward()
        return values(module), alone.a.grad

    assert on_each(step) == [({"a": 2.0, "b": 2.0}, None)] * 2


def over_the_network(context: Any, device: Any) -> dict[str, Any]:
    """The main cases in one group of two ranks, one after the other."""
    local, seen = LOCAL[device.rank], {}

    def fresh() -> Two:
        module = Two()
        with torch.no_grad():
            module.a.add_(device.rank)
        return td.distribute(module, context)

    module = fresh()
    seen["rank 0's value"] = module.a.item()
    module(local).backward()
    seen["mean"] = values(module)
    module.zero_grad()
    (local * module.a + (module.b if device.rank == 0 else 0.0)).backward()
    seen["used on one"] = values(module)
    module = fresh()
    (local * module.a).backward()
    seen["used nowhere"] = values(module)
    module.zero_grad()
    with context.no_sync():
        module(local).backward()
    seen["no sync"] = values(module)
    (local * module.a).backward()
    seen["then sync"] = values(module)
    tied = Two()
    tied.b = tied.a
    td.distribute(tied, context)(local).backward()
    seen["tied"] = values(tied)
    module = fresh()
    module._parameters["b"] = nn.Parameter(torch.ones(1))
    with pytest.raises(td.ParametersChanged):
        module(local).backward()
    module = fresh().to(torch.float64 if device.rank else torch.float32)
    try:
        module(local).backward()
    except td.Disagreement as error:
        seen["cast on one"] = error.fields["differences"].count("float64 of shape (1,) on rank 1")
    module.zero_grad()  # what is left of a refused step would be refused again
    large = td.distribute(nn.Linear(600, 600), context)
    large(torch.full((1, 600), local)).sum().backward()
    seen["large"] = large.weight.grad.unique().tolist()
    return seen


def _spread(spot: processes.Spot, devices: int, settings: dict[str, Any]) -> list[Any]:
    with spot.open(devices, **settings) as context:
        return context.run(lambda device: over_the_network(context, device))


def test_processes_get_what_threads_get() -> None:
    in_processes = [value for results in processes.values(_spread, 2, 1, dict(SETTINGS)) for value in results]
    assert in_processes == on_each(over_the_network)
    assert in_processes == [
        {
            "rank 0's value": 1.0,
            "mean": {"a": 2.0, "b": 2.0},
            "used on one": {"a": 2.0, "b": 0.5},
            "used nowhere": {"a": 2.0, "b": None},
            "no sync": {"a": local, "b": local},
            "then sync": {"a": 4.0, "b": 2.0},
            "tied": {"a": 4.0},
            "cast on one": 2,
            "large": [2.0],
        }
        for local in LOCAL
    ]


def _train(spot: processes.Spot, devices: int, settings: dict[str, Any]) -> list[list[float]]:
    def step(device: Any) -> list[float]:
        torch.manual_seed(device.rank)
        module = td.distribute(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).double(), context)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        x = torch.arange(32.0, dtype=torch.float64).reshape(8, 4) / 32
        rows = slice(2 * device.rank, 2 * device.rank + 2)
        for _ in range(10):
            optimizer.zero_grad()
            module(x[rows]).square().mean().backward()
            optimizer.step()
        return [parameter.sum().item() for parameter in module.parameters()]

    with spot.open(devices, **settings) as context:
        return context.run(step)


def test_processes_with_several_devices_each() -> None:
    results = [each for per_process in processes.values(_train, 2, 2, dict(SETTINGS)) for each in per_process]
    assert len(results) == 4
    assert results == [results[0]] * 4


def test_who_does_not_train_imports_nothing_that_training_takes() -> None:
    told = subprocess.run(
        [sys.executable, "-c", "import sys, torchdispatch\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    loaded = {name.removeprefix("dispatch_runtime.") for name in told.stdout.split()}
    assert "distribute" in loaded
    assert not loaded & {"backward", "gradient_buckets", "gradient_sync", "module_watch", "replicas", "synced"}
