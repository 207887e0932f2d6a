"""Interleaved rounds, ratios within each, and the table of gates at the end.

A shared machine changes its speed from second to second. So every round measures every case, in an order of its own,
and what counts is the median of the ratios within the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import timeit
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

Samples = Mapping[str, list[float]]
"""By case, one number per round."""


@dataclass(frozen=True)
class Result:
    """A measured number. Without a limit it is only told."""

    name: str
    value: float
    unit: str = "x"
    limit: float | None = None
    at_least: bool = False
    """Whether the limit is the smallest good value, not the greatest."""

    @property
    def verdict(self) -> str:
        """`pass`, `FAIL`, or nothing without a limit."""
        if self.limit is None:
            return ""
        good = self.value >= self.limit if self.at_least else self.value <= self.limit
        return "pass" if good else "FAIL"

    @property
    def gate(self) -> str:
        """The limit as a person reads it."""
        return "" if self.limit is None else f"{'>=' if self.at_least else '<='} {self.limit:g}"


def interleaved(cases: Mapping[str, Callable[[], float]], rounds: int) -> Samples:
    """What every case gives in every round. One round before the first is not counted."""
    order = list(cases)
    samples: dict[str, list[float]] = {name: [] for name in cases}
    shuffled = random.Random(0)
    for number in range(rounds + 1):
        shuffled.shuffle(order)
        for name in order:
            value = cases[name]()
            if number:
                samples[name].append(value)
    return samples


def calls(function: Callable[..., object], *arguments: object, number: int = 1000) -> Callable[[], float]:
    """A case: nanoseconds per call of the function, in the best of five stretches, which nothing else disturbed."""
    names = {f"a{index}": value for index, value in enumerate(arguments)}
    timer = timeit.Timer(f"f({', '.join(names)})", globals={"f": function, **names})
    return lambda: min(timer.repeat(5, number)) / number * 1e9


def cpu(command: Sequence[str], **options: object) -> Callable[[], float]:
    """A case: seconds of processor time that a process takes, its children included. It has to end well.

    Python may keep what it compiles, as it does for everybody who has not told it otherwise.
    """
    environment = dict(options.pop("env", os.environ))  # type: ignore[call-overload]
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def run() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, capture_output=True, text=True, env=environment, **options)  # type: ignore[call-overload]
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"[:4000])
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return run


def ratio(samples: Samples, case: str, to: str) -> float:
    """The median over the rounds of one case in units of another."""
    return statistics.median(a / b for a, b in zip(samples[case], samples[to], strict=True))


def median(samples: Samples, case: str) -> float:
    """The median of a case over the rounds."""
    return statistics.median(samples[case])


def arguments(description: str | None, rounds: int) -> argparse.Namespace:
    """What stands on the command line: `rounds` and `json`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=rounds, help="how many rounds to measure [default: %(default)s]")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    return parser.parse_args()


def tell(results: Sequence[Result], *, as_json: bool) -> int:
    """Print the results; gives back 1 where a gate failed, else 0."""
    if as_json:
        print(json.dumps([{**asdict(each), "verdict": each.verdict} for each in results], indent=2))
    else:
        width = max(len(each.name) for each in results)
        print(f"{'measured':<{width}}  {'value':>11}  {'gate':>8}  verdict")
        for each in results:
            print(f"{each.name:<{width}}  {each.value:>8.3f} {each.unit:<2}  {each.gate:>8}  {each.verdict}".rstrip())
    return int(any(each.verdict == "FAIL" for each in results))
