"""Ranks that are missing, late, dead, closed, interrupted or misused: named, in time, and nothing hangs."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import torchdispatch as td
from tests.runtime.processes import Spot, outcomes, values
from tests.runtime.test_collectives import reduced
from torchdispatch import ReduceOperation as Op

ROOT = Path(__file__).parents[2]


def one() -> torch.Tensor:
    return torch.ones(1)


def group(size: int, timeout: float = 20.0) -> Any:
    return td.DistributedContext([td.Cpu(index) for index in range(size)], td.DistributedConfig(timeout=timeout))


def failure(call: Callable[[], Any]) -> td.DispatchError:
    with pytest.raises(td.DispatchError) as caught:
        call()
    return caught.value


def test_a_missing_rank_is_named_on_every_waiter_and_the_group_has_failed() -> None:
    with group(3, timeout=0.5) as context:
        seen: dict[int, td.DispatchError] = {}

        def body(device: Any) -> None:
            if device.rank != 1:
                seen[device.rank] = failure(lambda: reduced(one(), Op.SUM))

        started = time.monotonic()
        context.run(body)
        assert 0.4 < time.monotonic() - started < 5
        assert sorted(seen) == [0, 2]
        for error in seen.values():
            assert isinstance(error, TimeoutError)
            assert error.fields["missing"] == "rank 1 (Cpu(1))"
            assert float(error.fields["waited"]) >= 0.4
            assert Path(error.fields["where"].rpartition(":")[0]).name == "test_collectives.py"
            assert error.op == "all_reduce"
        started = time.monotonic()
        later = failure(lambda: td.barrier(context.devices))
        assert type(later).__name__ == "ContextFailed"
        later = failure(lambda: context.communicator(context.devices[1]).barrier())
        assert type(later).__name__ == "ContextFailed"
        assert "rank 1 (Cpu(1))" in later.fields["cause"]
        assert time.monotonic() - started < 0.1
    with group(3) as context:
        assert context.run(lambda device: reduced(one(), Op.SUM).item()) == [3, 3, 3]


def test_the_timeout_of_a_call_and_of_a_wait() -> None:
    with group(2) as context:
        first, second = (context.communicator(device) for device in context.devices)
        flight = first.all_reduce(one(), Op.SUM)
        started = time.monotonic()
        assert type(failure(lambda: flight.wait(0.2))).__name__ == "CollectiveTimeout"
        assert not flight.done()
        assert second.all_reduce(one(), Op.SUM).wait().item() == flight.wait().item() == 2
        late = first.all_reduce(one(), Op.SUM, timeout=0.3)
        while not late.done():
            time.sleep(0.01)
        assert time.monotonic() - started < 3
        assert type(failure(late.wait)).__name__ == "CollectiveTimeout"
        assert type(failure(lambda: second.all_reduce(one(), Op.SUM))).__name__ == "ContextFailed"


@pytest.mark.parametrize("timeout", [-1.0, float("nan"), float("inf")])
def test_a_timeout_that_makes_no_sense(timeout: float) -> None:
    with group(1):
        assert type(failure(lambda: td.all_reduce(one(), Op.SUM, timeout=timeout))).__name__ == "BadConfig"


def _missing(spot: Spot) -> list[Any]:
    with spot.open(timeout=3.0) as context:
        reduced(one(), Op.SUM)
        if spot.rank == 1:
            time.sleep(5.0)
            return [type(failure(lambda: reduced(one(), Op.SUM))).__name__]
        started = time.monotonic()
        error = failure(lambda: reduced(one(), Op.SUM))
        again = failure(td.barrier)
        return [
            type(error).__name__,
            error.fields["missing"],
            time.monotonic() - started,
            type(again).__name__,
            str(context.devices),
        ]


def test_a_missing_process_is_named_on_every_waiter() -> None:
    first, late, last = values(_missing, 3)
    assert late == ["ContextFailed"]
    for seen in (first, last):
        assert seen[:2] == ["CollectiveTimeout", "rank 1 (Cpu(0) of process 1)"]
        assert 2.5 < seen[2] < 5
        assert seen[3] == "ContextFailed"


def _killed(spot: Spot, size: int, when: str) -> list[Any]:
    with spot.open() as context:
        reduced(torch.ones(size), Op.SUM)
        td.barrier()  # nobody is still at the first one when rank 1 dies
        if spot.rank == 1:
            if when == "during":
                threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGKILL)).start()
                while True:
                    reduced(torch.ones(size), Op.SUM)
            time.sleep(0.3)
            if when == "with a child" and os.fork() == 0:
                time.sleep(3.5)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)
        started = time.monotonic()

        def on() -> None:
            while True:
                reduced(torch.ones(size), Op.SUM)

        error = failure(on)
        again = failure(td.barrier)
        context.close()
        # Between two calls the news is that the group has failed, and why.
        named = {"PeerFailed": error.fields.get("peer"), "ContextFailed": error.fields.get("cause")}
        return [named[type(error).__name__], time.monotonic() - started, type(again).__name__]


@pytest.mark.parametrize(("size", "when"), [(1, "before"), (1, "with a child"), (1, "during"), (3_000_000, "during")])
def test_a_killed_process_is_named_by_the_survivors(size: int, when: str) -> None:
    ended = outcomes(_killed, 3, size, when)
    assert [outcome.code for outcome in ended] == [0, -signal.SIGKILL, 0], [o.trace for o in ended]
    for outcome in (ended[0], ended[2]):
        assert outcome.error is None, outcome.trace
        named, took, again = outcome.value
        assert named.startswith("rank 1 (Cpu(0) of process 1)"), outcome
        assert took < 3  # it dies 0.3 s after the call at the latest
        assert again == "ContextFailed"


def _stopped(spot: Spot) -> list[str]:
    spot.open(timeout=3.0)
    reduced(one(), Op.SUM)
    if spot.rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    error = failure(lambda: reduced(one(), Op.SUM))
    return [type(error).__name__, error.fields["missing"]]


def test_a_process_that_hangs_is_missing_and_the_others_can_end() -> None:
    ended = outcomes(_stopped, 2, deadline=9)
    assert ended[0].value == ["CollectiveTimeout", "rank 1 (Cpu(0) of process 1)"], ended[0]
    assert ended[0].code == 0


def test_the_first_exception_of_run_is_handed_on_and_the_others_are_stopped() -> None:
    for _ in range(20):
        with group(3) as context:
            seen: list[td.DispatchError] = []

            def body(device: Any, seen: list[td.DispatchError] = seen) -> None:
                reduced(one(), Op.SUM)
                if device.rank == 1:
                    raise ValueError("no more data")
                seen.append(failure(lambda: reduced(one(), Op.SUM)))

            started = time.monotonic()
            with pytest.raises(ValueError, match="no more data"):
                context.run(body)
            assert time.monotonic() - started < 5
            kinds = [type(error).__name__ for error in seen]
            assert kinds in (["PeerFailed"] * 2, ["PeerFailed", "ContextFailed"], ["ContextFailed", "PeerFailed"])
            stopped = seen[kinds.index("PeerFailed")]
            assert stopped.fields["peer"] == "rank 1 (Cpu(1))"
            assert stopped.fields["cause"] == "ValueError: no more data"
            assert all("no more data" in error.fields["cause"] for error in seen)
            assert all(isinstance(error.__cause__, ValueError) for error in seen)
            later = failure(lambda: context.run(lambda device: None))
            assert "no more data" in later.fields["cause"]


def test_an_exception_that_nobody_waits_for_leaves_the_group_as_it_was() -> None:
    with group(2) as context:
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                context.run(lambda device: 1 // device.rank)
            with pytest.raises(td.DispatchError):
                context.run(lambda device: reduced(torch.ones(device.rank + 1), Op.SUM))
            assert context.run(lambda device: reduced(one(), Op.SUM).item()) == [2, 2]


def _raises(spot: Spot) -> Any:
    with spot.open(2) as context:

        def body(device: Any) -> None:
            if device.rank == 1:
                raise ValueError("no more data")
            reduced(one(), Op.SUM)

        context.run(body)


def test_an_exception_reaches_the_ranks_of_other_processes() -> None:
    first, second = outcomes(_raises, 2)
    assert (first.error, first.text, first.code) == ("ValueError", "no more data", 0)
    assert second.error in ("PeerFailed", "ContextFailed")  # it waits already, or calls when it has heard
    assert second.code == 0
    assert "rank 1 (Cpu(1) of process 0)" in second.text
    assert "ValueError: no more data" in second.fields["cause"]
    assert max(first.seconds, second.seconds) < 5


def _closes(spot: Spot) -> Any:
    with spot.open() as context:
        total = reduced(one(), Op.SUM).item()
        if spot.rank == 0:
            return total
        reduced(one(), Op.SUM, devices=context.devices[1:])
        reduced(one(), Op.SUM)
        return None


def test_a_closed_peer_is_named() -> None:
    first, *others = outcomes(_closes, 3)
    assert (first.value, first.code) == (3, 0)
    errors = {outcome.error for outcome in others}
    assert "PeerClosed" in errors
    assert errors <= {"PeerClosed", "ContextFailed"}, others  # one may hear it from the other
    for outcome in others:
        assert outcome.code == 0
        assert "rank 0 (Cpu(0) of process 0)" in outcome.fields.get("peer", outcome.fields.get("cause"))


def _leaves_first(spot: Spot) -> float:
    with spot.open() as context:
        if spot.rank == 0:
            return 0.0
        if spot.rank == 1:
            time.sleep(1.0)
        return float(reduced(one(), Op.SUM, devices=context.devices[1:]).item())


def test_the_process_that_opened_the_rendezvous_may_leave_first() -> None:
    assert values(_leaves_first, 3) == [0, 2, 2]


def test_closing_twice_and_handles_of_a_closed_group() -> None:
    context = group(2)
    done = [td.all_reduce(td.from_torch(one(), device), Op.MAX) for device in context.devices]
    flight = context.communicator(context.devices[0]).all_reduce(one(), Op.SUM)
    context.close()
    context.close()
    assert type(failure(flight.wait)).__name__ == "ContextClosed"
    assert [handle.resolve().primitive.item() for handle in done] == [1, 1]
    for use in (
        lambda: context.run(print),
        lambda: context.__enter__(),
        lambda: td.sync_collective(context.devices[0]),
    ):
        assert type(failure(use)).__name__ == "ContextClosed"


def _in_flight(spot: Spot) -> list[float]:
    with spot.open() as context:
        reduced(one(), Op.SUM)
        if spot.rank == 1:
            time.sleep(0.5)
        flights = [
            context.communicator(context.devices[spot.rank]).all_reduce(torch.ones(100000), Op.SUM) for _ in range(5)
        ]
    return [flight.wait()[-1].item() for flight in flights]


def test_closing_waits_for_what_is_in_flight() -> None:
    assert values(_in_flight, 2) == [[2.0] * 5] * 2


def _left_open(spot: Spot, fail: bool) -> None:
    spot.open()
    reduced(one(), Op.SUM)
    td.all_reduce(torch.ones(100000), Op.SUM).resolve()
    if fail:
        raise SystemExit(7)


def test_leaving_a_group_open_at_the_end_of_the_process_is_harmless() -> None:
    for _ in range(3):
        values(_left_open, 2, False)
    assert [outcome.error for outcome in outcomes(_left_open, 2, True)] == ["SystemExit"] * 2


def _exits(directory: str, code: str) -> list[int]:
    script = f"""
