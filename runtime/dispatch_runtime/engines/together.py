"""Several tensors reduced by one call, in place where that can be: what gradient sync moves its data with."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import torch
from dispatch_runtime.memory import overlapping
from dispatch_runtime.operation import Gate, unrecorded
from dispatch_runtime.reductions import CHUNK, accumulated_in, divide, fold, fold_sparse, joined
from dispatch_runtime.values import ReduceOperation
from torch._C._distributed_c10d import AllgatherOptions, AllreduceOptions, ReduceOp

SPLIT = 1 << 20
"""From this many bytes on the ranks of one process each reduce a part of a tensor."""

WORTH = 1 << 18
"""From this many bytes in all they share the work; below, waiting for each other costs more than it saves."""


GROUP = 1 << 18
"""How many bytes of small tensors are reduced at a time."""


class Lent:
    """The tensors of all ranks of one process, by rank, while none of them goes on.

    Made by the rank that came last, which has done all the work where that is little. Else `reduced` does the share of
    each, and none may go on before `over` opens: others write into its tensors until then.
    """

    def __init__(self, buffers: Sequence[Sequence[torch.Tensor]], op: ReduceOperation) -> None:
        self.buffers = buffers = apart(buffers)
        self.op = op
        first = buffers[0]
        self._sparse = [at for at, each in enumerate(first) if each.is_sparse]
        sizes = {at: each.nbytes for at, each in enumerate(first) if not each.is_sparse}
        self._large = [at for at, size in sizes.items() if size >= SPLIT]
        total = sum(sizes.values())
        self._shares = _in_shares(sizes, len(buffers) if total >= WORTH else 1)
        self.is_shared = total >= WORTH and len(buffers) > 1
        self.over = Gate()
        self._at_work = len(buffers)
        self._lock = threading.Lock()
        if not self.is_shared:
            self._do(0, shared=False)

    def reduced(self, place: int, shared: bool) -> list[torch.Tensor]:
        """The results of the rank at this place, which does its share; `shared` leaves large ones in one memory."""
        if self.is_shared:
            try:
                self._do(place, shared)
            finally:
                with self._lock:
                    self._at_work -= 1
                    if not self._at_work:
                        self.over.open()
        results = list(self.buffers[place])
        for at in self._sparse if len(self.buffers) > 1 else ():
            results[at] = fold_sparse([each[at] for each in self.buffers], self.op)
        for at in self._large if shared and self.is_shared else ():
            results[at] = self.buffers[0][at].detach()  # nobody's own from now on, not even the first rank's
        return results

    def _do(self, place: int, shared: bool) -> None:
        if len(self.buffers) == 1:
            return
        with unrecorded():
            for group in self._shares[place]:
                _reduce_small([[each[at] for at in group] for each in self.buffers], self.op)
            for at in self._large:
                _reduce_part([each[at] for each in self.buffers], place, self.op, shared)


def apart(buffers: Sequence[Sequence[torch.Tensor]]) -> Sequence[Sequence[torch.Tensor]]:
    """The tensors of several ranks, or copies where replicas hold the same memory: nothing may be changed in it."""
    if len(buffers) == 1:
        return buffers
    dense = [each for rank in buffers for each in rank if not each.is_sparse]
    if next(overlapping(dense), None) is None:
        return buffers
    return [[each.clone() for each in rank] for rank in buffers]


def _in_shares(sizes: Mapping[int, int], count: int) -> list[list[list[int]]]:
    """For each of so many ranks its part of the small tensors: groups of positions that fit into the cache together."""
    small = {at: size for at, size in sizes.items() if size < SPLIT}
    each = sum(small.values()) / count + 1
    shares: list[list[list[int]]] = [[] for _ in range(count)]
    passed, room, last = 0, 0, -1
    for at, size in small.items():
        owner = int(passed / each)
        if room < size or owner != last:
            shares[owner].append([])
            room, last = GROUP, owner
        shares[owner][-1].append(at)
        passed, room = passed + size, room - size
    return shares


def _reduce_small(ranks: Sequence[Sequence[torch.Tensor]], op: ReduceOperation) -> None:
    """Reduce dense tensors into those of all ranks."""
    first, *others = [list(each) for each in ranks]
    if op not in (ReduceOperation.SUM, ReduceOperation.MEAN) or any(
        accumulated_in(each.dtype) is not each.dtype for each in first
    ):
        for tensors in zip(*ranks, strict=True):
            total = fold(tensors, op)
            for each in tensors:
                each.copy_(total)
        return
    for other in others:
        torch._foreach_add_(first, other)
    if op is ReduceOperation.MEAN:
        divide(first, len(ranks))
    for other in others:
        torch._foreach_copy_(other, first)


def _reduce_part(tensors: Sequence[torch.Tensor], place: int, op: ReduceOperation, shared: bool) -> None:
    """Reduce this rank's part of the elements, into the first tensor and, unless shared, into all."""
    count = len(tensors)
    if any(not each.is_contiguous() for each in tensors):  # no line of elements to cut: the first rank does it
        if place == 0:
            total = fold(tensors, op)
            for each in tensors[: 1 if shared else count]:
                each.copy_(total)
        return
    lines = [each.view(-1) for each in tensors]
    low, high = (lines[0].numel() * bound // count for bound in (place, place + 1))
    length = CHUNK // tensors[0].element_size()
    wide = accumulated_in(tensors[0].dtype) is not tensors[0].dtype
    for start in range(low, high, length):
        first, *others = [line[start : min(start + length, high)] for line in lines]
        if wide or op not in (ReduceOperation.SUM, ReduceOperation.MEAN):
            first.copy_(fold([first, *others], op))
        else:
            for other in others:
                first.add_(other)
            if op is ReduceOperation.MEAN:
                divide([first], count)
        for other in () if shared else others:
            other.copy_(first)


def reduce_over(
    group: Any, buffers: Sequence[torch.Tensor], op: ReduceOperation, count: int, patience: timedelta
) -> list[torch.Tensor]:
    """The results over a process group of `count` ranks: SUM or MEAN, all transfers under way at once."""
    options = AllreduceOptions()
    options.reduceOp = ReduceOp.SUM  # type: ignore[assignment]
    options.timeout = patience
    flights: list[tuple[torch.Tensor, torch.Tensor, Any]] = []
    for buffer in buffers:
        if buffer.is_sparse or buffer.numel() == 0:
            flights.append((buffer, buffer, None))
            continue
        line = buffer.contiguous().view(-1).to(accumulated_in(buffer.dtype))
        flights.append((buffer, line, group.allreduce([line], options)))
    results = []
    for buffer, line, work in flights:
        if work is not None:
            work.wait()
            if op is ReduceOperation.MEAN:
                divide([line], count)
            results.append(line.to(buffer.dtype).view(buffer.shape))
        elif buffer.is_sparse:
            results.append(_sparse_over(group, buffer, op, count, patience))
        else:
            results.append(buffer)
    return results


def _sparse_over(group: Any, own: torch.Tensor, op: ReduceOperation, count: int, patience: timedelta) -> torch.Tensor:
    """The sum of sparse tensors: only what is there travels, padded to the length of the longest."""
    options = AllgatherOptions()
    options.timeout = patience

    def gathered(tensor: torch.Tensor) -> list[torch.Tensor]:
        parts = tensor.new_empty((count, *tensor.shape))
        if tensor.numel():
            line = tensor.contiguous().view(-1).view(torch.uint8)
            group._allgather_base(parts.view(-1).view(torch.uint8), line, options).wait()
        return list(parts.unbind(0))

    mine = own.to(accumulated_in(own.dtype)).coalesce()
    lengths = [int(each) for each in gathered(torch.tensor([mine._nnz()], device=own.device))]
    indices = mine.indices().new_zeros((own.sparse_dim(), max(lengths)))
    values = mine.values().new_zeros((max(lengths), *mine.values().shape[1:]))
    indices[:, : mine._nnz()] = mine.indices()
    values[: mine._nnz()] = mine.values()
    rows = [each[:, :length] for each, length in zip(gathered(indices), lengths, strict=True)]
    elements = [each[:length] for each, length in zip(gathered(values), lengths, strict=True)]
    return joined(rows, elements, own, op)
