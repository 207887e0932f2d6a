"""The gradient of one parameter over several backward passes, as gradient sync sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from dispatch_runtime.tensors import GradientRef, TensorLike

if TYPE_CHECKING:
    from dispatch_runtime.devices import Device


class AccumulatedGradient(GradientRef):
    """A reference to the `.grad` of a parameter that knows what of it is this rank's own.

    Handed over once, it stands: it counts in every round that its parameter is registered for. `fresh` says that the
    rank has accumulated something since the last sync. A mean may be taken of the whole gradient again and again, as
    long as all ranks bring one; of a sum, and while some ranks bring nothing (`context.join`), only the part that came
    since counts (`partial`), so then the part that all ranks have in common is remembered (`shared`).
    `borrowed` says that the gradient lies in memory that replicas share, where nothing may be added to it.
    """

    __slots__ = ("borrowed", "fresh", "partial", "shared")

    def __init__(self, parameter: torch.Tensor, device: Device, partial: bool) -> None:
        super().__init__(parameter, device)
        self.partial = partial
        self.shared: torch.Tensor | None = None
        self.borrowed = False
        self.fresh = False

    def accumulates(self) -> None:
        """Something is about to be added to the gradient: leave shared memory, and remember what all ranks share of it."""
        grad = self.base.grad
        if self.borrowed:
            self.borrowed = False
            if grad is not None:
                self.base.grad = grad = grad.clone()
        if not self.partial:
            return
        if grad is None or not (grad._values() if grad.is_sparse else grad).any():
            self.shared = None
        elif not self.fresh:
            self.shared = grad.detach().clone()

    @property
    def is_whole(self) -> bool:
        """Whether what the rank contributes is the gradient as it is, so that it may be reduced where it lies."""
        return not self.borrowed and (not self.partial or (self.fresh and self.shared is None))

    def get(self) -> torch.Tensor | None:
        """What this rank has to contribute, or None."""
        grad = self.base.grad
        if grad is None or not self.partial:
            return grad
        if not self.fresh:
            return None
        return grad if self.shared is None else grad - self.shared

    def set(self, value: TensorLike) -> None:
        """Write the reduced value, on top of what was shared before."""
        grad = self.base.grad
        shared = self.shared if self.fresh else grad
        if self.partial and grad is not None and shared is not None:
            value = shared + value  # type: ignore[operator]
        if self.borrowed:
            self.borrowed, self.base.grad = False, None
        super().set(value)

    def lend(self, value: torch.Tensor) -> None:
        """Take the reduced value as the gradient in memory that the replicas share."""
        self.base.grad = value.detach()
        self.borrowed = True
