"""Replicas that train for the benchmark: two processes with DDP and torchdispatch, and one with two threads."""

from __future__ import annotations

import multiprocessing
import os
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from dispatch_runtime.gradient_forms import Form, buckets
from torch import nn

import torchdispatch as td
from benchmarks.models import WORKLOADS, Workload

DDP, PROCESSES, PROCESSES_ALONE = "DDP", "processes", "processes, no sync"
THREADS, SHARED, THREADS_ALONE = "threads", "threads, shared", "threads, no sync"
OVERLAP = "processes, overlap"
BARE = "processes, bare gloo"
"""No sync, but after the pass gloo's own transfers of the same buckets: no agreement, no mean."""
OF_PAIR = (DDP, PROCESSES, OVERLAP, BARE, PROCESSES_ALONE)
OF_THREADS = (THREADS, SHARED, THREADS_ALONE)
ALONE = {
    DDP: PROCESSES_ALONE,
    PROCESSES: PROCESSES_ALONE,
    OVERLAP: PROCESSES_ALONE,
    BARE: PROCESSES_ALONE,
    THREADS: THREADS_ALONE,
    SHARED: THREADS_ALONE,
}
"""By variant: the same steps without sync."""
FOREIGN = 0.15
"""How many cores other programs may have used in a round that counts."""


def step(module: nn.Module, batch: torch.Tensor) -> None:
    """One training step without the optimizer."""
    for parameter in module.parameters():
        parameter.grad = None
    module(batch).square().mean().backward()


def timed(module: nn.Module, batch: torch.Tensor, steps: int, after: Callable[[], None] = lambda: None) -> float:
    """Seconds per step, with what is done after each."""
    started = time.perf_counter()
    for _ in range(steps):
        step(module, batch)
        after()
    return (time.perf_counter() - started) / steps


def transfers(module: nn.Module) -> Callable[[], None]:
    """What sums the gradients of a module by gloo alone, in the buckets that a sync would use."""
    parameters = list(module.parameters())
    plan = buckets([Form.of(str(at), each.shape, each.dtype) for at, each in enumerate(parameters)])
    shared = [torch.empty(sum(parameters[at].numel() for at in bucket)) for bucket in plan]

    def transfer() -> None:
        flights = []
        for bucket, buffer in zip(plan, shared, strict=True):
            grad = parameters[bucket[0]].grad if len(bucket) == 1 else buffer
            flights.append(dist.all_reduce(grad, async_op=True))
        for flight in flights:
            flight.wait()

    return transfer


def build(workload: Workload, rank: int) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    module = workload.network()
    torch.manual_seed(rank)
    return module, workload.batch()


class Pair:
    """One of two processes that talk over gloo."""

    def __init__(self, rank: int, folder: str) -> None:
        self.rank = rank
        self.folder = folder
        self.contexts: dict[str, td.DistributedContext] = {}
        dist.init_process_group("gloo", init_method=f"file://{folder}/ddp", rank=rank, world_size=2)

    def load(self, workload: Workload) -> None:
        self.leave()
        for name, overlap in (("plain", "auto"), ("overlap", "on")):
            address = f"file://{self.folder}/{workload.name} {name}".replace(" ", "_")
            config = td.DistributedConfig(rendezvous=address, rank=self.rank, world_size=2, overlap=overlap)
            self.contexts[name] = td.DistributedContext([td.Cpu(0)], config)
        self.steps = workload.steps
        self.modules: dict[str, nn.Module] = {}
        for name in (DDP, PROCESSES, OVERLAP):
            module, self.batch = build(workload, self.rank)
            if name == DDP:
                module = nn.parallel.DistributedDataParallel(module)
            else:
                td.distribute(module, self.contexts["overlap" if name == OVERLAP else "plain"])
            self.modules[name] = module

    def run(self, variant: str) -> float:
        dist.barrier()
        if variant in (PROCESSES_ALONE, BARE):
            module = self.modules[PROCESSES]
            with self.contexts["plain"].no_sync():
                more = (transfers(module),) if variant == BARE else ()
                return timed(module, self.batch, self.steps, *more)
        return timed(self.modules[variant], self.batch, self.steps)

    def leave(self) -> None:
        for context in self.contexts.values():
            context.close()

    def close(self) -> None:
        self.leave()
        dist.destroy_process_group()


class Threads:
    """One process with two devices."""

    def __init__(self, rank: int, folder: str) -> None:
        self.contexts: dict[str, td.DistributedContext] = {}
        self.barrier = threading.Barrier(2)

    def load(self, workload: Workload) -> None:
        self.close()
        for name in (THREADS, SHARED):
            config = td.DistributedConfig(shared_gradients=name == SHARED)
            self.contexts[name] = td.DistributedContext([td.Cpu(0), td.Cpu(1)], config)
        self.steps = workload.steps
        self.replicas: dict[str, list[Any]] = {}
        for name, context in self.contexts.items():
            made = [build(workload, rank) for rank in range(2)]
            context.run(lambda device, made=made, context=context: td.distribute(made[device.rank][0], context))
            self.replicas[name] = made

    def run(self, variant: str) -> float:
        name = SHARED if variant == SHARED else THREADS
        context, replicas = self.contexts[name], self.replicas[name]

        def on(device: Any) -> float:
            self.barrier.wait()
            if variant == THREADS_ALONE:
                with context.no_sync():
                    return timed(*replicas[device.rank], self.steps)
            return timed(*replicas[device.rank], self.steps)

        return max(context.run(on))

    def close(self) -> None:
        for context in self.contexts.values():
            context.close()


