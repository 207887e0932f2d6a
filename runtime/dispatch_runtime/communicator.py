"""The collectives of one rank on one set of members."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from dispatch_runtime.agreement import Agreement
from dispatch_runtime.engines.together import Lent
from dispatch_runtime.handles import Pending, as_seconds
from dispatch_runtime.memory import copy_of, plain
from dispatch_runtime.operation import LOOK_AGAIN, Call, Channel, Operation, Trouble, unrecorded
from dispatch_runtime.reductions import why_not_a_list, why_not_movable, why_not_reducible, why_not_reducible_sparse
from dispatch_runtime.values import ReduceOperation

if TYPE_CHECKING:
    from dispatch_runtime.devices import Device
    from dispatch_runtime.engines import Engine


class Communicator:
    """What a local rank calls; every member has to make the same call.

    A call refuses at once what this rank can see (dtype, layout, a failed group). It returns without waiting for the
    others, and the caller may overwrite its tensor then, unless the call is in place. What needs the others is raised
    by `wait` of what it returns: `disagreement`, which leaves the group as it was, and `timeout`, `peer_failed` and
    `peer_closed`, which end it. `timeout` is in seconds; None takes the group's.
    """

    def __init__(self, device: Device, channel: Channel, agreement: Agreement, engine: Engine, timeout: float) -> None:
        assert device.rank is not None
        self.device = device
        self.rank = device.rank
        self.channel = channel
        self.members = channel.members
        self._agreement = agreement
        self._engine = engine
        self.in_memory = engine.immediate
        self._timeout = timeout
        self._errors = device.package.errors

    def all_reduce(
        self,
        tensor: torch.Tensor,
        op: ReduceOperation,
        timeout: float | None = None,
        *,
        in_place: bool = False,
        label: str | None = None,
    ) -> Pending[torch.Tensor]:
        """The reduction of the members' tensors, in new memory with the strides of `tensor`.

        In place, `tensor` itself is reduced and given back; nobody may touch it before that. `label` says which op it
        is a part of and, after a comma, which part; it has to be the same on all ranks.
        """
        if tensor.layout is torch.sparse_coo:
            return self._all_reduce_sparse(tensor, op, timeout)
        self._check("all_reduce", [tensor], op)
        return self._start("all_reduce", tensor, timeout, in_place=in_place, reduction=op.name, label=label)

    def _all_reduce_sparse(
        self, tensor: torch.Tensor, op: ReduceOperation, timeout: float | None
    ) -> Pending[torch.Tensor]:
        refused = why_not_reducible_sparse(self._errors, "all_reduce", self.device, tensor, op)
        if refused is not None:
            raise refused
        if _tracked(tensor):
            what, fix = "all_reduce of a sparse tensor", "pass it as tensor.detach()"
            raise self._errors.make("no_backward", "all_reduce", self.device, reduction=what, fix=fix)
        dtype = f"sparse[{tensor.sparse_dim()}+{tensor.dense_dim()}] {str(tensor.dtype)[6:]}"
        operation = self._operation(Call("all_reduce", op.name, dtype, tuple(tensor.shape)), timeout)
        with unrecorded():
            operation.buffers = [plain(tensor).clone()]
        operation.note_stream(tensor)
        self._agreement.start(operation)
        return operation

    def broadcast(self, tensor: torch.Tensor, root_rank: int, timeout: float | None = None) -> Pending[torch.Tensor]:
        """The tensor of the root, in new memory; elsewhere `tensor` gives shape, dtype and strides."""
        self._check("broadcast", [tensor], root=root_rank)
        return self._start("broadcast", tensor, timeout, root=root_rank)

    def reduce(
        self, tensor: torch.Tensor, op: ReduceOperation, root_rank: int, timeout: float | None = None
    ) -> Pending[torch.Tensor | None]:
        """On the root the reduction of the members' tensors, in new memory with the strides of `tensor`; else None."""
        self._check("reduce", [tensor], op, root_rank)
        return self._start("reduce", tensor, timeout, reduction=op.name, root=root_rank)

    def all_gather(self, tensor: torch.Tensor, timeout: float | None = None) -> Pending[list[torch.Tensor]]:
        """The tensors of all members by rank, in new memory."""
        self._check("all_gather", [tensor])
        return self._start("all_gather", tensor, timeout)

    def gather(
        self, tensor: torch.Tensor, root_rank: int, timeout: float | None = None
    ) -> Pending[list[torch.Tensor] | None]:
        """On the root the tensors of all members by rank, in new memory; else None."""
        self._check("gather", [tensor], root=root_rank)
        return self._start("gather", tensor, timeout, root=root_rank)

    def reduce_scatter(
        self, tensors: Sequence[torch.Tensor], op: ReduceOperation, timeout: float | None = None
    ) -> Pending[torch.Tensor]:
        """The reduction of what the members brought for this rank, in new memory.

        Each brings a tensor for every member, by rank; those for one rank have one shape, those for two need not.
        """
        self._check_list("reduce_scatter", tensors, op)
        if any(map(_tracked, tensors)) and len({each.shape for each in tensors}) > 1:
            what, fix = (
                "reduce_scatter of tensors of several shapes",
                "pass them as tensor.detach(), or pad them to one",
            )
            raise self._errors.make("no_backward", "reduce_scatter", self.device, reduction=what, fix=fix)
        return self._start_list("reduce_scatter", tensors, timeout, reduction=op.name)

    def all_to_all(self, tensors: Sequence[torch.Tensor], timeout: float | None = None) -> Pending[list[torch.Tensor]]:
        """What the members brought for this rank, by rank, in new memory.

        Each brings a tensor for every member, by rank, of any shape and one dtype.
        """
        self._check_list("all_to_all", tensors)
        return self._start_list("all_to_all", tensors, timeout)

    def scatter(
        self, tensors: Sequence[torch.Tensor] | None, root_rank: int, timeout: float | None = None
    ) -> Pending[torch.Tensor]:
        """The tensor that the root brought for this rank, in new memory; the others bring None."""
        self._check("scatter", [], root=root_rank)
        if self.rank == root_rank:
            self._check_list("scatter", tensors or ())
            return self._start_list("scatter", tensors or (), timeout, root=root_rank)
        if tensors is not None:
            problem, fix = f"rank {self.rank} brings tensors and is not the root", "pass None where the root is another"
            raise self._errors.make("unsupported_tensor", "scatter", self.device, problem=problem, fix=fix)
        return self._start("scatter", None, timeout, root=root_rank)

    def send(self, tensor: torch.Tensor, to_rank: int, timeout: float | None = None) -> Pending[torch.Tensor]:
        """Resolves to what was sent, once the other rank has it. It has to call `recv`."""
        self._check("send", [tensor], peer=to_rank)
        return self._start("send", tensor, timeout, root=self.rank, channel=_one_way(self.rank, to_rank))

    def recv(self, like: torch.Tensor, from_rank: int, timeout: float | None = None) -> Pending[torch.Tensor]:
        """What the other rank sends, in new memory; `like` gives shape, dtype and strides."""
        self._check("recv", [like], peer=from_rank)
        return self._start("recv", like, timeout, root=from_rank, channel=_one_way(from_rank, self.rank))

    def barrier(self, timeout: float | None = None) -> None:
        """Return once all members have called it."""
        self._start("barrier", None, timeout).wait()

    def exchange(
        self, facts: str, timeout: float | None = None, *, label: str = "submit_sync_collective"
    ) -> Pending[dict[int, str]]:
        """What every member says, by rank; no data moves. `label` is the op that it is a part of."""
        return self._start("exchange", None, timeout, facts=facts, label=label)

    def reduce_together(
        self,
        buffers: Sequence[torch.Tensor],
        op: ReduceOperation,
        timeout: float | None = None,
        *,
        facts: str,
        shared: bool = False,
    ) -> list[torch.Tensor] | dict[int, str]:
        """The reductions of several tensors by one call, each in the memory that was brought where that can be.

        In memory (`in_memory`) the ranks read and write each other's tensors, so that many small ones cost little.

        `facts` say what the tensors are: shapes, dtypes and layouts are not compared. Where the facts of the members
        differ nothing is moved, and what they are is returned by rank. `shared` allows results in the memory of another
        device of this process. Waits for all members; raises as the handles of other calls do.
        """
        operation = self._start(
            "submit_sync_collective", None, timeout, reduction=op.name, facts=facts, buffers=buffers
        )
        value: list[torch.Tensor] | dict[int, str] | Lent = operation.wait()
        if not isinstance(value, Lent):
            return value
        results = value.reduced(self.members.index(self.rank), shared)
        if value.is_shared:
            self._await_others(value, operation)
        return results

    def _await_others(self, lent: Lent, operation: Operation[Any]) -> None:
        """Wait until all ranks have done their share of the work; one whose thread was interrupted never does."""
        while not lent.over.wait(LOOK_AGAIN):
            self._agreement.ready(operation.call.name, self.rank)
            if time.monotonic() >= operation.deadline:
                missing = f"the share of another rank of this process in {operation.call}"
                self._agreement.fail(Trouble("timeout", {"missing": missing}, f"{missing} was not done"))

    def _check(
        self,
        op: str,
        tensors: Sequence[torch.Tensor],
        reduction: ReduceOperation | None = None,
        root: int | None = None,
        peer: int | None = None,
    ) -> None:
        """Raise what this rank alone can see to be wrong."""
        refused = None
        if root is not None and root not in self.members:
            devices = ", ".join(map(str, self.members))
            named = {"device": f"rank {root}", "devices": f"ranks {devices}"}
            refused = self._errors.make("not_in_context", op, self.device, **named)
        elif peer == self.rank:
            problem, fix = "the peer is the device itself", "name another device; tensor.clone() is a copy on this one"
            refused = self._errors.make("unsupported_tensor", op, self.device, problem=problem, fix=fix)
        for tensor in tensors:
            refused = refused or why_not_movable(self._errors, op, self.device, tensor)
            if reduction is not None and refused is None:
                refused = why_not_reducible(self._errors, op, self.device, tensor.dtype, reduction)
        if refused is not None:
            raise refused

    def _check_list(self, op: str, tensors: Sequence[torch.Tensor], reduction: ReduceOperation | None = None) -> None:
        self._check(op, tensors, reduction)
        refused = why_not_a_list(self._errors, op, self.device, tensors, len(self.members))
        if refused is not None:
            raise refused

    def _start(
        self,
        op: str,
        tensor: torch.Tensor | None,
        timeout: float | None,
        *,
        in_place: bool = False,
        reduction: str | None = None,
        root: int | None = None,
        label: str | None = None,
        facts: str | None = None,
        buffers: Sequence[torch.Tensor] = (),
        channel: Channel | None = None,
    ) -> Operation[Any]:
        if tensor is None:
            call = Call(op, reduction, root=root, label=label, facts=facts)
        else:
            dtype, shape, tracked = str(tensor.dtype)[6:], tuple(tensor.shape), _tracked(tensor)
            call = Call(op, reduction, dtype, shape, root=root, label=label, tracked=tracked)
            tensor = plain(tensor)
        operation = self._operation(call, timeout, channel, tensor, in_place)
        if tensor is not None:
            self._prepare(operation, tensor)
        elif buffers:
            operation.buffers = buffers
            operation.note_stream(buffers[0])
        self._agreement.start(operation)
        return operation

    def _start_list(
        self,
        op: str,
        tensors: Sequence[torch.Tensor],
        timeout: float | None,
        *,
        reduction: str | None = None,
        root: int | None = None,
    ) -> Operation[Any]:
        dtype, shapes = str(tensors[0].dtype)[6:], tuple(tuple(each.shape) for each in tensors)
        tracked = any(map(_tracked, tensors))
        operation = self._operation(Call(op, reduction, dtype, shapes=shapes, root=root, tracked=tracked), timeout)
        with unrecorded():
            operation.buffers = [copy_of(plain(each)) for each in tensors]
        operation.note_stream(operation.buffers[0])
        self._agreement.start(operation)
        return operation

    def _operation(
        self,
        call: Call,
        timeout: float | None,
        channel: Channel | None = None,
        tensor: torch.Tensor | None = None,
        in_place: bool = False,
    ) -> Operation[Any]:
        context = self.device.context
        assert context is not None
        context.ready(call.name, self.device)
        seconds = self._timeout if timeout is None else as_seconds(self.device.package, call.name, timeout)
        return Operation(self._agreement, self.rank, channel or self.channel, call, tensor, seconds, in_place)

    def _prepare(self, operation: Operation[Any], tensor: torch.Tensor) -> None:
        """Copy what the caller may overwrite before it is read."""
        last = self._engine.immediate and self._agreement.is_last(operation.channel, self.rank)
        if operation.call.brings(self.rank) and not last:
            with unrecorded():
                operation.snapshot()
        operation.note_stream(tensor)


def _one_way(sender: int, receiver: int) -> Channel:
    return Channel((min(sender, receiver), max(sender, receiver)), f"{sender}>{receiver}")


def _tracked(tensor: torch.Tensor) -> bool:
    return tensor.requires_grad and torch.is_grad_enabled()
