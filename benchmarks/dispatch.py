"""What one call through a generated package costs, and what importing and type checking it costs.

    python -m benchmarks.dispatch [--rounds N] [--json]

Every number is a ratio within one run. README.md says what is compared with what.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from dispatch_runtime.tensors import Tensor, wrap

from benchmarks.layer import ROOT, generate, load
from benchmarks.rounds import Result, Samples, arguments, calls, cpu, interleaved, median, ratio, tell

SIZES = (12, 100)
Case = Callable[[], float]


def by_hand(kernels: Any) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Any]]:
    """What a person would write instead of a layer: unwrap, kernel, rewrap in one function."""

    def neg(tensor: Tensor) -> Tensor:
        return wrap(kernels.neg(tensor.primitive), tensor.device)

    def same(tensor: Tensor) -> Any:
        return kernels.same(tensor.primitive)

    return neg, same


def choosing_nothing(function: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
    """A facade that makes no choice."""

    def facade(tensor: Tensor) -> Any:
        return function(tensor)

    return facade


def by_single(kinds: list[type[Tensor]], function: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
    """functools.singledispatch over one class of tensors per backend."""

    @functools.singledispatch
    def same(tensor: Any) -> Any:
        raise TypeError(type(tensor))

    for kind in kinds:
        same.register(kind)(lambda tensor: function(tensor))
    return same


def by_plum(kinds: list[type[Tensor]], function: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
    """plum over one class of tensors per backend."""
    import plum

    dispatch = plum.Dispatcher()
    same: Any = None
    for kind in kinds:

        def one(tensor: Any) -> Any:
            return function(tensor)

        one.__name__ = one.__qualname__ = "same"
        one.__annotations__ = {"tensor": kind, "return": Any}
        same = dispatch(one)
    found: Callable[[Tensor], Any] = same
    return found


def of_kind(kind: type[Tensor], tensor: Tensor) -> Tensor:
    """The same tensor as one of another class."""
    made = kind.__new__(kind)
    made.primitive, made.device = tensor.primitive, tensor.device
    return made


def on(package: ModuleType, index: int, primitive: torch.Tensor) -> Tensor:
    """The torch tensor as one of the backend of that number."""
    return wrap(primitive, getattr(package, f"Bench{index}")(0))


def measured(packages: dict[int, ModuleType], rounds: int) -> Samples:
    """Nanoseconds per call of every form."""
    one = torch.ones(1)
    kernels = importlib.import_module("benchkernels").Kernels(None)
    neg, same = by_hand(kernels)
    cases: dict[str, Case] = {"torch.neg": calls(torch.neg, one)}
    for size, package in packages.items():
        last = on(package, size - 1, one)
        cases[f"neg generated {size}"] = calls(package.neg, last)
        cases[f"neg by hand {size}"] = calls(neg, last)
        cases[f"same generated {size}"] = calls(package.same, last)
        cases[f"same by hand {size}"] = calls(same, last)
        cases[f"same no choice {size}"] = calls(choosing_nothing(same), last)
        cases[f"wrapped {size}"] = calls(package.neg, on(package, 0, one))
        cases[f"plain {size}"] = calls(package.neg, one)
    largest = packages[SIZES[-1]]
    second, hundredth = on(largest, 1, one), on(largest, SIZES[-1] - 1, one)
    cases["second"] = calls(largest.same, second)
    cases["hundredth"] = calls(largest.same, hundredth)
    kinds = [type(f"Tensor{index}", (Tensor,), {"__slots__": ()}) for index in range(SIZES[-1])]
    cases["singledispatch"] = calls(by_single(kinds, same), of_kind(kinds[-1], hundredth))
    if importlib.util.find_spec("plum"):
        cases["plum"] = calls(by_plum(kinds, same), of_kind(kinds[-1], hundredth))
    return interleaved(cases, rounds)


def dispatch_results(samples: Samples) -> list[Result]:
    """The gates of a call."""
    results = []
    for size in SIZES:
        results += [
            Result(
                f"neg, {size} backends: generated / by hand",
                ratio(samples, f"neg generated {size}", f"neg by hand {size}"),
                limit=1.05,
            ),
            Result(
                f"kernel that returns its argument, {size} backends: generated / facade without a choice",
                ratio(samples, f"same generated {size}", f"same no choice {size}"),
                limit=1.3,
            ),
            Result(
                f"neg, {size} backends: (plain tensor - wrapped one) / torch.neg",
                statistics.median(
                    (plain - wrapped) / neg
                    for plain, wrapped, neg in zip(
                        samples[f"plain {size}"], samples[f"wrapped {size}"], samples["torch.neg"], strict=True
                    )
                ),
                limit=0.6,
            ),
        ]
    results.append(Result("hundredth backend / second", ratio(samples, "hundredth", "second"), limit=1.1))
    hand = f"same by hand {SIZES[-1]}"
    for other in ("singledispatch", "plum"):
        if other in samples:
            results += [
                Result(
                    f"what choosing costs, {SIZES[-1]} backends: {other} / generated",
                    statistics.median(
                        (theirs - direct) / (ours - direct)
                        for theirs, ours, direct in zip(
                            samples[other], samples["hundredth"], samples[hand], strict=True
                        )
                    ),
                    limit=5,
                    at_least=True,
                ),
                Result(
                    f"the whole call, {SIZES[-1]} backends: {other} / generated", ratio(samples, other, "hundredth")
                ),
            ]
    return [*results, Result("torch.neg on one element", median(samples, "torch.neg"), "ns")]


IMPORTS = """
import time
import torch
known = time.process_time()
import torchdispatch
print(time.process_time() / known)
"""
"""Both imports in one process, from its start: two processes differ by more than the package takes."""


def import_results(rounds: int) -> list[Result]:
    """What `import torchdispatch` costs beside `import torch`."""
    command = [sys.executable, "-c", IMPORTS]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    ratios = [
        float(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)
        for _ in range(rounds + 1)
    ][1:]  # the first may have to compile
    return [Result("import torchdispatch / import torch", statistics.median(ratios), limit=1.03)]


def mypy_results(folder: Path) -> list[Result]:
    """What type checking 100 backends x 20 ops costs beside an empty module, torch and the runtime being known."""
    generated = generate(folder / "typed", "benchtyped", 100, 20)
    empty = folder / "empty.py"
    empty.write_text("")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--python-version",
        "3.11",
        "--cache-dir",
        str(folder / "mypy"),
    ]
    environment = {"MYPYPATH": f"{generated}:{folder / 'typed'}:{ROOT / 'runtime'}", "PATH": "/usr/bin:/bin"}
    package = generated / "benchtyped"

    def check(target: Path) -> float:
        return cpu([*command, str(target)], env=environment)()

    started = time.monotonic()
    check(package), check(empty)  # fills the cache, which has torch from then on
    cold = time.monotonic() - started
    spent = []
    for number in range(3):
        for path in package.rglob("*.py"):
            path.write_text(f"{path.read_text()}# {number}\n")  # so that every module is checked again
        spent.append(check(package) - check(empty))
    return [
        Result("mypy --strict, 100 backends x 20 ops, above an empty module", statistics.median(spent), "s", limit=3),
        Result("mypy --strict with an empty cache, torch included", cold, "s"),
    ]


def run() -> int:
    """Measure everything; the exit code."""
    asked = arguments(__doc__, rounds=41)
    folder = Path(tempfile.mkdtemp(prefix="dispatchgen-bench-"))
    try:
        packages = {size: load(folder / str(size), f"bench{size}", size) for size in SIZES}
        results = dispatch_results(measured(packages, asked.rounds))
        results += import_results(max(5, asked.rounds // 4))
        results += mypy_results(folder)
    finally:
        shutil.rmtree(folder)
    return tell(results, as_json=asked.json)


if __name__ == "__main__":
    sys.exit(run())
