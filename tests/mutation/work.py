"""The mutations of a part, and what its tests say to each, in copies of the checkout."""

from __future__ import annotations

import compileall
import difflib
import importlib
import os
import random
import shutil
import signal
import sys
import tempfile
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from cosmic_ray.commands import init
from cosmic_ray.mutating import use_mutation
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec

from tests.mutation import operators
from tests.mutation.parts import ROOT, WORTH_IT, Part, silent

LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info")
AT_HAND = ("black", "hypothesis.strategies", "jinja2", "pydantic", "pytest", "rich.console", "typer", "yaml")
"""What every run of the tests would load once more; nothing that is mutated."""


class Change(NamedTuple):
    """What a mutation does, by its text, so that lines may move."""

    file: str
    old: str
    new: str


def mutations(part: Part, folder: Path, only: str = "") -> list[MutationSpec]:
    """Every way to make the part wrong that is worth a try, in the order of the code."""
    files = [file for file in part.files if only in str(file)]
    with use_db(folder / f"{part.name}.sqlite", WorkDB.Mode.create) as session:
        init(files, session, {})
        found = [each for item in session.work_items for each in item.mutations]
    spans = {file: silent(file.read_text(encoding="utf-8")) for file in files}
    kept = [
        each
        for each in found
        if WORTH_IT.fullmatch(each.operator_name)
        and not any(start <= each.start_pos and each.end_pos <= end for start, end in spans[each.module_path])
    ]
    return sorted(kept, key=lambda each: (str(each.module_path), each.start_pos, each.operator_name, each.occurrence))


def sample(found: list[MutationSpec], share: float, seed: int) -> list[MutationSpec]:
    """A share of the mutations, the same for the same seed, in their order."""
    chosen = random.Random(seed).sample(range(len(found)), max(1, round(share * len(found))) if found else 0)
    return [found[index] for index in sorted(chosen)]


def enter_copy(folder: str) -> None:
    """Work in a copy of the checkout that nobody else works in."""
    operators.register()
    copy = Path(tempfile.mkdtemp(dir=folder)) / "checkout"
    shutil.copytree(ROOT, copy, ignore=LEFT_OUT)
    os.chdir(copy)
    paths = [str(copy / each) for each in ("generator", "runtime", "generated", ".")]
    # `CI` makes hypothesis try the same examples each time and remember none.
    os.environ |= {"PYTHONPATH": os.pathsep.join(paths), "CI": "1", "DISPATCHGEN_CACHE": ""}
    sys.path[:0] = paths
    # The copies keep the times of their files, so that what is compiled here is never taken for a changed module.
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(copy.parent / "bytecode")
    for each in (*paths[:3], copy / "tests"):
        compileall.compile_dir(each, quiet=2)
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    for module in AT_HAND:
        importlib.import_module(module)


def pass_(tests: tuple[str, ...], timeout: float, aloud: bool = False) -> bool:
    """Whether the tests pass in the copy and end in time, in a process that has the libraries at hand."""
    child = get_context("fork").Process(target=_run, args=(tests, aloud))
    child.start()
    child.join(timeout)
    if child.exitcode is None and child.pid is not None:
        os.killpg(child.pid, signal.SIGKILL)
        child.join()
    return child.exitcode == 0


def survives(mutation: MutationSpec, tests: tuple[str, ...], timeout: float) -> Change | None:
    """What the mutation changes, where the tests do not notice it."""
    operator = get_operator(mutation.operator_name)(**mutation.operator_args)
    with use_mutation(mutation.module_path, operator, mutation.occurrence) as (old, new):
        return _change(mutation, old, new) if pass_(tests, timeout) else None


def _run(tests: tuple[str, ...], aloud: bool) -> None:
    import pytest

    os.setsid()
    for module in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[module]
    if not aloud:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
    options = [
        "-x",
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "--assert=plain",
        f"--basetemp={Path.cwd().parent / 'tmp'}",
    ]
    sys.exit(pytest.main([*options, *tests]))


def _change(mutation: MutationSpec, old: str, new: str) -> Change:
    lines = [line for line in difflib.ndiff(old.splitlines(), new.splitlines()) if line[0] in "-+"]
    before, after = (" ".join(line[2:].strip() for line in lines if line[0] == sign) for sign in "-+")
    return Change(str(mutation.module_path), before, after)
