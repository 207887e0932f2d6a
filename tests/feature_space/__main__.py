"""Every feature set of every catalog, generated, imported and called: `python -m tests.feature_space`.

It runs on all processors and shows how far it is. With `--state FILE` it goes on where an earlier run of the same code
was stopped. At the end it names every cell of the support matrix that no build executed; the exit code is 1 where there
is one, or where an arm does not do what the catalog says.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, TextIO

from tests.feature_space.reader import Spec
from tests.feature_space.space import CATALOGS, cells_of, prepare
from tests.feature_space.work import Task, done, fingerprint, tasks


class Progress:
    """What is known so far, also of an earlier run, and a line for a person at a terminal."""

    def __init__(self, state: Path | None) -> None:
        self.known: dict[str, Any] = {}
        self.executed: dict[str, set[tuple[str, ...]]] = {name: set() for name in CATALOGS}
        self.wrong: list[str] = []
        self.stream: TextIO | None = None
        mark = fingerprint()
        if state is not None:
            lines = state.read_text(encoding="utf-8").splitlines() if state.exists() else []
            fresh = not lines or json.loads(lines[0]) != mark
            for line in lines[1:] if not fresh else ():
                try:
                    self._learn(*json.loads(line))
                except ValueError:  # cut off in the middle of a line
                    break
            self.stream = state.open("w", encoding="utf-8")
            self.stream.write(json.dumps(mark) + "\n")
            for entry in self.known.values():
                self.stream.write(json.dumps(entry) + "\n")

    def _learn(self, task: list[Any], executed: list[list[str]], wrong: list[str]) -> None:
        self.known[json.dumps(task)] = (task, executed, wrong)
        self.executed[task[0]] |= set(map(tuple, executed))
        self.wrong += [f"{task[0]} with {','.join(task[1]) or 'no features'}: {each}" for each in wrong]

    def take(self, task: Task, executed: list[list[str]], wrong: list[str]) -> None:
        """Remember what a build did; of its cells, only those that are news."""
        news = [each for each in executed if tuple(each) not in self.executed[task[0]]]
        self._learn(json.loads(json.dumps(task)), news, wrong)
        if self.stream is not None:
            self.stream.write(json.dumps((task, news, wrong)) + "\n")
            self.stream.flush()

    def has(self, task: Task) -> bool:
        """Whether the build was done before."""
        return json.dumps(task) in self.known


def report(catalogs: list[str], folder: Path, progress: Progress) -> int:
    """Print what was executed and what never was; how many cells that are."""
    missed = 0
    for name in catalogs:
        spec = Spec(prepare(name, folder), ())
        seen = progress.executed[name]
        present = {each[:5] for each in seen if each[5] != "absent"}
        never = [cell for cell in cells_of(spec) if cell not in present]
        kinds = [sum(1 for each in seen if each[5] == kind) for kind in ("kernel", "error", "value", "absent")]
        print(
            f"{name}: {len(present)} of {len(present) + len(never)} cells executed; arms seen:"
            f" {kinds[0]} kernels, {kinds[1]} errors, {kinds[2]} answers, {kinds[3]} left out"
        )
        for op, backend, runtime, wrapper, target in never:
            where = f"{backend}[{runtime}]" if runtime else backend
            print(
                f"  never executed: {op} on {wrapper} {where}{f' to {target}' if target else ''}".replace("  on", " on")
            )
        missed += len(never)
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.feature_space", description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", action="store_true", help="the empty set, every feature, every pair, and all")
    parser.add_argument("--catalog", action="append", choices=CATALOGS, help="one catalog; the option again for more")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--state", type=Path, help="where to remember what is done, to go on from there")
    options = parser.parse_args()
    catalogs = options.catalog or list(CATALOGS)
    with tempfile.TemporaryDirectory() as kept:
        folder = Path(kept)
        progress = Progress(options.state)
        todo = list(tasks(catalogs, folder, options.pairs))
        left = [task for task in todo if not progress.has(task)]
        if left:
            _work(left, folder, len(todo), options.jobs, progress)
        for each in progress.wrong[:100]:
            print(each)
        missed = report(catalogs, folder, progress)
    print(f"{len(todo)} builds, {len(progress.wrong)} things wrong, {missed} cells never executed")
    return 1 if progress.wrong or missed else 0


def _work(left: list[Task], folder: Path, total: int, jobs: int, progress: Progress) -> None:
    from rich.console import Console
    from rich.progress import Progress as Bar

    with (
        ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool,
        Bar(console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar,
    ):
        line = bar.add_task("builds", total=total, completed=total - len(left))
        for future in as_completed([pool.submit(done, task, folder) for task in left]):
            task, executed, expected, wrong = future.result()
            missed = [each for each in expected if each not in executed]
            if missed and not wrong:
                wrong = [f"not executed: {missed}"]
            progress.take(task, executed, wrong)
            bar.advance(line)


if __name__ == "__main__":
    sys.exit(main())
