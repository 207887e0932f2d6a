"""The kernels of every backend whose collectives run on torch.distributed, or in the memory of this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from dispatch_runtime import contexts
from dispatch_runtime.backends._kernel import Kernel
from dispatch_runtime.devices import Device
from dispatch_runtime.handles import Pending
from dispatch_runtime.syncs import sync_of
from dispatch_runtime.tensors import TensorRef, mark_of, set_mark
from dispatch_runtime.values import DistributedConfig, DistributedParams, ParamId, ReduceOperation

if TYPE_CHECKING:
    from dispatch_runtime.communicator import Communicator
    from dispatch_runtime.context import DistributedContext


class CollectiveKernels(Kernel):
    """Collectives and gradient sync of one device.

    All but the questions and the opening and closing of groups need the device of an open group, with its context.
    """

    def start_communication_server(self, devices: Sequence[Device], config: DistributedConfig | None) -> None:
        """Open the group of these local devices and keep it open until one of them closes it."""
        contexts.open_server(self.device.package, devices, config)

    def close_communication_server(self) -> None:
        """Close the group that was opened for this device, if there is one."""
        contexts.close_server(self.device)

    def register_sync_parameters(self, params: Sequence[DistributedParams]) -> None:
        """Note which gradients the coming backward pass hands over."""
        sync_of(self._grouped("register_sync_parameters")).register(params)

    def submit_gradient_sync(self, tensor_ref: TensorRef, params: DistributedParams) -> None:
        """Note one gradient; it is reduced, and written back, by `submit_sync_collective`."""
        sync_of(self._grouped("submit_gradient_sync")).submit(tensor_ref, params)

    def submit_sync_collective(self, timeout: float | None) -> None:
        """Reduce every registered gradient and write the results back."""
        sync_of(self._grouped("submit_sync_collective")).synchronise(timeout)

    def all_reduce(
        self, tensor: torch.Tensor, op: ReduceOperation, devices: Sequence[Device], timeout: float | None
    ) -> Pending[torch.Tensor]:
        """The reduction of the members' tensors: same shape, same dtype."""
        return self._communicator("all_reduce", devices).all_reduce(tensor, op, timeout)

    def sync_collective(self, timeout: float | None) -> None:
        """Wait for what is in flight on this device."""
        self._context("sync_collective").wait_for_all(self.device, timeout)

    def comm_device(self, tensor_ref: TensorRef) -> Device:
        """The device of the referenced tensor: this one."""
        return self.device

    def float_from_ref(self, tensor_ref: TensorRef) -> torch.Tensor:
        """A copy of the referenced tensor, outside any graph; `unsupported_tensor` where a gradient is not there yet."""
        tensor = tensor_ref.get()
        if tensor is None:
            problem, fix = "the parameter has no gradient yet", "run backward() first"
            errors = self.device.package.errors
            raise errors.make("unsupported_tensor", "float_from_ref", self.device, problem=problem, fix=fix)
        return tensor.detach().clone()

    def set_distributed_params(self, tensor: torch.Tensor, param_id: ParamId) -> torch.Tensor:
        """The tensor, with its mark."""
        set_mark(tensor, DistributedParams(param_id))
        return tensor

    def distributed_params(self, tensor: torch.Tensor) -> DistributedParams | None:
        """The tensor's mark, or None."""
        return mark_of(tensor)

    def is_distributed(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor has a mark."""
        return mark_of(tensor) is not None

    def broadcast(
        self, tensor: torch.Tensor, root: Device, devices: Sequence[Device], timeout: float | None
    ) -> Pending[torch.Tensor]:
        """The root's tensor; the members bring tensors of its shape and dtype."""
        return self._communicator("broadcast", devices).broadcast(tensor, _rank(root), timeout)

    def all_gather(
        self, tensor: torch.Tensor, devices: Sequence[Device], timeout: float | None
    ) -> Pending[list[torch.Tensor]]:
        """The members' tensors by rank: same shape, same dtype."""
        return self._communicator("all_gather", devices).all_gather(tensor, timeout)

    def reduce(
        self, tensor: torch.Tensor, op: ReduceOperation, root: Device, devices: Sequence[Device], timeout: float | None
    ) -> Pending[torch.Tensor | None]:
        """On the root the reduction of the members' tensors: same shape, same dtype. Elsewhere None."""
        return self._communicator("reduce", devices).reduce(tensor, op, _rank(root), timeout)

    def gather(
        self, tensor: torch.Tensor, root: Device, devices: Sequence[Device], timeout: float | None
    ) -> Pending[list[torch.Tensor] | None]:
        """On the root the members' tensors by rank: same shape, same dtype. Elsewhere None."""
        return self._communicator("gather", devices).gather(tensor, _rank(root), timeout)

    def reduce_scatter(
        self, tensors: Sequence[torch.Tensor], op: ReduceOperation, devices: Sequence[Device], timeout: float | None
    ) -> Pending[torch.Tensor]:
        """The reduction of what the members brought for this device: same shape, same dtype."""
        return self._communicator("reduce_scatter", devices).reduce_scatter(tensors, op, timeout)

    def all_to_all(
        self, tensors: Sequence[torch.Tensor], devices: Sequence[Device], timeout: float | None
    ) -> Pending[list[torch.Tensor]]:
        """What the members brought for this device, by rank: any shapes, same dtype."""
        return self._communicator("all_to_all", devices).all_to_all(tensors, timeout)

    def scatter(
        self,
        tensors: Sequence[torch.Tensor] | None,
        root: Device,
        devices: Sequence[Device],
        timeout: float | None,
    ) -> Pending[torch.Tensor]:
        """The tensor that the root brought for this device: any shape."""
        return self._communicator("scatter", devices).scatter(tensors, _rank(root), timeout)

    def send(self, tensor: torch.Tensor, peer: Device, timeout: float | None) -> Pending[torch.Tensor]:
        """What was sent, once the peer has it."""
        return self._communicator("send", None).send(tensor, _rank(peer), timeout)

    def recv(self, like: torch.Tensor, peer: Device, timeout: float | None) -> Pending[torch.Tensor]:
        """What the peer sent: shape and dtype of `like`."""
        return self._communicator("recv", None).recv(like, _rank(peer), timeout)

    def barrier(self, devices: Sequence[Device], timeout: float | None) -> None:
        """Return once all members have arrived."""
        self._communicator("barrier", devices).barrier(timeout)

    def _context(self, op: str) -> DistributedContext:
        """The open group of this device."""
        context = self.device.context
        if context is None:
            raise self.device.package.errors.make("no_context", op, self.device)
        context.ready(op, self.device)
        if self.device.process is not None:
            raise context.stranger(op, self.device, context.local_devices)
        return context

    def _grouped(self, op: str) -> Device:
        self._context(op)
        return self.device

    def _communicator(self, op: str, devices: Sequence[Device] | None) -> Communicator:
        return self._context(op).communicator(self.device, devices)


def _rank(device: Device) -> int:
    """The rank of a device of a group."""
    assert device.rank is not None
    return device.rank
