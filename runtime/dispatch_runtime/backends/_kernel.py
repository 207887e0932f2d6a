"""What every kernel class has, whatever its backend can do."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from dispatch_runtime.devices import Device
from dispatch_runtime.errors import DispatchError


class Kernel:
    """The hand-written side of one backend, for one device: what the arms of that device forward to.

    Raises `unavailable` where torch or the machine cannot give the device, `bad_index` where it has others of its kind.
    """

    def __init__(self, device: Device) -> None:
        refusal = self.refusal(device)
        if refusal is not None:
            raise refusal
        self.device = device

    @classmethod
    def refusal(cls, device: Device, op: str = "") -> DispatchError | None:
        """The error for a device that cannot be had here, or None where it can."""
        missing = cls.why_unavailable(device.index, device.runtime)
        if missing is None:
            return None
        errors, count = device.package.errors, cls.count(device.runtime)
        if 0 < count <= device.index:
            return errors.make("bad_index", op, f"device {device}", index=device.index, count=count)
        return errors.make("unavailable", op, f"device {device}", backend=type(device).__name__, missing=missing)

    @classmethod
    def count(cls, runtime: str | None = None) -> int:
        """How many devices can be had here; the devices of a backend that the CPU carries are unlimited and count 1."""
        return 1

    @classmethod
    def why_unavailable(cls, index: int, runtime: str | None = None) -> str | None:
        """What torch or the machine lacks for the device of this index, or None where it can be had."""
        return None


class TorchKernel(Kernel):
    """The kernel of a backend whose tensors are ordinary torch tensors on its torch device."""

    def export_tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor as other kernels can take it in."""
        return tensor

    def import_tensor(self, tensor: torch.Tensor, source: Device) -> torch.Tensor:
        """The tensor on this device: itself where it lives here already, else a copy that gradients flow through."""
        return tensor.to(self.device.torch_device)


class AcceleratorKernel(TorchKernel, ABC):
    """The kernel of a backend whose devices torch counts."""

    label = ""

    @classmethod
    def count(cls, runtime: str | None = None) -> int:
        """How many devices torch sees; 0 where it was built without them."""
        return 0 if cls._not_in_torch(runtime) else cls._seen(runtime)

    @classmethod
    def why_unavailable(cls, index: int, runtime: str | None = None) -> str | None:
        """What torch or the machine lacks for the device of this index, or None where it can be had."""
        missing = cls._not_in_torch(runtime)
        if missing is not None:
            return missing
        count = cls._seen(runtime)
        if index < count:
            return None
        label = cls.label or runtime
        if count == 0:
            return f"torch {torch.__version__} sees no {label} device on this machine"
        return f"torch sees {count} {label} device{'s' if count > 1 else ''}, index {index} is not there"

    @classmethod
    @abstractmethod
    def _not_in_torch(cls, runtime: str | None) -> str | None:
        """Why this torch cannot have such devices at all, or None."""

    @classmethod
    @abstractmethod
    def _seen(cls, runtime: str | None) -> int:
        """How many such devices torch sees; asked only where torch can have them."""


def built_without(what: str) -> str:
    """The sentence for a torch that lacks a whole kind of device."""
    return f"this torch ({torch.__version__}) was built without {what}"
