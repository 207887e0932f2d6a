"""Collectives in a torch graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch

Gradient: TypeAlias = Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]]
"""From the gradients of the results of a collective to those of the tensors that went in. A collective itself."""


def as_called(tensor: torch.Tensor) -> torch.Tensor:
    """What stands for a tensor in the graph as it is now: its shape, and no memory of its own.

    The caller may overwrite the tensor while the collective is in flight; its place in the graph is another one then.
    """
    with torch.enable_grad():
        standing: torch.Tensor = _AsCalled.apply(tensor)  # type: ignore[no-untyped-call]
    return standing


def differentiable(
    called: Sequence[torch.Tensor], results: Sequence[torch.Tensor], gradient: Gradient
) -> tuple[torch.Tensor, ...]:
    """The results of a collective, attached to the graph of the tensors that went in, for which `called` stand.

    Where the collective of the gradient is differentiable too, so is the gradient: double backward needs nothing more.
    Whether to record was decided when the collective was called, so the mode of the thread that waits for it does not
    count.
    """
    with torch.enable_grad():
        attached: tuple[torch.Tensor, ...] = _Attached.apply(gradient, len(called), *called, *results)  # type: ignore[no-untyped-call]
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
    def forward(ctx: Any, gradient: Gradient, count: int, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.gradient = gradient
        ctx.results = len(tensors) - count
        return tuple(each.detach() for each in tensors[count:])

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return None, None, *ctx.gradient(gradients), *[None] * ctx.results
