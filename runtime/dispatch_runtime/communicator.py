"""The collectives of one rank on one set of members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from dispatch_runtime.agreement import Agreement
from dispatch_runtime.engines.together import Lent
from dispatch_runtime.handles import Pending, as_seconds
from dispatch_runtime.operation import Call, Members, Operation
from dispatch_runtime.reductions import why_not_movable, why_not_reducible
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

    def __init__(self, device: Device, members: Members, agreement: Agreement, engine: Engine, timeout: float) -> None:
        assert device.rank is not None
        self.device = device
        self.rank = device.rank
        self.members = members
        self._agreement = agreement
        self._engine = engine
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

        In place, `tensor` itself is reduced and given back; nobody may touch it before that. `label` says what it is
        for, and has to be the same on all ranks.
        """
        refused = self._why_not_movable("all_reduce", tensor)
        refused = refused or why_not_reducible(self._errors, "all_reduce", self.device, tensor.dtype, op)
        if refused is not None:
            raise refused
        return self._start("all_reduce", tensor, timeout, in_place=in_place, reduction=op.name, label=label)

    def broadcast(self, tensor: torch.Tensor, root_rank: int, timeout: float | None = None) -> Pending[torch.Tensor]:
        """The tensor of the root, in new memory; elsewhere `tensor` gives shape, dtype and strides."""
        if root_rank not in self.members:
            devices = ", ".join(map(str, self.members))
            named = {"device": f"rank {root_rank}", "devices": f"ranks {devices}"}
            raise self._errors.make("not_in_context", "broadcast", self.device, **named)
        refused = self._why_not_movable("broadcast", tensor)
        if refused is not None:
            raise refused
        return self._start("broadcast", tensor, timeout, root=root_rank)

    def all_gather(self, tensor: torch.Tensor, timeout: float | None = None) -> Pending[list[torch.Tensor]]:
        """The tensors of all members by rank, in new memory."""
        refused = self._why_not_movable("all_gather", tensor)
        if refused is not None:
            raise refused
        return self._start("all_gather", tensor, timeout)

    def barrier(self, timeout: float | None = None) -> None:
        """Return once all members have called it."""
        self._start("barrier", None, timeout).wait()

    def exchange(self, facts: str, timeout: float | None = None) -> Pending[dict[int, str]]:
        """What every member says, by rank; no data moves."""
        return self._start("exchange", None, timeout, facts=facts)

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
        results = value.reduced(self.members.index(self.rank), op, shared)
        if value.is_split:  # until all are done, others write here
            self._start("barrier", None, timeout, label="submit_sync_collective").wait()
        return results

    def _why_not_movable(self, op: str, tensor: torch.Tensor) -> Exception | None:
        return why_not_movable(self._errors, op, self.device, tensor)

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
    ) -> Operation[Any]:
        context = self.device.context
        assert context is not None
        context.ready(op, self.device)
        seconds = self._timeout if timeout is None else as_seconds(self.device.package, op, timeout)
        if tensor is None:
            call = Call(op, reduction, label=label, facts=facts)
        else:
            dtype, shape = str(tensor.dtype)[6:], tuple(tensor.shape)
            call = Call(op, reduction, dtype, shape, root, label)
            tensor = tensor.detach()
        operation: Operation[Any] = Operation(self._agreement, self.rank, self.members, call, tensor, seconds, in_place)
        if tensor is not None:
            self._prepare(operation, tensor)
        elif buffers:
            operation.buffers = buffers
            operation.note_stream(buffers[0])
        self._agreement.start(operation)
        return operation

    def _prepare(self, operation: Operation[Any], tensor: torch.Tensor) -> None:
        """Copy what the caller may overwrite before it is read."""
        brings = operation.call.root is None or operation.call.root == self.rank
        if brings and not (self._engine.immediate and self._agreement.is_last(self.members, self.rank)):
            with torch.inference_mode(mode=False), torch.no_grad():
                operation.snapshot()
        operation.note_stream(tensor)
