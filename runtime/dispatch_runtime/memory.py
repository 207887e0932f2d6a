"""The memory that tensors lie in: whose it is, since what is reduced in place must be nobody else's, and new one."""

from __future__ import annotations

import mmap
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from dispatch_runtime.accumulated import AccumulatedGradient


LARGE, KEPT = 1 << 22, 1 << 27
"""Tensors of so many bytes and more get memory that is used again; so much of it is kept for that."""


class _Reserve:
    """Memory of large tensors that nobody has any more, for the next ones of the same size.

    The first touch of new memory takes several times as long as the copy that it is for, and what is freed in a thread
    is soon new again. It comes in large pages where the system has them.
    """

    def __init__(self) -> None:
        self._free: deque[mmap.mmap] = deque()
        self._lent: dict[int, tuple[weakref.ref[memoryview], mmap.mmap]] = {}
        """By identity of the reference: it has no hash."""

    def take(self, size: int) -> memoryview:
        """So many bytes, to be had until nobody has the view any more."""
        pages = self._found(size)
        if pages is None:
            pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            with suppress(OSError):  # a kernel without large pages
                pages.madvise(mmap.MADV_HUGEPAGE)
        view = memoryview(pages)
        ref = weakref.ref(view, self._give_back)
        self._lent[id(ref)] = ref, pages
        return view

    def _found(self, size: int) -> mmap.mmap | None:
        for _ in range(len(self._free)):
            try:
                pages = self._free.popleft()
            except IndexError:  # another thread was quicker
                return None
            if len(pages) == size:
                return pages
            self._free.append(pages)
        return None

    def _give_back(self, ref: weakref.ref[memoryview]) -> None:
        """Called by whatever thread lets the last tensor go, in the middle of anything: in steps that nothing divides."""
        _, pages = self._lent.pop(id(ref))
        if len(pages) <= KEPT:
            self._free.append(pages)
        while sum(map(len, self._free.copy())) > KEPT:
            self._free.popleft()


_RESERVE = _Reserve()


def empty_like(tensor: torch.Tensor) -> torch.Tensor:
    """As torch's; large ones on the CPU in memory that is used again."""
    if not _is_large(tensor):
        return torch.empty_like(tensor)
    return torch.frombuffer(_RESERVE.take(tensor.nbytes), dtype=tensor.dtype).view(tensor.shape)


def stands_for_others(tensor: torch.Tensor) -> bool:
    """Whether a tensor has no memory of its own, but says in Python what each operation on it does, as a DTensor."""
    return type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as torch's own tensor, apart from any graph: what a subclass does to operations is not for others."""
    return tensor.detach() if type(tensor) is torch.Tensor else tensor.detach().as_subclass(torch.Tensor)


def copy_of(tensor: torch.Tensor) -> torch.Tensor:
    """The same with the values of the tensor."""
    return empty_like(tensor).copy_(tensor) if _is_large(tensor) else tensor.clone()


def _is_large(tensor: torch.Tensor) -> bool:
    large = tensor.nbytes >= LARGE and tensor.device.type == "cpu" and hasattr(mmap, "MADV_HUGEPAGE")
    return large and tensor.is_contiguous()


def overlapping(tensors: Sequence[torch.Tensor]) -> Iterator[int]:
    """The positions of dense tensors that lie, in part at least, where another one does."""
    starts = [each.data_ptr() for each in tensors]
    extents = [each.nbytes if each.is_contiguous() else _extent(each) for each in tensors]
    end = 0
    for start, extent, at in sorted(zip(starts, extents, range(len(tensors)), strict=True)):
        if start < end and extent:
            yield at
        if start + extent > end:
            end = start + extent


def _extent(tensor: torch.Tensor) -> int:
    """How many bytes lie between its first element and the end of its last."""
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (reach + 1) * tensor.element_size() if tensor.numel() else 0


def separate(gradients: Iterable[AccumulatedGradient]) -> None:
    """Give gradients memory of their own: autograd may leave the same in those of two parameters that were added."""
    dense = [(ref, grad) for ref in gradients if (grad := ref.base.grad) is not None and grad.layout is torch.strided]
    for at in overlapping([grad for _, grad in dense]):
        ref, grad = dense[at]
        if not grad.requires_grad:
            ref.base.grad = grad.clone()
