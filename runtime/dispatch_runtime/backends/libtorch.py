"""Other torch devices, which a vendor's plugin brings."""

from __future__ import annotations

from types import ModuleType

import torch
from dispatch_runtime.backends._c10d import CollectiveKernels
from dispatch_runtime.backends._kernel import AcceleratorKernel


class LibTorch(CollectiveKernels, AcceleratorKernel):
    """Kernels on `<runtime>:<index>`."""

    @classmethod
    def _not_in_torch(cls, runtime: str | None) -> str | None:
        """Why torch does not know the runtime, or None."""
        if runtime is None:
            return "a LibTorch device needs a runtime"
        if _module(runtime) is None:
            return f"torch {torch.__version__} has no {runtime} device: the vendor's torch plugin is not installed here"
        return None

    @classmethod
    def _seen(cls, runtime: str | None) -> int:
        """How many devices the plugin of the runtime reports."""
        module = _module(runtime or "")
        return int(module.device_count()) if module is not None and hasattr(module, "device_count") else 0


def _module(runtime: str) -> ModuleType | None:
    """The module of torch for that device type (`torch.hpu`), or None where nothing registered it."""
    try:
        module: ModuleType = torch.get_device_module(runtime)
    except (RuntimeError, AttributeError):
        return None
    return module
