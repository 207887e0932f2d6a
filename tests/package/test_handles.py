"""What a collective gives back: nothing to read until it is resolved, and the same thing ever after."""

from __future__ import annotations

import gc
import inspect
import operator
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from dispatch_runtime.handles import Done

import torchdispatch as td

SUM = td.ReduceOperation.SUM


@pytest.fixture
def context() -> Iterator[td.DistributedContext]:
    with td.DistributedContext([td.Cpu(0), td.Cpu(1)], td.DistributedConfig(timeout=60)) as context:
        yield context


def begin(context: td.DistributedContext, rank: int) -> td.CollectiveTensor[td.Tensor]:
    """One rank's share of an all-reduce; it is in flight until the other rank has called too."""
    return td.all_reduce(td.from_torch(torch.ones(2), context.devices[rank]), SUM)


READS: dict[str, Callable[[Any], object]] = {
    "add": lambda handle: handle + 1,
    "radd": lambda handle: 1 + handle,
    "tensor_add": lambda handle: torch.ones(2) + handle,
    "iadd": lambda handle: operator.iadd(handle, 1),
    "mod": lambda handle: handle % 2,
    "floordiv": lambda handle: handle // 2,
    "invert": lambda handle: ~handle,
    "and": lambda handle: handle & 1,
    "matmul": lambda handle: handle @ torch.ones(2),
    "neg": lambda handle: -handle,
    "round": round,
    "less": lambda handle: handle < 1,
    "equal": lambda handle: handle == 2,
    "unequal": lambda handle: handle != 2,
    "equal_tensor": lambda handle: torch.ones(2) == handle,
    "contains": lambda handle: 1 in handle,
    "torch_function": lambda handle: torch.add(handle, 1),
    "torch_stack": lambda handle: torch.stack([torch.ones(2), handle]),
    "torch_keyword": lambda handle: torch.sum(input=handle),
    "as_numpy": np.asarray,
    "len": len,
    "iter": list,
    "bool": bool,
    "float": float,
    "int": int,
    "index": lambda handle: [1, 2][handle],
    "item": lambda handle: handle.item(),
    "shape": lambda handle: handle.shape,
    "getitem": lambda handle: handle[0],
    "to_torch": td.to_torch,
    "to_numpy": td.to_numpy,
    "ref": td.TensorRef,
    "from_torch": td.from_torch,
    "op": lambda handle: td.all_reduce(handle, SUM),
    "question": td.is_distributed,
    "kind": lambda handle: td.is_kind(handle, td.Kind.Float),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_every_read_before_it_is_resolved_is_refused(
    context: td.DistributedContext, read: Callable[[Any], object]
) -> None:
    handle = begin(context, 0)
    with pytest.raises(td.Unresolved, match="all_reduce on Cpu\\(0\\) is not there yet") as caught:
        read(handle)
    assert ".resolve()" in caught.value.help
    other = begin(context, 1)
    assert handle.resolve().tolist() == other.resolve().tolist() == [2.0, 2.0]  # the refusal broke nothing


def test_what_a_read_is_told_follows_the_state(context: td.DistributedContext) -> None:
    """In flight, complete, resolved: each time the way on is another one."""
    handle: Any = begin(context, 0)
    texts = []
    for step in (lambda: begin(context, 1).resolve(), handle.resolve, handle.resolve):
        with pytest.raises(td.Unresolved) as caught:
            handle.sum()
        texts.append(str(caught.value))
        step()
    assert "all_reduce on Cpu(0) is not there yet" in texts[0]
    assert "timeout=" in texts[0]
    assert "all_reduce on Cpu(0) is still in its handle" in texts[1]
    assert "which would not wait" in texts[1]
    assert "was resolved already, and is what resolve() gave back" in texts[2]
    assert "not there yet" not in texts[1] + texts[2]
    assert all("`.sum` would read it" in text for text in texts)


def test_setting_an_item_is_refused(context: td.DistributedContext) -> None:
    handle: Any = begin(context, 0)
    with pytest.raises(td.Unresolved):
        handle[0] = 1
    begin(context, 1).resolve()
    handle.resolve()


def test_what_is_no_read(context: td.DistributedContext) -> None:
    handle, other = begin(context, 0), begin(context, 1)
    assert "all_reduce on Cpu(0)" in repr(handle)
    assert handle in {handle}
    assert handle == handle
    assert handle != other
    assert {handle.resolve().device, other.resolve().device} == {td.Cpu(0), td.Cpu(1)}
    assert "resolved" in repr(handle)


def test_resolves_twice_to_the_same_object(context: td.DistributedContext) -> None:
    handle, other = begin(context, 0), begin(context, 1)
    first = handle.resolve()
    assert handle.resolve() is first
    assert handle.assume_resolved() is first
    assert handle.resolve(timeout=0) is first
    assert first.device == td.Cpu(0)
    assert first.device.context is context
    other.resolve()


def test_assume_resolved_never_waits(context: td.DistributedContext) -> None:
    handle = begin(context, 0)
    assert not handle.is_completed()
    with pytest.raises(td.Unresolved, match=r"assume_resolved\(\)"):
        handle.assume_resolved()
    begin(context, 1).resolve()
    handle.resolve()
    assert handle.is_completed()
    assert handle.assume_resolved().tolist() == [2.0, 2.0]


def test_timeout_of_resolve_leaves_it_pending_and_the_group_usable(context: td.DistributedContext) -> None:
    handle = begin(context, 0)
    for _ in range(2):
        with pytest.raises(td.CollectiveTimeout, match=r"Cpu\(1\)") as caught:
            handle.resolve(timeout=0.01)
        assert isinstance(caught.value, TimeoutError)
    assert not handle.is_completed()
    begin(context, 1).resolve()
    assert handle.resolve().tolist() == [2.0, 2.0]


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), -0.5])
def test_timeouts_that_are_none(context: td.DistributedContext, timeout: float) -> None:
    handle = begin(context, 0)
    with pytest.raises(td.BadConfig, match="timeout="):
        handle.resolve(timeout)
    begin(context, 1).resolve()
    handle.resolve()


