"""An episode, as one of its processes plays it."""

from __future__ import annotations

import faulthandler
import os
import random
import signal
import subprocess
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from dispatch_runtime import stores
from torch._C._distributed_c10d import TCPStore

import torchdispatch as td
from tests.runtime.processes import Spot
from tests.soak import calls
from tests.soak.census import census, more_than
from tests.soak.plan import MISMATCHES, Episode, Fault, Step


class Boom(Exception):
    """What a rank raises where it is told to fail."""


@dataclass
class Ended:
    """How a rank ended: `done`, or the class of what it raised, at which step; `wrong` is what should not have been."""

    how: str = "?"
    text: str = ""
    step: int = -1
    wrong: list[str] = field(default_factory=list)


@dataclass
class Report:
    """What a process has to say: its ranks, how it left the first group, its second group, what it left behind."""

    ranks: dict[int, Ended] = field(default_factory=dict)
    left: str = ""
    left_text: str = ""
    acted_after: float = 0.0
    again: list[str] = field(default_factory=list)
    leaks: dict[str, int] = field(default_factory=dict)


def play(spot: Spot, episode: Episode, second: str, stacks: str, deadline: float) -> Report:
    """The report of this process. `second` is where those that are left meet once more; `stacks` the path of a file that
    tells where all threads were at the deadline."""
    with open(f"{stacks}.{spot.rank}", "w") as file:
        faulthandler.dump_traceback_later(deadline, exit=True, file=file)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        warnings.simplefilter("ignore")
        hosted, before = _warm()
        report = Report()
        Player(spot, episode, report).play()
        _again(spot, episode, second, report)
        kept = Counter({kind: count * len(stores._hosted) for kind, count in hosted.items()})
        # A thread that waits for a peer inside of gloo comes back at the deadline of its operation.
        report.leaks = more_than(before, kept, episode.timeout + 4.0)
        if report.leaks:
            faulthandler.dump_traceback(file)
        faulthandler.cancel_dump_traceback_later()
    return report


def _warm() -> tuple[Counter[str], Counter[str]]:
    """What a store that this process hosts keeps as long as the process lives, and what there is before any group."""
    torch.ones(1, requires_grad=True).sum().backward()
    kept = [TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)]
    time.sleep(0.05)
    before = census()
    kept.append(TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False))
    time.sleep(0.05)
    hosted = census() - before
    kept.pop()
    more_than(before, Counter())
    _KEPT.append(kept)
    return hosted, census()


_KEPT: list[Any] = []


def _again(spot: Spot, episode: Episode, second: str, report: Report) -> None:
    """A new group of all that are left, which has to work."""
    deadly = episode.deadly
    killed = episode.process_of(deadly.rank) if deadly is not None and deadly.kind == "kill" else -1
    left = [process for process in range(spot.world) if process != killed]
    place = Spot(left.index(spot.rank), len(left), second)
    with place.open(episode.devices[spot.rank], timeout=30.0) as context:

        def body(device: Any) -> list[str]:
            step = Step(0, "all_reduce", tuple(range(context.size)), "int64", (5,), "SUM", 0, 0, ("plain",) * 20)
            found = calls.launch(context, device, None, episode.seed, step, None).resolve()
            why = calls.difference(found, calls.expected(episode.seed, step, device.rank))
            td.barrier()
            return [] if why is None else [f"in the second group: {why}"]

        report.again = [why for each in context.run(body) for why in each]


