"""Intel GPUs."""

from __future__ import annotations

import torch
from dispatch_runtime.backends._c10d import CollectiveKernels
from dispatch_runtime.backends._kernel import AcceleratorKernel, built_without


class Xpu(CollectiveKernels, AcceleratorKernel):
    """Kernels on `xpu:<index>`."""

    label = "XPU"

    @classmethod
    def _not_in_torch(cls, runtime: str | None) -> str | None:
        """Why this torch has no XPU, or None."""
        return None if torch.xpu._is_compiled() else built_without("XPU")

    @classmethod
    def _seen(cls, runtime: str | None) -> int:
        """How many XPU devices torch sees."""
        return torch.xpu.device_count()
