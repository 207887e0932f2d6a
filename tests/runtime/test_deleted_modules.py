"""Modules that are deleted while their group goes on: their parameters leave with them, wherever and whenever that is."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import torchdispatch as td
from tests.runtime.spread import ENGINES, Body, in_threads
from tests.runtime.test_distribute import MEAN, Two, both_ops, on_each, values

LOCAL = (1.0, 3.0)


@pytest.fixture(autouse=True)
def _no_garbage() -> Iterator[None]:
    """What is deleted is so at once, and not whenever the collector comes by."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def _freed(context: Any, device: Any) -> tuple[list[bool], Any]:
    kept = td.distribute(Two(), context)
    module = td.distribute(Two(), context)
    (module(LOCAL[device.rank]) + kept(LOCAL[device.rank])).sum().backward()
    refs = [weakref.ref(each) for each in module.parameters()]
    del module
    freed = [ref() is None for ref in refs]
    for _ in range(2):
        kept.zero_grad()
        kept(LOCAL[device.rank]).sum().backward()
    state = context.state(device)
    return freed, (values(kept), sorted(state["gradient_sync"].standing), state["gradient_sync"].gone.copy())


@pytest.mark.parametrize("spread", ENGINES)
def test_the_parameters_are_freed_and_leave_the_sync(spread: Callable[[Body, int], list[Any]]) -> None:
    for freed, left in spread(_freed, 2):
        assert freed == [True, True]
        assert left == ({"a": 2.0, "b": 2.0}, ["0:a", "0:b"], set())


def _one_after_another(context: Any, device: Any) -> list[Any]:
    """Rank 0 deletes its module first; what the other one still has and does not use is no difference."""
    kept, module = td.distribute(Two(), context), td.distribute(Two(), context)
    first = LOCAL[device.rank]
    (module(first) + kept(first)).sum().backward()
    seen = []
    for step in range(4):
        if step == 2 * device.rank:
            del module
        kept.zero_grad()
        kept(first).sum().backward()
        seen.append((values(kept), sorted(context.state(device)["gradient_sync"].gone)))
    return seen


@pytest.mark.parametrize("spread", ENGINES)
def test_ranks_that_delete_at_different_times_go_on(spread: Callable[[Body, int], list[Any]]) -> None:
    first, second = spread(_one_after_another, 2)
    right = {"a": 2.0, "b": 2.0}
    assert first == [(right, ["1:a", "1:b"])] * 2 + [(right, [])] * 2
    assert second == [(right, [])] * 4


def _differences(loss: torch.Tensor) -> str:
    with pytest.raises(td.Disagreement) as caught:
        loss.sum().backward()
    return str(caught.value.fields["differences"])


def _used_elsewhere(context: Any, device: Any) -> list[str]:
    kept, module = td.distribute(Two(), context), td.distribute(Two(), context)
    first = device.rank == 0
    (module(1.0) + kept(1.0)).sum().backward()
    if first:
        del module
    errors = []
    for _ in range(2):
        errors.append(_differences(kept(1.0) if first else kept(1.0) + module(1.0)))
        kept.zero_grad()
    if not first:
        del module
        gc.collect()  # the tracebacks have seen the gradients that were not synced
    kept(1.0).sum().backward()
    assert values(kept) == {"a": 1.0, "b": 1.0}
    return errors


@pytest.mark.parametrize("spread", ENGINES)
def test_what_one_rank_deleted_and_another_uses_is_a_disagreement(spread: Callable[[Body, int], list[Any]]) -> None:
    first, second = spread(_used_elsewhere, 2)
    assert first == second
    assert "parameter 1:a: deleted with its module on rank 0, float32 of shape (1,) on rank 1" in first[0]


@both_ops
@pytest.mark.parametrize("overlap", ["on", "off"])
def test_a_parameter_that_is_used_without_its_module(op: td.ReduceOperation, factor: float, overlap: str) -> None:
    """It comes back with its first gradient, in the same pass, and with what it remembers of the sum before."""

    def step(context: Any, device: Any) -> Any:
        local = LOCAL[device.rank]
        module = td.distribute(Two(), context)
        a, b = module.a, module.b
        module(local).sum().backward()
        del module
        seen = []
        for _ in range(2):
            (local * (a + b)).sum().backward()
            seen.append((a.grad.item(), b.grad.item()))
        (local * b).sum().backward()
        return [*seen, (a.grad.item(), b.grad.item())]

    for seen in on_each(step, op=op, overlap=overlap):
        total = 4 * factor
        assert seen == [(2 * total, 2 * total), (3 * total, 3 * total), (3 * total, 4 * total)]


def test_a_loss_that_outlives_its_module() -> None:
    def step(context: Any, device: Any) -> Any:
        module = td.distribute(Two(), context)
        loss, a = module(LOCAL[device.rank]).sum(), module.a
        del module
        loss.backward()
        return a.grad.item()

    assert on_each(step) == [2.0, 2.0]


def test_gradients_that_were_not_synced_yet_are_synced_first() -> None:
    def step(context: Any, device: Any) -> Any:
        module, kept = td.distribute(Two(), context), td.distribute(Two(), context)
        a = module.a
        with context.no_sync():
            module(LOCAL[device.rank]).sum().backward()
        del module
        for _ in range(3):
            kept(1.0).sum().backward()
        return a.grad.item(), sorted(context.state(device)["gradient_sync"].standing)

    assert on_each(step) == [(2.0, ["1:a", "1:b"])] * 2


