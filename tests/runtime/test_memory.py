"""The memory of large results: used again once nobody has it, and never before."""

from __future__ import annotations

import gc
import pickle
from typing import Any

import pytest
import torch
from dispatch_runtime.memory import KEPT, LARGE, copy_of, empty_like

import torchdispatch as td
from torchdispatch import ReduceOperation as Op

ELEMENTS = LARGE // 4 + 3


def reduced_on(device: Any, value: float) -> torch.Tensor:
    tensor = td.from_torch(torch.full((ELEMENTS,), value), device)
    return td.all_reduce(tensor, Op.SUM).resolve().torch()


def test_what_is_kept_of_a_result_keeps_its_values() -> None:
    """Views too, of whole results and of parts, on threads that go on reducing."""

    def body(device: Any) -> tuple[list[float], list[float]]:
        kept: list[torch.Tensor] = []
        for turn in range(12):
            result = reduced_on(device, float(turn))
            if turn % 3 == 0:
                kept.append([result, result[5:9], result.view(-1, 1).T][turn // 3 % 3])
            del result
        return [each.min().item() for each in kept], [each.max().item() for each in kept]

    with td.DistributedContext([td.Cpu(0), td.Cpu(1)]) as context:
        results = context.run(body)
    assert results == [([0.0, 6.0, 12.0, 18.0], [0.0, 6.0, 12.0, 18.0])] * 2


def test_memory_that_nobody_has_is_used_again() -> None:
    first = empty_like(torch.ones(ELEMENTS))
    place = first.data_ptr()
    part = first[1:2]
    del first
    gc.collect()
    assert empty_like(torch.ones(ELEMENTS)).data_ptr() != place
    del part
    gc.collect()
    taken = [empty_like(torch.ones(ELEMENTS)) for _ in range(1 + KEPT // (4 * ELEMENTS))]
    assert place in [each.data_ptr() for each in taken]
    assert len({each.data_ptr() for each in taken}) == len(taken)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.complex64, torch.int8, torch.bool])
def test_a_copy_is_as_any_other(dtype: torch.dtype) -> None:
    tensor = (torch.arange(LARGE) % 3).to(dtype).view(2, -1)
    copy = copy_of(tensor)
    assert (copy.dtype, copy.shape, copy.stride()) == (tensor.dtype, tensor.shape, tensor.stride())
    assert copy.equal(tensor)
    assert copy.data_ptr() != tensor.data_ptr()
    assert pickle.loads(pickle.dumps(copy)).equal(tensor)
    copy.zero_()
    assert tensor.any()


def test_a_result_takes_part_in_training() -> None:
    result = empty_like(torch.ones(ELEMENTS)).fill_(2.0).requires_grad_()
    (result * result).sum().backward()
    assert result.grad is not None
    assert result.grad.eq(4.0).all()
