"""What kernel classes are built from, for backends in packages of their own.

`TorchKernel` moves torch tensors in and out, `AcceleratorKernel` also counts what torch sees, `CollectiveKernels` has
every collective that the device group's engine does. `Kernel` is below them all.
"""

from __future__ import annotations

from dispatch_runtime.backends._c10d import CollectiveKernels
from dispatch_runtime.backends._kernel import AcceleratorKernel, Kernel, TorchKernel, built_without

__all__ = ["AcceleratorKernel", "CollectiveKernels", "Kernel", "TorchKernel", "built_without"]
