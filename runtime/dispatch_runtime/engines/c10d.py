"""torch.distributed's process groups, one for each local rank and channel, apart from the program's own.

By the time a round gets here all members have agreed on it, so a process group only ever sees calls that fit.
"""

from __future__ import annotations

import math
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from dispatch_runtime.agreement import Agreement
from dispatch_runtime.engines.together import apart, reduce_over
from dispatch_runtime.operation import Call, Channel, Operation, Shape
from dispatch_runtime.reductions import accumulated_in, fold
from dispatch_runtime.rounds import Round
from dispatch_runtime.values import ReduceOperation
from torch._C._distributed_c10d import (
    AllgatherOptions,
    AllreduceOptions,
    AllToAllOptions,
    BroadcastOptions,
    PrefixStore,
    ReduceOptions,
    Store,
)

if TYPE_CHECKING:
    from dispatch_runtime.devices import Device

SMALL = 1 << 16
"""Up to this many bytes in all, every rank gathers the contributions and reduces them itself: one exchange, not two."""

GRACE = 1.0
"""Seconds past an operation's deadline after which a process group gives up, and its thread comes back."""

PARTING = 0.5
"""Seconds that closing waits for the threads."""

GLOO_CONNECTS = 5
"""How many times its timeout gloo waits for a connection of another rank."""

_NATIVE: dict[ReduceOperation, Any] = {
    ReduceOperation.SUM: dist.ReduceOp.SUM,
    ReduceOperation.MEAN: dist.ReduceOp.SUM,
    ReduceOperation.PRODUCT: dist.ReduceOp.PRODUCT,
}


class C10d:
    """The engine of members that a network, or several accelerators, lie between.

    `address` is the one under which the others reach this process, where the engine lets one choose.
    """

    immediate = False

    def __init__(
        self, agreement: Agreement, devices: Sequence[Device], store: Callable[[], Store], address: str = "127.0.0.1"
    ) -> None:
        self._agreement = agreement
        self._devices = devices
        self._store = store
        self._address = address
        self._lock = threading.Lock()
        self._workers: dict[tuple[int, Channel], _Worker] = {}
        self._closed = False

    def carry_out(self, round_: Round) -> None:
        """Hand the operations of the local ranks to their threads.

        Calls that are not asked about go their own way: they do not wait until others are agreed on, so that ranks
        which are not equally far would bring the two to one process group in different orders.
        """
        channel = round_.channel
        if round_.assumed:
            channel = channel._replace(purpose=f"{channel.purpose}, unasked")
        operations = list(round_.operations.items())
        for (_, operation), buffers in zip(operations, apart([each.buffers for _, each in operations]), strict=True):
            operation.buffers = buffers
        for rank, operation in operations:
            key = (rank, channel)
            with self._lock:
                if self._closed:  # the operation is settled, or about to be
                    return
                worker = self._workers.get(key)
                if worker is None:
                    device = self._devices[rank]
                    make = partial(_process_group, device, channel, self._store, self._address)
                    worker = self._workers[key] = _Worker(self._agreement, device, channel, make)
                    worker.start()
            worker.put(operation, round_.calls)

    def close(self, deadline: float) -> None:
        """End the threads and free the process groups; a thread that is stuck in one stays until it gives up."""
        end = min(deadline, time.monotonic() + PARTING)
        with self._lock, ExitStack() as parting:
            self._closed = True
            for worker in self._workers.values():
                parting.callback(worker.join, end)
            for worker in self._workers.values():
                parting.callback(worker.stop)