def _refused_and_deleted(context: Any, device: Any) -> Any:
    """A traceback keeps the parameters of one rank, with gradients that were refused; the other rank's are gone."""
    kept, module = td.distribute(Two(), context), td.distribute(Two(), context)
    module.register_parameter("c", nn.Parameter(torch.ones(1)))
    garbage = []
    try:
        (module(1.0) * module.c).sum().backward()
    except td.ParametersChanged as error:
        garbage += [error] * device.rank
    del module
    if device.rank == 0:
        gc.collect()
    seen = []
    for _ in range(3):
        kept.zero_grad()
        kept(LOCAL[device.rank]).sum().backward()
        seen.append(values(kept))
        garbage.clear()
    return seen, sorted(context.state(device)["gradient_sync"].standing)


@pytest.mark.parametrize("spread", ENGINES)
def test_unsynced_gradients_that_only_one_rank_still_has_are_no_difference(
    spread: Callable[[Body, int], list[Any]],
) -> None:
    for seen, standing in spread(_refused_and_deleted, 2):
        assert seen == [{"a": 2.0, "b": 2.0}] * 3
        assert standing == ["0:a", "0:b"]


def _orphan_in_use(context: Any, device: Any) -> str:
    kept, module = td.distribute(Two(), context), td.distribute(Two(), context)
    with context.no_sync():
        module(1.0).sum().backward()
    a = module.a if device.rank == 1 else None
    del module
    rest = torch.zeros(1) if a is None else a * 1.0  # computed first, so that its gradient comes last
    return _differences(rest + kept(1.0))


@pytest.mark.parametrize("spread", ENGINES)
def test_an_unsynced_gradient_that_is_added_to_is_a_difference(spread: Callable[[Body, int], list[Any]]) -> None:
    first, second = spread(_orphan_in_use, 2)
    assert first == second
    assert first == "parameter 1:a: deleted with its module on rank 0, float32 of shape (1,) on rank 1"


def test_a_parameter_that_another_module_has_too_stays() -> None:
    def step(context: Any, device: Any) -> Any:
        module, other = Two(), Two()
        other.a = module.a
        td.distribute(module, context)
        td.distribute(other, context)
        b = weakref.ref(module.b)
        del module
        other(LOCAL[device.rank]).sum().backward()
        return values(other), sorted(context.state(device)["gradient_sync"].standing), b() is None

    assert on_each(step) == [({"a": 2.0, "b": 2.0}, ["0:a", "1:b"], True)] * 2


def test_a_kept_parameter_in_a_new_module() -> None:
    """Of the same group, where it goes by its first id, and of the next."""

    def step(context: Any, device: Any) -> Any:
        module = td.distribute(Two(), context)
        module(LOCAL[device.rank]).sum().backward()
        a = module.a
        del module
        other = Two()
        other.a = a
        td.distribute(other, context)
        other.zero_grad()
        other(LOCAL[device.rank]).sum().backward()
        seen = values(other), sorted(context.state(device)["gradient_sync"].standing)
        del other
        return seen, a

    parameters = []
    for seen, a in on_each(step):
        assert seen == ({"a": 2.0, "b": 2.0}, ["0:a", "1:b"])
        parameters.append(a)

    def again(context: Any, device: Any) -> Any:
        module = Two()
        module.a = parameters[device.rank]
        td.distribute(module, context)
        module.zero_grad()
        module(LOCAL[device.rank]).sum().backward()
        return values(module)

    assert on_each(again) == [{"a": 2.0, "b": 2.0}] * 2


def test_a_hundred_modules_one_after_another_leave_nothing_behind() -> None:
    def body(context: Any, device: Any) -> Any:
        for _ in range(100):
            module = td.distribute(nn.Linear(3, 2), context)
            module(torch.ones(1, 3)).sum().backward()
            del module
        module = td.distribute(nn.Linear(3, 2), context)
        module(torch.ones(1, 3)).sum().backward()
        sync, backward = (context.state(device)[name] for name in ("gradient_sync", "backward"))
        kept = (sync.standing, sync.gone, backward.parameters.synced, backward.parameters.modules)
        return [len(each) for each in kept]

    assert in_threads(body, 2) == [[2, 0, 2, 1]] * 2


@pytest.mark.parametrize("divide_by", ["size", "active"])
def test_deleting_while_ranks_join(divide_by: Any) -> None:
    """A rank that is through says nothing of its own, not even what it has deleted."""

    def step(context: Any, device: Any) -> Any:
        kept, module = td.distribute(Two(), context), td.distribute(Two(), context)
        (module(1.0) + kept(1.0)).sum().backward()
        del module
        with context.join(divide_by):
            for _ in range(1 + 2 * device.rank):
                kept.zero_grad()
                kept(1.0).sum().backward()
        kept.zero_grad()
        kept(LOCAL[device.rank]).sum().backward()
        return values(kept), context.state(device)["gradient_sync"].gone.copy()

    assert on_each(step, op=MEAN) == [({"a": 2.0, "b": 2.0}, set())] * 2


def test_parameters_are_freed_with_module_and_group() -> None:
    refs: list[Any] = []

    def step(context: Any, device: Any) -> None:
        module = td.distribute(Two(), context)
        module(1.0).sum().backward()
        refs.append(weakref.ref(module.a))

    on_each(step)
    gc.collect()
    assert [ref() for ref in refs] == [None, None]
