"""What the calls of a step bring, and what has to come of them: computed here without the dispatch layer."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import torchdispatch as td
from tests.soak.plan import COMPLEX, INTEGERS, Step


def contribution(seed: int, step: Step, rank: int, shape: tuple[int, ...] | None = None, part: int = 0) -> torch.Tensor:
    """What the rank brings: whole numbers so small that every dtype has them, and their sums, exactly."""
    shape = step.shape if shape is None else shape
    dtype = getattr(torch, step.dtype)
    generator = torch.Generator().manual_seed(((seed * 1000 + step.number) * 100 + rank) * 100 + part)
    least = 0 if step.dtype in ("uint8", "bool") else -3
    numbers = torch.randint(least, 2 if dtype is torch.bool else 4, shape, generator=generator)
    if step.dtype in COMPLEX:
        numbers = numbers + 1j * torch.randint(-3, 4, shape, generator=generator)
    if step.layouts[rank] == "expanded" and numbers.numel():
        return numbers.reshape(-1)[0].to(dtype).expand(shape)
    return _laid_out(numbers.to(dtype), step.layouts[rank])


def _laid_out(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    if layout == "every second" and tensor.dim():
        wide = torch.full((*tensor.shape[:-1], 2 * tensor.shape[-1]), 1, dtype=tensor.dtype)
        wide[..., ::2] = tensor
        return wide[..., ::2]
    if layout == "turned" and tensor.dim():
        return tensor.permute(*reversed(range(tensor.dim()))).contiguous().permute(*reversed(range(tensor.dim())))
    return tensor.clone()


def parts(seed: int, step: Step, rank: int) -> list[torch.Tensor]:
    """What the rank brings for each member: of one shape where it is reduced, else of any."""
    shapes = [step.shape] * len(step.members)
    if step.op in ("all_to_all", "scatter"):
        shapes = [((step.number + rank + 2 * other) % 4,) for other in step.members]
    return [contribution(seed, step, rank, shape, 1 + at) for at, shape in enumerate(shapes)]


def combined(tensors: list[torch.Tensor], reduction: str) -> torch.Tensor:
    """The reduction, in the widest type there is, rounded once."""
    dtype = tensors[0].dtype
    if dtype is torch.bool:
        stacked = torch.stack(tensors)
        return stacked.any(0) if reduction in ("SUM", "MAX") else stacked.all(0)
    name = str(dtype)[6:]
    wide = torch.int64 if name in INTEGERS else torch.complex128 if name in COMPLEX else torch.float64
    stacked = torch.stack([each.to(wide) for each in tensors])
    match reduction:
        case "SUM":
            return stacked.sum(0).to(dtype)
        case "MEAN":
            return (stacked.sum(0) / len(tensors)).to(dtype)
        case "MIN":
            return stacked.amin(0).to(dtype)
        case "MAX":
            return stacked.amax(0).to(dtype)
    return stacked.prod(0).to(dtype)


def expected(seed: int, step: Step, rank: int) -> Any:
    """What the call gives the rank: a tensor, a list of tensors, a flag, or None."""
    members, place = step.members, step.members.index(rank)
    match step.op:
        case "all_reduce":
            return combined([contribution(seed, step, each) for each in members], step.reduction)
        case "reduce":
            total = combined([contribution(seed, step, each) for each in members], step.reduction)
            return total if rank == step.root else None
        case "broadcast" | "send and recv":
            return contribution(seed, step, step.root)
        case "all_gather":
            return [contribution(seed, step, each) for each in members]
        case "gather":
            return [contribution(seed, step, each) for each in members] if rank == step.root else None
        case "reduce_scatter":
            return combined([parts(seed, step, each)[place] for each in members], step.reduction)
        case "all_to_all":
            return [parts(seed, step, each)[place] for each in members]
        case "scatter":
            return parts(seed, step, step.root)[place]
        case "all_true":
            return all(flag(seed, step, each) for each in members)
        case "backward":
            return gradients(seed, step)
    return None


def flag(seed: int, step: Step, rank: int) -> bool:
    """What the rank says to `all_true`."""
    return (seed + step.number + rank) % 5 != 0


def network() -> nn.Module:
    """The module that every rank trains. Threads share torch's own generator, so the values are drawn from another."""
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return module