class _Worker:
    """The thread that drives one process group of one rank, in the order of its calls."""

    def __init__(
        self, agreement: Agreement, device: Device, channel: Channel, make: Callable[[Operation[Any]], Any]
    ) -> None:
        assert device.rank is not None
        self._agreement = agreement
        self._device = device
        self._members = channel.members
        self._place = channel.members.index(device.rank)
        self._make = make
        self._queue: queue.SimpleQueue[tuple[Operation[Any], Mapping[int, Call]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=f"collectives of {device}", daemon=True)

    def start(self) -> None:
        """Begin. What interrupts this may leave the thread running, so whoever stops it has to know it before."""
        self._thread.start()

    def put(self, operation: Operation[Any], calls: Mapping[int, Call]) -> None:
        """Carry this out after what came before; `calls` are those of all members."""
        self._queue.put((operation, calls))

    def stop(self) -> None:
        """Carry out what is there already, and end."""
        self._queue.put(None)

    def join(self, deadline: float) -> None:
        """Wait for the thread, at most until the deadline."""
        if self._thread.ident is not None:
            self._thread.join(max(deadline - time.monotonic(), 0.0))

    def _work(self) -> None:
        group: Any = None
        torch_device = self._device.torch_device
        if torch_device.type != "cpu":
            getattr(torch, torch_device.type).set_device(torch_device.index)
        while (job := self._queue.get()) is not None:
            operation, calls = job
            if operation.gate.opened:
                continue
            try:
                if group is None and operation.call.op != "barrier":
                    group = self._make(operation)
                value = self._result(group, operation, calls)
            except Exception as error:
                self._broken(operation, error)
            else:
                self._agreement.settle(operation, value)
            del operation, job

    def _result(self, group: Any, operation: Operation[Any], calls: Mapping[int, Call]) -> Any:
        if operation.call.op == "barrier":
            return None
        if operation.ready is not None:
            operation.ready.synchronize()
        value: Any
        with torch.no_grad():
            match operation.call.op:
                case "all_reduce" if operation.buffers:
                    (value,) = self._reduced_together(group, operation)
                case "all_reduce":
                    value = self._all_reduce(group, operation)
                case "submit_sync_collective":
                    value = self._reduced_together(group, operation)
                case "broadcast" | "send" | "recv":
                    value = self._broadcast(group, operation)
                case "reduce":
                    value = self._reduce(group, operation)
                case "all_gather":
                    value = self._gathered(group, operation)
                case "gather":
                    value = self._gathered_by(group, operation)
                case "reduce_scatter":
                    value = fold(self._exchanged(group, operation, calls), _reduction(operation))
                case "all_to_all":
                    value = self._exchanged(group, operation, calls)
                case "scatter":
                    (value,) = self._exchanged(group, operation, calls)
                case other:
                    raise AssertionError(other)
        if operation.ready is not None:
            operation.ready.record()
            operation.ready.synchronize()
        return value

    def _reduced_together(self, group: Any, operation: Operation[Any]) -> list[torch.Tensor]:
        """The reductions of what the members brought in several tensors, or in sparse ones."""
        count = len(self._members)
        return reduce_over(group, operation.buffers, _reduction(operation), count, _patience(operation))

    def _all_reduce(self, group: Any, operation: Operation[Any]) -> torch.Tensor:
        reduction, contribution = _reduction(operation), operation.contribution
        if not self._is_native(contribution, reduction):
            return operation.filled(fold(self._gathered(group, operation), reduction))
        flat = _flat(contribution).to(_exchanged_as(contribution.dtype))
        options = AllreduceOptions()
        options.reduceOp = _NATIVE[reduction]
        options.timeout = _patience(operation)
        group.allreduce([flat], options).wait()
        return self._mean_of(flat, operation)

    def _reduce(self, group: Any, operation: Operation[Any]) -> torch.Tensor | None:
        reduction, contribution = _reduction(operation), operation.contribution
        if not self._is_native(contribution, reduction):
            brought = self._gathered_by(group, operation)
            return None if brought is None else operation.filled(fold(brought, reduction))
        flat = _flat(contribution).to(_exchanged_as(contribution.dtype))
        options = ReduceOptions()
        options.reduceOp = _NATIVE[reduction]
        options.rootRank = self._members.index(operation.call.root or 0)
        options.rootTensor = 0
        options.timeout = _patience(operation)
        group.reduce([flat], options).wait()
        return self._mean_of(flat, operation) if operation.rank == operation.call.root else None

    def _mean_of(self, total: torch.Tensor, operation: Operation[Any]) -> torch.Tensor:
        """The result that a sum, or product, of all elements in a line stands for."""
        if _reduction(operation) is ReduceOperation.MEAN:
            total.div_(len(self._members))
        return operation.filled(total.view(operation.contribution.shape))

    def _is_native(self, contribution: torch.Tensor, reduction: ReduceOperation) -> bool:
        """Whether every engine has the reduction, gives the value that `fold` gives, and gives it sooner."""
        dtype = contribution.dtype
        if dtype is torch.bool or reduction not in _NATIVE:
            return False
        if dtype.is_complex and reduction is ReduceOperation.PRODUCT:
            return False
        return contribution.numel() > 0 and contribution.nbytes * len(self._members) > SMALL

    def _broadcast(self, group: Any, operation: Operation[Any]) -> torch.Tensor:
        root = operation.call.root or 0
        source = operation.contribution
        if source.numel():
            flat = _flat(source) if operation.rank == root else source.new_empty(source.numel())
            options = BroadcastOptions()
            options.rootRank = self._members.index(root)
            options.rootTensor = 0
            options.timeout = _patience(operation)
            group.broadcast([_as_bytes(flat)], options).wait()
            source = flat.view(source.shape)
        return operation.filled(source)

    def _gathered(self, group: Any, operation: Operation[Any]) -> list[torch.Tensor]:
        """The contributions of all members, by rank."""
        own = operation.contribution
        parts = own.new_empty((len(self._members), *own.shape))
        if own.numel():
            options = AllgatherOptions()
            options.timeout = _patience(operation)
            group._allgather_base(_as_bytes(parts.view(-1)), _as_bytes(_flat(own)), options).wait()
        return list(parts.unbind(0))

    def _gathered_by(self, group: Any, operation: Operation[Any]) -> list[torch.Tensor] | None:
        """On the root the contributions of all members, by rank; else None."""
        own, root = operation.contribution, operation.call.root
        shape = tuple(own.shape) if operation.rank == root else None
        sent = [own if rank == root else None for rank in self._members]
        received = self._moved(group, operation, sent, [shape] * len(self._members), own.dtype)
        return received if operation.rank == root else None

    def _exchanged(self, group: Any, operation: Operation[Any], calls: Mapping[int, Call]) -> list[torch.Tensor]:
        """What the members that bring a list brought for this rank, by rank."""
        dtype = next(call.dtype for call in calls.values() if call.dtype is not None)
        lists = [calls[rank].shapes for rank in self._members]
        shapes = [None if each is None else each[self._place] for each in lists]
        sent: Sequence[torch.Tensor | None] = operation.buffers or [None] * len(self._members)
        return self._moved(group, operation, sent, shapes, getattr(torch, dtype))

    def _moved(
        self,
        group: Any,
        operation: Operation[Any],
        sent: Sequence[torch.Tensor | None],
        shapes: Sequence[Shape | None],
        dtype: torch.dtype,
    ) -> list[torch.Tensor]:
        """What the members send here, in new memory; to each of them goes a tensor or None. `shapes` are what comes."""
        nothing = torch.empty(0, dtype=torch.uint8, device=self._device.torch_device)
        lines = [nothing if each is None else _as_bytes(_flat(each)) for each in sent]
        sizes = [0 if shape is None else math.prod(shape) * dtype.itemsize for shape in shapes]
        received = nothing.new_empty(sum(sizes))
        options = AllToAllOptions()
        options.timeout = _patience(operation)
        group.alltoall_base(received, torch.cat(lines), sizes, [each.numel() for each in lines], options).wait()
        parts = zip(received.split(sizes), shapes, strict=True)
        return [part.view(dtype).view(shape) for part, shape in parts if shape is not None]

    def _broken(self, operation: Operation[Any], error: Exception) -> None:
        """The data did not get through. Where a process is gone, its link says so within moments; else this rank failed."""
        if not self._agreement.failed.wait(2.0):
            self._agreement.fail(self._agreement.peer_failed([operation.rank], error))
        failure = self._agreement.failure
        assert failure is not None
        self._agreement.settle(operation, trouble=failure)


def _patience(operation: Operation[Any]) -> timedelta:
    return timedelta(seconds=max(operation.deadline - time.monotonic(), 0.0) + GRACE)


def _reduction(operation: Operation[Any]) -> ReduceOperation:
    return ReduceOperation[str(operation.call.reduction)]


def _exchanged_as(dtype: torch.dtype) -> torch.dtype:
    """The dtype that the reduction runs in; gloo has no int16, which wraps around the same in int32."""
    return torch.int32 if dtype is torch.int16 else accumulated_in(dtype)


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """The elements in one contiguous line, which is all that a process group reads right; a view where it can be."""
    return tensor.contiguous().as_strided((tensor.numel(),), (1,))  # torch lets a single element keep any stride


def _as_bytes(flat: torch.Tensor) -> torch.Tensor:
    """The bytes of a one-dimensional tensor: what is only moved needs no dtype that the engine knows."""
    return flat.view(torch.uint8)


def _interfaces(address: str) -> list[Any]:
    """Where gloo listens: at the address that the processes have met at, unless its variable names interfaces.

    By itself it looks the name of the host up, which may lead to another network, or nowhere.
    """
    named = os.environ.get("GLOO_SOCKET_IFNAME", "")
    if not named:
        return [dist.ProcessGroupGloo.create_device(hostname=address)]
    known = [name for _, name in socket.if_nameindex()]
    for name in named.split(","):
        if name not in known:
            raise ValueError(f"GLOO_SOCKET_IFNAME names the interface {name!r}; there are {', '.join(known)}")
    return [dist.ProcessGroupGloo.create_device(interface=name) for name in named.split(",")]


def _process_group(
    device: Device, channel: Channel, store: Callable[[], Store], address: str, operation: Operation[Any]
) -> Any:
    """A process group of the device's engine, which all members make at their first agreed call."""
    name, members = str(device.engine).upper(), channel.members
    place = members.index(operation.rank)
    inner = PrefixStore(f"{channel.purpose}/{','.join(map(str, members))}", store())
    kind = getattr(dist, f"ProcessGroup{name.title() if name == 'GLOO' else name}", None)
    plugin = dist.Backend._plugins.get(name)
    if name == "GLOO":
        options = dist.ProcessGroupGloo._Options()  # type: ignore[attr-defined]
        options._devices = _interfaces(address)
        options._threads = 2 * len(options._devices)
        options._timeout = _patience(operation) / GLOO_CONNECTS
        return dist.ProcessGroupGloo(inner, place, len(members), options)
    if name == "MPI" and kind is not None:
        return kind.create(list(members))
    if kind is not None:
        return kind(inner, place, len(members), _patience(operation))
    if plugin is not None:
        return plugin.creator_fn(inner, place, len(members), _patience(operation))
    problem = f"this torch ({torch.__version__}) has no engine {device.engine}"
    raise device.package.errors.make(
        "unavailable", "DistributedContext", device, backend=type(device).__name__, missing=problem
    )
