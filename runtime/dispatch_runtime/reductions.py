"""What a reduction is: which tensors have one, and its value from the contributions of all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import torch
from dispatch_runtime.errors import DispatchError, ErrorTable
from dispatch_runtime.memory import stands_for_others
from dispatch_runtime.values import ReduceOperation
from torch.nn.parameter import is_lazy

CHUNK = 1 << 20
"""How many bytes are read, reduced and written at a time, so that they stay in the cache."""

REDUCIBLE = frozenset(
    {
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
    }
)
"""The dtypes that every engine reduces, with the same values."""


def accumulated_in(dtype: torch.dtype) -> torch.dtype:
    """The dtype that a sum is taken in: 16-bit floats add up in float32 and are rounded once."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def why_not_movable(errors: ErrorTable, op: str, subject: object, tensor: torch.Tensor) -> DispatchError | None:
    """The error for a tensor that cannot be sent as it is, or None."""
    if is_lazy(tensor):
        problem, fix = "it has no shape yet, because it is lazy", "run one forward pass of its module first"
    elif tensor.device.type == "meta":
        problem, fix = "a meta tensor has no values", "materialise it first, with torch.empty_like(tensor, device=...)"
    elif tensor.is_quantized:
        problem, fix = "it is quantized", "call .dequantize() on it first"
    elif tensor.layout is not torch.strided or tensor.is_nested:
        layout = "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.")
        problem, fix = f"its layout is {layout}", "call .to_dense() on it first"
    elif stands_for_others(tensor):
        problem, fix = f"it is a {type(tensor).__name__}, which stands for other tensors", "pass the tensors inside"
    else:
        return None
    return errors.make("unsupported_tensor", op, subject, problem=problem, fix=fix)


def why_not_a_list(
    errors: ErrorTable, op: str, subject: object, tensors: Sequence[torch.Tensor], count: int
) -> DispatchError | None:
    """The error for a list that has not one tensor for each of `count` ranks, or not one dtype; or None."""
    dtypes = list(dict.fromkeys(str(each.dtype).removeprefix("torch.") for each in tensors))
    if len(tensors) != count:
        problem, fix = f"the list has {len(tensors)} tensors for {count} ranks", "pass one tensor per rank, by rank"
    elif len(dtypes) > 1:
        problem, fix = f"the tensors of the list differ in dtype: {', '.join(dtypes)}", "convert them to one dtype"
    else:
        return None
    return errors.make("unsupported_tensor", op, subject, problem=problem, fix=fix)


def has_meaning(dtype: torch.dtype, reduction: ReduceOperation) -> bool:
    """Whether the reduction means anything for numbers of the dtype."""
    if reduction is ReduceOperation.MEAN:
        return dtype.is_floating_point or dtype.is_complex
    return reduction not in (ReduceOperation.MIN, ReduceOperation.MAX) or not dtype.is_complex


def why_not_reducible(
    errors: ErrorTable, op: str, subject: object, dtype: torch.dtype, reduction: ReduceOperation
) -> DispatchError | None:
    """The error for a dtype that the reduction means nothing for, or that no engine reduces; or None."""
    if dtype not in REDUCIBLE:
        fix, name = "convert it, for example with .to(torch.float32)", str(dtype).removeprefix("torch.")
        return errors.make("unsupported_tensor", op, subject, problem=f"{name} is not reduced", fix=fix)
    if has_meaning(dtype, reduction):
        return None
    if reduction is ReduceOperation.MEAN:
        fix = "use SUM, or convert the tensor first, for example with .to(torch.float32)"
    else:
        fix = "reduce torch.view_as_real(tensor), or its abs()"
    name = str(dtype).removeprefix("torch.")
    return errors.make("meaningless", op, subject, reduction=reduction.name, dtype=name, fix=fix)


def why_not_reducible_sparse(
    errors: ErrorTable, op: str, subject: object, tensor: torch.Tensor, reduction: ReduceOperation
) -> DispatchError | None:
    """The same for a sparse COO tensor: what it leaves out is zero to a sum and a mean, and not known to the others."""
    if reduction in (ReduceOperation.SUM, ReduceOperation.MEAN):
        return why_not_reducible(errors, op, subject, tensor.dtype, reduction)
    fix = "call .to_dense() on it first"
    return errors.make("meaningless", op, subject, reduction=reduction.name, dtype="sparse tensors", fix=fix)


