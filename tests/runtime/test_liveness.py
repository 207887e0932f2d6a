"""Every call, while a rank of it is killed, hangs, or is interrupted: named, in time, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

import torchdispatch as td
from tests.runtime.processes import Spot, free_port, outcomes, values
from tests.soak.census import census, more_than
from torchdispatch import ReduceOperation as Op

SIZE = 200_000
RANK_1 = "1 (Cpu(0) of process 1)"


def _trained(context: Any) -> Callable[[], Any]:
    module = td.distribute(torch.nn.Linear(500, 400, bias=False), context)
    return lambda: module(torch.ones(1, 500)).sum().backward()


def _submitted(context: Any) -> Callable[[], Any]:
    device, params = context.local_devices[0], td.DistributedParams("0:weight")

    def sync() -> None:
        td.register_sync_parameters(device, [params])
        td.submit_gradient_sync(td.TensorRef(td.from_torch(torch.ones(SIZE), device)), params)
        td.submit_sync_collective(device)

    return sync


def _handle(call: Callable[[Any], Any]) -> Callable[[Any], Callable[[], Any]]:
    return lambda context: lambda: call(context).resolve()


def _transfer(context: Any) -> Callable[[], Any]:
    """Each sends to the next and receives from the one before."""
    rank, size, devices = context.local_devices[0].rank, context.size, context.devices
    after, before = devices[(rank + 1) % size], devices[(rank - 1) % size]

    def both() -> None:
        sent, received = td.send(torch.ones(SIZE), after), td.recv(torch.empty(SIZE), before)
        received.resolve()
        sent.resolve()

    return both


def _scatter(context: Any) -> Any:
    brought = [torch.ones(SIZE)] * context.size if context.local_devices[0].rank == 1 else None
    return td.scatter(brought, context.devices[1])


CALLS: dict[str, Callable[[Any], Callable[[], Any]]] = {
    "all_reduce": _handle(lambda context: td.all_reduce(torch.ones(SIZE), Op.SUM)),
    "broadcast": _handle(lambda context: td.broadcast(torch.ones(SIZE), context.devices[1])),
    "reduce": _handle(lambda context: td.reduce(torch.ones(SIZE), Op.MAX, context.devices[0])),
    "all_gather": _handle(lambda context: td.all_gather(torch.ones(SIZE))),
    "reduce_scatter": _handle(lambda context: td.reduce_scatter([torch.ones(SIZE)] * context.size, Op.SUM)),
    "all_to_all": _handle(lambda context: td.all_to_all([torch.ones(SIZE)] * context.size)),
    "gather": _handle(lambda context: td.gather(torch.ones(SIZE), context.devices[1])),
    "scatter": _handle(_scatter),
    "send and recv": _transfer,
    "barrier": lambda context: td.barrier,
    "all_true": lambda context: partial(context.all_true, True),
    "backward": _trained,
    "submit_sync_collective": _submitted,
}
"""What makes a call for a group, over and over. It has data for long enough that a process can die or stop inside."""


def _told(call: Callable[[], Any]) -> tuple[str, str, float]:
    """Which error ended the calls, its text, and when."""
    try:
        while True:
            call()
    except td.DispatchError as error:
        return type(error).__name__, str(error), time.time()


def _is_killed(spot: Spot, name: str, path: str) -> Any:
    with spot.open() as context:
        call = CALLS[name](context)
        for _ in range(3):
            call()
        if spot.rank == 1:

            def die() -> None:
                with open(path, "w") as file:
                    file.write(str(time.time()))
                os.kill(os.getpid(), signal.SIGKILL)

            threading.Timer(0.05, die).start()
        kind, text, at = _told(call)
        return kind, text, at, _told(td.barrier)[0]


@pytest.mark.parametrize("name", CALLS)
def test_a_process_that_is_killed_in_the_middle_is_named_within_two_seconds(name: str, tmp_path: Any) -> None:
    path = tmp_path / "died"
    first, killed, last = outcomes(_is_killed, 3, name, str(path))
    assert killed.code == -signal.SIGKILL
    for outcome in (first, last):
        assert outcome.error is None, outcome.trace
        kind, text, at, again = outcome.value
        assert (kind in ("PeerFailed", "ContextFailed"), RANK_1 in text) == (True, True), text
        assert again == "ContextFailed"
        assert at - float(path.read_text()) < 2.0


def _for_thirty_years(spot: Spot) -> Any:
    with spot.open(timeout=1e9) as context:
        module = td.distribute(torch.nn.Linear(1, 1), context)
        module(torch.ones(1)).sum().backward()
        total = td.all_reduce(torch.ones(SIZE), Op.SUM, timeout=1e9).resolve(1e9).primitive
        td.barrier()
        return module.weight.grad.item(), total.unique().tolist()


def test_the_longest_timeout() -> None:
    assert values(_for_thirty_years, 2) == [(1.0, [2.0])] * 2


LATE: dict[str, Callable[[Any], Any]] = {
    "distribute": lambda context: td.distribute(torch.nn.Linear(1, 1), context),
    "all_true": lambda context: context.all_true(True),
}


@pytest.mark.parametrize("op", LATE)
def test_who_is_late_is_late_for_what_the_program_called(op: str) -> None:
    """Whatever it is made of."""

    def body(device: Any) -> Any:
        if device.rank == 1:
            context._agreement.failed.wait(20)
            return None
        with pytest.raises(td.CollectiveTimeout, match=f"^{op} of rank 0 .*was not done") as caught:
            LATE[op](context)
        return caught.value.op

    with td.DistributedContext([td.Cpu(0), td.Cpu(1)], td.DistributedConfig(timeout=0.3)) as context:
        assert context.run(body) == [op, None]


@pytest.mark.parametrize("overlap", ["off", "on"])
def test_who_is_late_for_a_backward_pass(overlap: Any) -> None:
    def body(device: Any) -> Any:
        module = td.distribute(torch.nn.Linear(1, 1), context)
        if device.rank == 1:
            context._agreement.failed.wait(20)
            return None
        with pytest.raises(td.CollectiveTimeout) as caught:
            module(torch.ones(1)).sum().backward()
        return caught.value.op

    config = td.DistributedConfig(timeout=1.0, overlap=overlap)
    with td.DistributedContext([td.Cpu(0), td.Cpu(1)], config) as context:
        assert context.run(body) == ["submit_sync_collective", None]


def _is_stopped(spot: Spot, name: str, path: str) -> Any:
    with spot.open(timeout=1.5) as context:
        call = CALLS[name](context)
        call()
        if spot.rank == 1:
            stop = f"date +%s.%N > {path}; kill -STOP {os.getpid()}"
            script = f"sleep 0.1; {stop}; sleep 4; kill -CONT {os.getpid()}"
            helper = subprocess.Popen(["sh", "-c", script])
        kind, text, at = _told(call)
        if spot.rank == 1:
            helper.wait()
        return kind, text, at


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_a_process_that_hangs_in_the_middle_is_named_at_the_timeout(name: str, tmp_path: Any) -> None:
    path = tmp_path / "stopped"
    first, stopped, last = values(_is_stopped, 3, name, str(path))
    for kind, text, at in (first, last):
        assert (kind in ("CollectiveTimeout", "PeerFailed", "ContextFailed"), RANK_1 in text) == (True, True), text
        assert 1.0 < at - float(path.read_text()) < 3.5
    assert RANK_1 in stopped[1], stopped


def _out_of_reach(spot: Spot) -> str:
    """Rank 1 fails, and rank 2 cannot hear it from there; rank 0 hears it and leaves."""
    context = spot.open()
    devices = context.devices
    td.barrier()
    if spot.rank == 1:
        context._links._over.add(2)
        time.sleep(0.3)
        context._agreement.fail(context._agreement.peer_failed([1], ValueError("no more data")))
        time.sleep(1.0)
        context.close()
        return ""
    kind, text, _ = _told(
        lambda: td.all_reduce(torch.ones(1), Op.SUM, devices[:2] if spot.rank == 0 else devices[::2]).resolve()
    )
    context.close()
    return f"{kind} {text}"


def test_who_leaves_because_of_a_failure_hands_the_first_cause_on() -> None:
    first, _, last = values(_out_of_reach, 3)
    for text in (first, last):
        assert text.startswith("PeerFailed")
        assert RANK_1 in text
        assert "ValueError: no more data" in text


def _closes_early(spot: Spot) -> tuple[str, str, float]:
    """Rank 1 leaves with a call in flight that rank 0 cannot come to: it waits for rank 1 before that.

    A slow rank 2 may hear that rank 0 gave up before it hears that rank 1 came to the first barrier.
    """
    context = spot.open()
    began = time.time()
    if spot.rank == 1:
        td.barrier()
        handle = td.all_reduce(torch.ones(1), Op.SUM, context.devices[:2])
        context.close()
        kind, text, at = _told(handle.resolve)
    else:
        kind, text, at = _told(lambda: [td.barrier(), td.barrier()])
        context.close()
    return kind, text, at - began


def test_a_rank_that_leaves_is_named_at_once_though_something_of_it_is_in_flight() -> None:
    first, left, last = values(_closes_early, 3)
    assert left[0] == "ContextClosed"
    assert "PeerClosed" in (first[0], last[0])
    for kind, text, waited in (first, left, last):
        assert (kind in ("PeerClosed", "ContextFailed", "ContextClosed"), waited < 3.0) == (True, True), text
    assert RANK_1 in first[1]
    assert RANK_1 in last[1]


def _closes_unasked(spot: Spot) -> list[str]:
    """Ranks 0 and 1 share a process; what rank 0 has in flight needs rank 1, which nobody has asked for it."""
    seen: list[str] = []
    with spot.open(2, agreement="off") as context:

        def body(device: Any) -> None:
            td.barrier()
            if device.rank == 1:
                time.sleep(0.3)
                context.close()
            else:
                seen.append(_told(lambda: td.all_reduce(torch.ones(1), Op.SUM).resolve())[0])

        context.run(body)
    return seen


def test_closing_does_not_wait_for_what_needs_the_closing_rank_itself() -> None:
    began = time.monotonic()
    first, second = values(_closes_unasked, 2)
    assert first == ["ContextClosed"]
    assert set(second) <= {"PeerClosed", "ContextFailed"}
    assert time.monotonic() - began < 10.0


def _never_connects(spot: Spot) -> dict[str, int]:
    """The process group of rank 0 is not made: rank 1 waits for a connection from it, inside of gloo."""
    from dispatch_runtime.engines.spread_store import SpreadStore

    def give_up(*_: Any) -> None:
        raise RuntimeError("out of memory")

    before = census()
    if spot.rank == 0:
        SpreadStore.wait = give_up  # type: ignore[assignment]
    with spot.open(timeout=3.0):
        kind, text, _ = _told(lambda: td.all_reduce(torch.ones(1), Op.SUM).resolve())
    assert (kind, "out of memory" in text) == ("PeerFailed", True), text
    return more_than(before, Counter(), 5.0)


@pytest.mark.slow
def test_a_thread_that_waits_inside_of_gloo_comes_back_at_the_deadline(tmp_path: Any) -> None:
    assert values(_never_connects, 2, address=f"file://{tmp_path}/store") == [{}, {}]


# -- Ctrl-C ------------------------------------------------------------------------------------------------------------


def _close(context: Any) -> None:
    handle = td.all_reduce(torch.ones(1), Op.SUM)
    try:
        context.close()
    finally:
        assert _told(handle.resolve)[0] == "ContextClosed"


BLOCKING: dict[str, Callable[[Any], Any]] = {
    "resolve": lambda context: td.all_reduce(torch.ones(1), Op.SUM).resolve(),
    "resolve with a timeout": lambda context: td.all_reduce(torch.ones(1), Op.SUM).resolve(15.0),
    "recv": lambda context: td.recv(torch.ones(1), context.devices[0]).resolve(),
    "barrier": lambda context: td.barrier(),
    "all_true": lambda context: context.all_true(True),
    "sync_collective": lambda context: (td.all_reduce(torch.ones(1), Op.SUM), td.sync_collective(td.Cpu(0))),
    "distribute": lambda context: td.distribute(torch.nn.Linear(1, 1), context),
    "backward": lambda context: context.trained(),
    "submit_sync_collective": lambda context: _submitted(context)(),
    "run": lambda context: context.run(lambda device: td.barrier()),
    "join": lambda context: _join(context),
    "close": _close,
}


def _join(context: Any) -> None:
    with context.join():
        pass


def _is_interrupted(spot: Spot, name: str) -> Any:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    struck: list[float] = []

    def strike() -> None:
        struck.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    with spot.open() as context:
        if name == "backward":
            context.trained = _trained(context)
        td.barrier()
        if spot.rank == 0:
            time.sleep(1.0)
            return _told(td.barrier)[:2]
        threading.Timer(0.3, strike).start()
        try:
            BLOCKING[name](context)
        except KeyboardInterrupt:
            return time.monotonic() - struck[0]


@pytest.mark.filterwarnings("ignore::torchdispatch.DroppedHandle")
@pytest.mark.parametrize("name", BLOCKING)
def test_an_interrupt_acts_in_every_call_that_waits(name: str) -> None:
    other, acted = values(_is_interrupted, 2, name)
    assert isinstance(acted, float)
    assert acted < 1.0
    assert RANK_1 in other[1]


def _opening(spot: Spot) -> float:
    """A group that nobody else opens."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    before = census()
    started = time.monotonic()
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        spot.open(rank=1, world_size=2)
    took = time.monotonic() - started
    assert not more_than(before, Counter())
    return took


