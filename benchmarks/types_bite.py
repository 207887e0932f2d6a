"""Whether `mypy --strict` fails too for every arm, guard and kernel method that is deleted.

On a copy of the shipped package and its runtime, one deletion at a time, with the deletions of `check --self-test`.
One mypy stays in memory and looks only at what a deletion touches. Prints caught / total and what was not caught;
exit code 1 where that is anything.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mypy.dmypy_server import Server, process_start_options

from dispatchgen.cli import _inputs
from dispatchgen.cli._self_test import copies_of
from dispatchgen.selftest.mutation import Mutation
from dispatchgen.selftest.text import edited

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".mypy_cache" / "generated"
KINDS = ("drop an arm", "drop a kernel method", "drop guard", "drop a function")
SEED = 5


@dataclass
class Outcome:
    """How many deletions were tried and caught, by kind, and those that were not."""

    tried: Counter[str] = field(default_factory=Counter)
    caught: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)


class TypeChecker:
    """mypy over the packages in a folder, kept in memory. Raises SystemExit where it cannot read its options."""

    def __init__(self, folder: Path, packages: tuple[str, ...]) -> None:
        CACHE.mkdir(parents=True, exist_ok=True)
        (folder / "mypy.ini").write_text(f"[mypy]\nmypy_path = {folder}\nuntyped_calls_exclude = torch\n")
        flags = ["--strict", "--warn-unreachable", "--python-version=3.11", f"--config-file={folder / 'mypy.ini'}"]
        flags += [f"--cache-dir={CACHE}", "--cache-fine-grained", "--follow-imports=normal"]
        self._server = Server(process_start_options(flags, allow_sources=False), str(folder / "status.json"))
        files = [str(path) for package in packages for path in sorted((folder / package).rglob("*.py"))]
        self.first = self._server.cmd_check(files, is_tty=False, terminal_width=200, export_types=False)

    def again(self) -> dict[str, Any]:
        """What mypy says now that some files are other ones."""
        return self._server.cmd_recheck(is_tty=False, terminal_width=200, export_types=False)


def deletions(sample: int | None) -> list[tuple[Path, Mutation]]:
    """Every deletion, or so many of them drawn with a fixed seed, with the file that it is made in, below a copy."""
    settings = _inputs.settings()
    inputs, findings = _inputs.read(settings)
    assert inputs is not None, findings
    with TemporaryDirectory() as folder:
        found, problems = copies_of(settings, inputs, Path(folder))
        assert not problems, problems
        project = found[0].project
        project.write()
        made = []
        for mutation in project.mutations():
            if mutation.kind in KINDS:
                inside = project.out if mutation.file.is_relative_to(project.out) else project.sources
                made.append((mutation.file.relative_to(inside), mutation))
    return made if sample is None else random.Random(SEED).sample(made, min(sample, len(made)))


def run(folder: Path, sample: int | None = None) -> Iterator[Outcome]:
    """What came of it so far, after each deletion. `folder` is empty, and filled with the copy."""
    made = deletions(sample)
    shutil.copytree(ROOT / "generated" / "torchdispatch", folder / "torchdispatch")
    shutil.copytree(ROOT / "runtime" / "dispatch_runtime", folder / "dispatch_runtime")
    checker = TypeChecker(folder, ("torchdispatch",))
    assert checker.first["status"] == 0, checker.first
    outcome = Outcome()
    for file, mutation in made:
        path = folder / file
        old = path.read_bytes()
        path.write_bytes(edited(old, mutation.edits))
        said = checker.again()
        path.write_bytes(old)
        clean = checker.again()
        assert clean["status"] == 0, clean
        outcome.tried[mutation.kind] += 1
        if said["status"] == 0:
            outcome.missed.append(f"{file}:{mutation.line}: {mutation.kind}: {mutation.what}")
        else:
            outcome.caught[mutation.kind] += 1
        yield outcome


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--sample", type=int, help="so many deletions, drawn with a fixed seed, instead of all")
    arguments = parser.parse_args()
    outcome = Outcome()
    with TemporaryDirectory() as folder:
        for outcome in run(Path(folder), arguments.sample):
            if sys.stderr.isatty():
                print(f"\r{sum(outcome.tried.values())} deleted", end="", file=sys.stderr)
    for kind, tried in outcome.tried.items():
        print(f"{kind:<22} {outcome.caught[kind]:>4} / {tried}")
    for missed in outcome.missed:
        print(f"not caught: {missed}")
    print(f"{sum(outcome.caught.values())} / {sum(outcome.tried.values())} deletions were caught by mypy --strict")
    return int(bool(outcome.missed))


if __name__ == "__main__":
    sys.exit(main())