def test_a_timeout_that_is_no_number(context: td.DistributedContext) -> None:
    handle = begin(context, 0)
    with pytest.raises(TypeError, match="a number of seconds, not str"):
        handle.resolve("5")  # type: ignore[arg-type]
    begin(context, 1).resolve()
    handle.resolve()


def test_a_dropped_handle_warns_once_with_the_callers_line(context: td.DistributedContext) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
        td.all_reduce(td.from_torch(torch.ones(2), context.devices[0]), SUM)
        begin(context, 1).resolve()
        gc.collect()
    [warning] = [each for each in caught if each.category is td.DroppedHandle]
    assert (warning.filename, warning.lineno) == (__file__, line)
    assert "all_reduce on Cpu(0)" in str(warning.message)


def test_a_resolved_handle_does_not_warn(context: td.DistributedContext) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        handle, other = begin(context, 0), begin(context, 1)
        handle.resolve()
        other.resolve()
        del handle, other
        gc.collect()
    assert not caught


def test_lists_are_of_tensors_by_rank(context: td.DistributedContext) -> None:
    handles = [td.all_gather(td.from_torch(torch.full((2,), float(rank)), context.devices[rank])) for rank in (0, 1)]
    for rank, handle in enumerate(handles):
        found = handle.resolve()
        assert handle.resolve() is found
        assert [each.tolist() for each in found] == [[0.0, 0.0], [1.0, 1.0]]
        assert all(isinstance(each, td.Tensor) and each.device.rank == rank for each in found)


def test_nothing_is_a_result_too() -> None:
    handle: td.CollectiveTensor[None] = td.CollectiveTensor(Done(None), lambda value: value, "reduce", td.Cpu(0))
    assert handle.is_completed()
    assert handle.resolve() is None
    assert handle.resolve() is None
    assert handle.assume_resolved() is None


def test_a_closed_group_fails_what_is_in_flight() -> None:
    context = td.DistributedContext([td.Cpu(0), td.Cpu(1)])
    handle = begin(context, 0)
    context.close()
    for _ in range(2):
        with pytest.raises(td.ContextClosed):
            handle.resolve()
