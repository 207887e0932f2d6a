"""A call that the ranks do not agree on: one error for all, nothing moved, and the group goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

import torchdispatch as td
from tests.runtime.processes import Spot, values
from tests.runtime.test_collectives import ENGINES, Body, in_both, reduced
from torchdispatch import ReduceOperation as Op


def _refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(td.DispatchError) as caught:
        call()
    assert type(caught.value).__name__ == "Disagreement"
    return str(caught.value.fields["differences"])


def _goes_on(device: Any) -> None:
    assert reduced(torch.tensor([10.0**device.rank]), Op.SUM).item() == sum(
        10.0**rank for rank in range(device.context.size)
    )


def _two(context: Any, device: Any) -> list[str]:
    first = device.rank == 0
    communicator = context.communicator(device)
    ones, peer = torch.ones(4), context.devices[1 - device.rank]
    calls: list[Callable[[], Any]] = [
        lambda: reduced(ones if first else torch.ones(6), Op.SUM),
        lambda: reduced(ones if first else torch.ones(4, dtype=torch.int32), Op.SUM),
        lambda: reduced(ones if first else torch.ones(2, 2), Op.SUM),
        lambda: reduced(torch.ones(0) if first else torch.ones(2), Op.SUM),
        lambda: reduced(torch.ones(50000 + first), Op.SUM),
        lambda: reduced(ones, Op.SUM if first else Op.MEAN),
        lambda: td.broadcast(ones, peer).resolve(),
        lambda: reduced(ones, Op.SUM) if first else td.all_gather(ones).resolve(),
        lambda: td.barrier() if first else reduced(ones, Op.SUM),
        lambda: communicator.all_reduce(ones, Op.SUM, label=f"gradients {device.rank}").wait(),
        lambda: context.all_true(True) if first else reduced(torch.tensor(True), Op.MIN),
    ]
    seen = []
    for call in calls:
        seen.append(_refusal(call))
        assert ones.tolist() == [1] * 4
        _goes_on(device)
    return seen


@pytest.mark.parametrize("spread", ENGINES)
def test_every_difference_is_the_same_error_on_every_rank(spread: Callable[[Body, int], list[Any]]) -> None:
    first, second = spread(_two, 2)
    assert first == second
    brought = [
        ["all_reduce(SUM) of float32[4]", "all_reduce(SUM) of float32[6]"],
        ["all_reduce(SUM) of float32[4]", "all_reduce(SUM) of int32[4]"],
        ["all_reduce(SUM) of float32[4]", "all_reduce(SUM) of float32[2, 2]"],
        ["all_reduce(SUM) of float32[0]", "all_reduce(SUM) of float32[2]"],
        ["all_reduce(SUM) of float32[50001]", "all_reduce(SUM) of float32[50000]"],
        ["all_reduce(SUM) of float32[4]", "all_reduce(MEAN) of float32[4]"],
        ["broadcast of float32[4] from rank 1", "broadcast of float32[4] from rank 0"],
        ["all_reduce(SUM) of float32[4]", "all_gather of float32[4]"],
        ["barrier", "all_reduce(SUM) of float32[4]"],
        ["all_reduce(SUM) of float32[4] for gradients 0", "all_reduce(SUM) of float32[4] for gradients 1"],
        ["all_reduce(MIN) of bool[] for all_true", "all_reduce(MIN) of bool[]"],
    ]
    for text, whats in zip(first, brought, strict=True):
        assert [f" brought {what}" in text for what in whats] == [True, True], text
        assert text.startswith("rank 0 (Cpu(0)")
        assert "; rank 1 (Cpu(" in text


def _some(context: Any, device: Any) -> str:
    text = ""
    for _ in range(20):
        text = _refusal(lambda: reduced(torch.ones(2 if device.rank == 2 else 3), Op.SUM))
        _goes_on(device)
    return text


@pytest.mark.parametrize("spread", [*ENGINES, pytest.param(in_both, id="both")])
def test_ranks_that_brought_the_same_are_listed_together(spread: Callable[[Body, int], list[Any]]) -> None:
    texts = set(spread(_some, 4))
    assert len(texts) == 1
    text = texts.pop()
    assert (
        text.index("ranks 0 (Cpu(0)")
        < text.index("1 (Cpu(")
        < text.index("3 (Cpu(")
        < text.index("float32[3]; rank 2 (")
    )


def _groups(context: Any, device: Any) -> str:
    text = ""
    for _ in range(3):
        group = context.devices[:2] if device.rank == 0 else None
        text = _refusal(td.all_reduce(torch.ones(2), Op.SUM, group).resolve)
        _goes_on(device)
        if device.rank < 2:
            assert reduced(torch.ones(1), Op.SUM, devices=context.devices[:2]).item() == 2
    return text


@pytest.mark.parametrize("spread", ENGINES)
def test_different_groups_are_found_while_the_ranks_wait(spread: Callable[[Body, int], list[Any]]) -> None:
    texts = set(spread(_groups, 3))
    assert len(texts) == 1
    text = texts.pop()
    assert "float32[2] among ranks 0, 1; ranks 1 (" in text
    assert text.endswith("float32[2] among ranks 0, 1, 2")


def _late_rank(context: Any, device: Any) -> None:
    """A rank that comes to a call that was refused without it hears the same, once."""
    if device.rank == 2:
        time.sleep(0.6)
    _refusal(lambda: reduced(torch.ones(2), Op.SUM, devices=context.devices[:2] if device.rank == 0 else None))
    _goes_on(device)


@pytest.mark.parametrize("spread", ENGINES)
def test_a_rank_that_comes_late_to_a_refused_call_is_refused_too(spread: Callable[[Body, int], list[Any]]) -> None:
    spread(_late_rank, 3)


def _unread(context: Any, device: Any) -> None:
    wrong = td.all_reduce(torch.ones(2 + device.rank), Op.SUM)
    right = td.all_reduce(torch.ones(2), Op.SUM)
    assert right.resolve().primitive.tolist() == [2, 2]
    _refusal(lambda: td.sync_collective(device))
    td.sync_collective(device)
    for _ in range(2):
        _refusal(wrong.resolve)
    td.sync_collective(device)


@pytest.mark.parametrize("spread", ENGINES)
def test_a_disagreement_is_said_by_the_handle_and_by_sync_collective(spread: Callable[[Body, int], list[Any]]) -> None:
    spread(_unread, 2)


def _unasked(spot: Spot, mode: str) -> Any:
    with spot.open(2, agreement=mode, timeout=3.0) as context:

        def body(device: Any) -> list[Any]:
            rank, devices = device.rank, context.devices
            seen = []
            for step in range(4):
                mine = torch.tensor([10.0 * step + rank])
                other = devices[(rank + 2) % 4]
                sent, received = td.send(mine, other), td.recv(mine, other)
                seen.append(
                    [
                        td.all_reduce(mine, Op.SUM).resolve().primitive.item(),
                        td.broadcast(mine, devices[3]).resolve().primitive.item(),
                        [each.primitive.item() for each in td.all_gather(mine).resolve()],
                        td.reduce_scatter([mine] * 4, Op.MAX).resolve().primitive.item(),
                        [each.primitive.item() for each in td.all_to_all([mine] * 4).resolve()],
                        received.resolve().primitive.item(),
                        sent.resolve().primitive.item(),
                        context.all_true(True),
                    ]
                )
                td.barrier()
            return seen

        seen = context.run(body)
        told = sorted({call.op for _, _, call in context._agreement._known})
        if spot.rank == 1:
            return seen, told, None
        with pytest.raises(td.DispatchError) as caught:
            td.all_reduce(td.from_torch(torch.ones(5), td.Cpu(0)), Op.SUM).resolve()
        return seen, told, type(caught.value).__name__


@pytest.mark.parametrize("mode", ["first", "off"])
def test_values_are_the_same_where_ranks_are_not_asked(mode: str) -> None:
    (first, told, error), (second, *_) = values(_unasked, 2, mode)
    for rank, seen in enumerate([*first, *second]):
        for step, row in enumerate(seen):
            every = [10.0 * step + other for other in range(4)]
            assert row == [sum(every), every[3], every, every[3], every, every[(rank + 2) % 4], every[rank], True]
    assert told == ["all_gather", "all_reduce", "broadcast", "recv", "reduce_scatter", "send"]
    assert error == "PeerClosed"


def _in_flight_together(context: Any, device: Any) -> None:
    """Calls that are asked about between calls that are not, by ranks that are not equally far."""
    rank, size = device.rank, context.size
    for step in range(30):
        mine = torch.tensor([10.0 * step + rank])
        everyone = [[10.0 * step + other] for other in range(size)]
        if (step + rank) % 4 == 0:
            time.sleep(0.003)
        exchanged = td.all_to_all([mine] * size)
        gathered = td.all_gather(mine)
        handed = td.scatter([mine] * size if rank == step % size else None, context.devices[step % size])
        total = td.reduce(mine, Op.MAX, context.devices[0])
        assert [each.primitive.tolist() for each in gathered.resolve()] == everyone
        assert [each.primitive.tolist() for each in exchanged.resolve()] == everyone
        assert total.resolve() is None or rank == 0
        assert handed.resolve().primitive.tolist() == everyone[step % size]


def _ahead(spot: Spot, mode: str) -> None:
    with spot.open(agreement=mode) as context:
        _in_flight_together(context, context.local_devices[0])


@pytest.mark.parametrize("mode", ["first", "off"])
def test_calls_that_are_asked_about_do_not_cross_those_that_are_not(mode: str) -> None:
    values(_ahead, 2, mode)


def _known_to_one(spot: Spot) -> float:
    with spot.open(agreement="first", timeout=5.0):
        _refusal(lambda: reduced(torch.ones(2 + spot.rank), Op.SUM))
        return reduced(torch.ones(2), Op.SUM)[0].item()


def test_a_call_that_was_refused_is_new_to_all_ranks() -> None:
    assert values(_known_to_one, 2) == [2.0] * 2


def _leaves_when_done(spot: Spot) -> list[float]:
    """A rank that has sent what the others need may go, though they have not come to it yet."""
    with spot.open(agreement="off") as context:
        root = context.devices[0]
        reduced(torch.ones(1), Op.SUM)
        if spot.rank:
            time.sleep(0.3)
        return [float(td.broadcast(torch.tensor([7.0 + spot.rank]), root).resolve().primitive.item()) for _ in range(3)]


def test_where_nobody_is_asked_a_rank_may_leave_when_it_has_done_its_part() -> None:
    assert values(_leaves_when_done, 3) == [[7.0] * 3] * 3
