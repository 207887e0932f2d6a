"""CPU replicas of one process: the last rank to come does the work, in the memory of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from dispatch_runtime.agreement import Agreement
from dispatch_runtime.engines.together import Lent
from dispatch_runtime.memory import copy_of
from dispatch_runtime.operation import Call, Operation, unrecorded
from dispatch_runtime.reductions import CHUNK, fold, fold_into, fold_sparse
from dispatch_runtime.rounds import Round
from dispatch_runtime.values import ReduceOperation


class SharedMemory:
    """The engine of members that are all CPU devices of this process."""

    immediate = True

    def __init__(self, agreement: Agreement) -> None:
        self._agreement = agreement

    def carry_out(self, round_: Round) -> None:
        """Compute the results of all members and settle their operations."""
        if not self._agreement.take(round_):
            return
        operations = [round_.operations[rank] for rank in round_.members]
        call = operations[0].call
        values: list[Any] = [None] * len(operations)
        with unrecorded():
            match call.op:
                case "all_reduce" if operations[0].buffers:
                    total = fold_sparse([each.buffers[0] for each in operations], _reduction(call))
                    values = [total, *(total.clone() for _ in operations[1:])]
                case "all_reduce":
                    values = _reduced(operations, _reduction(call))
                case "submit_sync_collective":
                    values = [Lent([each.buffers for each in operations], _reduction(call))] * len(operations)
                case "broadcast" | "send" | "recv":
                    source = round_.operations[call.root or 0].contribution
                    values = [each.filled(source) for each in operations]
                case "reduce":
                    total = fold([each.contribution for each in operations], _reduction(call))
                    values = [each.adopted(total) if each.rank == call.root else None for each in operations]
                case "all_gather" | "gather":
                    values = [_copies(operations) if call.root in (None, each.rank) else None for each in operations]
                case "reduce_scatter":
                    brought = zip(*(each.buffers for each in operations), strict=True)
                    values = [fold(each, _reduction(call)) for each in brought]
                case "all_to_all":
                    values = [list(each) for each in zip(*(each.buffers for each in operations), strict=True)]
                case "scatter":
                    values = list(round_.operations[call.root or 0].buffers)
        for operation, value in zip(operations, values, strict=True):
            self._agreement.settle(operation, value)

    def close(self, deadline: float) -> None:
        """Nothing to free."""


def _reduction(call: Call) -> ReduceOperation:
    return ReduceOperation[str(call.reduction)]


def _reduced(operations: Sequence[Operation[Any]], reduction: ReduceOperation) -> list[torch.Tensor]:
    contributions = [each.contribution for each in operations]
    if contributions[0].nbytes > CHUNK and len(operations) > 1:
        results = [each.memory() for each in operations]
        fold_into(results, contributions, reduction)
        return results
    total = fold(contributions, reduction)
    # Only the last to come has no memory of its own yet: the others copy before it hands `total` out.
    return [each.adopted(total) for each in operations]


def _copies(operations: Sequence[Operation[Any]]) -> list[torch.Tensor]:
    return [copy_of(each.contribution) for each in operations]