class Player:
    """The first group of an episode, in one of its processes."""

    def __init__(self, spot: Spot, episode: Episode, report: Report) -> None:
        self.spot = spot
        self.episode = episode
        self.report = report
        self.ranks = episode.ranks_of(spot.rank)
        report.ranks = {rank: Ended() for rank in self.ranks}
        self._until = 0.0
        self._struck = 0.0
        self._children: list[subprocess.Popen[bytes]] = []

    def play(self) -> None:
        """Open the group and make all calls; note how that ended."""
        episode = self.episode
        try:
            try:
                self._suffer(-1, self.ranks[0])
                settings = {"timeout": episode.timeout, "agreement": episode.agreement}
                with self.spot.open(episode.devices[self.spot.rank], **settings) as context:
                    if episode.inside_run:
                        context.run(lambda device: self._rank(context, device))
                    else:
                        self._rank(context, context.local_devices[0])
            finally:
                if self._struck:  # set by a signal that has come already
                    self.report.acted_after = time.monotonic() - self._struck
            while time.monotonic() < self._until:
                time.sleep(0.01)
            self.report.left = "done"
        except BaseException as error:
            self.report.left, self.report.left_text = type(error).__name__, str(error)
        for child in self._children:
            child.wait()

    def _rank(self, context: Any, device: Any) -> None:
        ended = self.report.ranks[device.rank]
        try:
            self._calls(context, device, ended)
            ended.how = "done"
        except BaseException as error:
            ended.how, ended.text = type(error).__name__, str(error)
            raise

    def _calls(self, context: Any, device: Any, ended: Ended) -> None:
        episode, rank = self.episode, device.rank
        dice = random.Random(f"{episode.seed} {rank}")
        steps = [step for batch in episode.batches for step in batch]
        trains = any(step.op == "backward" for step in steps)
        module = td.distribute(calls.network(), context) if trains else None
        for batch in episode.batches:
            flights: list[tuple[Step, Any]] = []
            for step in batch:
                ended.step = step.number
                dropped = self._suffer(step.number, rank, context)
                mine = episode.brought(step, rank)
                if not mine.takes(rank):
                    continue
                timeout = dice.choice([None, None, episode.timeout])
                try:
                    found = calls.launch(context, device, module, episode.seed, mine, timeout)
                except td.Disagreement as error:
                    self._check(step, rank, ended, error)
                    continue
                if isinstance(found, td.CollectiveTensor):
                    if not dropped:
                        flights.append((step, found))
                else:
                    self._check(step, rank, ended, found)
                del found
            dice.shuffle(flights)
            for step, handle in flights:
                ended.step = step.number
                if dice.random() < 0.2:
                    handle.is_completed()
                try:
                    self._check(step, rank, ended, handle.resolve())
                except td.Disagreement as error:
                    self._check(step, rank, ended, error)
            del flights
            if dice.random() < 0.2 and not any(fault.kind in ("drop", *MISMATCHES) for fault in episode.faults):
                td.sync_collective(device)

    def _check(self, step: Step, rank: int, ended: Ended, found: Any) -> None:
        refused = isinstance(found, td.Disagreement)
        if refused != self.episode.refused(step):
            ended.wrong.append(
                f"step {step.number} ({step.op}): {found!r}, and it should {'' if not refused else 'not '}have been refused"
            )
        elif not refused:
            why = calls.difference(found, calls.expected(self.episode.seed, step, rank))
            if why is not None:
                ended.wrong.append(f"step {step.number} ({step}): {why}")

    # -- faults ------------------------------------------------------------------------------------------------------

    def _suffer(self, number: int, rank: int, context: Any = None) -> bool:
        """What befalls the rank at the step; whether it is to drop its handle."""
        faults = [fault for fault in self.episode.faults if (fault.step, fault.rank) == (number, rank)]
        if number == -1:
            faults = [fault for fault in self.episode.faults if fault.step == -1 and fault.rank in self.ranks]
        for fault in faults:
            match fault.kind:
                case "delay":
                    time.sleep(random.random() / 5)
                case "fork":
                    _fork()
                case "late":
                    time.sleep(self.episode.timeout + 1.5)
                case "raise":
                    raise Boom("it is over")
                case "close":
                    context.close()
                case "kill":
                    self._later(fault, lambda: os.kill(os.getpid(), signal.SIGKILL))
                case "interrupt":
                    self._later(fault, self._interrupt)
                case "stop":
                    self._stop(fault)
        return any(fault.kind == "drop" for fault in faults)

    def _later(self, fault: Fault, strike: Callable[[], None]) -> None:
        self._until = time.monotonic() + fault.after + 5.0
        if fault.after:
            threading.Timer(fault.after, strike).start()
        else:
            strike()

    def _interrupt(self) -> None:
        self._struck = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    def _stop(self, fault: Fault) -> None:
        own, wait = os.getpid(), self.episode.timeout + 2.0
        script = f"sleep {fault.after:.4f}; kill -STOP {own}; sleep {wait}; kill -CONT {own}"
        self._children.append(subprocess.Popen(["sh", "-c", script]))
        if not fault.after:
            time.sleep(0.2)


def _fork() -> None:
    """A child that tries to use the group has to be refused; nothing of that may reach the others."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            td.barrier()
        except td.AfterFork:
            code = 0
        finally:
            os._exit(code)
    if os.waitpid(child, 0)[1] != 0:
        raise AssertionError("a forked child was not refused")
