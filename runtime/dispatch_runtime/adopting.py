"""Tensors and arrays that others made, taken in without a copy."""

from __future__ import annotations

from typing import Any

import torch
from dispatch_runtime.devices import Device, DeviceLike
from dispatch_runtime.package import BackendSupport, Package
from dispatch_runtime.placing import as_device, known_names, make_device, place
from dispatch_runtime.tensors import Tensor, primitive_of, wrap


def from_torch(package: Package, tensor: object, like: DeviceLike | None) -> Tensor:
    """The torch tensor on a device, or on the one where it lives; never a copy."""
    if isinstance(tensor, Tensor):
        if tensor.device.autodiff and isinstance(like, Device) and like.autodiff:
            raise package.errors.make("nested", "from_torch", tensor.device, what="tensor")
        return from_torch(package, tensor.primitive, tensor.device if like is None else like)
    tensor = primitive_of("from_torch", tensor)
    if like is None:
        return wrap(tensor, place(package, "from_torch", tensor))
    device = as_device(package, "from_torch", like)
    if device.context is not None and device.process is not None:
        fix = "pass a device of this process; what other processes hold comes by a collective"
        raise package.errors.make("wrong_place", "from_torch", device, torch_device=tensor.device, fix=fix)
    if device.support.transfer == "into" or device.host is not None or tensor.device != device.torch_device:
        fix = f"to_device(tensor, {device!r}) copies it there"
        raise package.errors.make("wrong_place", "from_torch", device, torch_device=tensor.device, fix=fix)
    if tensor.requires_grad and not device.support.autodiff:
        problem, fix = "autograd tracks the tensor, and the backend cannot", "pass tensor.detach()"
        raise package.errors.make("unsupported_array", "from_torch", device, problem=problem, fix=fix)
    if device.support is _array_support(package):
        _require_array(package, tensor, device)
    return wrap(tensor, device)


def from_numpy(package: Package, array: Any) -> Tensor:
    """The NumPy array as a tensor of the backend that holds arrays, sharing its memory."""
    from dispatch_runtime.backends.ndarray import array_to_torch

    support = _array_support(package)
    if support is None:
        raise package.errors.make(
            "unknown_device",
            "from_numpy",
            "NumPy",
            problem="no backend of the catalog holds arrays",
            known=known_names(package),
        )
    device = make_device(package, "from_numpy", support, 0)
    return wrap(array_to_torch(array, package.errors), device)


def _array_support(package: Package) -> BackendSupport | None:
    """The backend of the catalog that holds NumPy arrays."""
    return next((each for each in package.backends.values() if each.arrays), None)


def _require_array(package: Package, tensor: torch.Tensor, device: Device) -> None:
    from dispatch_runtime.backends.ndarray import why_not_numpy

    found = why_not_numpy(tensor)
    if found is not None:
        raise package.errors.make("unsupported_array", "from_torch", device, problem=found[0], fix=found[1])
