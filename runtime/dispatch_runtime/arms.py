"""What the generated arms are made of: how they are bound, checked and attached to autograd."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import torch
from dispatch_runtime import contexts
from dispatch_runtime.autograd import as_called, differentiable
from dispatch_runtime.devices import Device, DeviceLike
from dispatch_runtime.errors import DispatchError
from dispatch_runtime.handles import CollectiveTensor, Pending
from dispatch_runtime.package import Package
from dispatch_runtime.placing import as_device, as_devices, no_backend
from dispatch_runtime.refusals import check_device, check_kinds, refuse
from dispatch_runtime.tensors import Tensor, wrap

__all__ = [
    "Arms",
    "acting",
    "answer",
    "attached",
    "check_device",
    "check_kinds",
    "in_context",
    "kernel_or_none",
    "member",
    "members",
    "no_backward",
    "only_at",
    "primitives",
    "refuse",
    "refuse_pair",
    "require_tracked",
    "tracked",
]

T = TypeVar("T")


class Arms:
    """The arms of one device, each bound when it is first called and kept from then on.

    A generated package declares one attribute per operation and the functions that bind them.
    """

    __slots__ = ("_device",)
    binders: ClassVar[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {}
    """By method: the operation that it serves, and what binds its arm to a device."""
    questions: ClassVar[frozenset[str]] = frozenset()
    exceptions: ClassVar[Mapping[str, Mapping[tuple[str, str], str]]] = {}
    """By operation: the pairs of backends that it refuses though the rule allows them, each with the reason."""

    def __init__(self, device: Device) -> None:
        self._device = device
        for method in self.binders:
            setattr(self, method, _Unbound(self, method))

    def bind(self, method: str) -> Any:
        """The arm, bound now and kept. Raises what the kernel of the device raises where it cannot be had."""
        op, bind = self.binders[method]
        device = self._device
        if device.autodiff and not device.package.autodiff and op not in self.questions:
            arm = refuse(op, device, "not_built")
        else:
            try:
                arm = bind(device)
            except DispatchError as error:
                raise error.of(op) from None
            except ImportError as error:
                raise _not_importable(op, device, error) from error
        setattr(self, method, arm)
        return arm


class _Unbound:
    """Stands for an arm until it is called or looked at.

    A `__getattr__` of the arms themselves would bind as lazily, and make Python look every arm up the slow way for good.
    """

    __slots__ = ("_arms", "_method")

    def __init__(self, arms: Arms, method: str) -> None:
        self._arms = arms
        self._method = method

    def __call__(self, *values: Any) -> Any:
        return self._arms.bind(self._method)(*values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._arms.bind(self._method), name)


def answer(value: T) -> Callable[..., T]:
    """The arm of a question on a variant without the capability: always this value."""
    return lambda *values: value


def kernel_or_none(device: Device, kernel_of: Callable[[Device], T]) -> T | None:
    """The kernel of the device, or None where it cannot be had: a question has an answer there too."""
    try:
        return kernel_of(device)
    except (DispatchError, ImportError):
        return None


def _not_importable(op: str, device: Device, error: ImportError) -> DispatchError:
    missing = f"its kernels cannot be imported: {error}"
    errors, backend = device.package.errors, type(device).__name__
    return errors.make("unavailable", op, f"device {device}", backend=backend, missing=missing)


def in_context(op: str, device: Device) -> Callable[..., Any]:
    """The arm of a device outside any group: finds the group at each call and goes through the device there.

    Raises `NoContext`, `AmbiguousContext`, `ContextClosed` or `ContextFailed` where there is none to go through.
    """

    def arm(*values: Any) -> Any:
        return getattr(contexts.current(device.package, op, device).arms, op)(*values)

    return arm


def acting(package: Package, op: str, devices: Sequence[Device] | None) -> Any:
    """The arms of the local device that a call on a list of devices is made for.

    Devices that carry a group say which one is meant. Where devices without one refuse the operation, their arms, which
    say so: no group has such devices. Raises `NoBackend` in a build that has no devices at all, and `Unplaced` where
    several local devices could be meant.
    """
    if not package.device_class.__subclasses__():
        raise no_backend(package, op)
    context = next((each.context for each in devices or () if each.context is not None), None)
    if context is None:
        if devices and hasattr(getattr(devices[0].arms, op), "refuses"):
            return devices[0].arms
        return contexts.acting(package, op).arms
    return contexts.acting_in(context, op).arms


def refuse_pair(op: str, source: Device, target: Device, exceptions: Mapping[tuple[str, str], str]) -> None:
    """Raise `NoTransfer` for a pair of backends that is declared an exception."""
    why = exceptions.get((type(source).__name__, type(target).__name__))
    if why is not None:
        errors = source.package.errors
        raise errors.make("no_transfer", op, f"device {source}", source=source, target=target, why=why)


def members(op: str, device: Device, devices: Sequence[DeviceLike] | None) -> tuple[Device, ...]:
    """Who takes part: the devices of the list, all of the group for None."""
    if device.context is None:
        return as_devices(device.package, op, devices or ())
    if devices is not None:
        devices = [_of_group(op, device, each) for each in as_devices(device.package, op, devices)]
    return device.context.members(op, device, devices)


def member(op: str, device: Device, like: DeviceLike) -> Device:
    """The device of the group that a root or peer means."""
    context = device.context
    if context is None:
        return as_device(device.package, op, like)
    return context.member(op, _of_group(op, device, like))


def _of_group(op: str, device: Device, like: DeviceLike) -> DeviceLike:
    """The device itself; `NotInContext` for one that carries another group than the caller, equal as it may be."""
    if not isinstance(like, Device) or like.context in (None, device.context) or device.context is None:
        return like
    known = ", ".join(map(str, device.context.devices))
    raise device.package.errors.make(
        "not_in_context", op, like, device=f"{like} of another device group", devices=known
    )


def primitives(tensors: Sequence[Tensor]) -> list[torch.Tensor]:
    """The torch tensors of a list."""
    return [tensor.primitive for tensor in tensors]


def tracked(*values: Tensor | Sequence[Tensor] | None) -> bool:
    """Whether autograd would record an operation on these."""
    if not torch.is_grad_enabled():
        return False
    tensors = [each for value in values for each in ((value,) if isinstance(value, Tensor) else value or ())]
    return any(tensor.primitive.requires_grad for tensor in tensors)


def no_backward(op: str, device: Device, reduction: object = None) -> DispatchError:
    """What a tracked tensor is refused with, before anything moves, where the gradient has no rule."""
    fix = "call it under torch.no_grad(), or on tensor.detach()"
    what = op if reduction is None else f"{op} with {reduction!r}"
    return device.package.errors.make("no_backward", op, device, reduction=what, fix=fix)


def require_tracked(op: str, tensor: Tensor) -> None:
    """Raise `UntrackedTensor` unless autograd tracks the tensor."""
    if not tensor.tracked:
        backend = type(tensor.device).__name__
        fix = "call requires_grad_() on the tensor"
        raise tensor.device.package.errors.make("untracked", op, tensor.device, backend=backend, fix=fix)


In = TypeVar("In", Tensor, list[Tensor])
Out = TypeVar("Out", Tensor, list[Tensor])


def attached(
    op: str,
    device: Device,
    given: Tensor | Sequence[Tensor],
    pending: Pending[Any],
    gradient: Callable[[Out], In],
) -> CollectiveTensor[Out]:
    """The handle of a differentiable collective: once resolved, its backward calls the op of the gradient."""
    one_in = isinstance(given, Tensor)
    called = [as_called(each.primitive) for each in ((given,) if isinstance(given, Tensor) else given)]

    def finish(value: Any) -> Any:
        one_out = isinstance(value, torch.Tensor)

        def backward(gradients: Sequence[torch.Tensor]) -> list[torch.Tensor]:
            wrapped: Any = [wrap(each, device) for each in gradients]
            found: Any = gradient(wrapped[0] if one_out else wrapped)
            return [each.primitive for each in ([found] if one_in else found)]

        results = differentiable(called, [value] if one_out else value, backward)
        return wrap(results[0], device) if one_out else [wrap(each, device) for each in results]

    return CollectiveTensor(pending, finish, op, device)


def only_at(owner: Device, device: Device, gradient: Tensor) -> Tensor:
    """The gradient where it belongs to the device, elsewhere zeros, which stay in its graph for a second backward."""
    if owner == device:
        return gradient
    value = gradient.primitive
    return wrap(torch.where(torch.zeros((), dtype=torch.bool, device=value.device), value, 0.0), device)