def work(kind: type[Pair] | type[Threads], rank: int, folder: str, commands: Connection) -> None:
    torch.set_num_threads(1)
    place = kind(rank, folder)
    while True:
        name, argument = commands.recv()
        if name == "close":
            return place.close()
        if name == "load":
            argument = next(each for each in WORKLOADS if each.name == argument)
        commands.send(getattr(place, name)(argument))


@dataclass
class Worker:
    process: Any
    commands: Connection


@contextmanager
def workers() -> Iterator[dict[str, list[Worker]]]:
    spawn = multiprocessing.get_context("spawn")
    started: dict[str, list[Worker]] = {"pair": [], "threads": []}
    with tempfile.TemporaryDirectory() as folder:
        for group, kind, rank in (("pair", Pair, 0), ("pair", Pair, 1), ("threads", Threads, 0)):
            ours, theirs = spawn.Pipe()
            process = spawn.Process(target=work, args=(kind, rank, folder, theirs), daemon=True)
            process.start()
            theirs.close()
            started[group].append(Worker(process, ours))
        yield started
        everyone = [worker for group in started.values() for worker in group]
        for worker in everyone:
            worker.commands.send(("close", None))
        for worker in everyone:
            worker.process.join(20)


def ask(group: list[Worker], name: str, argument: str) -> float | None:
    """What the workers answer to a command; the slowest counts."""
    for worker in group:
        worker.commands.send((name, argument))
    answers = [worker.commands.recv() for worker in group]
    return None if answers[0] is None else max(answers)


def busy(pids: list[int]) -> tuple[float, float]:
    """Seconds of processor time that all programs, and these processes, have used."""
    tick = os.sysconf("SC_CLK_TCK")
    user, nice, system = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:4])
    own = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return (user + nice + system) / tick, sum(int(each[11]) + int(each[12]) for each in own) / tick


@dataclass
class Measured:
    """Seconds per step by variant, one value for each round that counts."""

    workload: str
    seconds: dict[str, list[float]] = field(default_factory=dict)
    taken: int = 0
    foreign: float = 0.0
    """How many cores other programs used, at the median of the rounds that count."""

    def ratio(self, variant: str, to: str = DDP) -> float:
        pairs = zip(self.seconds[variant], self.seconds[to], strict=True)
        return statistics.median(one / other for one, other in pairs)

    def milliseconds(self, variant: str) -> float:
        return 1000 * statistics.median(self.seconds[variant])

    def exposed(self, variant: str) -> float:
        """Milliseconds of a step that go into communication: what it takes beyond one without sync."""
        pairs = zip(self.seconds[variant], self.seconds[ALONE[variant]], strict=True)
        return 1000 * statistics.median(one - other for one, other in pairs)


def measure(workload: Workload, groups: dict[str, list[Worker]], rounds: int, seed: int = 0) -> Measured:
    everyone = [worker for group in groups.values() for worker in group]
    pids = [os.getpid(), *(worker.process.pid for worker in everyone)]
    variants = [(groups["pair"], name) for name in OF_PAIR] + [(groups["threads"], name) for name in OF_THREADS]
    for group in groups.values():
        ask(group, "load", workload.name)
    for group, name in variants:
        ask(group, "run", name)
    shuffle, kept, result = random.Random(seed).shuffle, [], Measured(workload.name)
    while sum(foreign <= FOREIGN for foreign, _ in kept) < rounds and len(kept) < 3 * rounds:
        shuffle(variants)
        started, before = time.perf_counter(), busy(pids)
        row = {name: ask(group, "run", name) for group, name in variants}
        after, lasted = busy(pids), time.perf_counter() - started
        kept.append(((after[0] - before[0] - after[1] + before[1]) / lasted, row))
    kept.sort(key=lambda each: each[0])
    result.taken = len(kept)
    result.foreign = statistics.median(foreign for foreign, _ in kept[:rounds])
    for _, row in kept[:rounds]:
        for name, seconds in row.items():
            result.seconds.setdefault(name, []).append(seconds)
    return result


def peak_memory(balanced: bool) -> float:
    """MiB that the process grew by at most in a training step of a transformer, in a process of its own."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_step_and_weigh, args=(balanced, theirs), daemon=True)
    process.start()
    grown: float = ours.recv()
    process.join()
    return grown


def _step_and_weigh(balanced: bool, answer: Connection) -> None:
    torch.set_num_threads(1)
    device = td.autodiff(td.Cpu(0), td.Checkpointing.BALANCED) if balanced else td.Cpu(0)
    with td.DistributedContext([device]) as context:
        module = td.distribute(next(each for each in WORKLOADS if each.name == "25M transformer").network(), context)
        step(module, torch.randn(1, 8, 512))
        before = _resident("VmRSS")
        step(module, torch.randn(8, 128, 512))
        answer.send((_resident("VmHWM") - before) / 1024)


def _resident(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))
