"""Training steps of torchdispatch against torch's DistributedDataParallel, in one run, interleaved.

    python -m benchmarks.training [--rounds N] [--models MODEL ...] [--json] [--plot FILE]

A step is zero_grad, forward, backward and the averaging of gradients. Two processes of one thread each run DDP and
torchdispatch over gloo in turn; a third process runs two devices on two threads. README.md says what is compared with
what.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import replicas
from benchmarks.models import WORKLOADS
from benchmarks.replicas import ALONE, BARE, DDP, PROCESSES, PROCESSES_ALONE, SHARED, THREADS, THREADS_ALONE, Measured
from benchmarks.rounds import Result, tell


@dataclass(frozen=True)
class Gate:
    """The most that a variant may take, in units of DDP: on each model, and in the geometric mean of all."""

    variant: str
    each: float
    mean: float


GATES = (Gate(PROCESSES, 1.04, 0.93), Gate(THREADS, 0.85, 0.76), Gate(SHARED, 0.85, 0.73))


def results_of(measured: Sequence[Measured], memory: dict[str, float]) -> Iterable[Result]:
    """Every gate, and what is only told."""
    for gate in GATES:
        ratios = [each.ratio(gate.variant) for each in measured]
        for each, ratio in zip(measured, ratios, strict=True):
            yield Result(f"{each.workload}, {gate.variant} / {DDP}", ratio, limit=gate.each)
        if len(measured) == len(WORKLOADS):
            yield Result(f"geometric mean, {gate.variant} / {DDP}", statistics.geometric_mean(ratios), limit=gate.mean)
    yield Result("memory of a step, balanced / plain", memory["balanced"] / memory["plain"], limit=0.9)
    for bound, of in ((BARE, PROCESSES), (THREADS_ALONE, THREADS)):
        ratios = [each.ratio(bound) for each in measured]
        for each, ratio in zip(measured, ratios, strict=True):
            yield Result(f"{each.workload}, {bound} / {DDP}: what bounds {of}", ratio)
        if len(measured) == len(WORKLOADS):
            yield Result(f"geometric mean, {bound} / {DDP}: what bounds {of}", statistics.geometric_mean(ratios))
    for each in measured:
        yield Result(f"{each.workload}, cores that other programs used", each.foreign, "")


def steps(measured: Iterable[Measured]) -> str:
    """A table of milliseconds: of a step, and of the communication that computing does not hide."""
    lines = [f"{'model':<18}  {'variant':<20}  {'ms/step':>8}  {'exposed':>8}  {'of DDP':>7}"]
    for each in measured:
        for name in (*ALONE, PROCESSES_ALONE, THREADS_ALONE):
            exposed = f"{each.exposed(name):.1f}" if name in ALONE else ""
            numbers = f"{each.milliseconds(name):>8.1f}  {exposed:>8}  {each.ratio(name):>7.2f}"
            lines.append(f"{each.workload:<18}  {name:<20}  {numbers}")
    return "\n".join(lines)


def as_json(measured: Iterable[Measured], results: Iterable[Result]) -> str:
    """All of it for machines."""
    models = {
        each.workload: {
            "rounds": len(each.seconds[DDP]),
            "milliseconds": {name: each.milliseconds(name) for name in each.seconds},
            "exposed": {name: each.exposed(name) for name in ALONE},
            "of DDP": {name: each.ratio(name) for name in each.seconds},
        }
        for each in measured
    }
    gates = [{"name": r.name, "value": r.value, "limit": r.limit, "verdict": r.verdict} for r in results]
    return json.dumps({"models": models, "results": gates}, indent=2)


def main() -> int:
    """The benchmark as a command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [each.name for each in WORKLOADS]
    parser.add_argument("--rounds", type=int, default=15, help="how many rounds have to count [default: %(default)s]")
    parser.add_argument("--models", nargs="+", default=names, choices=names, metavar="MODEL", help=", ".join(names))
    parser.add_argument("--json", action="store_true", help="print JSON instead of the tables")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the step times as PNG; needs matplotlib")
    arguments = parser.parse_args()
    with replicas.workers() as groups:
        chosen = [each for each in WORKLOADS if each.name in arguments.models]
        measured = [replicas.measure(each, groups, arguments.rounds) for each in chosen]
    memory = {name: replicas.peak_memory(name == "balanced") for name in ("plain", "balanced")}
    results = list(results_of(measured, memory))
    if arguments.plot is not None:
        from benchmarks.training_plot import draw

        draw(measured, arguments.plot)
    if arguments.json:
        print(as_json(measured, results))
        return int(any(each.verdict == "FAIL" for each in results))
    print(steps(measured), end="\n\n")
    return tell(results, as_json=False)


if __name__ == "__main__":
    sys.exit(main())