def loss(module: nn.Module, seed: int, step: Step, rank: int) -> torch.Tensor:
    """The loss of the rank; every third step leaves the last layer out on odd ranks."""
    generator = torch.Generator().manual_seed(seed * 1000 + step.number * 10 + rank)
    x = torch.randn(2, 3, generator=generator, dtype=torch.float64)
    alone = step.number % 3 == 0 and rank % 2 == 1
    out: torch.Tensor = module[0](x) if alone else module(x)  # type: ignore[index]
    return out.square().sum()


def gradients(seed: int, step: Step) -> list[torch.Tensor]:
    """The mean of the gradients of all ranks."""
    module = network()
    for rank in step.members:
        (loss(module, seed, step, rank) / len(step.members)).backward()
    return [each.grad if each.grad is not None else torch.zeros_like(each) for each in module.parameters()]


def launch(context: Any, device: Any, module: nn.Module | None, seed: int, step: Step, timeout: float | None) -> Any:
    """The step as the rank of the device calls it: a handle, or what a call that waits gave."""
    rank, devices = device.rank, [context.devices[each] for each in step.members]
    root, op = context.devices[step.root], td.ReduceOperation[step.reduction]
    where: dict[str, Any] = {"devices": devices, "timeout": timeout}
    match step.op:
        case "all_reduce":
            return td.all_reduce(contribution(seed, step, rank), op, **where)
        case "reduce":
            return td.reduce(contribution(seed, step, rank), op, root, **where)
        case "broadcast":
            return td.broadcast(contribution(seed, step, rank), root, **where)
        case "all_gather":
            return td.all_gather(contribution(seed, step, rank), **where)
        case "gather":
            return td.gather(contribution(seed, step, rank), root, **where)
        case "reduce_scatter":
            return td.reduce_scatter(parts(seed, step, rank), op, **where)
        case "all_to_all":
            return td.all_to_all(parts(seed, step, rank), **where)
        case "scatter":
            return td.scatter(parts(seed, step, rank) if rank == step.root else None, root, **where)
        case "send and recv" if rank == step.root:
            return td.send(contribution(seed, step, rank), context.devices[step.peer], timeout=timeout)
        case "send and recv":
            return td.recv(torch.empty(step.shape, dtype=getattr(torch, step.dtype)), root, timeout=timeout)
        case "barrier":
            return td.barrier(devices, timeout=timeout)
        case "all_true":
            return context.all_true(flag(seed, step, rank), timeout=timeout)
        case "backward":
            assert module is not None
            module.zero_grad()
            loss(module, seed, step, rank).backward()
            return [each.grad for each in module.parameters()]
    raise AssertionError(step.op)


def difference(found: Any, right: Any) -> str | None:
    """How a result differs from the right one, or None. Values are whole numbers, but for means and gradients."""
    if isinstance(right, list):
        if not isinstance(found, list) or len(found) != len(right):
            return f"{found!r} instead of a list of {len(right)}"
        return next((why for pair in zip(found, right, strict=True) if (why := difference(*pair)) is not None), None)
    if not isinstance(right, torch.Tensor):
        return None if found is right else f"{found!r} instead of {right!r}"
    tensor = found.primitive if isinstance(found, td.Tensor) else found
    if not isinstance(tensor, torch.Tensor) or (tensor.shape, tensor.dtype) != (right.shape, right.dtype):
        return f"{found!r} instead of {right.dtype} {tuple(right.shape)}"
    if torch.allclose(tensor, right, rtol=1e-2 if right.dtype in (torch.float16, torch.bfloat16) else 1e-6, atol=1e-12):
        return None
    return f"{tensor.flatten()[:5].tolist()}… instead of {right.flatten()[:5].tolist()}…"
