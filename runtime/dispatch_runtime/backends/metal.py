"""Apple GPUs."""

from __future__ import annotations

import torch
from dispatch_runtime.backends._kernel import AcceleratorKernel, built_without
from dispatch_runtime.devices import Device


class Metal(AcceleratorKernel):
    """Transfers to and from `mps:<index>`."""

    label = "Metal"

    @classmethod
    def _not_in_torch(cls, runtime: str | None) -> str | None:
        """Why this torch has no Metal, or None."""
        return None if torch.backends.mps.is_built() else built_without("Metal (MPS)")

    @classmethod
    def _seen(cls, runtime: str | None) -> int:
        """How many Metal devices torch sees."""
        return torch.mps.device_count() if torch.backends.mps.is_available() else 0

    def import_tensor(self, tensor: torch.Tensor, source: Device) -> torch.Tensor:
        """The tensor on this device. Metal has no double precision: `unsupported_tensor` for those dtypes."""
        if tensor.dtype in (torch.float64, torch.complex128):
            narrow = "torch.float32" if tensor.dtype is torch.float64 else "torch.complex64"
            problem = f"Metal has no {tensor.dtype}"
            errors = self.device.package.errors
            raise errors.make(
                "unsupported_tensor", "to_device", self.device, problem=problem, fix=f"tensor.to({narrow})"
            )
        return super().import_tensor(tensor, source)
