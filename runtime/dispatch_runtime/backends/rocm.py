"""AMD GPUs."""

from __future__ import annotations

import torch
from dispatch_runtime.backends._c10d import CollectiveKernels
from dispatch_runtime.backends._kernel import AcceleratorKernel, built_without


class Rocm(CollectiveKernels, AcceleratorKernel):
    """Kernels on `cuda:<index>` of a HIP build of torch, which keeps CUDA's names."""

    label = "ROCm"

    @classmethod
    def _not_in_torch(cls, runtime: str | None) -> str | None:
        """Why this torch has no HIP, or None."""
        return built_without("HIP") if torch.version.hip is None else None

    @classmethod
    def _seen(cls, runtime: str | None) -> int:
        """How many ROCm devices torch sees."""
        return torch.cuda.device_count()
