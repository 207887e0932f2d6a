"""What the runtime knows of the generated package that uses it: its backends as data, its errors, its operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

from dispatch_runtime.errors import ErrorTable

if TYPE_CHECKING:
    import torch
    from dispatch_runtime.context import DistributedContext
    from dispatch_runtime.devices import Device
    from dispatch_runtime.tensors import TensorRef
    from dispatch_runtime.values import DistributedParams


@dataclass(frozen=True)
class RuntimeSupport:
    """One runtime of a backend that stands for several."""

    name: str
    cfg: str
    built: bool
    engine: str | None = None
    missing: tuple[str, ...] = ()
    """The features that would bring it into the build."""


@dataclass(frozen=True)
class BackendSupport:
    """What the catalog and the build say about one backend, compiled in or not."""

    name: str
    id: int
    cfg: str
    built: bool
    missing: tuple[str, ...]
    """The features that would bring it into the build; empty where it is there or nothing would."""
    doc: str = ""
    kernels: str | None = None
    engine: str | None = None
    """The engine of its collectives; None where it has none, or where its runtimes say."""
    runtimes: tuple[RuntimeSupport, ...] = ()
    autodiff: bool = True
    transfer: str = "both"
    priority: int | None = None
    torch_device: str | None = None
    torch_build: str | None = None
    addressed: bool = False
    """Whether a device needs an address: it is on another machine."""
    arrays: bool = False
    """Whether its tensors are NumPy arrays."""

    def engine_of(self, runtime: str | None) -> str | None:
        """The engine of the collectives on this runtime, or None where they are not supported."""
        return next((found.engine for found in self.runtimes if found.name == runtime), self.engine)


class GradientOps(Protocol):
    """The operations that gradient sync is made of, as the generated `Dispatch` has them."""

    def register_sync_parameters(self, device: Device, params: Sequence[DistributedParams]) -> None:
        """Declare what the coming backward pass of the device hands over."""

    def submit_gradient_sync(self, tensor_ref: TensorRef, params: DistributedParams) -> None:
        """Hand one gradient over."""

    def submit_sync_collective(self, device: Device, *, timeout: float | None = None) -> None:
        """Say that the device has submitted all, and wait for the reduced values."""

    def set_distributed_params(self, tensor: Any, param_id: str) -> Any:
        """Mark a parameter."""

    def distributed_params(self, tensor: Any) -> DistributedParams | None:
        """The mark of a parameter, or None."""


@dataclass
class Package:
    """One generated package. `bind` completes it at the end of the package's import; only what it remembers grows later."""

    name: str
    backends: Mapping[str, BackendSupport]
    """By name, in the catalog's order, those of other builds included."""
    errors: ErrorTable
    features: tuple[str, ...] = ()
    """The features of this build."""
    autodiff: bool = True
    """Whether this build has the autodiff wrapper; `autodiff_cfg` and `autodiff_missing` say what it takes."""
    autodiff_cfg: str = "true"
    autodiff_missing: tuple[str, ...] = ()
    device_class: type[Device] = field(init=False)
    arms_class: Callable[[Any], Any] = field(init=False)
    context_class: type[DistributedContext] = field(init=False)
    ops: GradientOps = field(init=False)
    ensure_supported: Callable[[Any, str], None] = field(init=False)
    plain_devices: dict[torch.device, Device] = field(init=False, default_factory=dict)
    """The devices that plain torch tensors were found to live on, where no device group has a say."""

    def command_for(self, missing: tuple[str, ...]) -> str:
        """The command that generates this build with more features, or that no more of them would help."""
        if not missing:
            return "no feature more brings it in: some that are on keep it out, or its cfg never holds"
        features = ",".join(sorted({*self.features, *missing}))
        return f"dispatchgen generate --no-default-features --features {features}"

    def bind(
        self,
        device_class: type[Device],
        arms_class: Callable[[Any], Any],
        context_class: type[DistributedContext],
        ops: object,
        ensure_supported: Callable[[Any, str], None],
    ) -> None:
        """Complete the package with what only exists once its modules are there."""
        self.device_class = device_class
        self.arms_class = arms_class
        self.context_class = context_class
        self.ops = cast(GradientOps, ops)  # a catalog may leave them out; then there is no gradient sync
        self.ensure_supported = ensure_supported
