"""NVIDIA GPUs."""

from __future__ import annotations

import torch
from dispatch_runtime.backends._c10d import CollectiveKernels
from dispatch_runtime.backends._kernel import AcceleratorKernel, built_without


class Cuda(CollectiveKernels, AcceleratorKernel):
    """Kernels on `cuda:<index>` of a CUDA build of torch. A HIP build answers to the same name and is not taken."""

    label = "CUDA"

    @classmethod
    def _not_in_torch(cls, runtime: str | None) -> str | None:
        """Why this torch has no CUDA, or None."""
        if torch.version.hip is not None:
            return f"this torch ({torch.__version__}) was built for HIP {torch.version.hip}, not for CUDA"
        return built_without("CUDA") if torch.version.cuda is None else None

    @classmethod
    def _seen(cls, runtime: str | None) -> int:
        """How many CUDA devices torch sees."""
        return torch.cuda.device_count()
