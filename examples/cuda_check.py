"""Check collectives and training on every GPU of this machine: one line per check, exit code 1 where one fails.

    python examples/cuda_check.py             # all GPUs: first in one process, then with a process for each
    python examples/cuda_check.py --cpu 2     # the same checks on CPU devices, to see that they work

Each check opens a group of its own and compares what comes out with what has to. Without a GPU there is nothing to
check: the program says why, and ends with 0.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn

import torchdispatch as td
from torchdispatch import ReduceOperation as Op

TIMEOUT = 60.0
LARGE = 1 << 20


class Wrong(Exception):
    """A result is not what it has to be."""


def expect(what: str, found: Any, right: Any) -> None:
    """Raise `Wrong` unless the result, a tensor or a list of them, has these values."""
    if isinstance(right, list):
        if found is None or len(found) != len(right):
            raise Wrong(f"{what}: {found} instead of {len(right)} tensors")
        for one, other in zip(found, right, strict=True):
            expect(what, one, other)
        return
    tensor = found.primitive if isinstance(found, td.Tensor) else found
    if not isinstance(right, torch.Tensor):
        if tensor is not right:
            raise Wrong(f"{what}: {tensor} instead of {right}")
    elif not torch.allclose(tensor.detach().cpu().double(), right.double(), rtol=1e-5, atol=1e-8):
        raise Wrong(f"{what}: {tensor.flatten()[:4].tolist()} instead of {right.flatten()[:4].tolist()}")


def refused(kind: type[td.DispatchError], call: Callable[[], Any]) -> None:
    """Raise `Wrong` unless the call raises an error of this kind."""
    try:
        call()
    except kind:
        return
    raise Wrong(f"it was not refused with {kind.__name__}")


def numbers(rank: int, dtype: torch.dtype = torch.float32, count: int = 4) -> torch.Tensor:
    """What a rank brings: small whole numbers that differ by rank and place, on the CPU."""
    return (torch.arange(count) % 3 + rank + 1).to(dtype)


# -- the checks: each is called once per rank --------------------------------------------------------------------------


def reductions(context: td.DistributedContext, device: td.Device) -> None:
    rank, place = device.rank or 0, device.torch_device
    for dtype, count in [
        (torch.float32, 4),
        (torch.float64, 3),
        (torch.bfloat16, 4),
        (torch.int64, 5),
        (torch.float32, LARGE),
    ]:
        brought = torch.stack([numbers(other % 4, dtype, count).double() for other in range(context.size)])
        right = {Op.SUM: brought.sum(0), Op.MIN: brought.amin(0), Op.MAX: brought.amax(0), Op.PRODUCT: brought.prod(0)}
        if dtype.is_floating_point:
            right[Op.MEAN] = brought.mean(0)
        for op, exact in right.items():
            mine, value = numbers(rank % 4, dtype, count).to(place), exact.to(dtype)
            expect(f"all_reduce {op.name} {dtype}", td.all_reduce(mine, op).resolve(), value)
            root = context.devices[-1]
            at_root = value if device == root else None
            expect(f"reduce {op.name} {dtype}", td.reduce(mine, op, root).resolve(), at_root)


def moves(context: td.DistributedContext, device: td.Device) -> None:
    rank, place, everyone = device.rank or 0, device.torch_device, range(context.size)
    root = context.devices[0]
    for count in (3, LARGE):
        mine = numbers(rank, count=count).to(place)
        brought = [numbers(other, count=count) for other in everyone]
        expect("broadcast", td.broadcast(mine, context.devices[-1]).resolve(), brought[-1])
        expect("all_gather", td.all_gather(mine).resolve(), brought)
        expect("gather", td.gather(mine, root).resolve(), brought if rank == 0 else None)
        parts = [numbers(rank * 10 + other, count=count + other).to(place) for other in everyone]
        for_me = [numbers(other * 10 + rank, count=count + rank) for other in everyone]
        expect("all_to_all", td.all_to_all(parts).resolve(), for_me)
        expect("scatter", td.scatter(parts if rank == 0 else None, root).resolve(), for_me[0])
        total = torch.stack(for_me).sum(0)
        expect("reduce_scatter", td.reduce_scatter(parts, Op.SUM).resolve(), total)


def transfers(context: td.DistributedContext, device: td.Device) -> None:
    rank, size = device.rank or 0, context.size
    for count in (3, LARGE):
        mine = numbers(rank, count=count).to(device.torch_device)
        sent = td.send(mine, context.devices[(rank + 1) % size])
        received = td.recv(torch.empty_like(mine), context.devices[(rank - 1) % size])
        expect("recv", received.resolve(), numbers((rank - 1) % size, count=count))
        expect("send", sent.resolve(), numbers(rank, count=count))


def decisions(context: td.DistributedContext, device: td.Device) -> None:
    td.barrier()
    expect("all_true", context.all_true(device.rank == 0), False)
    expect("all_true", context.all_true(True), True)
    pair = context.devices[:2]
    if device in pair:
        expect("a subgroup", td.all_reduce(numbers(0).to(device.torch_device), Op.SUM, pair).resolve(), numbers(0) * 2)


@contextlib.contextmanager
def another_stream(place: torch.device) -> Iterator[None]:
    """A block whose work is queued on a stream of its own; on the CPU there is only one."""
    if place.type == "cpu":
        yield
        return
    with torch.cuda.stream(torch.cuda.Stream(place)):
        yield


def streams(context: td.DistributedContext, device: td.Device) -> None:
    """The input is still being computed when the call is made, on one stream; the result is used on another."""
    rank, place = device.rank or 0, device.torch_device
    scale = torch.eye(1024, device=place)
    for step in range(10):
        with another_stream(place):
            mine = torch.full((1024, 1024), float(rank + step), device=place)
            for _ in range(20):
                mine = mine @ scale
            handle = td.all_reduce(mine, Op.SUM)
            mine.zero_()  # the caller may overwrite its tensor
        with another_stream(place):
            twice = handle.resolve().primitive * 2
            right = 2.0 * sum(other + step for other in range(context.size))
            expect(f"step {step}", twice.mean().cpu(), torch.tensor(right))


def gradients(context: td.DistributedContext, device: td.Device) -> None:
    """The gradient of a reduction is the reduction of what comes from above."""
    x = torch.full((3,), float(device.rank or 0), device=device.torch_device, requires_grad=True)
    total = td.all_reduce(td.from_torch(x, td.autodiff(device)), Op.SUM).resolve()
    (total.primitive * (1.0 + (device.rank or 0))).sum().backward()
    expect("the gradient", x.grad, torch.full((3,), sum(1.0 + rank for rank in range(context.size))))


def network() -> nn.Module:
    module = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4)).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 4)
    return module


def trained(module: nn.Module, place: torch.device, rows: slice, size: int) -> list[torch.Tensor]:
    """The parameters after ten steps on these rows of every batch."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
    generator = torch.Generator().manual_seed(1)
    for _ in range(10):
        batch = torch.randn(4 * size, 16, generator=generator, dtype=torch.float64)[rows].to(place)
        optimizer.zero_grad()
        module(batch).square().mean().backward()
        optimizer.step()
    return [parameter.detach().cpu() for parameter in module.parameters()]


