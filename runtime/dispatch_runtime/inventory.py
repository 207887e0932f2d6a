"""What devices can be had here, asked of the backends' kernel classes, which are imported only then."""

from __future__ import annotations

import importlib
import os
from typing import Any, TypeVar

from dispatch_runtime.devices import Device
from dispatch_runtime.package import BackendSupport, Package
from dispatch_runtime.placing import as_device, no_backend

DeviceT = TypeVar("DeviceT", bound=Device)


def kernel_class(support: BackendSupport) -> tuple[Any, str]:
    """The kernel class that the catalog names for a backend; where there is none to be had, None and the reason."""
    if support.kernels is None:
        return None, f"the catalog names no kernels for {support.name}"
    module, _, name = support.kernels.partition(":")
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError as error:  # the module itself, or something that it needs
        return None, f"its kernels cannot be imported: {error}"
    return found, (
        "" if found is not None else f"its kernels cannot be imported: cannot import name {name!r} from {module!r}"
    )


def why_unavailable(device: Device) -> str | None:
    """What torch or the machine lacks for the device, or None where it can be had."""
    found, why = kernel_class(device.support)
    if found is None:
        return why
    problem: str | None = found.why_unavailable(device.index, device.runtime)
    return problem


def enumerate_devices(package: Package, kind: type[DeviceT]) -> list[DeviceT]:
    """The devices of a backend that can be had on this machine, by index; for a backend with runtimes, of each."""
    base = package.device_class
    if not (isinstance(kind, type) and issubclass(kind, base) and kind is not base):
        known = ", ".join(each.__name__ for each in base.__subclasses__())
        raise TypeError(f"enumerate takes the class of a backend of {package.name}, one of {known}, not {kind!r}")
    support = package.backends[kind.__name__]
    found, _ = kernel_class(support)
    if found is None:
        return []
    runtimes: list[str | None] = [runtime.name for runtime in support.runtimes if runtime.built] or [None]
    devices: list[DeviceT] = []
    for runtime in runtimes:
        for index in range(found.count(runtime)):
            device = object.__new__(kind)
            Device.__init__(device, index, runtime=runtime)
            devices.append(device)
    return devices


def default_device(package: Package) -> Device:
    """The device that the environment names, else the first that can be had, by the catalog's priority.

    The variable is the package's name in capitals and `_DEVICE`; empty counts as unset. Raises `NoBackend` where the
    build has nothing to offer.
    """
    variable = f"{package.name.upper()}_DEVICE"
    wanted = os.environ.get(variable, "").strip()
    if wanted:
        return as_device(package, variable, wanted)
    ranked = [s for s in package.backends.values() if s.built and s.priority is not None]
    for support in sorted(ranked, key=lambda each: each.priority or 0):
        kind = next(each for each in package.device_class.__subclasses__() if each.__name__ == support.name)
        for device in enumerate_devices(package, kind)[:1]:
            return device
    raise no_backend(package, "default_device")
