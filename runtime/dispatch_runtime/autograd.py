"""Collectives in a torch graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def differentiable(
    tensor: torch.Tensor, result: torch.Tensor, backward: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """The result of a collective, attached to the graph of the tensor that went in.

    `backward` takes the gradient of the result (its shape) and gives the gradient of `tensor`; it is a collective
    itself. Where that one is differentiable too, so is the gradient: double backward needs nothing more. The result
    is returned as it is where autograd does not track `tensor`. Whether to record was decided when the collective was
    called, so the mode of the thread that waits for it does not count.
    """
    if not tensor.requires_grad:
        return result
    with torch.enable_grad():
        attached: torch.Tensor = _Attached.apply(tensor, result, backward)  # type: ignore[no-untyped-call]
    return attached


class _Attached(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, result: torch.Tensor, backward: Callable[[torch.Tensor], torch.Tensor]
    ) -> torch.Tensor:
        ctx.collective = backward
        return result.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return ctx.collective(*gradients), None, None
