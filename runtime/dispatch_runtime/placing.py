"""From what people write to devices: names, torch devices and plain tensors, each placed or refused with the reason."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import torch
from dispatch_runtime import contexts
from dispatch_runtime.devices import Device, DeviceLike
from dispatch_runtime.errors import DispatchError, NotBuilt
from dispatch_runtime.package import BackendSupport, Package
from dispatch_runtime.tensors import Tensor, TensorLike, TensorRef, primitive_of, wrap
from dispatch_runtime.values import Checkpointing, expect


def as_device(package: Package, op: str, like: object) -> Device:
    """The device that a device, a torch.device or a text such as `cpu:1` or `remote:host:port:0` names.

    Raises `UnknownDevice` for text that names none, `UnlistedDevice` for a torch device without a backend, and
    `NotBuilt` where the backend is not in this build.
    """
    if isinstance(like, Device):
        if like.package is not package:
            problem = f"{like!r} belongs to the package {like.package.name}"
            raise package.errors.make("unknown_device", op, like, problem=problem, known=known_names(package))
        return like
    if isinstance(like, torch.device):
        return _of_torch(package, op, like.type, like.index or 0)
    if not isinstance(like, str):
        problem = f"a device, a torch.device or a text is wanted, not {type(like).__name__}"
        raise package.errors.make("unknown_device", op, repr(like), problem=problem, known=known_names(package))
    return _of_text(package, op, like)


def _of_text(package: Package, op: str, text: str) -> Device:
    kind, _, rest = text.strip().partition(":")
    kind = kind.lower()
    names = {name.lower(): name for name in package.backends}
    runtimes = {each.name.lower(): each.name for support in package.backends.values() for each in support.runtimes}
    torch_kinds = {support.torch_device for support in package.backends.values() if support.torch_device}
    backend = package.backends.get(names.get(kind, ""))
    if backend is not None and backend.addressed:
        found = _ADDRESS.fullmatch(rest)
        if found is None:
            _refuse_text(package, op, text, f"{backend.name} needs an address: {kind}:host:port:index")
        if not _is_address(found["address"]):
            _refuse_text(package, op, text, _ADDRESS_RULE)
        return make_device(package, op, backend, int(found["index"] or 0), host=found["address"])
    if backend is not None and backend.runtimes:
        _refuse_text(
            package, op, text, f"{backend.name} stands for several; name one: {', '.join(sorted(runtimes.values()))}"
        )
    index = _index(package, op, text, rest)
    if kind in runtimes or kind in torch_kinds:
        return _of_torch(package, op, runtimes.get(kind, kind), index)
    if backend is None:
        near = difflib.get_close_matches(kind, [*names, *runtimes], n=1)
        _refuse_text(
            package, op, text, f"there is no backend {kind!r}" + (f"; did you mean {near[0]!r}?" if near else "")
        )
    return make_device(package, op, backend, index)


def _index(package: Package, op: str, text: str, digits: str) -> int:
    if digits and not (digits.isascii() and digits.isdigit()):
        _refuse_text(package, op, text, f"a device index is a whole number from 0 on, not {digits!r}")
    return int(digits or 0)


def _refuse_text(package: Package, op: str, text: str, problem: str) -> NoReturn:
    raise package.errors.make("unknown_device", op, repr(text), problem=problem, known=known_names(package))


def known_names(package: Package) -> str:
    """What texts may call devices, for a person to choose from."""
    names = [runtime.name for support in package.backends.values() for runtime in support.runtimes]
    return ", ".join([*(support.name.lower() for support in package.backends.values() if not support.runtimes), *names])


_ADDRESS = re.compile(r"(?P<address>(?:\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]]+):(?P<port>[0-9]+))(?::(?P<index>[0-9]*))?")
"""`host:port`, then an index or none; an IPv6 host stands in brackets."""

_ADDRESS_RULE = "an address is host:port, with a port from 1 to 65535; an IPv6 host stands in brackets, [::1]:29500"


def check_address(package: Package, backend: str, address: object) -> None:
    """Raise `UnknownDevice` for what is not `host:port`."""
    if not _is_address(address):
        known, subject = f"{backend}('localhost:29500', 0)", f"{backend}({address!r})"
        raise package.errors.make("unknown_device", "", subject, problem=_ADDRESS_RULE, known=known)


def _is_address(address: object) -> bool:
    found = _ADDRESS.fullmatch(address) if isinstance(address, str) else None
    return found is not None and found["index"] is None and 0 < int(found["port"]) < 65536


def _of_torch(package: Package, op: str, kind: str, index: int) -> Device:
    support, runtime = backend_of_torch(package, kind)
    if support is None:
        raise package.errors.make(
            "unlisted", op, f"device {kind}" + (f":{index}" if index else ""), listed=known_names(package)
        )
    return make_device(package, op, support, index, runtime=runtime)


def backend_of_torch(package: Package, kind: str) -> tuple[BackendSupport | None, str | None]:
    """The backend, and its runtime if it has several, that stands for a torch device type under this torch.

    One that is for the device type alone comes before a runtime of one that stands for several, and what this build has
    before what it leaves out.
    """
    alone = [support for support in package.backends.values() if support.torch_device == kind]
    here = [support for support in alone if support.torch_build in (None, torch_build())]
    among = [
        (support, runtime.built and support.built)
        for support in package.backends.values()
        for runtime in support.runtimes
        if runtime.name == kind
    ]
    for support in [each for each in here if each.built]:
        return support, None
    for support in [each for each, built in among if built]:
        return support, kind
    for support in [*here, *alone]:
        return support, None
    return (among[0][0], kind) if among else (None, None)


def torch_build() -> str | None:
    """What this torch was built for: `cuda`, `hip`, or None."""
    if getattr(torch.version, "hip", None):
        return "hip"
    return "cuda" if torch.version.cuda else None


def make_device(package: Package, op: str, support: BackendSupport, index: int, **selector: str | None) -> Device:
    """The device of a backend of the catalog; raises `NotBuilt` where this build leaves it, or its runtime, out."""
    _require_runtime(package, op, support, selector.get("runtime"))
    for device_class in package.device_class.__subclasses__():
        if device_class.__name__ == support.name:
            device = object.__new__(device_class)
            Device.__init__(device, index, **selector)
            return device
    raise not_built(package, op, support, f"device {support.name}({index})")


def not_built(package: Package, op: str, support: BackendSupport, subject: str) -> DispatchError:
    """The error for a backend of the catalog that this build leaves out."""
    return package.errors.make(
        "not_built", op, subject, backend=support.name, cfg=support.cfg, command=package.command_for(support.missing)
    )


def as_devices(package: Package, op: str, likes: Iterable[DeviceLike]) -> tuple[Device, ...]:
    """The devices that a list names, all of one variant; raises `NoDevices` or `MixedVariants` where they are not."""
    if isinstance(likes, str | torch.device | Device):
        likes = [likes]
    if not isinstance(likes, Iterable):
        raise TypeError(f"{op} takes a list of devices, not {type(likes).__name__}")
    devices = tuple(as_device(package, op, like) for like in likes)
    if not devices:
        raise package.errors.make("no_devices", op, "the list of devices")
    require_one_variant(package, op, devices)
    return devices


def require_one_variant(package: Package, op: str, devices: Sequence[Device]) -> None:
    """Raise `MixedVariants`, naming the first that differs, unless all devices are of one variant."""
    first = devices[0]
    for index, device in enumerate(devices):
        if (type(device), device.autodiff, device.runtime) != (type(first), first.autodiff, first.runtime):
            raise package.errors.make("mixed", op, device, index=index, first=first, other=device)


def no_backend(package: Package, op: str) -> DispatchError:
    """The error for a build that has no device to offer."""
    missing = next((support.missing for support in package.backends.values() if not support.built), ())
    return package.errors.make("no_backend", op, "this build", command=package.command_for(missing))


_CPU = torch.device("cpu")


def place(package: Package, op: str, primitive: torch.Tensor) -> Device:
    """The device that a plain torch tensor lives on.

    Replicas of the CPU share their torch device, so a CPU tensor belongs to the device of the current `run` thread,
    else to the only local one of the current group, else of all open groups, else to the first; `Unplaced` where that
    leaves several.
    """
    if not primitive.is_cpu:
        where = primitive.device
    elif contexts.any_yet and (replica := _replica(package, op)) is not None:
        return replica
    else:
        where = _CPU  # torch would make a new one, for half of what all of this takes
    try:
        return package.plain_devices[where]
    except KeyError:
        return package.plain_devices.setdefault(where, _of_torch(package, op, where.type, where.index or 0))


def _replica(package: Package, op: str) -> Device | None:
    """The device that a CPU tensor belongs to as far as device groups tell."""
    support, _ = backend_of_torch(package, "cpu")
    candidates = [each for each in contexts.placeable(package) if each.support is support]
    distinct = list(dict.fromkeys(candidates))
    if len(distinct) > 1:
        names = ", ".join(map(str, distinct))
        raise package.errors.make("unplaced", op, "a plain torch tensor on the CPU", candidates=names)
    if len(candidates) == 1:
        return candidates[0]
    return distinct[0].replace(context=None, rank=None) if distinct else None


def as_tensor(package: Package, op: str, tensor: Any) -> Tensor:
    """The tensor itself, or a plain torch tensor on the device where `place` finds it."""
    if type(tensor) is torch.Tensor:
        return wrap(tensor, place(package, op, tensor))
    if isinstance(tensor, Tensor):
        return tensor
    primitive = primitive_of(op, tensor)
    return wrap(primitive, place(package, op, primitive))


def as_tensors(package: Package, op: str, tensors: Sequence[TensorLike]) -> list[Tensor]:
    """Each of the list as a tensor, all on one device and of one checkpointing strategy.

    Where some are autodiff, the others become so too and take their strategy; `TwoStrategies` where these differ.
    """
    if isinstance(tensors, Tensor | torch.Tensor | str) or not isinstance(tensors, Iterable):
        raise TypeError(f"{op} takes a list of tensors, not {type(tensors).__name__}")
    found = [as_tensor(package, op, tensor) for tensor in tensors]
    if not found:
        raise package.errors.make(
            "unsupported_tensor", op, "the list of tensors", problem="it is empty", fix="pass one tensor per rank"
        )
    wrapped = [(index, tensor.device) for index, tensor in enumerate(found) if tensor.device.autodiff]
    for index, device in wrapped:
        if device.checkpointing is not wrapped[0][1].checkpointing:
            strategies = {"first": wrapped[0][1].checkpointing.name, "other": device.checkpointing.name}
            raise package.errors.make("two_strategies", op, f"tensor {index}", **strategies)
    if wrapped:
        strategy = wrapped[0][1].checkpointing
        found = [wrap(tensor.primitive, tensor.device.with_autodiff(True, strategy)) for tensor in found]
    first = found[0].device
    for index, tensor in enumerate(found):
        if tensor.device != first:
            raise package.errors.make("mixed", op, tensor.device, index=index, first=first, other=tensor.device)
    return found


def device_of_ref(package: Package, op: str, tensor_ref: TensorRef) -> Device:
    """The device of the referenced tensor."""
    if not isinstance(tensor_ref, TensorRef):
        raise TypeError(f"{op} takes a TensorRef, not {type(tensor_ref).__name__}; write TensorRef(tensor)")
    return tensor_ref.device or place(package, op, tensor_ref.base)


def peek(package: Package, tensor: TensorLike) -> Tensor | None:
    """The tensor on a device of its variant, or None where this build has no such variant.

    For questions about the tensor itself: which replica it belongs to does not matter.
    """
    if isinstance(tensor, Tensor):
        return tensor
    where = primitive_of("a question about a tensor", tensor).device
    support, runtime = backend_of_torch(package, where.type)
    if support is None:
        return None
    try:
        return wrap(tensor, make_device(package, "", support, where.index or 0, runtime=runtime))
    except NotBuilt:
        return None


def missing_attribute(package: Package, module: str, name: str) -> NoReturn:
    """Raise what a name means that the package's module lacks: a backend of another build, or no such name."""
    support = package.backends.get(name)
    if support is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
    raise not_built(package, "", support, f"device {name}")


