"""Device groups: who is in them, which one a device means, and what `run` carries to its threads."""

from __future__ import annotations

import contextvars
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from dispatch_runtime import contexts

import torchdispatch as td
from tests.runtime.processes import Spot, values
from tests.runtime.test_faults import failure, one
from torchdispatch import DistributedConfig, DistributedContext
from torchdispatch import ReduceOperation as Op


def name_of(call: Callable[[], Any]) -> str:
    return type(failure(call)).__name__


def test_the_devices_of_a_group_carry_it_and_their_rank() -> None:
    with DistributedContext(["cpu:1", td.Cpu(0), "cpu:5"]) as context:
        assert [device.index for device in context.devices] == [1, 0, 5]
        assert [device.rank for device in context.devices] == [0, 1, 2]
        assert all(device.context is context and device.process is None for device in context.devices)
        assert context.local_devices == context.devices
        assert context.devices == (td.Cpu(1), td.Cpu(0), td.Cpu(5))
        assert (context.size, context.process, context.process_of(context.devices[2])) == (3, 0, 0)
        assert [context.rank_of(like) for like in ("cpu:5", td.Cpu(0), context.devices[0])] == [2, 1, 0]
        assert context.config == DistributedConfig()
        assert "Cpu(1)" in repr(context)
        back = pickle.loads(pickle.dumps(context.devices[1]))
        assert back.context is None
        assert context.member("test", back) is context.devices[1]


def _two_devices(spot: Spot) -> dict[str, Any]:
    with spot.open(2) as context:
        return {
            "devices": str(context.devices),
            "local": [device.rank for device in context.local_devices],
            "process": [device.process for device in context.devices],
            "process_of": [context.process_of(device) for device in context.devices],
            "own": context.rank_of(td.Cpu(0)),
            "pickled": pickle.dumps(context.devices[1]),
            "size": context.size,
        }


def test_processes_give_their_devices_ranks_in_order() -> None:
    first, second = values(_two_devices, 2)
    assert first["devices"] == "(Cpu(0), Cpu(1), Cpu(0) of process 1, Cpu(1) of process 1)"
    assert second["devices"] == "(Cpu(0) of process 0, Cpu(1) of process 0, Cpu(0), Cpu(1))"
    assert (first["local"], second["local"]) == ([0, 1], [2, 3])
    assert (first["process"], second["process"]) == ([None, None, 1, 1], [0, 0, None, None])
    assert first["process_of"] == second["process_of"] == [0, 0, 1, 1]
    assert (first["own"], second["own"], first["size"]) == (0, 2, 4)
    assert pickle.loads(first["pickled"]).process == pickle.loads(second["pickled"]).process == 0


def test_what_is_no_list_of_devices_for_a_group() -> None:
    assert name_of(lambda: DistributedContext([])) == "NoDevices"
    error = failure(lambda: DistributedContext([td.Cpu(0), td.Cpu(1), "cpu:0"]))
    assert (type(error).__name__, error.fields["first"], error.fields["second"]) == ("DuplicateDevice", 0, 2)
    error = failure(lambda: DistributedContext([td.Cpu(0), td.NdArray(0)]))
    assert error.fields["index"] == 1
    assert str(error).startswith("All devices are expected to be of the same variant.")
    assert str(failure(lambda: DistributedContext([td.NdArray(0)]))).startswith(
        "Distributed operations are not supported"
    )
    assert "start_communication_server" in failure(lambda: DistributedContext([td.Metal(0)])).op
    with pytest.raises(td.DispatchError):
        DistributedContext(["nonsense"])


def test_members_of_a_call() -> None:
    with DistributedContext([td.Cpu(0), td.Cpu(1), td.Cpu(2)]) as context:
        device = context.devices[1]
        assert context.members("op", device, None) == context.devices
        assert [each.rank for each in context.members("op", device, ["cpu:2", td.Cpu(1)])] == [1, 2]
        assert name_of(lambda: context.members("op", device, [])) == "NoDevices"
        assert name_of(lambda: context.members("op", device, [td.Cpu(1), "cpu:1"])) == "DuplicateDevice"
        assert name_of(lambda: context.members("op", device, [td.Cpu(1), td.Cpu(7)])) == "NotInContext"
        assert name_of(lambda: context.members("op", device, [td.Cpu(0), td.Cpu(2)])) == "NotInContext"
        assert name_of(lambda: context.communicator(device, context.devices[::2])) == "NotInContext"
        assert name_of(lambda: context.member("op", "cpu:9")) == "NotInContext"
        assert context.communicator(device) is context.communicator(device, context.devices)