def training(context: td.DistributedContext, device: td.Device) -> None:
    """Every replica ends with the parameters of one device that saw the whole batches."""
    rank, place = device.rank or 0, device.torch_device
    module = td.distribute(network().to(place), context)
    found = trained(module, place, slice(4 * rank, 4 * rank + 4), context.size)
    expect("the parameters", found, trained(network(), torch.device("cpu"), slice(None), context.size))


def like_ddp(context: td.DistributedContext, device: td.Device) -> None:
    """The same steps by torch's DistributedDataParallel, in the program's own default group beside this one."""
    rank, place = device.rank or 0, device.torch_device
    rows = slice(4 * rank, 4 * rank + 4)
    found = trained(td.distribute(network().to(place), context), place, rows, context.size)
    theirs = nn.parallel.DistributedDataParallel(network().to(place))
    expect("the parameters", found, trained(theirs, place, rows, context.size))


def refusals(context: td.DistributedContext, device: td.Device) -> None:
    """What cannot be is an error, and the group goes on."""
    rank, place = device.rank or 0, device.torch_device
    if place.type != "cpu":
        refused(td.DispatchError, lambda: td.from_torch(torch.ones(1), device))
    refused(td.MeaninglessReduction, lambda: td.all_reduce(torch.ones(2, device=place).int(), Op.MEAN))
    if context.size > 1:
        ragged = torch.ones(2 + rank, device=place)
        refused(td.Disagreement, lambda: td.all_reduce(ragged, Op.SUM).resolve())
        refused(td.Disagreement, lambda: td.broadcast(torch.ones(2, device=place), device).resolve())
    right = torch.full((2,), float(context.size))
    expect("the next call", td.all_reduce(torch.ones(2, device=place), Op.SUM).resolve(), right)


CHECKS = [reductions, moves, transfers, decisions, streams, gradients, training, refusals]


# -- running them ------------------------------------------------------------------------------------------------------


def run(devices: Sequence[td.Device], where: str, checks: Sequence[Callable[..., None]]) -> int:
    """How many checks failed; a line for each."""
    failed = 0
    for check in checks:
        name = f"{where}: {check.__name__.replace('_', ' ')}"
        try:
            with td.DistributedContext(devices, td.DistributedConfig(timeout=TIMEOUT)) as context:
                if check is transfers and context.size == 1:
                    continue  # nobody to send to
                context.run(functools.partial(check, context))
        except Exception as error:
            failed += 1
            print(f"FAILED {name}: {type(error).__name__}: {error}", flush=True)
        else:
            if context.process == 0:
                print(f"ok     {name}", flush=True)
    return failed


def run_as_worker(cpu: bool) -> int:
    """The part of one process of several, started by torchrun."""
    process = int(os.environ["LOCAL_RANK"])
    if not cpu:
        torch.cuda.set_device(process)
    torch.distributed.init_process_group("gloo" if cpu else "nccl")
    try:
        device = td.Cpu(0) if cpu else td.Cuda(process)
        return run([device], f"{os.environ['WORLD_SIZE']} processes", [*CHECKS, like_ddp])
    finally:
        torch.distributed.destroy_process_group()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu", type=int, metavar="N", help="use N CPU devices in the place of the GPUs")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.cpu is not None and options.cpu < 1:
        parser.error("--cpu takes a number of devices from 1 on")
    if options.worker:
        return run_as_worker(options.cpu is not None)
    devices = [td.Cpu(index) for index in range(options.cpu)] if options.cpu else td.enumerate(td.Cuda)
    if not devices:
        print(
            f"No CUDA device to check: torch {torch.__version__} sees none on this machine. --cpu 2 shows the checks."
        )
        return 0
    failed = run(devices, f"one process, {len(devices)} devices", CHECKS)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(len(devices))]
    command += [__file__, "--worker", *(["--cpu", str(options.cpu)] if options.cpu else [])]
    failed += subprocess.run(command, check=False).returncode != 0
    print("all checks passed" if not failed else "some checks FAILED")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
