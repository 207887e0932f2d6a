"""One call of every operation of a generated package."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch


def calls(
    pkg: ModuleType, where: Any, tensor: Any, target: Any = None, devices: Any = None
) -> dict[str, Callable[[], object]]:
    """One call of every op: `where` is a device or names one, `tensor` lives there or is made by being called.

    `devices` go to the ops that find their device by them alone.
    """

    def there() -> Any:
        return tensor() if callable(tensor) else tensor

    total = pkg.ReduceOperation.SUM
    return {
        "start_communication_server": lambda: pkg.start_communication_server([where]),
        "close_communication_server": lambda: pkg.close_communication_server(where),
        "register_sync_parameters": lambda: pkg.register_sync_parameters(where, []),
        "submit_gradient_sync": lambda: pkg.submit_gradient_sync(pkg.TensorRef(there()), pkg.DistributedParams("0:w")),
        "submit_sync_collective": lambda: pkg.submit_sync_collective(where),
        "all_reduce": lambda: pkg.all_reduce(there(), total),
        "sync_collective": lambda: pkg.sync_collective(where),
        "comm_device": lambda: pkg.comm_device(pkg.TensorRef(there())),
        "float_from_ref": lambda: pkg.float_from_ref(pkg.TensorRef(there())),
        "set_distributed_params": lambda: pkg.set_distributed_params(there(), "0:w"),
        "distributed_params": lambda: pkg.distributed_params(there()),
        "is_distributed": lambda: pkg.is_distributed(there()),
        "broadcast": lambda: pkg.broadcast(there(), where),
        "reduce": lambda: pkg.reduce(there(), total, where),
        "all_gather": lambda: pkg.all_gather(there()),
        "reduce_scatter": lambda: pkg.reduce_scatter([there()], total),
        "all_to_all": lambda: pkg.all_to_all([there()]),
        "gather": lambda: pkg.gather(there(), where),
        "scatter": lambda: pkg.scatter(None, where, devices),
        "barrier": lambda: pkg.barrier(devices),
        "send": lambda: pkg.send(there(), where),
        "recv": lambda: pkg.recv(there(), where),
        "to_device": lambda: pkg.to_device(there(), target if target is not None else where),
    }


class Group:
    """A device group of one device, open as long as anybody asks: what stands between an arm and its kernel."""

    def __init__(self, device: Any) -> None:
        self.package = device.package
        self.own = device.replace(context=self, rank=0)
        self.local_devices = self.devices = (self.own,)

    def ready(self, op: str, subject: object) -> None:
        """Nothing is wrong with it."""

    def find(self, device: Any) -> Any:
        """Its device, where it is that one."""
        return self.own if device == self.own else None

    def members(self, op: str, device: Any, devices: Any) -> tuple[Any, ...]:
        """The devices that were named, all by default."""
        return tuple(devices or self.devices)

    def member(self, op: str, like: Any) -> Any:
        """The device that was named."""
        return like


def device_of(pkg: ModuleType, backend: str, runtime: str | None) -> Any:
    """The first device of a variant that is in the build."""
    kind = getattr(pkg, backend)
    return kind(runtime) if runtime else kind("host:1") if pkg.BACKENDS[backend].addressed else kind(0)


def text_of(pkg: ModuleType, backend: str, runtime: str | None) -> str:
    """What a person writes for the device of a variant, in the build or not."""
    name = runtime or backend.lower()
    return f"{name}:host:1:0" if pkg.BACKENDS[backend].addressed else f"{name}:0"


def tensor_on(pkg: ModuleType, device: Any, *, tracked: bool = False) -> Any:
    """A tensor that says it lives there: enough for every arm, which looks at no values."""
    return pkg.Tensor(torch.ones(2, requires_grad=tracked), device)