@pytest.mark.parametrize("scheme", ["tcp", "file"])
def test_an_interrupt_acts_while_a_group_is_opened(scheme: str, tmp_path: Any) -> None:
    address = f"file://{tmp_path}/store" if scheme == "file" else f"tcp://127.0.0.1:{free_port()}"
    assert values(_opening, 1, address=address)[0] < 1.3


# -- what is left behind, and groups beside each other -----------------------------------------------------------------


def _cycles(spot: Spot) -> dict[str, int]:
    before: Counter[str] = Counter()
    for cycle in range(51):
        with spot.open(2) as context:
            members = [context.devices[0], context.devices[-1]]

            def body(device: Any, members: Any = members) -> float:
                if device in members:
                    td.all_gather(torch.ones(1), members).resolve()
                return float(td.all_reduce(torch.ones(30000), Op.MEAN).resolve().primitive[-1].item())

            assert context.run(body) == [1.0, 1.0]
        before = before or census()
        assert len(before) > 0, cycle
    return more_than(before, Counter())


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2])
def test_fifty_groups_leave_no_thread_socket_or_file_behind(count: int) -> None:
    assert values(_cycles, count, deadline=110) == [{}] * count


def _beside(spot: Spot) -> list[list[float]]:
    """Two groups in use at the same time, each by a thread of its own, and not at all in step."""
    seen: list[list[float]] = [[], []]
    with spot.open() as first, spot.open() as second:

        def use(at: int, context: Any) -> None:
            with context:
                for step in range(100):
                    mine = td.from_torch(
                        torch.tensor([step + 1000.0 * at + 10.0**6 * spot.rank]), context.devices[spot.rank]
                    )
                    seen[at].append(td.all_reduce(mine, Op.SUM).resolve().primitive.item())
                    td.barrier(context.devices)

        threads = [threading.Thread(target=use, args=item) for item in enumerate((first, second))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return seen


def test_two_groups_are_used_at_the_same_time() -> None:
    expected = [[2 * step + 2000.0 * at + 10.0**6 for step in range(100)] for at in (0, 1)]
    assert values(_beside, 2) == [expected] * 2
