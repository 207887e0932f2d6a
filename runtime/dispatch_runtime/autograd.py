"""Collectives in a torch graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def as_called(tensor: torch.Tensor) -> torch.Tensor:
    """What stands for a tracked tensor in the graph as it is now: its shape, and no memory of its own.

    The caller may overwrite the tensor while the collective is in flight; its place in the graph is another one then.
    """
    with torch.enable_grad():
        standing: torch.Tensor = _AsCalled.apply(tensor)  # type: ignore[no-untyped-call]
    return standing


def differentiable(
    called: torch.Tensor, result: torch.Tensor, backward: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """The result of a collective, attached to the graph of the tensor that went in, for which `called` stands.

    `backward` takes the gradient of the result (its shape) and gives the gradient of that tensor; it is a collective
    itself. Where that one is differentiable too, so is the gradient: double backward needs nothing more. Whether to
    record was decided when the collective was called, so the mode of the thread that waits for it does not count.
    """
    with torch.enable_grad():
        attached: torch.Tensor = _Attached.apply(called, result, backward)  # type: ignore[no-untyped-call]
    return attached


class _AsCalled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.new_empty(()).expand(tensor.shape)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        return gradients[0]


class _Attached(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, called: torch.Tensor, result: torch.Tensor, backward: Callable[[torch.Tensor], torch.Tensor]
    ) -> torch.Tensor:
        ctx.collective = backward
        return result.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return ctx.collective(*gradients), None, None