import sys, torch, torchdispatch as td
rank = int(sys.argv[1])
context = td.DistributedContext([td.Cpu(0)], td.DistributedConfig(rendezvous="file://{directory}/store", rank=rank, world_size=2, timeout=20))
for size in (1, 100000):
    td.all_reduce(torch.ones(size), td.ReduceOperation.SUM).resolve()
{code}
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("runtime", "generated"))}
    command = [sys.executable, "-c", script]
    started = [subprocess.Popen([*command, str(rank)], env=environment, stderr=subprocess.PIPE) for rank in range(2)]
    ended = [process.communicate(timeout=40) for process in started]
    assert [err for _, err in ended] == [b"", b""]
    return [process.returncode for process in started]


@pytest.mark.parametrize(("code", "expected"), [("", 0), ("sys.exit(3)", 3), ("context.close()", 0)])
def test_the_exit_code_of_a_program_is_its_own(tmp_path: Path, code: str, expected: int) -> None:
    assert _exits(str(tmp_path), code) == [expected] * 2


def _interrupted(spot: Spot, inside_run: bool) -> float:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background may have begun without it
    with spot.open() as context:
        reduced(one(), Op.SUM)
        if spot.rank == 1:
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            started = time.monotonic()
            try:
                context.run(lambda device: reduced(one(), Op.SUM)) if inside_run else reduced(one(), Op.SUM)
            except KeyboardInterrupt:
                assert time.monotonic() - started < 1.3  # 0.3 s of which are before the interrupt
                raise
        time.sleep(1.0)
        return float(reduced(one(), Op.SUM).item())


