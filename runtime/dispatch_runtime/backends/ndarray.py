"""NumPy arrays, as torch tensors that share their memory."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import torch
from dispatch_runtime.backends._kernel import TorchKernel
from dispatch_runtime.devices import Device
from dispatch_runtime.errors import ErrorTable

if TYPE_CHECKING:
    import numpy as np

_NUMPY_LACKS = {
    torch.bfloat16: "tensor.float()",
    torch.complex32: "tensor.to(torch.complex64)",
    **{dtype: "tensor.float()" for name, dtype in vars(torch).items() if name.startswith(("float8_", "float4_"))},
}
"""Dtypes without a NumPy counterpart, and the line that makes one with a counterpart."""


class NdArray(TorchKernel):
    """Transfers to and from NumPy's memory. Every index can be had, as on the CPU."""

    @classmethod
    def count(cls, runtime: str | None = None) -> int:
        """1 where NumPy is installed, else 0."""
        return 0 if cls.why_unavailable(0) else 1

    @classmethod
    def why_unavailable(cls, index: int, runtime: str | None = None) -> str | None:
        """That NumPy is not installed, or None."""
        return None if importlib.util.find_spec("numpy") else "NumPy is not installed"

    def import_tensor(self, tensor: torch.Tensor, source: Device) -> torch.Tensor:
        """The tensor as NumPy can hold it: the memory of a Cpu tensor itself, else a copy.

        Raises `unsupported_array` for tensors that autograd tracks and for dtypes and layouts that NumPy lacks.
        """
        found = why_not_numpy(tensor)
        if found is not None:
            problem, fix = found
            raise self.device.package.errors.make(
                "unsupported_array", "to_device", self.device, problem=problem, fix=fix
            )
        return tensor.clone() if type(source) is type(self.device) else tensor.cpu().resolve_conj().resolve_neg()


def array_to_torch(array: np.ndarray[Any, Any], errors: ErrorTable) -> torch.Tensor:
    """The tensor that shares the array's memory. It never copies.

    Raises `unsupported_array` for what cannot be shared, with the line that makes an array that can.
    """
    found = _why_not_torch(array)
    if found is not None:
        problem, fix = found
        raise errors.make("unsupported_array", "from_numpy", type(array).__name__, problem=problem, fix=fix)
    return torch.from_numpy(array)


def why_not_numpy(tensor: torch.Tensor) -> tuple[str, str] | None:
    """What keeps a tensor out of NumPy and the line that mends it, or None."""
    if tensor.requires_grad:
        return "Autograd tracks the tensor, and NumPy cannot", "tensor.detach()"
    if tensor.is_quantized:
        return "NumPy has no quantized numbers", "tensor.dequantize()"
    if tensor.layout is not torch.strided:
        return f"NumPy has no {tensor.layout} layout", "tensor.to_dense()"
    if tensor.dtype in _NUMPY_LACKS:
        return f"NumPy has no {tensor.dtype}", _NUMPY_LACKS[tensor.dtype]
    if tensor.is_meta:
        return "A meta tensor has no values", "torch.empty_like(tensor, device='cpu')"
    return None


def _why_not_torch(array: Any) -> tuple[str, str] | None:
    """What keeps an array out of torch's reach without a copy and the line that mends it, or None."""
    import numpy as np

    if not isinstance(array, np.ndarray):
        return f"It is a {type(array).__name__}, not a NumPy array", "numpy.asarray(value)"
    if isinstance(array, np.ma.MaskedArray):
        return "A masked array would lose its mask", "array.filled(0)"
    kind = array.dtype.kind
    if kind == "O":
        return "It holds Python objects", "array.astype(numpy.float32)"
    if kind in "SU":
        return "It holds text", "array.astype(numpy.float32)"
    if kind == "V":
        names = array.dtype.names or ("field",)
        return f"It is structured: {array.dtype}", f"array[{names[0]!r}].copy()"
    if kind in "Mm":
        return f"torch has no {array.dtype}", "array.view(numpy.int64)"
    if not array.dtype.isnative:
        return "Its byte order is not this machine's", "array.astype(array.dtype.newbyteorder('='))"
    if array.dtype in (np.dtype(np.longdouble), np.dtype(np.clongdouble)) and array.dtype.itemsize not in (8,):
        wide = "numpy.float64" if kind == "f" else "numpy.complex128"
        return f"torch has no {array.dtype}", f"array.astype({wide})"
    if not array.flags.writeable:
        return "It is read-only, and tensors can be written to", "array.copy()"
    if any(stride < 0 for stride in array.strides):
        return "It has negative strides, which torch lacks", "numpy.ascontiguousarray(array)"
    if any(stride % array.itemsize for stride in array.strides):
        return "Its strides are no multiple of its item size", "numpy.ascontiguousarray(array)"
    return None
