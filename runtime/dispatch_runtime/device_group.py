"""The devices of a group by rank: who is in it, on which process, and which of them is meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dispatch_runtime.devices import Device, DeviceLike

if TYPE_CHECKING:
    from dispatch_runtime.package import Package


class DeviceGroup:
    """Devices with ranks, those of this process among them."""

    package: ClassVar[Package]

    process: int
    devices: tuple[Device, ...]
    local_devices: tuple[Device, ...]
    size: int

    def _seat(self, by_process: Sequence[Sequence[Device]]) -> None:
        """Give the devices of all processes their ranks."""
        placed = [(process, device) for process, devices in enumerate(by_process) for device in devices]
        own: Any = self  # a device knows its group as the context that it is
        self.devices = tuple(
            device.replace(process=None if process == self.process else process, context=own, rank=rank)
            for rank, (process, device) in enumerate(placed)
        )
        self.local_devices = tuple(each for each in self.devices if each.process is None)
        self.size = len(self.devices)
        alone = len(by_process) == 1
        self._names = [str(device.replace(process=None if alone else process)) for process, device in placed]
        self._by_identity = {device.identity: device for device in self.devices}

    def __repr__(self) -> str:
        devices = ", ".join(map(str, self.devices[:4])) + (f", … {self.size} in all" if self.size > 4 else "")
        return f"DistributedContext([{devices}])"

    def names(self, ranks: Iterable[int]) -> str:
        """Ranks as errors name them, alike on all processes: `rank 1 (Cpu(1))`, `ranks 1 (…), 2 (…)`."""
        parts = [f"{rank} ({self._names[rank]})" for rank in ranks]
        return f"rank{'s' if len(parts) > 1 else ''} {', '.join(parts)}"

    def find(self, device: Device) -> Device | None:
        """The device of the group that is this one, or None."""
        if device.package is not self.package:
            return None
        if device.process is not None and device.process == self.process:
            device = device.replace(process=None)
        found = self._by_identity.get(device.identity)
        return None if found is None else found.with_autodiff(device.autodiff, device.checkpointing)

    def process_of(self, device: Device) -> int:
        """The process that has the device."""
        return self.process if device.process is None else device.process

    def rank_of(self, like: DeviceLike) -> int:
        """The rank of a device of the group."""
        rank = self.member("rank_of", like).rank
        assert rank is not None
        return rank

    def member(self, op: str, like: DeviceLike) -> Device:
        """The device of the group that is meant; raises `not_in_context` where it is none."""
        from dispatch_runtime.placing import as_device

        device = as_device(self.package, op, like)
        found = self.find(device)
        if found is None:
            raise self.stranger(op, device, self.devices)
        return found

    def members(self, op: str, device: Device, devices: Sequence[DeviceLike] | None) -> tuple[Device, ...]:
        """Who takes part in a call of `device`, by rank: the devices of the list, all of the group for None.

        Raises `no_devices`, `duplicate_device`, and `not_in_context` for a stranger or a list without the caller.
        """
        if devices is None:
            return self.devices
        from dispatch_runtime.placing import as_devices

        found = [self.member(op, each) for each in as_devices(self.package, op, devices)]
        refuse_duplicates(self.package, op, found)
        if device not in found:
            raise self.stranger(op, device, found)
        return tuple(sorted(found, key=lambda each: each.rank or 0))

    def ranks_of(self, process: int) -> list[int]:
        """The ranks of another process."""
        return [rank for rank, device in enumerate(self.devices) if device.process == process]

    def stranger(self, op: str, device: Device, devices: Iterable[Device]) -> Exception:
        """The error for a device that is not among these."""
        listed = ", ".join(map(str, devices))
        return self.package.errors.make("not_in_context", op, device, device=device, devices=listed)


def refuse_duplicates(package: Package, op: str, devices: Sequence[Device]) -> None:
    """Raise `duplicate_device` for the first that is there twice."""
    seen: dict[Device, int] = {}
    for place, device in enumerate(devices):
        first = seen.setdefault(device, place)
        if first != place:
            raise package.errors.make("duplicate_device", op, device, device=device, first=first, second=place)