def fold(
    contributions: Sequence[torch.Tensor], reduction: ReduceOperation, out: torch.Tensor | None = None
) -> torch.Tensor:
    """The reduced value, taken in the order of the ranks, so that it is the same everywhere.

    It is in memory of its own, or in `out` where it can be put together there; that may be the first contribution.

    The contributions have one shape and dtype, and are not changed. Integers wrap around. Of bool, SUM and MAX are
    `or`, PRODUCT and MIN are `and`. A NaN in any contribution makes MIN and MAX NaN there.
    """
    first, *others = contributions
    if not others:
        return first.clone(memory_format=torch.contiguous_format)
    match reduction:
        case ReduceOperation.MIN:
            return reduce(torch.minimum, others, first)
        case ReduceOperation.MAX:
            return reduce(torch.maximum, others, first)
        case ReduceOperation.PRODUCT:
            return _accumulate(first, others, torch.Tensor.mul_, out)
        case ReduceOperation.SUM:
            return _accumulate(first, others, torch.Tensor.add_, out)
        case ReduceOperation.MEAN:
            return _accumulate(first, others, torch.Tensor.add_, out, len(contributions))


def fold_sparse(contributions: Sequence[torch.Tensor], reduction: ReduceOperation) -> torch.Tensor:
    """The sum or mean of sparse COO tensors, coalesced, in memory of its own."""
    dtype = accumulated_in(contributions[0].dtype)
    own = [each.to(dtype).coalesce() for each in contributions]
    indices, values = [each.indices() for each in own], [each.values() for each in own]
    return joined(indices, values, contributions[0], reduction)


def joined(
    indices: Sequence[torch.Tensor], values: Sequence[torch.Tensor], like: torch.Tensor, reduction: ReduceOperation
) -> torch.Tensor:
    """The same of what each brought, in shape and dtype like one of them."""
    total = torch.sparse_coo_tensor(
        torch.cat(list(indices), 1), torch.cat(list(values)), like.shape, check_invariants=False
    )
    total = total.coalesce()
    return (total / len(values) if reduction is ReduceOperation.MEAN else total).to(like.dtype)


def fold_into(
    results: Sequence[torch.Tensor], contributions: Sequence[torch.Tensor], reduction: ReduceOperation
) -> None:
    """The reduced value into each of the results, large tensors by parts that fit the cache.

    A result may be the contribution of the same place, and is no other one.
    """
    tensors = [*results, *contributions]
    if all(each.is_contiguous() for each in tensors):
        tensors = [each.view(-1) for each in tensors]
    length = CHUNK // contributions[0].element_size() if tensors[0].dim() == 1 else 0
    parts = zip(*(each.split(length) for each in tensors), strict=True) if length else [tensors]
    for part in parts:
        (total, *copies), contributed = part[: len(results)], part[len(results) :]
        value = fold(contributed, reduction, total)
        if value is not total:
            total.copy_(value)
        for copy in copies:
            copy.copy_(total)


def divide(tensors: list[torch.Tensor], count: int) -> None:
    """Divide in place; by a power of two as a product, which has the same bits and is faster."""
    if count & (count - 1):
        torch._foreach_div_(tensors, count)
    else:
        torch._foreach_mul_(tensors, 1 / count)


def _accumulate(
    first: torch.Tensor,
    others: Sequence[torch.Tensor],
    step: object,
    out: torch.Tensor | None,
    divisor: int | None = None,
) -> torch.Tensor:
    dtype = accumulated_in(first.dtype)
    if dtype is first.dtype:
        combine = torch.add if step is torch.Tensor.add_ else torch.mul
        total = combine(first, others[0], out=out)
        others = others[1:]
    else:
        total = first.to(dtype)
    for other in others:
        step(total, other)  # type: ignore[operator]
    if divisor is not None:
        divide([total], divisor)
    return total if dtype is first.dtype else total.to(first.dtype)
