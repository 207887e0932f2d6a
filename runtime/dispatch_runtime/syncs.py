"""The gradient sync of each device, made when it is first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dispatch_runtime.devices import Device
    from dispatch_runtime.gradient_sync import GradientSync


def sync_of(device: Device) -> GradientSync:
    """The gradient sync of the device of a group."""
    assert device.context is not None
    state = device.context.state(device)
    found: GradientSync | None = state.get("gradient_sync")
    if found is None:
        from dispatch_runtime.gradient_sync import GradientSync  # only training needs it

        found = state["gradient_sync"] = GradientSync(device)
    return found
