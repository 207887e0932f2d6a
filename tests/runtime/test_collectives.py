"""The values of the collectives, the same on every engine, and what they leave alone."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

import torchdispatch as td
from tests.runtime.spread import ENGINES, Body, in_both, in_processes, in_threads
from tests.runtime.subclasses import Named, Standing
from torchdispatch import ReduceOperation as Op


def reduced(tensor: torch.Tensor, op: Op, **options: Any) -> torch.Tensor:
    return td.all_reduce(tensor, op, **options).resolve().primitive


def _plain(context: Any, device: Any) -> dict[str, Any]:
    rank = device.rank
    mine = torch.tensor([[2.0, 5.0], [4.0, 1.0]][rank])
    seen = {op.name: reduced(mine, op).tolist() for op in Op}
    seen["input"] = mine.tolist()
    seen["broadcast"] = [td.broadcast(mine, root).resolve().primitive.tolist() for root in context.devices]
    seen["all_gather"] = [each.primitive.tolist() for each in td.all_gather(mine).resolve()]
    seen["all_true"] = [context.all_true(flag) for flag in (True, False, rank == 1)]
    td.barrier()
    return seen


@pytest.mark.parametrize("spread", ENGINES)
def test_each_collective_has_its_value(spread: Callable[[Body, int], list[Any]]) -> None:
    for rank, seen in enumerate(spread(_plain, 2)):
        assert seen == {
            "SUM": [6, 6],
            "MEAN": [3, 3],
            "MIN": [2, 1],
            "MAX": [4, 5],
            "PRODUCT": [8, 5],
            "input": [[2, 5], [4, 1]][rank],
            "broadcast": [[2, 5], [4, 1]],
            "all_gather": [[2, 5], [4, 1]],
            "all_true": [True, False, False],
        }


def _ranks(context: Any, device: Any) -> Any:
    rank = device.rank
    total = reduced(torch.tensor([10.0**rank]), Op.SUM).item()
    pair = context.devices[:2] if rank < 2 else context.devices[2:]
    among = reduced(torch.tensor([10.0**rank]), Op.SUM, devices=pair).item()
    ends = [context.devices[3], context.devices[0]]
    at_ends = (
        [e.primitive.item() for e in td.all_gather(torch.tensor(rank), ends).resolve()] if rank in (0, 3) else None
    )
    root = td.broadcast(torch.tensor(rank), context.devices[3], context.devices[1:]).resolve() if rank else None
    return total, among, at_ends, None if root is None else root.primitive.item()


@pytest.mark.parametrize("spread", [*ENGINES, pytest.param(in_both, id="both")])
def test_subgroups(spread: Callable[[Body, int], list[Any]]) -> None:
    assert spread(_ranks, 4) == [
        (1111, 11, [0, 3], None),
        (1111, 11, None, 3),
        (1111, 1100, None, 3),
        (1111, 1100, [0, 3], 3),
    ]


FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
COMPLEX = [torch.complex64, torch.complex128]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
SIZES = [(), (3,), (0,), (2, 0, 3), (40000,)]


def _contribution(dtype: torch.dtype, rank: int, shape: tuple[int, ...]) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rank)
    if dtype is torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    if dtype in INTEGERS:
        return torch.randint(0, 100, shape, generator=generator, dtype=dtype)
    values_ = torch.randn(shape, generator=generator, dtype=torch.complex128 if dtype in COMPLEX else torch.float64)
    return values_.to(dtype)


def _table(context: Any, device: Any) -> dict[str, torch.Tensor | str]:
    seen: dict[str, torch.Tensor | str] = {}
    for dtype, op, shape in itertools.product([*FLOATS, *COMPLEX, *INTEGERS, torch.bool], Op, SIZES):
        try:
            seen[f"{dtype} {op.name} {shape}"] = reduced(_contribution(dtype, device.rank, shape), op)
        except td.DispatchError as error:
            seen[f"{dtype} {op.name} {shape}"] = type(error).__name__
    return seen


def test_both_engines_give_the_same_answer_for_every_dtype_and_operation() -> None:
    threads, processes = in_threads(_table, 3), in_processes(_table, 3)
    for other in [*threads[1:], *processes]:
        assert other.keys() == threads[0].keys()
        for what, value in other.items():
            if isinstance(value, str):
                assert value == threads[0][what], what
            else:
                torch.testing.assert_close(value, threads[0][what], msg=what)
    for what, value in threads[0].items():
        dtype, op = what.split()[:2]
        meaningless = (
            "complex" in dtype
            if op in ("MIN", "MAX")
            else op == "MEAN" and not ("float" in dtype or "complex" in dtype)
        )
        assert isinstance(value, str) == meaningless, what


def _numbers(context: Any, device: Any) -> dict[str, Any]:
    rank = device.rank
    nan, inf = float("nan"), float("inf")

    def of(*contributions: Any, dtype: torch.dtype, op: Op) -> Any:
        return reduced(torch.tensor(contributions[rank], dtype=dtype), op).tolist()

    big = reduced(torch.tensor([256.0, 1.0, 1.0][rank]).bfloat16().expand(50000), Op.SUM)
    return {
        "bf16": of(256, 1, 1, dtype=torch.bfloat16, op=Op.SUM),
        "bf16 large": big.unique().tolist(),
        "fp16": of(60000, 60000, 60000, dtype=torch.float16, op=Op.MEAN),
        "int8": of(100, 100, 0, dtype=torch.int8, op=Op.SUM),
        "int16": of(30000, 30000, 1, dtype=torch.int16, op=Op.SUM),
        "bool": of([True, False], [True, False], [False, False], dtype=torch.bool, op=Op.SUM),
        "complex": of(1 + 2j, 3j, 2, dtype=torch.complex64, op=Op.PRODUCT),
        "max": str(of([nan, 1, 2], [1, nan, 3], [5, 5, inf], dtype=torch.float32, op=Op.MAX)),
        "min": str(of([nan, 1, 2], [1, nan, 3], [5, 5, -inf], dtype=torch.float32, op=Op.MIN)),
    }


@pytest.mark.parametrize("spread", ENGINES)
def test_numbers_at_the_edge(spread: Callable[[Body, int], list[Any]]) -> None:
    for seen in spread(_numbers, 3):
        assert seen == {
            "bf16": 258,
            "bf16 large": [258],
            "fp16": 60000,
            "int8": -56,
            "int16": -5535,
            "bool": [True, False],
            "complex": -12 + 6j,
            "max": "[nan, nan, inf]",
            "min": "[nan, nan, -inf]",
        }


def _layouts(context: Any, device: Any) -> None:
    rank = device.rank
    for length in (4, 30000):
        table = torch.arange(2.0 * length).view(length, 2) + 10 * rank
        before = table.clone()
        column = reduced(table[:, 0], Op.SUM)
        assert column.tolist() == [4.0 * i + 10 for i in range(length)]
        assert torch.equal(table, before)
        turned = reduced(table.t(), Op.MEAN)
        assert torch.equal(turned, (torch.arange(2.0 * length).view(length, 2) + 5).t())
        assert turned.stride() == table.t().stride()
    image = (torch.arange(120.0).view(1, 3, 8, 5) + rank).contiguous(memory_format=torch.channels_last)
    other = image if rank == 0 else image.contiguous()
    total = reduced(other, Op.SUM)
    assert torch.equal(total, 2 * torch.arange(120.0).view(1, 3, 8, 5) + 1)
    assert total.stride() == other.stride()
    assert reduced(torch.tensor(1.0 + rank).expand(3), Op.MEAN).tolist() == [1.5] * 3
    assert reduced(torch.tensor([1 + 1j]).conj(), Op.SUM).tolist() == [2 - 2j]
    received = td.broadcast(table[::2, 1], context.devices[1]).resolve().primitive
    assert torch.equal(received, (torch.arange(2.0 * length).view(length, 2) + 10)[::2, 1])
    assert torch.equal(table, before)
    lone = td.broadcast(table[:1, 1], context.devices[1]).resolve().primitive
    assert lone.tolist() == reduced(table[:1, 1], Op.MAX).tolist() == [11.0]
    gathered = td.all_gather(table[:, 1]).resolve()
    assert [each.primitive[0].item() for each in gathered] == [1, 11]
    gathered[0].primitive.zero_()
    assert gathered[1].primitive[0].item() == 11


@pytest.mark.parametrize("spread", ENGINES)
def test_strided_tensors_are_reduced_where_they_are(spread: Callable[[Body, int], list[Any]]) -> None:
    spread(_layouts, 2)


def _aliasing(context: Any, device: Any) -> None:
    rank = device.rank
    communicator = context.communicator(device)
    for size in (3, 50000):
        mine = torch.full((size,), 1.0 + rank)
        flights = []
        for _ in range(5):
            flights.append(communicator.all_reduce(mine, Op.SUM))
            mine += 10
        assert [flight.wait()[-1].item() for flight in flights] == [3 + 20 * step for step in range(5)]
        buffer = torch.full((size,), 1.0 + rank)
        assert (
            communicator.all_reduce(buffer, Op.MEAN, in_place=True, label="bucket").wait().data_ptr()
            == buffer.data_ptr()
        )
        assert buffer[0] == buffer[-1] == 1.5
        part = torch.full((size, 2), 1.0 + rank)
        communicator.all_reduce(part[:, 1], Op.SUM, in_place=True).wait()
        assert part[0].tolist() == part[-1].tolist() == [1 + rank, 3]


@pytest.mark.parametrize("spread", ENGINES)
def test_the_caller_may_overwrite_its_tensor_unless_in_place(spread: Callable[[Body, int], list[Any]]) -> None:
    spread(_aliasing, 2)


def _tracked(context: Any, device: Any) -> None:
    communicator = context.communicator(device)
    leaf = torch.ones(2, requires_grad=True)
    assert not communicator.all_reduce(leaf * 2, Op.SUM).wait().requires_grad
    with torch.inference_mode():
        inside = communicator.all_reduce(torch.ones(2), Op.SUM).wait()
    assert communicator.all_reduce(inside.clone(), Op.SUM).wait().tolist() == [4, 4]


@pytest.mark.parametrize("spread", ENGINES)
def test_what_is_moved_is_outside_of_any_graph(spread: Callable[[Body, int], list[Any]]) -> None:
    spread(_tracked, 2)


def _storm(context: Any, device: Any) -> None:
    """Many small calls, some of them on subgroups, each with another value on each rank, at uneven times."""
    rank, size = device.rank, context.size
    lazy, order = random.Random(rank), random.Random(7)
    everyone = sum(range(size))
    for _ in range(20):
        pending = []
        for step in range(10):
            if lazy.random() < 0.2:
                time.sleep(lazy.random() / 500)
            first = order.randrange(size - 1)
            group = context.devices if order.random() < 0.5 else context.devices[first : first + 2]
            length = order.choice([1, 7])
            if device not in group:
                continue
            total = everyone if len(group) == size else 2 * first + 1
            value = torch.full((length,), float(rank * 100 + step))
            pending.append((td.all_reduce(value, Op.SUM, group), total * 100 + step * len(group)))
        for handle, expected in pending:
            assert set(handle.resolve().primitive.tolist()) == {float(expected)}


@pytest.mark.parametrize("spread", [*ENGINES, pytest.param(in_both, id="both")])
def test_no_value_is_ever_crossed(spread: Callable[[Body, int], list[Any]]) -> None:
    spread(_storm, 4)


def test_one_thread_may_issue_the_calls_of_all_ranks() -> None:
    with td.DistributedContext([td.Cpu(0), td.Cpu(1), td.Cpu(2)]) as context:
        for _ in range(20):
            mine = [td.from_torch(torch.tensor([10.0**device.rank]), device) for device in context.devices]
            handles = [td.all_reduce(each, Op.SUM) for each in mine]
            assert [handle.is_completed() for handle in handles] == [True] * 3
            assert [handle.resolve().primitive.item() for handle in handles] == [111.0] * 3
        first = td.all_reduce(mine[0], Op.SUM)
        assert not first.is_completed()
        others = [td.all_reduce(each, Op.SUM) for each in mine[1:]]
        assert [handle.resolve().primitive.item() for handle in [first, *others]] == [111.0] * 3


def test_one_process_may_reach_its_own_devices_by_process_groups() -> None:
    """What several accelerators of one process do, shown on CPU devices with their engine, gloo."""
    from dispatch_runtime.engines.c10d import C10d
    from torch._C._distributed_c10d import HashStore

    store = HashStore()
    with td.DistributedContext([td.Cpu(index) for index in range(4)], td.DistributedConfig(timeout=20)) as context:
        context._network = C10d(context._agreement, context.devices, lambda: store)
        context._memory = context._network
        assert [seen[1] for seen in context.run(lambda device: _ranks(context, device))] == [11, 11, 1100, 1100]
        mine = [td.from_torch(torch.full((30000,), 10.0**device.rank), device) for device in context.devices]
        handles = [td.all_reduce(each, Op.SUM) for each in mine]
        assert [handle.resolve().primitive[-1].item() for handle in handles] == [1111] * 4


SPARSE = [*FLOATS, *COMPLEX, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]


def sparse_of(rank: int, dtype: torch.dtype, dense_dims: int) -> torch.Tensor:
    """Entries at other places on each rank, some twice, on rank 1 none; rank 2 keeps zeros of its own."""
    places = torch.tensor(
        [[[0, 2, 2, 5], [1, 0, 0, 2]], [[], []], [[2, 4, 0, 5], [0, 1, 1, 0]]][rank], dtype=torch.long
    )
    count = places.shape[1]
    entries = torch.arange(1, 1 + count * 3**dense_dims).reshape(count, *[3] * dense_dims).remainder(5).to(dtype)
    size = (6, 3, *[3] * dense_dims)
    return torch.sparse_coo_tensor(places, entries, size, check_invariants=True)


def _sparse(context: Any, device: Any) -> list[Any]:
    seen = []
    for dtype, dense_dims, op in itertools.product(SPARSE, (0, 1), (Op.SUM, Op.MEAN)):
        mine = sparse_of(device.rank, dtype, dense_dims)
        try:
            result = reduced(mine, op)
        except td.DispatchError as error:
            seen.append(error.code)
            continue
        assert (result.layout, result.dtype, result.shape) == (torch.sparse_coo, dtype, mine.shape)
        assert result.is_coalesced()
        assert mine.to_dense().equal(sparse_of(device.rank, dtype, dense_dims).to_dense())
        seen.append(result.to_dense())
    return seen


@pytest.mark.parametrize("spread", ENGINES)
def test_sparse_tensors_add_up_as_dense_ones_do(spread: Callable[[Body, int], list[Any]]) -> None:
    expected = []
    for dtype, dense_dims, op in itertools.product(SPARSE, (0, 1), (Op.SUM, Op.MEAN)):
        if op is Op.MEAN and not (dtype.is_floating_point or dtype.is_complex):
            expected.append("TD210")
            continue
        wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
        total = sum(sparse_of(rank, dtype, dense_dims).to(wide).to_dense() for rank in range(3))
        expected.append((total / 3 if op is Op.MEAN else total).to(dtype))
    for seen in spread(_sparse, 3):
        assert len(seen) == len(expected)
        for found, right in zip(seen, expected, strict=True):
            assert found == right if isinstance(right, str) else found.equal(right)


def _sparse_at_odds(context: Any, device: Any) -> list[Any]:
    rank = device.rank
    one = torch.tensor([60000.0]).to_sparse()
    tensors = {
        "layout": [one, one.to_dense()][rank],
        "dims": [torch.ones(2, 2).to_sparse(1), torch.ones(2, 2).to_sparse(2)][rank],
        "shape": [torch.ones(2).to_sparse(), torch.ones(3).to_sparse()][rank],
        "dtype": [one, one.double()][rank],
        "tracked": one.clone().requires_grad_(),
    }
    seen: list[Any] = []
    for what, op in [*[(name, Op.SUM) for name in tensors], ("least", Op.MIN)]:
        try:
            td.all_reduce(tensors.get(what, one), op).resolve()
        except td.DispatchError as error:
            seen.append((what, type(error).__name__))
    own = one.half()
    handle = td.all_reduce(own, Op.MEAN)
    own._values().zero_()
    return [*seen, handle.resolve().primitive.to_dense().item()]


@pytest.mark.parametrize("spread", ENGINES)
def test_sparse_tensors_that_do_not_fit_are_refused_and_the_next_call_works(
    spread: Callable[[Body, int], list[Any]],
) -> None:
    differing = [(what, "Disagreement") for what in ("layout", "dims", "shape", "dtype")]
    expected = [*differing, ("tracked", "NoBackward"), ("least", "MeaninglessReduction"), 60000.0]
    assert spread(_sparse_at_odds, 2) == [expected] * 2


def test_a_group_of_one_gives_a_copy() -> None:
    with td.DistributedContext([td.Cpu(0)]) as context:
        mine = torch.tensor([3, 4])
        for op in (Op.SUM, Op.MIN, Op.MAX, Op.PRODUCT):
            result = reduced(mine, op)
            assert result.tolist() == [3, 4]
            assert result.data_ptr() != mine.data_ptr()
        assert reduced(torch.tensor(3.0), Op.MEAN).item() == 3
        assert td.broadcast(mine, context.devices[0]).resolve().primitive.tolist() == [3, 4]
        with pytest.raises(td.DispatchError, match="MEAN"):
            td.all_reduce(mine, Op.MEAN)


def _subclasses(context: Any, device: Any) -> None:
    class Local(Named):
        """Every rank of a process has another one, and torch does not mix them."""

    root, mean = context.devices[1], (context.size + 1) / 2
    for kind in (Named, Local, torch.nn.Buffer):
        for size in (2, 60_000):
            mine = torch.full((size,), device.rank + 1.0).as_subclass(kind) if issubclass(kind, Named) else None
            mine = kind(torch.full((size,), device.rank + 1.0)) if mine is None else mine
            seen = [
                reduced(mine, Op.MEAN),
                td.broadcast(mine, root).resolve().primitive - 2 + mean,
                td.all_gather(mine).resolve()[0].primitive - 1 + mean,
                td.reduce_scatter([mine] * context.size, Op.MEAN).resolve().primitive,
            ]
            for value in seen:
                assert (type(value), value.unique().tolist()) == (torch.Tensor, [mean]), (kind, size)
    with pytest.raises(td.UnsupportedTensor, match="it is a Standing, which stands for other tensors"):
        td.all_gather(Standing())
    with pytest.raises(td.UnsupportedTensor, match="it has no shape yet, because it is lazy"):
        td.all_gather(torch.nn.UninitializedParameter())
    tracked = torch.nn.Parameter(torch.full((2,), device.rank + 1.0)).as_subclass(Named)
    leaf = torch.full((2,), device.rank + 1.0).as_subclass(Named).requires_grad_()
    for tensor in (tracked, leaf):
        (gradient,) = torch.autograd.grad(reduced(tensor, Op.SUM).sum(), tensor)
        assert gradient.tolist() == [context.size] * 2


@pytest.mark.parametrize("spread", ENGINES)
def test_tensors_of_other_classes(spread: Callable[[Body, int], list[Any]]) -> None:
    spread(_subclasses, 2)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor", "ignore:Sparse CSR")
def test_what_cannot_be_reduced_is_refused_before_anything_moves() -> None:
    with td.DistributedContext([td.Cpu(0), td.Cpu(1)]) as context:
        communicator = context.communicator(context.devices[0])
        sparse = torch.eye(2).to_sparse_csr()
        quantized = torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8)
        for tensor in (torch.empty(2, device="meta"), sparse, quantized, torch.ones(2).to(torch.float8_e5m2)):
            with pytest.raises(td.DispatchError) as caught:
                communicator.all_reduce(tensor, Op.SUM)
            assert "help:" in str(caught.value)
        assert not communicator.all_reduce(torch.ones(1), Op.SUM).done()
        assert context.communicator(context.devices[1]).all_reduce(torch.ones(1), Op.SUM).wait().item() == 2
