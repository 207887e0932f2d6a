"""The questions behind a package's guards."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import torch
from dispatch_runtime import contexts, inventory
from dispatch_runtime.devices import Device, DeviceLike
from dispatch_runtime.errors import DispatchError
from dispatch_runtime.package import Package
from dispatch_runtime.placing import as_device, as_devices, peek
from dispatch_runtime.reductions import REDUCIBLE, has_meaning
from dispatch_runtime.refusals import refusal
from dispatch_runtime.tensors import Kind, Tensor, TensorLike, base_kind, primitive_of
from dispatch_runtime.values import ReduceOperation, expect


def is_capable(package: Package, x: DeviceLike | TensorLike) -> bool:
    """Whether collectives can run on the device, or the device of the tensor; False for what names no device."""
    if isinstance(x, Tensor | torch.Tensor):
        tensor = peek(package, x)
        return (
            tensor is not None
            and base_kind(tensor.primitive) is not Kind.Quantized
            and tensor.device.engine is not None
        )
    try:
        return as_device(package, "is_distributed_capable", x).engine is not None
    except DispatchError:
        return False


def ensure_supported(package: Package, like: DeviceLike, op: str) -> None:
    """Raise what the op would raise on the device because of the build, the catalog or the machine.

    An op between two devices is asked for both its ways, one on tensors for tracked ones too: where these can take it,
    it is supported. A name that is no op is a ValueError.
    """
    device = as_device(package, expect("ensure_supported", op, str), like)
    arms = device.arms
    methods = [method for method, (served, _) in arms.binders.items() if served == op]
    if not methods:
        near = difflib.get_close_matches(op, [served for served, _ in arms.binders.values()], n=1)
        raise ValueError(f"there is no op {op!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    for method in methods:
        situation, why = getattr(getattr(arms, method), "refuses", (None, ""))
        if situation is not None and hasattr(getattr(device.tracked_arms, method), "refuses"):
            fields = {"why": why, "missing": why, "source": str(device), "target": "another device"}
            raise refusal(op, device, situation, f"device {device}", **fields)
    kernels, missing = inventory.kernel_class(device.support)
    if kernels is None and device.support.kernels is not None:
        raise refusal(op, device, "unavailable", f"device {device}", missing=missing)
    refused = None if kernels is None else kernels.refusal(device, op)
    if refused is not None:
        raise refused


def is_built(package: Package, backend: str) -> bool:
    """Whether the backend of that name is in this build."""
    return expect("is_built", backend, str) in package.backends and package.backends[backend].built


def is_available(package: Package, like: DeviceLike) -> bool:
    """Whether the device is in this build and can be had on this machine."""
    try:
        return inventory.why_unavailable(as_device(package, "is_available", like)) is None
    except DispatchError:
        return False


def is_autodiff(x: DeviceLike | TensorLike) -> bool:
    """Whether it is an autodiff device, or lives on one; what torch names and holds never does."""
    device = x.device if isinstance(x, Tensor) else x
    return isinstance(device, Device) and device.autodiff


def is_tracked(x: TensorLike) -> bool:
    """Whether autograd records operations on the tensor."""
    return primitive_of("is_tracked", x).requires_grad


def is_kind(x: TensorLike, kind: Kind) -> bool:
    """Whether the tensor is of the kind; `Autodiff` means a tracked float, or one on an autodiff device."""
    primitive = primitive_of("is_kind", x)
    if expect("is_kind", kind, Kind) is Kind.Autodiff:
        return x.kind is kind if isinstance(x, Tensor) else primitive.requires_grad
    return base_kind(primitive) is kind


def is_one_variant(package: Package, devices: Sequence[DeviceLike]) -> bool:
    """Whether the list names at least one device, and all are of one variant."""
    try:
        return bool(as_devices(package, "is_one_variant", devices))
    except DispatchError:
        return False


def in_context(package: Package, like: DeviceLike) -> bool:
    """Whether a device group would be found for the device here."""
    try:
        contexts.current(package, "in_context", as_device(package, "in_context", like))
    except DispatchError:
        return False
    return True


def is_capturing() -> bool:
    """Whether a capture is running in this thread."""
    from dispatch_runtime.backends.capture import is_capturing

    return is_capturing()


def can_transfer(package: Package, source: DeviceLike, target: DeviceLike) -> bool:
    """Whether tensors move from one device to the other in this build."""
    try:
        start, end = (as_device(package, "to_device", each) for each in (source, target))
        if (type(start).__name__, type(end).__name__) in start.arms.exceptions.get("to_device", {}):
            return False
        return not hasattr(start.arms.export_tensor, "refuses") and not hasattr(end.arms.import_tensor, "refuses")
    except DispatchError:
        return False


def can_reduce(dtype: torch.dtype, op: ReduceOperation) -> bool:
    """Whether tensors of the dtype are reduced so: the reduction has a meaning for it, and every engine does it."""
    expect("can_reduce", op, ReduceOperation)
    return expect("can_reduce", dtype, torch.dtype) in REDUCIBLE and has_meaning(dtype, op)
