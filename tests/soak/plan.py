"""What happens in an episode: drawn from a seed alone, so that every process draws the same.

An episode is a device group, batches of calls that all of its ranks make, and faults. `Step` says what a call is for
every rank; a fault that changes the call of one rank is applied by `brought`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

REDUCTIONS = ("SUM", "MEAN", "MIN", "MAX", "PRODUCT")
ROOTED = ("broadcast", "reduce", "gather", "scatter")
REDUCING = ("all_reduce", "reduce", "reduce_scatter")
TRANSFER = "send and recv"
BLOCKING = ("barrier", "all_true", "backward")
OPS = (*ROOTED, "all_reduce", "all_gather", "reduce_scatter", "all_to_all", TRANSFER, *BLOCKING)
FLOATS = ("float64", "float32", "float16", "bfloat16")
COMPLEX = ("complex64", "complex128")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
SHAPES = ((), (1,), (0,), (5,), (3, 4), (2, 0, 3), (2, 3, 2), (30000,))
LAYOUTS = ("plain", "every second", "turned", "expanded")

DEADLY = ("kill", "stop", "late", "raise", "close", "interrupt")
"""Faults that the group does not survive."""
MISMATCHES = ("shape", "dtype", "reduction", "root", "op", "members", "order")
HARMLESS = ("delay", "drop", "fork")


@dataclass(frozen=True)
class Step:
    """One call: who makes it, with what. `layouts` are by rank; `peer` is who receives what `root` sends."""

    number: int
    op: str
    members: tuple[int, ...]
    dtype: str
    shape: tuple[int, ...]
    reduction: str
    root: int
    peer: int
    layouts: tuple[str, ...]

    def takes(self, rank: int) -> bool:
        """Whether the rank makes the call."""
        return rank in (self.root, self.peer) if self.op == TRANSFER else rank in self.members


@dataclass(frozen=True)
class Fault:
    """What befalls a rank when it comes to a step, or `after` seconds later; step -1 is the opening of the group."""

    kind: str
    rank: int
    step: int
    after: float = 0.0


@dataclass(frozen=True)
class Episode:
    """A group, by how many devices each process has, and what it goes through."""

    seed: int
    devices: tuple[int, ...]
    scheme: str
    timeout: float
    agreement: str
    inside_run: bool
    batches: tuple[tuple[Step, ...], ...]
    faults: tuple[Fault, ...]

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return sum(self.devices)

    @property
    def deadly(self) -> Fault | None:
        """The fault that the group does not survive, if there is one."""
        return next((fault for fault in self.faults if fault.kind in DEADLY), None)

    def process_of(self, rank: int) -> int:
        """Which process has the rank."""
        return next(process for process in range(len(self.devices)) if rank < sum(self.devices[: process + 1]))

    def ranks_of(self, process: int) -> range:
        """The ranks of a process."""
        first = sum(self.devices[:process])
        return range(first, first + self.devices[process])

    def refused(self, step: Step) -> bool:
        """Whether the members disagree about the step."""
        for fault in self.faults:
            if fault.kind in MISMATCHES and fault.step == step.number:
                return True
            if fault.kind == "order" and fault.step + 1 == step.number:
                return True
        return False

    def brought(self, step: Step, rank: int) -> Step:
        """The call that the rank makes in the place of the step."""
        for fault in self.faults:
            if fault.rank == rank and fault.kind in MISMATCHES:
                if fault.step == step.number:
                    return _other(fault.kind, step, rank, self._after(step))
                if fault.kind == "order" and fault.step + 1 == step.number:
                    return next(each for batch in self.batches for each in batch if each.number == fault.step)
        return step

    def _after(self, step: Step) -> Step | None:
        batch = next(batch for batch in self.batches if step in batch)
        place = batch.index(step) + 1
        return batch[place] if place < len(batch) else None

    def __str__(self) -> str:
        where = (
            f"{len(self.devices)} processes with {self.devices} devices"
            if len(self.devices) > 1
            else (f"{self.devices[0]} devices in one process")
        )
        told = "; ".join(
            f"{fault.kind} of rank {fault.rank} at step {fault.step}"
            + (f" + {fault.after:.3f} s" if fault.after else "")
            for fault in self.faults
        )
        return (
            f"seed {self.seed}: {where}, {self.scheme}, agreement {self.agreement}, timeout {self.timeout:g} s, "
            f"{sum(map(len, self.batches))} steps; {told or 'no fault'}"
        )


def _other(kind: str, step: Step, rank: int, after: Step | None) -> Step:
    match kind:
        case "shape":
            return replace(step, shape=(*step.shape, 2))
        case "dtype":
            return replace(step, dtype="float32" if step.dtype == "float64" else "float64")
        case "reduction":
            return replace(step, reduction="SUM" if step.reduction != "SUM" else "PRODUCT")
        case "root":
            return replace(step, root=next(each for each in step.members if each != step.root))
        case "op":
            return replace(step, op="all_gather" if step.op != "all_gather" else "barrier")
        case "members":
            return replace(step, members=tuple(sorted({rank, next(each for each in step.members if each != rank)})))
    assert after is not None
    return after


def _fitting(step: Step, after: Step | None) -> list[str]:
    """The mismatches that the step can have."""
    kinds = []
    if step.op in ("all_reduce", "broadcast", "reduce", "all_gather", "gather", "reduce_scatter", TRANSFER):
        kinds += ["shape", "dtype"]
    if step.op == "all_to_all":
        kinds += ["dtype"]
    if step.op in REDUCING:
        kinds += ["reduction"]
    if step.op in ROOTED:
        kinds += ["root"]
    if step.op not in (TRANSFER, "backward"):
        kinds += ["op"]
    if after is None and len(step.members) > 2 and step.op in ("all_reduce", "all_gather"):
        kinds += ["members"]
    together = after is not None and step.members == after.members and step.op != after.op
    if together and after is not None and not {step.op, after.op} & {TRANSFER, "backward"}:
        kinds += ["order"]
    return kinds


def draw(seed: int) -> Episode:
    """The episode of a seed."""
    dice = random.Random(seed)
    processes = dice.choice([1, 2, 2, 2, 3, 3])
    devices = tuple(dice.choice([2, 3, 4] if processes == 1 else [1, 1, 2]) for _ in range(processes))
    size = sum(devices)
    agreement = dice.choice(["always"] * 4 + ["first", "off"])
    batches, number = [], 0
    for _ in range(dice.randint(4, 12)):
        batch = [_step(dice, number + at, size) for at in range(dice.randint(1, 5))]
        number += len(batch)
        batches.append(tuple(batch))
    faults = _mismatches(dice, batches) if agreement == "always" else []
    faults += [
        Fault(dice.choice(HARMLESS), dice.randrange(size), dice.randrange(number)) for _ in range(dice.randint(0, 3))
    ]
    if dice.random() < 0.7:
        faults.append(_deadly(dice, processes, size, number))
    late = any(fault.kind in ("stop", "late") for fault in faults)
    return Episode(
        seed=seed,
        devices=devices,
        scheme=dice.choice(["tcp", "file"]),
        timeout=3.0 if late else 15.0,
        agreement=agreement,
        inside_run=dice.random() < 0.5 or max(devices) > 1,
        batches=tuple(batches),
        faults=tuple(faults),
    )


def _step(dice: random.Random, number: int, size: int) -> Step:
    op = dice.choice(OPS)
    whole = op in ("all_true", "backward") or dice.random() < 0.5
    members = tuple(range(size)) if whole else tuple(sorted(dice.sample(range(size), dice.randint(1, size))))
    if op == TRANSFER:
        members = tuple(sorted(dice.sample(range(size), 2)))
    dtype = dice.choice([*FLOATS, *COMPLEX, *INTEGERS, "bool"])
    reductions: list[str] = [
        each
        for each in REDUCTIONS
        if not (each == "MEAN" and dtype in (*INTEGERS, "bool")) and not (each in ("MIN", "MAX") and dtype in COMPLEX)
    ]
    root = dice.choice(members)
    peer = dice.choice([each for each in members if each != root] or [root])
    layouts = tuple(dice.choice(LAYOUTS) for _ in range(size))
    return Step(number, op, members, dtype, dice.choice(SHAPES), dice.choice(reductions), root, peer, layouts)


def _mismatches(dice: random.Random, batches: list[tuple[Step, ...]]) -> list[Fault]:
    found, taken = [], set[int]()
    for _ in range(dice.choice([0, 0, 1, 1, 2, 4])):
        batch = dice.choice(batches)
        at = dice.randrange(len(batch))
        step, after = batch[at], batch[at + 1] if at + 1 < len(batch) else None
        near = {step.number, step.number + 1}
        kinds = _fitting(step, after)
        if kinds and len(step.members) > 1 and not near & taken:
            taken |= near
            who = [each for each in step.members if step.takes(each)]
            found.append(Fault(dice.choice(kinds), dice.choice(who), step.number))
    return found


def _deadly(dice: random.Random, processes: int, size: int, steps: int) -> Fault:
    kinds: list[Any] = ["late", "raise", "close", "interrupt", "interrupt"]
    if processes > 1:
        kinds += ["kill", "kill", "kill", "stop", "stop"]
    kind = dice.choice(kinds)
    opening = processes > 1 and kind in ("kill", "stop", "interrupt") and dice.random() < 0.15
    after = dice.choice([0.0, dice.random() / 1000, dice.random() / 50, dice.random() / 5])
    at = -1 if opening else dice.randrange(steps)
    return Fault(kind, dice.randrange(size), at, 0.0 if kind in ("late", "raise", "close") else after)
