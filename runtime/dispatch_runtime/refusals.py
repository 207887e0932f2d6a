"""The error arms: one raiser, and the words for whatever reached it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Never, TypeAlias

from dispatch_runtime.devices import Device
from dispatch_runtime.errors import DispatchError
from dispatch_runtime.package import Package
from dispatch_runtime.tensors import Kind, Tensor, TensorRef, base_kind

Checked: TypeAlias = Tensor | TensorRef | Sequence[Tensor] | None


def subject_of(value: Any, device: Device) -> str:
    """What a refusal is about: `device Metal(0)` or `tensor kind NdArray(Float)`."""
    if isinstance(value, TensorRef):
        value = Tensor(value.base, device)
    if isinstance(value, list | tuple) and value and isinstance(value[0], Tensor):
        value = value[0]
    if isinstance(value, Tensor):
        kind = base_kind(value.primitive).name
        kind = f"Autodiff({kind})" if value.kind is Kind.Autodiff else kind
        return f"tensor kind {type(device).__name__}({kind})"
    return f"device {device}"


def refuse(
    op: str,
    device: Device,
    situation: str,
    why: str = "",
    *,
    into: bool = False,
    accepted: tuple[Kind, ...] = (),
) -> Callable[..., Never]:
    """The arm that raises: the reason is data, the subject is what the call was made with.

    `accepted` are the kinds of tensor that the op would take on another variant: one of another kind is refused as
    such. `into` says that it is the way in of an op between two devices, which is called with the device it comes from.
    """

    def arm(*values: Any) -> Never:
        if accepted:
            check_kinds(op, device, values[0], accepted)
        subject = subject_of(values[0] if values else None, device)
        fields = {"why": why, "missing": why}
        fields["source"], fields["target"] = (str(values[1]), str(device)) if into else (str(device), "another device")
        raise refusal(op, device, situation, subject, **fields)

    arm.refuses = situation, why  # type: ignore[attr-defined]
    return arm


def refusal(op: str, device: Device, situation: str, subject: str, **facts: str) -> DispatchError:
    """The exception of an error arm."""
    package, backend = device.package, type(device).__name__
    fields: dict[str, Any] = {"backend": backend, **facts}
    if situation == "not_built":  # there is a device, so its backend is built: what is left out is the wrapper
        fields |= {"backend": "Autodiff", "cfg": package.autodiff_cfg}
        fields["command"] = package.command_for(package.autodiff_missing)
    if situation == "not_capable":
        fields["capable"] = ", ".join(capable(package)) or "none"
        fields["runtime"] = device.runtime
    if situation == "plain_tensor":
        fields["fix"] = "call requires_grad_() on the tensor, or put it on an autodiff device"
    return package.errors.make(situation, op, subject, **fields)


def capable(package: Package) -> list[str]:
    """The backends of this build that run collectives, runtimes named."""
    names = []
    for support in package.backends.values():
        if support.built and support.runtimes:
            names += [
                f"{support.name}[{runtime.name}]" for runtime in support.runtimes if runtime.built and runtime.engine
            ]
        elif support.built and support.engine:
            names.append(support.name)
    return names


def check_kinds(op: str, device: Device, value: Checked, accepted: tuple[Kind, ...]) -> None:
    """Raise `WrongKind` for the first tensor that the op does not take."""
    for tensor in (value,) if isinstance(value, Tensor | TensorRef) else value or ():
        kind = base_kind(tensor.base if isinstance(tensor, TensorRef) else tensor.primitive)
        if kind in accepted:
            continue
        fix = "call .dequantize() on it first" if kind is Kind.Quantized else "convert it, for example with .float()"
        names = ", ".join(each.name for each in accepted)
        raise device.package.errors.make(
            "wrong_kind", op, f"tensor kind {kind.name}", kind=kind.name, accepted=names, fix=fix
        )


def check_device(op: str, device: Device, value: Tensor | Sequence[Tensor] | None) -> None:
    """Raise `MixedVariants` for a further tensor that is not on the device of the call, `TwoStrategies` for another way to keep it."""
    for index, tensor in enumerate((value,) if isinstance(value, Tensor) else value or ()):
        other = tensor.device
        if other != device:
            raise device.package.errors.make("mixed", op, other, index=index, first=device, other=other)
        if other.autodiff and device.autodiff and other.checkpointing is not device.checkpointing:
            strategies = {"first": device.checkpointing.name, "other": other.checkpointing.name}
            raise device.package.errors.make("two_strategies", op, f"tensor {index}", **strategies)
