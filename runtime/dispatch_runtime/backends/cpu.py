"""The CPU, as independent replicas of one process."""

from __future__ import annotations

import torch
from dispatch_runtime.backends._c10d import CollectiveKernels
from dispatch_runtime.backends._kernel import TorchKernel
from dispatch_runtime.devices import Device


class Cpu(CollectiveKernels, TorchKernel):
    """Kernels on the CPU. Every index can be had; `count` says 1, since all of them are the same processor."""

    def import_tensor(self, tensor: torch.Tensor, source: Device) -> torch.Tensor:
        """The tensor on the CPU; a copy where it comes from another replica, since replicas share no memory."""
        return tensor.clone() if type(source) is type(self.device) else super().import_tensor(tensor, source)
