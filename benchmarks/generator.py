"""What `dispatchgen check` and `dispatchgen generate` cost, and how that grows with the catalog.

    python -m benchmarks.generator [--rounds N] [--json]

Processor time of fresh processes, which other work on the machine disturbs less than the time that passes.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from benchmarks.layer import ROOT, write_catalog
from benchmarks.rounds import Result, arguments, cpu, interleaved, median, ratio, tell
from dispatchgen.cache import FolderCache, NoCache
from dispatchgen.check.verdicts import verdicts
from dispatchgen.digests import sha256
from dispatchgen.disk import look
from dispatchgen.features import Selection, resolve
from dispatchgen.format import FormattedFile, format_files
from dispatchgen.manifest import manifest_of
from dispatchgen.model.build import read_catalog
from dispatchgen.plan import plan
from dispatchgen.render import RenderedFile, render
from dispatchgen.template_set import read_set

SIZES = (10, 100, 1000)


def project(folder: Path) -> dict[str, str]:
    """Copy the shipped catalog and template set into a folder and generate there; gives back the environment for it."""
    shutil.copytree(ROOT / "spec", folder / "spec")
    shutil.copytree(ROOT / "templates" / "torch", folder / "templates")
    (folder / "pyproject.toml").write_text(
        f'[tool.dispatchgen]\ntemplates = "templates"\nsources = ["{(ROOT / "runtime").as_posix()}"]\n'
    )
    environment = {**os.environ, "DISPATCHGEN_CACHE": str(folder / "cache"), "NO_COLOR": "1"}
    dispatchgen(folder, environment, "generate")()
    return environment


def dispatchgen(folder: Path, environment: dict[str, str], *words: str) -> Callable[[], float]:
    """A case: seconds of processor time that a command takes in the folder."""
    return cpu([sys.executable, "-m", "dispatchgen", *words], cwd=folder, env=environment)


def command_results(rounds: int) -> list[Result]:
    """The gates of commands on the shipped catalog."""
    folder = Path(tempfile.mkdtemp(prefix="dispatchgen-bench-"))
    try:
        environment = project(folder)
        generate = dispatchgen(folder, environment, "generate")
        changed = folder / "spec" / "ops" / "collective.yaml"
        text = changed.read_text()
        count = iter(range(1_000_000))

        def one_op() -> float:
            changed.write_text(text.replace("\n    doc: ", f"\n    doc: Number {next(count)}. ", 1))
            spent = generate()
            changed.write_text(text)
            generate()
            return spent

        def cold() -> float:
            shutil.rmtree(folder / "cache")
            shutil.rmtree(folder / "generated")
            return generate()

        samples = interleaved(
            {
                "python": cpu([sys.executable, "-c", "pass"]),
                "fast": dispatchgen(folder, environment, "check", "--fast"),
                "check": dispatchgen(folder, environment, "check"),
                "generate": generate,
                "one op": one_op,
            },
            rounds,
        )
        spent = [cold() for _ in range(3)]
    finally:
        shutil.rmtree(folder)
    return [
        Result("check --fast / python -c pass", ratio(samples, "fast", "python"), limit=8),
        Result("check, everything up to date", median(samples, "check"), "s", limit=0.5),
        Result("generate, nothing changed", median(samples, "generate"), "s", limit=0.5),
        Result("generate, one op changed", median(samples, "one op"), "s", limit=0.8),
        Result("generate, from nothing and without a cache", statistics.median(spent), "s"),
        Result("python -c pass", median(samples, "python"), "s"),
    ]


class Growth:
    """Planning, rendering and comparing the package of a catalog with so many backends."""

    def __init__(self, folder: Path, backends: int) -> None:
        write_catalog(folder, "grown", backends, 2)
        template_set, findings = read_set(ROOT / "templates" / "torch")
        assert template_set is not None, findings
        catalog, findings = read_catalog(folder / "spec", template_set)
        assert catalog is not None, findings
        build, findings = resolve(catalog, Selection())
        assert build is not None, findings
        self.out, self.catalog, self.set, self.build = folder / "out", catalog, template_set, build
        self.cache = FolderCache(folder / "cache")
        for file in self.make():
            (self.out / "grown" / file.path).parent.mkdir(parents=True, exist_ok=True)
            (self.out / "grown" / file.path).write_text(file.text)

    def rendered(self) -> tuple[RenderedFile, ...]:
        """The files as their templates give them."""
        files, findings = render(plan(self.catalog, self.set, self.build), self.set, self.cache)
        assert not findings, findings
        return files

    def make(self) -> tuple[FormattedFile, ...]:
        """The files as they would be if nothing were formatted."""
        return tuple(
            FormattedFile(file.path, file.template, file.digest, sha256(file.text), file.text)
            for file in self.rendered()
        )

    def compare(self) -> float:
        """Seconds of processor time for all three."""
        started = time.process_time()
        files = self.make()
        disk = look(self.out, "grown", {file.path for file in files})
        verdicts(files, manifest_of(files, self.set.folders, self.build, Selection()), disk)
        return time.process_time() - started

    def black(self) -> float:
        """Seconds of processor time for formatting everything anew."""
        files = self.rendered()
        started = time.process_time()
        format_files(files, NoCache())
        return time.process_time() - started


def growth_results(rounds: int) -> list[Result]:
    """The gates of growth: how much more ten times the backends take, in units of ten times as much."""
    folder = Path(tempfile.mkdtemp(prefix="dispatchgen-bench-"))
    try:
        grown = {size: Growth(folder / str(size), size) for size in SIZES}
        samples = interleaved({str(size): each.compare for size, each in grown.items()}, rounds)
        black = [(size, grown[size].black()) for size in SIZES[:2]]
    finally:
        shutil.rmtree(folder)
    results = [
        Result(
            f"plan, render, compare: {more} backends / {more // less} x {less} backends",
            ratio(samples, str(more), str(less)) * less / more,
            limit=1.2,
        )
        for less, more in pairwise(SIZES)
    ]
    results += [Result(f"plan, render, compare: {size} backends", median(samples, str(size)), "s") for size in SIZES]
    return [*results, *(Result(f"black: {size} backends", spent, "s") for size, spent in black)]


def run() -> int:
    """Measure everything; the exit code."""
    asked = arguments(__doc__, rounds=15)
    results = command_results(asked.rounds) + growth_results(max(3, asked.rounds // 3))
    return tell(results, as_json=asked.json)


if __name__ == "__main__":
    sys.exit(run())
