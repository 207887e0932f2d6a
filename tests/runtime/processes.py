"""Real processes for tests: one function on several, each with its rank, none of them longer than a deadline."""

from __future__ import annotations

import multiprocessing
import pickle
import socket
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import Any

_spawn = multiprocessing.get_context("forkserver")
_spawn.set_forkserver_preload(["torch", "torch.distributed"])


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens on now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:
        return int(server.getsockname()[1])


@dataclass(frozen=True)
class Spot:
    """Where a process stands: its rank among `world`, and where they meet."""

    rank: int
    world: int
    address: str

    def open(self, devices: int = 1, **settings: Any) -> Any:
        """A group of this process's `devices` and those of the others."""
        import torchdispatch as td

        config = {"timeout": 20.0, "rendezvous": self.address, "rank": self.rank, "world_size": self.world, **settings}
        return td.DistributedContext([td.Cpu(index) for index in range(devices)], td.DistributedConfig(**config))


@dataclass
class Outcome:
    """How a process ended: the value of its function, or its exception, and the exit code (-9 for SIGKILL)."""

    value: Any = None
    error: str | None = None
    text: str = ""
    trace: str = ""
    fields: dict[str, Any] = field(default_factory=dict)
    code: int | None = None
    seconds: float = 0.0


def outcomes(
    fn: Callable[..., Any], count: int, *args: Any, address: str | None = None, deadline: float = 60.0
) -> list[Outcome]:
    """What became of `fn(spot, *args)` on each of `count` processes."""
    address = address or f"tcp://127.0.0.1:{free_port()}"
    started = time.monotonic()
    running = []
    together = _spawn.Barrier(count)
    for rank in range(count):
        ours, theirs = _spawn.Pipe(duplex=False)
        spot = Spot(rank, count, address)
        process = _spawn.Process(target=_work, args=(theirs, fn, spot, args, together), daemon=True)
        process.start()
        theirs.close()
        running.append((process, ours))
    ended = []
    for process, ours in running:
        outcome = Outcome()
        try:
            if ours.poll(max(started + deadline - time.monotonic(), 0.0)):
                outcome = pickle.loads(ours.recv_bytes())
        except EOFError:
            pass
        process.join(max(started + deadline - time.monotonic(), 0.1))
        if process.exitcode is None:
            process.kill()
            process.join()
            outcome.text += f" (killed after {deadline} s)"
        outcome.code = process.exitcode
        ours.close()
        process.close()
        ended.append(outcome)
    return ended


def values(fn: Callable[..., Any], count: int, *args: Any, **options: Any) -> list[Any]:
    """The results of `fn(spot, *args)` by rank; any failure fails the test with its trace."""
    ended = outcomes(fn, count, *args, **options)
    for rank, outcome in enumerate(ended):
        assert (outcome.error, outcome.code) == (
            None,
            0,
        ), f"process {rank}: code {outcome.code}\n{outcome.trace}{outcome.text}"
    return [outcome.value for outcome in ended]


def _work(results: Connection, fn: Callable[..., Any], spot: Spot, args: tuple[Any, ...], together: Barrier) -> None:
    import torch

    torch.set_num_threads(1)
    together.wait(60)  # imports take uneven times on a busy machine
    started = time.monotonic()
    try:
        outcome = Outcome(value=fn(spot, *args))
    except BaseException as error:
        fields = {key: str(value) for key, value in getattr(error, "fields", {}).items()}
        outcome = Outcome(error=type(error).__name__, text=str(error), trace=traceback.format_exc(), fields=fields)
    outcome.seconds = time.monotonic() - started
    results.send_bytes(pickle.dumps(outcome))  # plain bytes: torch would share tensors by file descriptor
    results.close()