@pytest.mark.parametrize("inside_run", [False, True])
def test_an_interrupt_acts_at_once_and_the_others_are_told(inside_run: bool) -> None:
    other, interrupted = outcomes(_interrupted, 2, inside_run)
    assert interrupted.error == "KeyboardInterrupt", interrupted.trace
    assert other.error in ("PeerFailed", "ContextFailed"), other.trace
    assert "KeyboardInterrupt" in other.fields["cause"]
    assert max(other.seconds, interrupted.seconds) < 5


def test_an_interrupt_of_run_in_one_process() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with group(2) as context:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            context.run(lambda device: reduced(one(), Op.SUM) if device.rank else None)
        assert time.monotonic() - started < 1.5


def test_two_threads_for_one_rank_are_refused_while_one_of_them_waits() -> None:
    with group(2) as context:
        first, second = (context.communicator(device) for device in context.devices)
        seen: list[Any] = []
        waiter = threading.Thread(
            target=lambda: seen.append(first.all_reduce(one(), Op.SUM).wait().item()), name="waiter"
        )
        waiter.start()
        time.sleep(0.3)
        error = failure(lambda: first.all_reduce(one(), Op.SUM))
        assert type(error).__name__ == "ConcurrentUse"
        assert (error.fields["thread"], error.fields["other"]) == ("MainThread", "waiter")
        assert second.all_reduce(one(), Op.SUM).wait().item() == 2
        waiter.join()
        assert seen == [2]
        assert not first.all_reduce(one(), Op.SUM).done()


