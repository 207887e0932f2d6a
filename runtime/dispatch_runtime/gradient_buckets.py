"""Buckets: the gradients of one rank that travel together, on their way out and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from dispatch_runtime.gradient_forms import LARGE
from dispatch_runtime.gradient_parts import Cargo
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors


class Line:
    """Memory for the gradients of one bucket, sync after sync, and the part of each in its shape."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        sizes = [each.numel() for each in tensors]
        self.whole = tensors[0].new_empty(sum(sizes))
        parts = zip(self.whole.split(sizes), tensors, strict=True)
        self.parts = [part.view(each.shape) for part, each in parts]

    def packed(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """The elements of all."""
        torch._foreach_copy_(self.parts, list(tensors))
        return self.whole


@dataclass(frozen=True)
class Bucket:
    """Gradients by their positions in the plan, what this rank brings of each, and all of it in one tensor.

    With a `line` it is that one's; then all of the gradients are where their results belong.
    """

    places: Sequence[int]
    brought: Sequence[torch.Tensor]
    buffer: torch.Tensor
    line: Line | None = None

    @classmethod
    def of(cls, places: Sequence[int], brought: Sequence[torch.Tensor], line: Line | None = None) -> Bucket:
        """The bucket of these gradients."""
        return cls(places, brought, packed(brought) if line is None else line.packed(brought), line)

    def put(self, result: torch.Tensor, cargo: Cargo, lends: bool) -> None:
        """Put the reduced tensor where it belongs; one that travelled alone may be lent."""
        if self.line is not None and result.data_ptr() == self.line.whole.data_ptr():
            torch._foreach_copy_(list(self.brought), self.line.parts)
            return
        targets = [cargo.targets[at] for at in self.places]
        if len(self.places) == 1:
            (place,), (target,) = self.places, targets
            if lends and result is not self.buffer and cargo.lend(place, result):
                return
            if target is None or result.is_sparse:
                cargo.take(place, result)
            elif target.data_ptr() != result.data_ptr():
                target.copy_(result)
            return
        lines = [target.view(-1) for target in targets if target is not None and target.is_contiguous()]
        if len(lines) == len(targets):
            torch.split_with_sizes_copy(result, [line.numel() for line in lines], out=lines)
            return
        for place, target, value in zip(self.places, targets, unpacked(result, self.brought), strict=True):
            if target is None:
                cargo.take(place, value)
            else:
                target.copy_(value)


def packed(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """One tensor with the elements of all; memory of its own, unless it is a single one that is large or sparse."""
    if len(tensors) > 1:
        whole: torch.Tensor = _flatten_dense_tensors(tensors)
        return whole
    (tensor,) = tensors
    if tensor.is_sparse:
        return tensor
    if tensor.nbytes >= LARGE and tensor.is_contiguous() and not tensor.is_neg() and not tensor.is_conj():
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format).resolve_conj().resolve_neg()


def unpacked(whole: torch.Tensor, tensors: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """The elements of a tensor that `packed` made of such tensors, in their shapes."""
    return [whole] if len(tensors) == 1 else _unflatten_dense_tensors(whole, tensors)
