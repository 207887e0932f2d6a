"""Which thread may make the calls of a device: one at a time, handed over for good, never in turns."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

import torchdispatch as td
from tests.runtime.processes import Spot, values
from tests.runtime.test_faults import failure
from torchdispatch import ReduceOperation as Op


def total(device: Any, value: float = 1.0) -> float:
    return float(td.all_reduce(td.from_torch(torch.tensor([value]), device), Op.SUM).resolve().item())


def worker(name: str) -> ThreadPoolExecutor:
    """A thread that lives until the executor is shut down."""
    return ThreadPoolExecutor(1, thread_name_prefix=name)


@pytest.fixture
def device() -> Any:
    with td.DistributedContext([td.Cpu(0)]) as context:
        yield context.devices[0]


def test_two_living_threads_cannot_take_turns(device: Any) -> None:
    with worker("first") as first, worker("second") as second:
        assert first.submit(total, device).result() == 1
        assert second.submit(total, device).result() == 1  # for all that anyone knows, it was handed over
        error = failure(lambda: first.submit(total, device).result())
        assert isinstance(error, td.ConcurrentUse)
        assert (error.fields["thread"], error.fields["other"]) == ("first_0", "second_0")
        assert second.submit(total, device).result() == 1


def test_a_device_is_handed_over_for_good(device: Any) -> None:
    assert total(device) == 1
    with worker("first") as first, worker("second") as second:
        for thread in (first, first, second, second):
            assert thread.submit(total, device).result() == 1
        error = failure(lambda: total(device))
        assert (error.fields["thread"], error.fields["other"]) == ("MainThread", "second_0")
    assert total(device) == 1  # they have ended
    with worker("third") as third:
        assert third.submit(total, device).result() == 1


def test_the_thread_in_the_middle_ended(device: Any) -> None:
    """The one before it and the one after it live, and take turns all the same."""
    with worker("first") as first, worker("third") as third:
        first.submit(total, device).result()
        with worker("second") as second:
            second.submit(total, device).result()
        assert third.submit(total, device).result() == 1
        assert failure(lambda: first.submit(total, device).result()).fields["other"] == "third_0"


def test_threads_that_work_for_another_give_the_device_back() -> None:
    with td.DistributedContext([td.Cpu(0), td.Cpu(1)]) as context, td.DistributedContext([td.Cpu(5)]) as other:

        def nested(device: Any) -> list[float]:
            first = total(device)
            (second,) = other.run(lambda _: total(device))
            return [first, second, total(device)]

        for _ in range(3):
            assert context.all_true(True)
            assert context.run(nested) == [[2, 2, 2]] * 2


def test_devices_and_groups_have_threads_of_their_own() -> None:
    groups = [td.DistributedContext([td.Cpu(0)]) for _ in range(2)]
    with groups[0], groups[1], worker("first") as first, worker("second") as second:
        for _ in range(5):
            assert first.submit(total, groups[0].devices[0]).result() == 1
            assert second.submit(total, groups[1].devices[0]).result() == 1


def test_what_is_no_call_needs_no_thread_of_its_own(device: Any) -> None:
    """Resolving, waiting, asking and closing are no calls: nobody's order depends on them."""
    with worker("worker") as other:
        handle = other.submit(lambda: td.all_reduce(td.from_torch(torch.ones(1), device), Op.SUM)).result()
        td.sync_collective(device)
        assert handle.resolve().item() == 1
        assert other.submit(total, device).result() == 1
        device.context.close()


def _race(spot: Spot) -> list[list[Any]]:
    """Two threads that take turns, of which the other process lets the other one begin."""
    turns = [threading.Semaphore(0), threading.Semaphore(0)]
    over = threading.Event()
    seen: list[list[Any]] = [[], []]

    def loop(mine: int, device: Any) -> None:
        while turns[mine].acquire(timeout=20) and not over.is_set():
            try:
                seen[mine].append(total(device, 10.0**mine))
            except td.DispatchError as error:
                seen[mine].append(type(error).__name__)
                over.set()
            turns[1 - mine].release()

    with spot.open() as context:
        threads = [threading.Thread(target=loop, args=(each, context.devices[spot.rank])) for each in (0, 1)]
        for thread in threads:
            thread.start()
        turns[spot.rank].release()
        for thread in threads:
            thread.join()
    return [seen[spot.rank], seen[1 - spot.rank]]


def test_threads_in_another_order_on_another_process_end_in_an_error_on_both() -> None:
    """What crossed before that, nobody could know: that two threads are there, and not one."""
    for first, second in values(_race, 2):
        assert first == [11.0, "ConcurrentUse"]
        assert second == [11.0]


class _Deeper(torch.autograd.Function):
    """Its backward runs another backward, so deep that autograd goes on in a thread of its own."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, depth: int, call: Callable[[], None]) -> torch.Tensor:
        ctx.rest = depth, call
        return tensor.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        depth, call = ctx.rest
        with torch.enable_grad():
            inner = torch.ones(1, requires_grad=True)
            if depth:
                _Deeper.apply(inner, depth - 1, call).sum().backward()  # type: ignore[no-untyped-call]
            else:
                call()
        return gradient, None, None


def test_a_hook_may_run_in_a_thread_of_autograds() -> None:
    """Who runs the pass waits for it: its calls and the hook's have one order."""
    names: list[str] = []
    handles: list[Any] = []
    with td.DistributedContext([td.Cpu(0), td.Cpu(1)]) as context:
        first, second = context.devices

        def call() -> None:
            names.append(threading.current_thread().name)
            handles.append(td.all_reduce(td.from_torch(torch.ones(1), first), Op.SUM))

        for _ in range(2):
            handles.append(td.all_reduce(td.from_torch(torch.ones(1), first), Op.SUM))
            weight = torch.ones(1, requires_grad=True)
            _Deeper.apply(weight, 70, call).sum().backward()  # type: ignore[no-untyped-call]
            handles.append(td.all_reduce(td.from_torch(torch.ones(1), first), Op.SUM))
        assert all(name.startswith("Dummy") for name in names), names
        assert [total(second) for _ in handles] == [2] * 6
        assert [handle.resolve().item() for handle in handles] == [2] * 6


def test_a_backward_pass_beside_that_of_another_thread_is_refused() -> None:
    """Both would add to the same gradients, and what the sync of one reads the other may be writing."""
    under_way, go_on = threading.Event(), threading.Event()

    def wait(_: torch.Tensor) -> None:
        if threading.current_thread().name.startswith("first"):
            under_way.set()
            assert go_on.wait(30)

    with td.DistributedContext([td.Cpu(0)]) as context, worker("first") as first, worker("second") as second:
        module = td.distribute(torch.nn.Linear(2, 1, bias=False), context)
        module.weight.register_post_accumulate_grad_hook(wait)

        def step() -> None:
            module(torch.ones(1, 2)).sum().backward()

        done = first.submit(step)
        assert under_way.wait(30)
        error = failure(lambda: second.submit(step).result())
        go_on.set()
        done.result()
        assert isinstance(error, td.ConcurrentUse)
        assert (error.op, error.fields["thread"], error.fields["other"]) == ("backward", "second_0", "first_0")
        module.zero_grad()
        second.submit(step).result()
        assert module.weight.grad.tolist() == [[1.0, 1.0]]
