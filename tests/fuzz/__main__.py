"""`python -m tests.fuzz --seconds 600`: hostile input until the time is over, or until something is hurt by it.

Hypothesis makes the input and shrinks what hurts. A crasher is kept in `tests/fuzz/corpus/`, which the tests replay from
then on, and the exit code is 1. `--seed` makes a run repeatable; it is printed.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import random
import resource
import sys
import time
import traceback
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded

from tests.fuzz.targets import MEGABYTES, TARGETS, hurt, resident

CORPUS = Path(__file__).parent / "corpus"
ROUND = {"source": 400, "predicate": 400, "project": 60}
"""How many inputs a round gives to each target."""
ADDRESSES = 4 * 2**30
"""The memory that the process may have at all: what asks for more raises MemoryError."""


def attack(target: str, seed: int, deadline: float) -> tuple[int, bytes | None]:
    """How many inputs one round made, and the smallest that hurt, if one did."""
    made, crasher = 0, None

    @seeded(seed)
    @settings(
        max_examples=ROUND[target],
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @given(TARGETS[target][1]())
    def inputs(data: bytes) -> None:
        nonlocal made, crasher
        if crasher is None and time.monotonic() > deadline:
            return
        made += 1
        problem = hurt(target, data)
        if problem is not None:
            crasher = data
            raise AssertionError("hurt") from problem

    try:
        inputs()
    except Exception:
        if crasher is None:
            raise
    return made, crasher


def keep(target: str, data: bytes) -> Path:
    """Put a crasher where the tests replay it from."""
    path = CORPUS / target / hashlib.sha256(data).hexdigest()[:12]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--target", action="append", choices=list(TARGETS), help="one of them; again for more")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    print(f"seed {options.seed}", flush=True)
    begun, counts, rounds = time.monotonic(), dict.fromkeys(options.target or TARGETS, 0), 0
    warm = 0
    while time.monotonic() < begun + options.seconds:
        for target in counts:
            made, crasher = attack(target, options.seed + rounds, begun + options.seconds)
            counts[target] += made
            if crasher is not None:
                print(f"{target} is hurt by {keep(target, crasher)}:\n{crasher[:2000]!r}")
                problem = hurt(target, crasher)
                if problem is not None:
                    traceback.print_exception(problem)
                return 1
        rounds += 1
        gc.collect()
        warm = warm or (resident() if rounds == 3 else 0)
        if warm and resident() > warm + MEGABYTES:
            print(f"the process grew from {warm} to {resident()} MB in {rounds} rounds")
            return 1
    told = ", ".join(f"{count} to {target}" for target, count in counts.items())
    print(f"{rounds} rounds in {time.monotonic() - begun:.0f} s: {told}; nothing was hurt; {resident()} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