def test_a_bare_device_means_the_innermost_group_of_the_thread_else_the_only_open_one() -> None:
    def rank_and_size(device: Any) -> tuple[int, int]:
        result = td.all_gather(td.from_torch(one(), device), devices=[device]).resolve()
        found = result[0].device
        return found.rank, found.context.size

    assert name_of(lambda: rank_and_size(td.Cpu(0))) == "NoContext"
    outer = DistributedContext([td.Cpu(1), td.Cpu(0)])
    assert rank_and_size(td.Cpu(0)) == (1, 2)
    assert name_of(lambda: rank_and_size(td.Cpu(2))) == "NoContext"
    with DistributedContext([td.Cpu(0), td.Cpu(2), td.Cpu(3)]) as inner:
        assert rank_and_size(td.Cpu(0)) == (0, 3)
        assert rank_and_size(td.Cpu(1)) == (0, 2)
        with outer:
            assert rank_and_size(td.Cpu(0)) == (1, 2)
            assert rank_and_size(td.Cpu(3)) == (2, 3)
        assert name_of(lambda: rank_and_size(outer.devices[1])) == "ContextClosed"
        again = DistributedContext([td.Cpu(0)])
        elsewhere: list[td.DispatchError] = []
        thread = threading.Thread(target=lambda: elsewhere.append(failure(lambda: rank_and_size(td.Cpu(0)))))
        thread.start()
        thread.join()
        assert type(elsewhere[0]).__name__ == "AmbiguousContext"
        assert all(repr(context) in elsewhere[0].fields["contexts"] for context in (inner, again))
        one_at_a_time = threading.Lock()

        def taking_turns(_: Any) -> tuple[int, int]:
            with one_at_a_time:
                return rank_and_size(td.Cpu(3))

        assert inner.run(taking_turns) == [(2, 3)] * 3
        again.close()
    assert name_of(lambda: rank_and_size(td.Cpu(0))) == "NoContext"


def test_a_plain_tensor_means_the_device_of_the_thread() -> None:
    with DistributedContext([td.Cpu(0), td.Cpu(1)]) as context:
        assert context.run(lambda device: td.all_reduce(one() * device.rank, Op.SUM).resolve().device) == [
            td.Cpu(0),
            td.Cpu(1),
        ]
        assert name_of(lambda: td.barrier()) == "Unplaced"
        with pytest.raises(td.DispatchError):
            td.all_reduce(one(), Op.SUM)
    with DistributedContext([td.Cpu(3)]):
        assert td.all_reduce(one(), Op.SUM).resolve().device == td.Cpu(3)
        td.barrier()


def test_autodiff_devices_keep_that_in_the_group() -> None:
    with DistributedContext([td.Cpu(0)]) as context:
        found = context.find(td.autodiff(td.Cpu(0)))
        assert found is not None
        assert (found.autodiff, found.rank, found.context) == (True, 0, context)


def test_groups_that_the_ops_open_and_close() -> None:
    devices = [td.Cpu(0), td.Cpu(1)]
    td.start_communication_server(devices)
    error = failure(lambda: td.start_communication_server([td.Cpu(1), td.Cpu(2)]))
    assert type(error).__name__ == "AlreadyOpen"
    assert "Cpu(1)" in error.subject
    tensors = [td.from_torch(one(), device) for device in devices]
    handles = [td.all_reduce(tensor, Op.SUM) for tensor in tensors]
    assert [handle.resolve().primitive.item() for handle in handles] == [2, 2]
    with DistributedContext([td.Cpu(1), td.Cpu(0)]):
        td.close_communication_server(td.Cpu(1))
    td.close_communication_server(td.Cpu(0))
    assert name_of(lambda: td.all_reduce(tensors[0], Op.SUM)) == "NoContext"
    td.start_communication_server(devices)
    td.close_communication_server(td.Cpu(0))


def test_run_gives_the_results_by_rank_and_can_be_nested_and_repeated() -> None:
    with DistributedContext([td.Cpu(2), td.Cpu(1)]) as context, DistributedContext([td.Cpu(7), td.Cpu(8)]) as other:
        for _ in range(20):
            assert context.run(lambda device: (device.rank, device.index)) == [(0, 2), (1, 1)]

        def nested(device: Any) -> list[int]:
            inner = other.run(lambda each: each.index * 10) if device.rank == 0 else []
            return [*inner, int(td.all_reduce(one(), Op.SUM, devices=context.devices).resolve().primitive.item())]

        assert context.run(nested) == [[70, 80, 2], [2]]