def check_runtime(package: Package, backend: str, runtime: str) -> None:
    """Raise `UnlistedDevice` for a runtime that the backend does not list, `NotBuilt` for one of another build."""
    support = package.backends[backend]
    if all(each.name != runtime for each in support.runtimes):
        listed = ", ".join(each.name for each in support.runtimes)
        raise package.errors.make("unlisted", "", f"device {backend}({runtime!r})", listed=listed)
    _require_runtime(package, "", support, runtime)


def _require_runtime(package: Package, op: str, support: BackendSupport, runtime: str | None) -> None:
    """Raise `NotBuilt` for a runtime of the backend that this build leaves out."""
    found = next((each for each in support.runtimes if each.name == runtime and not each.built), None)
    if found is not None:
        fields = {"cfg": found.cfg, "command": package.command_for(found.missing)}
        subject = f"device {support.name}({runtime!r})"
        raise package.errors.make("not_built", op, subject, backend=f"{support.name}[{runtime}]", **fields)


def autodiff_around(package: Package, like: DeviceLike, checkpointing: Checkpointing) -> Device:
    """The device with autodiff around it; refused where it is there already, not built, or never allowed."""
    device = as_device(package, "autodiff", like)
    expect("autodiff", checkpointing, Checkpointing)
    if device.autodiff:
        raise package.errors.make("nested", "autodiff", device, what="device")
    if not package.autodiff:
        command = package.command_for(package.autodiff_missing)
        fields = {"backend": "Autodiff", "cfg": package.autodiff_cfg, "command": command}
        raise package.errors.make("not_built", "autodiff", f"device Autodiff({device})", **fields)
    if not device.support.autodiff:
        why = f"the catalog allows no autodiff around {device.support.name}"
        known = ", ".join(each.name for each in package.backends.values() if each.autodiff and each.built)
        raise package.errors.make("unknown_device", "autodiff", f"Autodiff({device})", problem=why, known=known)
    return device.with_autodiff(True, checkpointing)
