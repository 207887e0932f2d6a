"""Devices: frozen values that name where a tensor lives and, inside a device group, who of the group it is."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, TypeVar

import torch
from dispatch_runtime.values import Checkpointing

if TYPE_CHECKING:
    from dispatch_runtime.context import DistributedContext
    from dispatch_runtime.package import BackendSupport, Package

KernelT = TypeVar("KernelT")
DeviceT = TypeVar("DeviceT", bound="Device")

MAX_TORCH_INDEX = 127
"""torch keeps a device index in eight bits, and takes a greater one for another without a word."""


class Device:
    """One device: backend, index, and where it is.

    `index` counts from 0. `host` is the address of a device of another machine, `runtime` tells which of its devices
    a backend with several means. `process` is None for this process and else the process of the group that has it.
    `context` and `rank` are there on the devices of a device group. Equality and hash look at backend, runtime, host,
    index and process only. Each generated package has one subclass per backend of its build.
    """

    package: ClassVar[Package]
    backend: ClassVar[Any]

    index: int
    host: str | None
    runtime: str | None
    process: int | None
    autodiff: bool
    checkpointing: Checkpointing
    context: DistributedContext | None
    rank: int | None
    arms: Any
    """The arms of the operations on this device."""

    def __init__(self, index: int = 0, *, host: str | None = None, runtime: str | None = None) -> None:
        if isinstance(index, bool) or not isinstance(index, int) or index < 0:
            name, problem = type(self).__name__, f"a device index is a whole number from 0 on, not {index!r}"
            subject = f"{name}({index!r})"
            raise self.package.errors.make("unknown_device", subject=subject, problem=problem, known=f"{name}(0)")
        self.__dict__.update(
            index=index,
            host=host,
            runtime=runtime,
            process=None,
            autodiff=False,
            checkpointing=Checkpointing.DISABLED,
            context=None,
            rank=None,
            arms=_Unmade(self),
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"devices do not change: cannot set {name!r} of {self!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"devices do not change: cannot delete {name!r} of {self!r}")

    def replace(self, **changes: Any) -> Self:
        """The same device with other fields; what was bound to the old one is not taken along."""
        return _restore(type(self), {**{name: self.__dict__[name] for name in _FIELDS}, **changes})

    def with_autodiff(self, autodiff: bool, checkpointing: Checkpointing = Checkpointing.DISABLED) -> Self:
        """This device with autodiff on or off: itself where that is how it is, else a twin that it keeps."""
        if self.autodiff is autodiff and self.checkpointing is checkpointing:
            return self
        twins: dict[tuple[bool, Checkpointing], Self] = self.__dict__.setdefault("_twins", {})
        key = (autodiff, checkpointing)
        found = twins.get(key)
        return found or twins.setdefault(key, self.replace(autodiff=autodiff, checkpointing=checkpointing))

    def kernel(self, kernel_class: type[KernelT]) -> KernelT:
        """The instance of the kernel class for this device, made at the first call."""
        found: KernelT | None = self.__dict__.get("_kernel")
        if found is None:  # two threads may make one each, and use the same
            found = self.__dict__.setdefault("_kernel", kernel_class(self))  # type: ignore[call-arg]
        return found

    @cached_property
    def tracked_arms(self) -> Any:
        """The arms of the operations on a tensor of this device that autograd tracks."""
        return self.with_autodiff(True, self.checkpointing).arms

    @property
    def support(self) -> BackendSupport:
        """What the catalog says about its backend."""
        return self.package.backends[type(self).__name__]

    @property
    def engine(self) -> str | None:
        """The engine of its collectives, or None where it runs none."""
        return self.support.engine_of(self.runtime)

    @property
    def torch_device(self) -> torch.device:
        """The torch device that its tensors live on. Replicas of the CPU share one.

        Raises `unavailable` for a kind that this torch has not heard of, and an index beyond what torch counts to.
        """
        kind = self.runtime or self.support.torch_device or "cpu"
        if kind == "cpu":
            return torch.device("cpu")
        if self.index > MAX_TORCH_INDEX:
            raise self._unavailable(f"torch counts the devices of a kind up to {MAX_TORCH_INDEX}")
        try:
            return torch.device(kind, self.index)
        except RuntimeError:
            problem = f"torch {torch.__version__} has no {kind} device: the vendor's torch plugin is not installed here"
            raise self._unavailable(problem) from None

    def _unavailable(self, missing: str) -> Exception:
        return self.package.errors.make(
            "unavailable", "", f"device {self}", backend=type(self).__name__, missing=missing
        )

    @property
    def identity(self) -> tuple[Any, ...]:
        """What makes two devices the same."""
        return type(self).__name__, self.runtime, self.host, self.index, self.process

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.package is other.package and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        """How one writes it; a device of another process says so."""
        selector = [repr(value) for value in (self.host, self.runtime) if value is not None]
        text = f"{type(self).__name__}({', '.join([*selector, str(self.index)])})"
        text = f"Autodiff({text})" if self.autodiff else text
        return text if self.process is None else f"{text} of process {self.process}"

    def __str__(self) -> str:
        return repr(self)

    def __copy__(self) -> Self:
        """Itself: values do not change."""
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        """Itself, in its group if it is of one."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        process = self.process if self.context is None else self.context.process_of(self)
        return _restore, (
            type(self),
            {**{n: self.__dict__[n] for n in _FIELDS}, "process": process, "context": None, "rank": None},
        )


_FIELDS = ("index", "host", "runtime", "process", "autodiff", "checkpointing", "context", "rank")


def _restore(cls: type[DeviceT], fields: dict[str, Any]) -> DeviceT:
    copy = object.__new__(cls)
    copy.__dict__.update(fields, arms=_Unmade(copy))
    return copy


class _Unmade:
    """Stands for the arms of a device until one of them is asked for: most devices only name something.

    A cached property would do the same, and cost every call as much again as all the rest of its dispatch.
    """

    __slots__ = ("_device",)

    def __init__(self, device: Device) -> None:
        self._device = device

    def __getattr__(self, name: str) -> Any:
        device = self._device
        if device.arms is self:
            device.__dict__["arms"] = device.package.arms_class(device)
        return getattr(device.arms, name)


DeviceLike: TypeAlias = Device | torch.device | str