def test_a_handle_may_be_resolved_by_another_thread() -> None:
    with group(2) as context:
        first, second = (context.communicator(device) for device in context.devices)
        flight, seen = first.all_reduce(one(), Op.SUM), []
        waiter = threading.Thread(target=lambda: seen.append(flight.wait().item()))
        waiter.start()
        time.sleep(0.2)
        again = first.all_reduce(2 * one(), Op.SUM)
        results = [second.all_reduce(factor * one(), Op.SUM).wait().item() for factor in (1, 2)]
        waiter.join()
        assert [*results, *seen, again.wait().item()] == [2, 4, 2, 4]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_cannot_use_the_group_of_its_parent() -> None:
    with group(2) as context:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            names = []
            for use in (
                lambda: td.barrier(context.devices),
                lambda: context.run(print),
                lambda: td.sync_collective("cpu:1"),
            ):
                try:
                    use()
                except BaseException as error:
                    names.append(type(error).__name__)
            context.close()
            with td.DistributedContext([td.Cpu(0)]):
                names.append(str(td.all_reduce(one(), Op.SUM).resolve().primitive.item()))
            os.write(write, " ".join(names).encode())
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        seen = os.read(read, 1000).decode()
        os.close(read)
        os.close(write)
        assert seen == "AfterFork AfterFork AfterFork 1.0"
        assert context.run(lambda device: reduced(one(), Op.SUM).item()) == [2, 2]


def _forked(spot: Spot) -> tuple[float, str]:
    """The parent closes while a child lives that has copies of all it has open."""
    read, write = os.pipe()
    with spot.open() as context:
        reduced(one(), Op.SUM)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            own = td.DistributedContext([td.Cpu(0)])  # no block: the device alone has to find it
            seen = str(td.all_reduce(td.from_torch(one(), "cpu:0"), Op.SUM).resolve().item())
            own.close()
            seen += f" {type(failure(lambda: td.sync_collective('cpu:0'))).__name__}"
            os.write(write, seen.encode())
            time.sleep(20)
            os._exit(0)
        seen = os.read(read, 1000).decode()
        td.barrier()
        started = time.monotonic()
        context.close()
        took = time.monotonic() - started
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return took, seen


