"""The builds to make, and making one: what a process of the feature space does."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.feature_space.space import explore, feature_sets, prepare
from tests.shipped import ROOT, SPEC

Task = tuple[str, tuple[str, ...], bool]
"""A catalog, features, and whether its kernels are recorders: where they are not, it names none."""


def tasks(catalogs: list[str], folder: Path, pairs: bool) -> Iterator[Task]:
    """All that is to be built. Burn's catalogs name no kernels, so they are tried with and without."""
    for name in catalogs:
        for features in feature_sets(prepare(name, folder), pairs):
            yield name, features, True
            if name != "shipped":
                yield name, features, False


def done(task: Task, specs: Path) -> tuple[Task, list[list[str]], list[list[str]], list[str]]:
    """What one build did: executed cells, cells that should have been, and what went wrong.

    `specs` is the folder of the prepared catalogs.
    """
    name, features, recorded = task
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = explore(SPEC if name == "shipped" else specs / name, features, Path(folder), recorded=recorded)
        except Exception as problem:
            return task, [], [], [f"the build fails: {type(problem).__name__}: {problem}"]
    return task, sorted(map(list, found.executed)), sorted(map(list, found.expected)), found.wrong


def fingerprint() -> str:
    """A hash of everything that decides what is found."""
    digest = hashlib.sha256()
    for top in ("generator", "runtime", "templates", "spec", "tests/feature_space", "tests/data"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.is_file() and path.suffix in (".py", ".jinja", ".yaml"):
                digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
