"""Play episodes of random calls and random faults, and say which did not end as they had to.

python -m tests.soak --seconds 120 --seed 1
python -m tests.soak --seed 1234 --episodes 1      # one of them again
"""

from __future__ import annotations

import argparse
import sys

from tests.soak.episodes import soak


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=120.0, help="begin no episode after so long (default: 120)")
    parser.add_argument("--seed", type=int, default=1, help="that of the first episode; each next has the next")
    parser.add_argument("--episodes", type=int, help="at most so many")
    options = parser.parse_args()
    failed = soak(options.seconds, options.seed, lambda line: print(line, flush=True), options.episodes)
    if failed:
        sys.exit(f"{len(failed)} episodes failed: seeds {', '.join(map(str, failed))}")


if __name__ == "__main__":
    main()