@pytest.mark.slow  # and not one that CI stands on: the child of a process with threads may inherit a lock that is held
def test_a_living_child_does_not_keep_its_parent_from_closing() -> None:
    for took, seen in values(_forked, 2):
        assert took < 0.5
        assert seen == "1.0 AfterFork"


def test_a_child_leaves_the_block_of_its_parent_in_peace() -> None:
    program = """
import os, torch, torchdispatch as td
with td.DistributedContext([td.Cpu(0), td.Cpu(1)]) as context:
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0
        context.run(lambda device: td.barrier())
if not child:
    td.start_communication_server([td.Cpu(1)])
    td.sync_collective("cpu:1")
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=60)


def _counts() -> tuple[int, int]:
    gc.collect()
    return len(os.listdir("/proc/self/fd")), threading.active_count()


def _cycles(spot: Spot, devices: int) -> list[tuple[int, int]]:
    seen = []
    for _ in range(20):
        with spot.open(devices) as context:
            members = [context.devices[0], context.devices[-1]]

            def body(device: Any, members: Any = members) -> float:
                if device in members:
                    reduced(one(), Op.SUM, devices=members)
                return float(reduced(torch.ones(30000), Op.MEAN)[-1].item())

            assert context.run(body) == [1.0] * devices
        seen.append(_counts())
    return seen


@pytest.mark.parametrize(("count", "devices"), [(1, 3), (2, 1), (2, 2)])
@pytest.mark.slow
def test_threads_and_files_do_not_pile_up(count: int, devices: int) -> None:
    for seen in values(_cycles, count, devices):
        files, threads = zip(*seen, strict=True)
        assert files[-1] <= files[0] + 2, files
        assert threads[-1] == threads[0] == 1


def test_nothing_of_a_settled_call_is_kept() -> None:
    with group(2) as context:
        agreement = context._agreement

        def body(device: Any) -> None:
            for _ in range(50):
                reduced(one(), Op.SUM)
            with pytest.raises(td.DispatchError):
                reduced(torch.ones(1 + device.rank), Op.SUM)

        context.run(body)
        kept = [agreement._rounds, *agreement._pending.values(), *agreement._unsaid.values()]
        assert [len(each) for each in kept] == [0] * 5
        assert not agreement._blocked


def test_a_second_thread_is_refused_while_the_first_has_a_call_in_flight() -> None:
    """It need not be waiting: two calls that were only started have no order that the other ranks could know."""
    started, seen = threading.Event(), threading.Event()
    values: list[float] = []

    def first(device: Any) -> None:
        handle = td.all_reduce(td.from_torch(one(), device), Op.SUM)
        started.set()
        seen.wait(20.0)
        values.append(handle.resolve().item())

    with group(2) as context:
        thread = threading.Thread(target=first, args=context.devices[:1], name="the first")
        thread.start()
        assert started.wait(20.0)
        error = failure(lambda: td.all_reduce(td.from_torch(one(), context.devices[0]), Op.SUM))
        other = td.all_reduce(td.from_torch(one() * 2, context.devices[1]), Op.SUM)
        seen.set()
        thread.join(20.0)
        assert values == [other.resolve().item()] == [3.0]
    assert isinstance(error, td.ConcurrentUse)
    assert "the first" in str(error)


def test_what_one_thread_left_in_flight_does_not_keep_the_next_from_calling() -> None:
    with group(2) as context:
        handles = context.run(lambda device: td.all_reduce(one() * (device.rank + 1), Op.SUM))
        assert context.run(lambda device: td.all_reduce(one(), Op.SUM).resolve().item()) == [2.0, 2.0]
        assert [handle.resolve().item() for handle in handles] == [3.0, 3.0]
        late = td.all_reduce(td.from_torch(one(), context.devices[0]), Op.SUM)
        assert context.run(lambda device: None) == [None, None]
        other = td.all_reduce(td.from_torch(one(), context.devices[1]), Op.SUM)
        assert [each.resolve().item() for each in (late, other)] == [2.0, 2.0]
