"""The collectives that move lists, those with a root, and transfers from one rank to another."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

import torchdispatch as td
from tests.runtime.spread import ENGINES, Body, in_both, in_processes, in_threads
from torchdispatch import ReduceOperation as Op

ALL = [*ENGINES, pytest.param(in_both, id="both")]


def plain(value: Any) -> Any:
    """The result of a handle as numbers."""
    found = value.resolve()
    if found is None:
        return None
    return [each.primitive.tolist() for each in found] if isinstance(found, list) else found.primitive.tolist()


def failed(call: Callable[[], Any]) -> td.DispatchError:
    with pytest.raises(td.DispatchError) as caught:
        call()
    return caught.value


def _each(context: Any, device: Any) -> dict[str, Any]:
    rank, size, root = device.rank, context.size, context.devices[1]
    mine = torch.tensor([1.0 + rank, 10.0 * rank])
    parts = [torch.tensor([100.0 * rank + other], dtype=torch.float64) for other in range(size)]
    seen = {f"reduce {op.name}": plain(td.reduce(mine, op, root)) for op in Op}
    seen["gather"] = plain(td.gather(mine, root))
    seen["all_to_all"] = plain(td.all_to_all(parts))
    seen["scatter"] = plain(td.scatter(parts if rank == 1 else None, root))
    seen |= {f"reduce_scatter {op.name}": plain(td.reduce_scatter(parts, op)) for op in Op}
    seen["input"] = [mine.tolist(), *(each.tolist() for each in parts)]
    return seen


@pytest.mark.parametrize("spread", ALL)
def test_each_has_its_value(spread: Callable[[Body, int], list[Any]]) -> None:
    for rank, seen in enumerate(spread(_each, 4)):
        at_root = rank == 1
        assert seen == {
            "reduce SUM": [10, 60] if at_root else None,
            "reduce MEAN": [2.5, 15] if at_root else None,
            "reduce MIN": [1, 0] if at_root else None,
            "reduce MAX": [4, 30] if at_root else None,
            "reduce PRODUCT": [24, 0] if at_root else None,
            "gather": [[1, 0], [2, 10], [3, 20], [4, 30]] if at_root else None,
            "all_to_all": [[100 * other + rank] for other in range(4)],
            "scatter": [100 + rank],
            "reduce_scatter SUM": [600 + 4 * rank],
            "reduce_scatter MEAN": [150 + rank],
            "reduce_scatter MIN": [rank],
            "reduce_scatter MAX": [300 + rank],
            "reduce_scatter PRODUCT": [rank * (100 + rank) * (200 + rank) * (300 + rank)],
            "input": [[1 + rank, 10 * rank], *([100 * rank + other] for other in range(4))],
        }


def _shapes(context: Any, device: Any) -> Any:
    """Rank r brings r + s elements for rank s, as columns of a table: nothing at all from 0 to 0."""
    rank, size = device.rank, context.size
    table = torch.arange(40.0).view(20, 2) + 100 * rank
    parts = [table[: rank + other, 1] for other in range(size)]
    received = td.all_to_all(parts).resolve()
    handed = td.scatter(parts if rank == 2 else None, context.devices[2]).resolve().primitive
    same = [torch.full((other, 2), 1.0 + rank) for other in range(size)]
    added = td.reduce_scatter(same, Op.SUM).resolve().primitive
    gathered = td.gather(table[::10, 0], context.devices[0]).resolve()
    total = td.reduce(table.t(), Op.SUM, context.devices[0]).resolve()
    if rank == 0:
        assert total.primitive.stride() == table.t().stride()
        assert torch.equal(total.primitive, (3 * torch.arange(40.0).view(20, 2) + 300).t())
        assert [each.primitive.tolist() for each in gathered] == [[100.0 * r, 100.0 * r + 20] for r in range(size)]
        gathered[0].primitive.zero_()
        assert gathered[1].primitive[0].item() == 100
    empty = [td.gather(torch.ones(0, 3), context.devices[0]), td.all_to_all([torch.ones(0)] * size)]
    assert [each.primitive.shape for each in empty[0].resolve() or ()] == [(0, 3)] * (size if rank == 0 else 0)
    assert [each.primitive.shape for each in empty[1].resolve()] == [(0,)] * size
    return [each.primitive.tolist() for each in received], handed.tolist(), added.tolist()


@pytest.mark.parametrize("spread", ENGINES)
def test_shapes_may_differ_where_they_can(spread: Callable[[Body, int], list[Any]]) -> None:
    for rank, (received, handed, added) in enumerate(spread(_shapes, 3)):
        assert received == [[100.0 * s + 2 * i + 1 for i in range(s + rank)] for s in range(3)]
        assert handed == [200.0 + 2 * i + 1 for i in range(2 + rank)]
        assert added == [[6.0, 6.0]] * rank


DTYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128),
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool),
]


def _table(context: Any, device: Any) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    root = context.devices[0]
    for dtype in DTYPES:
        for length in (3, 20000):
            drawn = torch.Generator().manual_seed(device.rank)
            mine = (torch.rand(length, generator=drawn) * 7 - 3).to(dtype)
            parts = list(mine.split([length - 2, 1, 1]))
            calls: dict[str, Callable[[], Any]] = {
                "gather": partial(td.gather, mine, root),
                "all_to_all": partial(td.all_to_all, parts),
                "scatter": partial(td.scatter, parts if device.rank == 0 else None, root),
            }
            for op in Op:
                calls[f"reduce {op.name}"] = partial(td.reduce, mine, op, root)
                calls[f"reduce_scatter {op.name}"] = partial(td.reduce_scatter, parts, op)
            for name, call in calls.items():
                try:
                    found = call().resolve()
                except td.DispatchError as error:
                    seen[f"{name} {dtype} {length}"] = type(error).__name__
                else:
                    listed = found if isinstance(found, list) else [] if found is None else [found]
                    seen[f"{name} {dtype} {length}"] = [each.primitive for each in listed]
    return seen


def test_both_engines_give_the_same_answer_for_every_dtype() -> None:
    threads, processes = in_threads(_table, 3), in_processes(_table, 3)
    for ours, theirs in zip(threads, processes, strict=True):
        assert ours.keys() == theirs.keys()
        for what, value in ours.items():
            assert (value == "MeaninglessReduction") == isinstance(value, str), value
            if isinstance(value, str):
                assert theirs[what] == value
            else:
                torch.testing.assert_close(theirs[what], value, msg=what)


def _transfers(context: Any, device: Any) -> None:
    """Each sends to the next and receives from the one before, several times, all at once, beside other collectives."""
    rank, size = device.rank, context.size
    after, before = context.devices[(rank + 1) % size], context.devices[(rank - 1) % size]
    like = torch.empty(4, 2)[:, 1]
    handles = []
    for step in range(5):
        mine = torch.full((4,), 10.0 * step + rank)
        handles.append((td.send(mine, after), td.recv(like, before), td.all_reduce(torch.tensor(rank), Op.SUM)))
        mine.zero_()
    for step, (sent, received, total) in enumerate(handles):
        assert sent.resolve().primitive.tolist() == [10.0 * step + rank] * 4
        assert received.resolve().primitive.tolist() == [10.0 * step + (rank - 1) % size] * 4
        assert total.resolve().primitive.item() == size * (size - 1) // 2
    if rank == 0:
        td.send(torch.arange(300000), context.devices[2]).resolve()
    if rank == 2:
        found = td.recv(torch.empty(300000, dtype=torch.int64), context.devices[0]).resolve()
        assert torch.equal(found.primitive, torch.arange(300000))


@pytest.mark.parametrize("spread", ALL)
def test_transfers(spread: Callable[[Body, int], list[Any]]) -> None:
    spread(_transfers, 4)


def _subgroups(context: Any, device: Any) -> Any:
    rank = device.rank
    odd, all_ = context.devices[1::2], context.devices
    if rank % 2 == 0:
        return plain(td.reduce(torch.tensor(rank), Op.SUM, all_[2], all_[::2]))
    swapped = plain(td.all_to_all([torch.tensor(10 * rank), torch.tensor(10 * rank + 1)], odd))
    return swapped, plain(td.scatter([torch.tensor(7), torch.tensor(8)] if rank == 3 else None, all_[3], odd))


@pytest.mark.parametrize("spread", ALL)
def test_subgroups(spread: Callable[[Body, int], list[Any]]) -> None:
    assert spread(_subgroups, 4) == [None, ([10, 30], 7), 2, ([11, 31], 8)]


def _disagree(context: Any, device: Any) -> list[Any]:
    rank, size, devices = device.rank, context.size, context.devices
    ones = [torch.ones(2)] * size
    wrong: list[Callable[[], Any]] = [
        lambda: td.reduce(torch.ones(2), Op.SUM, devices[rank]),
        lambda: td.reduce(torch.ones(2 + rank), Op.SUM, devices[0]),
        lambda: td.gather(torch.ones(2, dtype=[torch.int32, torch.int64][rank]), devices[0]),
        lambda: td.reduce_scatter([torch.ones(2 + rank)] * size, Op.SUM),
        lambda: td.reduce_scatter(ones, [Op.SUM, Op.MAX][rank]),
        lambda: td.all_to_all([torch.ones(2, dtype=[torch.int32, torch.float32][rank])] * size),
        lambda: td.scatter(ones, devices[rank]),
        lambda: td.scatter(ones, devices[0]) if rank == 0 else td.gather(torch.ones(2), devices[0]),
        lambda: td.send(torch.ones(2), devices[1]) if rank == 0 else td.recv(torch.ones(3), devices[0]),
        lambda: td.send(torch.ones(2), devices[1]) if rank == 0 else td.recv(torch.ones(2).int(), devices[0]),
    ]
    texts = []
    for call in wrong:
        error = failed(lambda call=call: call().resolve())
        assert type(error).__name__ == "Disagreement", error
        texts.append(error.fields["differences"])
        assert plain(td.reduce(torch.ones(1), Op.SUM, devices[0])) == ([size] if rank == 0 else None)
        assert plain(td.all_to_all([torch.tensor(rank)] * size)) == list(range(size))
    return texts


@pytest.mark.parametrize("spread", ENGINES)
def test_what_does_not_fit_is_the_same_error_for_all(spread: Callable[[Body, int], list[Any]]) -> None:
    first, second = spread(_disagree, 2)
    assert first == second
    assert "reduce(SUM) of float32[2] to rank 0" in first[0]
    assert "reduce_scatter(SUM) of float32 [2], [2]" in first[3]
    assert "scatter of float32 [2], [2] from rank 0" in first[7]
    assert "brought send of float32[2]" in first[8]
    assert "brought recv of float32[3]" in first[8]


def _crossed(context: Any, device: Any) -> list[str]:
    """Both receive first: neither ever sends."""
    other = context.devices[1 - device.rank]
    error = failed(lambda: td.recv(torch.empty(2), other).resolve())
    again = td.send(torch.tensor([1.0 + device.rank]), other), td.recv(torch.empty(1), other)
    assert [plain(each) for each in again] == [[1.0 + device.rank], [2.0 - device.rank]]
    return [type(error).__name__, error.fields["differences"]]


@pytest.mark.parametrize("spread", ENGINES)
def test_ranks_that_wait_for_each_other_are_told(spread: Callable[[Body, int], list[Any]]) -> None:
    first, second = spread(_crossed, 2)
    assert first == second
    assert first[0] == "Disagreement"


def test_what_one_rank_can_see_is_refused_at_once() -> None:
    with td.DistributedContext([td.Cpu(0), td.Cpu(1)]) as context:
        first, second = (td.from_torch(torch.ones(2), device) for device in context.devices)
        for call, kind in [
            (lambda: td.reduce_scatter([first], Op.SUM), "UnsupportedTensor"),
            (lambda: td.all_to_all([first] * 3), "UnsupportedTensor"),
            (lambda: td.all_to_all([first, td.from_torch(torch.ones(2).int(), td.Cpu(0))]), "UnsupportedTensor"),
            (lambda: td.all_to_all([first, second]), "MixedVariants"),
            (lambda: td.send(first, td.Cpu(0)), "UnsupportedTensor"),
            (lambda: td.send(first, td.Cpu(5)), "NotInContext"),
            (lambda: td.reduce(first, Op.SUM, td.Cpu(5)), "NotInContext"),
            (lambda: td.reduce(first, Op.SUM, td.Cpu(1), [td.Cpu(0)]), "NotInContext"),
            (
                lambda: td.reduce_scatter([td.from_torch(torch.ones(2).int(), td.Cpu(0))] * 2, Op.MEAN),
                "MeaninglessReduction",
            ),
        ]:
            assert type(failed(call)).__name__ == kind
        flight = td.reduce(first, Op.SUM, td.Cpu(1))
        assert not flight.is_completed()
        assert td.reduce(second, Op.SUM, td.Cpu(1)).resolve().primitive.tolist() == [2, 2]
        assert flight.resolve() is None


def test_tensors_of_scatter_are_where_the_call_is_made() -> None:
    def body(device: Any) -> Any:
        parts = [td.from_torch(torch.tensor(5), td.Cpu(1)) for _ in range(2)] if device.rank == 0 else None
        if device.rank == 0:
            return type(failed(lambda: td.scatter(parts, td.Cpu(0)))).__name__
        return None

    with td.DistributedContext([td.Cpu(0), td.Cpu(1)]) as context:
        assert context.run(body) == ["MixedVariants", None]


def _storm(context: Any, device: Any) -> None:
    """Many calls of all kinds in flight at once, in one order of all ranks, resolved in another."""
    rank, size, order = device.rank, context.size, random.Random(5)
    shuffled = random.Random(rank)
    for _ in range(10):
        pending: list[tuple[Any, Any]] = []
        for step in range(12):
            root = order.randrange(size)
            value = torch.tensor([100.0 * step + rank])
            everyone = [[100.0 * step + other] for other in range(size)]
            match order.randrange(6):
                case 0:
                    expected: Any = [size * 100.0 * step + sum(range(size))] if rank == root else None
                    pending.append((td.reduce(value, Op.SUM, context.devices[root]), expected))
                case 1:
                    pending.append((td.gather(value, context.devices[root]), everyone if rank == root else None))
                case 2:
                    pending.append((td.all_to_all([value] * size), everyone))
                case 3:
                    listed = [value + 10 * other for other in range(size)] if rank == root else None
                    pending.append((td.scatter(listed, context.devices[root]), [100.0 * step + root + 10 * rank]))
                case 4:
                    pending.append((td.reduce_scatter([value + 7] * size, Op.MAX), [100.0 * step + size + 6]))
                case 5:
                    other = (root + 1) % size
                    if rank == root:
                        pending.append((td.send(value, context.devices[other]), value.tolist()))
                    if rank == other:
                        pending.append((td.recv(value, context.devices[root]), [100.0 * step + root]))
        shuffled.shuffle(pending)
        for handle, expected in pending:
            assert plain(handle) == expected


@pytest.mark.parametrize("spread", ALL)
def test_no_value_is_ever_crossed(spread: Callable[[Body, int], list[Any]]) -> None:
    spread(_storm, 4)
