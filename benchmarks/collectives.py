"""One all_reduce: in the memory of one process against gloo, and over gloo with the agreement against without.

    python -m benchmarks.collectives [--rounds N] [--json]

gloo means torch's own process group called bare, on as many processes as there are devices.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FileStore

import torchdispatch as td
from benchmarks.rounds import Result, Samples, arguments, interleaved, median, ratio, tell

SIZES = {"4 KB": (1 << 10, 100), "16 MB": (1 << 22, 5)}
"""By name: float32 elements, and how many calls one measurement takes."""

WARM = 3


def timed(call: Callable[[torch.Tensor], object], size: str) -> float:
    """Seconds per call, after the first ones."""
    elements, number = SIZES[size]
    tensor = torch.ones(elements)
    for _ in range(WARM):
        call(tensor)
    started = time.perf_counter()
    for _ in range(number):
        call(tensor)
    return (time.perf_counter() - started) / number


def reduce_on(device: Any) -> Callable[[torch.Tensor], object]:
    return lambda tensor: td.all_reduce(td.from_torch(tensor, device), td.ReduceOperation.SUM).resolve()


def work(rank: int, count: int, folder: str, commands: Connection) -> None:
    """One of several processes that measure what they are told."""
    torch.set_num_threads(1)
    store = FileStore(f"{folder}/bare{count}", count)
    bare: Any = dist.ProcessGroupGloo(store, rank, count, timedelta(seconds=60))
    calls: dict[str, Callable[[torch.Tensor], object]] = {"bare": lambda tensor: bare.allreduce([tensor]).wait()}
    contexts = []
    for mode in ("always", "off"):
        where = f"file://{folder}/{mode}{count}"
        config = td.DistributedConfig(rendezvous=where, rank=rank, world_size=count, agreement=mode)
        contexts.append(td.DistributedContext([td.Cpu(0)], config))
        calls[mode] = reduce_on(contexts[-1].local_devices[0])
    while (order := commands.recv()) is not None:
        kind, size = order
        bare.barrier().wait()
        commands.send(timed(calls[kind], size))
    for context in contexts:
        context.close()


@contextmanager
def processes(count: int, folder: str) -> Iterator[Callable[[str, str], Callable[[], float]]]:
    """What measures a kind of call of a size on so many processes: the slowest counts."""
    spawn = multiprocessing.get_context("spawn")
    workers = []
    for rank in range(count):
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=work, args=(rank, count, folder, theirs), daemon=True)
        process.start()
        workers.append((process, ours))

    def measure(kind: str, size: str) -> float:
        for _, commands in workers:
            commands.send((kind, size))
        return max(float(commands.recv()) for _, commands in workers)

    yield lambda kind, size: lambda: measure(kind, size)
    for process, commands in workers:
        commands.send(None)
        process.join(10)


def in_memory(count: int, size: str) -> float:
    """Seconds per call on so many devices of this process, one thread each."""
    barrier = threading.Barrier(count)

    def on(device: Any) -> float:
        barrier.wait()
        return timed(reduce_on(device), size)

    with td.DistributedContext([td.Cpu(index) for index in range(count)]) as context:
        return max(float(each) for each in context.run(on))


def by_one_thread(count: int, size: str) -> float:
    """Seconds for one call on each of so many devices of this process, all made by this thread."""
    with td.DistributedContext([td.Cpu(index) for index in range(count)]) as context:

        def reduce_on_all(tensor: torch.Tensor) -> None:
            inputs = [td.from_torch(tensor, device) for device in context.local_devices]
            for handle in [td.all_reduce(each, td.ReduceOperation.SUM) for each in inputs]:
                handle.resolve()

        return timed(reduce_on_all, size)


def results_of(samples: Samples) -> Iterable[Result]:
    limits = {"4 KB": 0.05, "16 MB": 0.3}
    for count in (2, 4):
        for size, limit in limits.items():
            for how, label in (("one", "one thread for all"), ("memory", "a thread each")):
                name = f"{size}, {count} devices, {label}: in memory / gloo"
                yield Result(name, ratio(samples, f"{how} {count} {size}", f"bare {count} {size}"), limit=limit)
    yield Result("4 KB, 2 processes: agreed on / bare gloo", ratio(samples, "always 2 4 KB", "bare 2 4 KB"), limit=2.0)
    yield Result("4 KB, 2 processes: agreement=off / bare gloo", ratio(samples, "off 2 4 KB", "bare 2 4 KB"))
    for name in samples:
        yield Result(name, 1e6 * median(samples, name), "us")


def main() -> int:
    """The benchmark as a command."""
    chosen = arguments(__doc__, rounds=15)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, processes(2, folder) as two, processes(4, folder) as four:
        cases: dict[str, Callable[[], float]] = {}
        for size in SIZES:
            for count, on in ((2, two), (4, four)):
                cases[f"bare {count} {size}"] = on("bare", size)
                cases[f"memory {count} {size}"] = partial(in_memory, count, size)
                cases[f"one {count} {size}"] = partial(by_one_thread, count, size)
        cases["always 2 4 KB"] = two("always", "4 KB")
        cases["off 2 4 KB"] = two("off", "4 KB")
        samples = interleaved(cases, chosen.rounds)
    return tell(list(results_of(samples)), as_json=chosen.json)


if __name__ == "__main__":
    sys.exit(main())
