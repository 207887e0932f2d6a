"""Whose memory a tensor lies in: what is reduced in place must be nobody else's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from dispatch_runtime.accumulated import AccumulatedGradient


def overlapping(tensors: Sequence[torch.Tensor]) -> Iterator[int]:
    """The positions of dense tensors that lie, in part at least, where another one does."""
    spans = sorted([(each.data_ptr(), _extent(each), at) for at, each in enumerate(tensors)])
    end = 0
    for start, extent, at in spans:
        if extent and start < end:
            yield at
        end = max(end, start + extent)


def _extent(tensor: torch.Tensor) -> int:
    """How many bytes lie between its first element and the end of its last."""
    if tensor.is_contiguous():
        return tensor.nbytes
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (reach + 1) * tensor.element_size() if tensor.numel() else 0


def separate(gradients: Iterable[AccumulatedGradient]) -> None:
    """Give gradients memory of their own: autograd may leave the same in those of two parameters that were added."""
    dense = [(ref, grad) for ref in gradients if (grad := ref.base.grad) is not None and grad.layout is torch.strided]
    for at in overlapping([grad for _, grad in dense]):
        ref, grad = dense[at]
        if not grad.requires_grad:
            ref.base.grad = grad.clone()