def test_run_carries_the_settings_of_the_thread() -> None:
    variable = contextvars.ContextVar("variable", default=0)

    def seen(device: Any) -> list[Any]:
        grad, inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        cast = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
        return [grad, inference, cast, torch.get_default_device().type, variable.get()]

    with DistributedContext([td.Cpu(0), td.Cpu(1)]) as context:
        assert context.run(seen) == [[True, False, None, "cpu", 0]] * 2
        with torch.no_grad():
            assert context.run(seen) == [[False, False, None, "cpu", 0]] * 2
        variable.set(5)
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16), torch.device("meta"):
            assert context.run(seen) == [[False, True, torch.bfloat16, "meta", 5]] * 2
        context.run(lambda device: torch.set_grad_enabled(False))
        assert torch.is_grad_enabled()


def test_shared_decisions_outside_of_run() -> None:
    with DistributedContext([td.Cpu(0), td.Cpu(1)]) as context:
        assert context.all_true(True) is True
        assert context.all_true(False) is False


def test_what_kernels_keep_in_a_group() -> None:
    with DistributedContext([td.Cpu(0), td.Cpu(1)]) as context:
        first, second = context.devices
        assert [context.next_module_ordinal(first), context.next_module_ordinal(first)] == [0, 1]
        assert context.next_module_ordinal(second) == 0
        context.state(first)["key"] = 1
        assert (context.state(td.autodiff(first)), context.state(second)) == ({"key": 1}, {})


def test_no_sync_holds_for_the_device_of_the_thread_else_for_all() -> None:
    with DistributedContext([td.Cpu(0), td.Cpu(1)]) as context:

        def body(device: Any) -> tuple[bool, bool, bool]:
            if device.rank == 0:
                with context.no_sync(), context.no_sync():
                    inside = context.syncs(device)
            else:
                inside = context.syncs(device)
            return inside, context.syncs(device), context.all_true(True)

        assert context.run(body) == [(False, True, True), (True, True, True)]
        with context.no_sync():
            assert [context.syncs(device) for device in context.devices] == [False, False]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"timeout": 0.0}, "timeout=0.0"),
        ({"timeout": -1}, "timeout=-1"),
        ({"timeout": float("nan")}, "timeout=nan"),
        ({"timeout": float("inf")}, "timeout=inf"),
        ({"timeout": 1e10}, "timeout=10000000000.0"),
        ({"timeout": 10**400}, "timeout=1000"),
        ({"timeout": "soon"}, "timeout='soon'"),
        ({"all_reduce_op": Op.MAX}, "all_reduce_op=MAX"),
        ({"rank": 0, "world_size": 2}, "without a rendezvous"),
        ({"rendezvous": "tcp://localhost:1234"}, "without rank and world_size"),
        ({"rendezvous": "tcp://localhost:1234", "rank": 2, "world_size": 2}, "rank=2 with world_size=2"),
        ({"rendezvous": "tcp://localhost:1234", "rank": -1, "world_size": 2}, "rank=-1"),
        ({"rendezvous": "tcp://localhost:1234", "rank": 0, "world_size": 0}, "world_size=0"),
        ({"rendezvous": "tcp://localhost:0", "rank": 0, "world_size": 2}, "tcp://localhost:0"),
        ({"rendezvous": "tcp://localhost", "rank": 0, "world_size": 2}, "tcp://localhost"),
        ({"rendezvous": "tcp://localhost:99999", "rank": 0, "world_size": 2}, "99999"),
        ({"rendezvous": "http://localhost:1", "rank": 0, "world_size": 2}, "http://localhost:1"),
        ({"rendezvous": "file:///nowhere/at/all", "rank": 0, "world_size": 2}, "no such folder"),
        ({"rendezvous": "env://"}, "RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT not set"),
        ({"agreement": "never"}, "agreement='never'"),
        ({"overlap": 1}, "overlap=1"),
        ({"shared_gradients": "off"}, "shared_gradients='off'"),
        ({"broadcast_buffers": 1}, "broadcast_buffers=1"),
        ({"broadcast_buffers": None}, "broadcast_buffers=None"),
        ({"agreement": torch.ones(2)}, "agreement=tensor"),
        ({"rendezvous": 5, "rank": 0, "world_size": 1}, "rendezvous=5"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, Any], problem: str) -> None:
    error = failure(lambda: DistributedContext([td.Cpu(0)], DistributedConfig(**settings)))
    assert isinstance(error, ValueError)
    assert type(error).__name__ == "BadConfig"
    assert problem in error.fields["problem"]


