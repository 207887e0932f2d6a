"""`python -m tests.mutation [PART ...]`: one thing at a time is made wrong in the generator, and its tests must notice.

Works in copies of the checkout in a temporary folder. What survives is printed with its place and the change. It has to
be killed by a test or explained in `tests/mutation/explained.yaml`; where neither is so, the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import yaml
from cosmic_ray.work_item import MutationSpec

from tests.mutation import operators
from tests.mutation.parts import ROOT, Part, parts
from tests.mutation.work import Change, enter_copy, mutations, pass_, sample, survives

EXPLAINED = Path(__file__).parent / "explained.yaml"


def explained() -> dict[Change, str]:
    """The changes that do no harm, and why."""
    listed = yaml.safe_load(EXPLAINED.read_text(encoding="utf-8")) or []
    return {Change(each["file"], each["old"], each["new"]): each["why"] for each in listed}


def survivors(
    part: Part, chosen: list[MutationSpec], pool: ProcessPoolExecutor
) -> Iterator[tuple[MutationSpec, Change]]:
    """The mutations that the tests of the part do not notice."""
    if not pool.submit(pass_, part.tests, 10 * part.timeout, aloud=True).result():
        raise SystemExit(f"the tests of {part.name} fail before anything is changed")
    made = pool.map(survives, chosen, [part.tests] * len(chosen), [part.timeout] * len(chosen))
    for done, (mutation, change) in enumerate(zip(chosen, made, strict=True), 1):
        if change is not None:
            yield mutation, change
        if sys.stderr.isatty() or done % 50 == 0:
            end = "\r" if sys.stderr.isatty() else "\n"
            print(f"{part.name}: {done} of {len(chosen)}", end=end, file=sys.stderr, flush=True)


def told(part: Part, options: argparse.Namespace, pool: ProcessPoolExecutor, folder: Path) -> bool:
    """Whether all that survives in the part is explained, and no explanation of it is idle; prints what is not."""
    found = mutations(part, folder, options.only)
    share = part.share if options.share is None else options.share
    chosen = sample(found, share, options.seed)
    if len(chosen) < len(found):
        print(f"{part.name}: {len(chosen)} of {len(found)} mutations, drawn with seed {options.seed}", flush=True)
    reasons, alive, bare = explained(), [], 0
    for mutation, made in survivors(part, chosen, pool):
        alive.append(made)
        if made not in reasons:
            bare += 1
            where = f"{mutation.module_path}:{mutation.start_pos[0]}"
            print(f"{where}: {mutation.operator_name.partition('/')[2]}\n  - {made.old}\n  + {made.new}", flush=True)
    print(
        f"{part.name}: {len(chosen) - len(alive)} of {len(chosen)} killed, {len(alive) - bare} explained, {bare} survived",
        flush=True,
    )
    tried_whole = {str(each.module_path) for each in found} if len(chosen) == len(found) else set()
    idle = [made for made in reasons if made.file in tried_whole and made not in alive]
    for made in idle:
        print(f"{made.file}: no longer survives, take it out of explained.yaml\n  - {made.old}\n  + {made.new}")
    return not bare and not idle


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__.partition("\n")[0])
    parser.add_argument("part", nargs="*", help=f"one of {', '.join(parts())}; all unless some are named")
    parser.add_argument("--workers", type=int, default=1, help="how many are tried at once, each in its own copy")
    parser.add_argument("--share", type=float, help="of the mutations, drawn by --seed; 1 for all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", metavar="TEXT", help="the modules with this in their path")
    options = parser.parse_args()
    unknown = set(options.part) - set(parts())
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    os.chdir(ROOT)
    operators.register()
    with tempfile.TemporaryDirectory() as folder:
        context = get_context("spawn")
        with ProcessPoolExecutor(options.workers, context, initializer=enter_copy, initargs=(folder,)) as pool:
            said = [
                told(part, options, pool, Path(folder))
                for name, part in parts().items()
                if name in (options.part or parts())
            ]
    return 0 if all(said) else 1


if __name__ == "__main__":
    sys.exit(main())