@pytest.mark.parametrize("divide_by", ["bogus", None, 2])
def test_a_divisor_that_join_does_not_know(divide_by: Any) -> None:
    """It is refused by the call, on the spot: a block that only begins with an error would leave the others alone."""
    with DistributedContext([td.Cpu(0)]) as context:
        error = failure(lambda: context.join(divide_by))
        assert (type(error).__name__, error.op) == ("BadConfig", "join")
        assert f"divide_by={divide_by!r}" in str(error)


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), 1e10, 10**400])
def test_a_timeout_that_close_does_not_know(timeout: float) -> None:
    with DistributedContext([td.Cpu(0)]) as context:
        assert name_of(lambda: context.close(timeout)) == "BadConfig"
        td.barrier()


def _of_another_process(spot: Spot) -> Any:
    with spot.open(2) as context:
        own, other = context.local_devices[0], next(each for each in context.devices if each.process is not None)
        back = pickle.loads(pickle.dumps(own))
        seen = [
            str(failure(lambda: DistributedContext([other]))),
            type(failure(lambda: DistributedContext([own, other]))).__name__,
            type(failure(lambda: td.start_communication_server([other]))).__name__,
            *(str(failure(lambda call=call: call(other))) for call in (td.sync_collective, td.submit_sync_collective)),
            str(failure(lambda: td.register_sync_parameters(other, []))),
        ]
        assert (back.process, back.context) == (spot.rank, None)
        assert context.member("test", back) is own
    return seen


def test_a_device_of_another_process_is_no_local_one() -> None:
    for rank, (first, second, third, *calls) in enumerate(values(_of_another_process, 2)):
        assert first.startswith(f"Distributed operations are not supported for device Cpu(0) of process {1 - rank}")
        assert f"it is of process {1 - rank}, and a process opens a group with its own devices" in first
        assert (second, third) == ("Unavailable", "Unavailable")
        for op, text in zip(
            ("sync_collective", "submit_sync_collective", "register_sync_parameters"), calls, strict=True
        ):
            assert text.startswith(f"Cpu(0) of process {1 - rank} does not take part in {op}.")


def test_a_device_that_says_its_process_is_the_same_as_one_that_does_not() -> None:
    with DistributedContext([td.Cpu(0), td.Cpu(1)]) as context:
        back = pickle.loads(pickle.dumps(context.devices[1]))
    assert back.process == 0
    assert name_of(lambda: DistributedContext([td.Cpu(1), back])) == "DuplicateDevice"
    with DistributedContext([back]) as context:
        assert context.local_devices == (td.Cpu(1),)


def test_two_threads_that_open_one_device_at_once() -> None:
    """One of them opens it, and the other is told, however long the opening takes."""
    # Nobody is there to meet, so that it takes as long as the timeout.
    config = DistributedConfig(timeout=1.0, rendezvous="tcp://127.0.0.1:1", rank=1, world_size=2)
    seen: list[str] = []

    def first() -> None:
        seen.append(name_of(lambda: td.start_communication_server([td.Cpu(0)], config)))

    opening = threading.Thread(target=first)
    opening.start()
    while not contexts._servers:
        pass
    td.close_communication_server(td.Cpu(0))
    assert name_of(lambda: td.start_communication_server([td.Cpu(1), td.Cpu(0)])) == "AlreadyOpen"
    assert not seen
    opening.join()
    assert seen == ["RendezvousFailed"]
    td.start_communication_server([td.Cpu(0)])
    assert name_of(lambda: td.start_communication_server([td.Cpu(0)])) == "AlreadyOpen"
    td.close_communication_server(td.Cpu(0))
    assert not contexts._servers


def test_a_block_of_another_group_does_not_hide_which_device_of_this_one_a_thread_works_for() -> None:
    """Distributing, `no_sync` and `all_true` are about the group that they are asked of, not the innermost one."""

    def step(device: Any) -> tuple[bool, list[bool], float | None]:
        with td.DistributedContext([td.Cpu(9 + device.rank)]):
            module = td.distribute(torch.nn.Linear(1, 1, bias=False), context)
            agreed = context.all_true(device.rank == 0)
            syncs = [True, True]
            if device.rank == 0:
                with context.no_sync():
                    syncs = [context.syncs(each) for each in context.devices]
                    module(torch.full((1, 1), 5.0)).sum().backward()
            context.communicator(device).barrier()
        return agreed, syncs, None if module.weight.grad is None else module.weight.grad.item()

    with td.DistributedContext([td.Cpu(0), td.Cpu(1)]) as context:
        assert context.run(step) == [(False, [False, True], 5.0), (False, [True, True], None)]
