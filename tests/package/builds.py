"""Builds of a catalog for any set of features, and their type check."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from filelock import FileLock

from dispatchgen.plan import plan
from dispatchgen.render import render
from tests.shipped import ROOT, build_of, catalog_of, template_set

Build = Callable[..., ModuleType]


def write_build(spec: Path, features: tuple[str, ...], package: str, out: Path) -> None:
    """Render a build of a catalog under a name of its own, as its templates give it."""
    catalog = replace(catalog_of(spec), package=package)
    chosen = build_of(catalog, *features, default=False)
    files, findings = render(plan(catalog, template_set(), chosen), template_set())
    assert not findings
    for file in files:
        path = out / package / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text, encoding="utf-8")


def type_check(folder: Path, packages: list[str], *paths: Path) -> subprocess.CompletedProcess[str]:
    """mypy --strict over packages in a folder; what it learns of torch is kept between runs."""
    cache_dir = ROOT / ".mypy_cache" / "generated"
    cache_dir.mkdir(parents=True, exist_ok=True)
    where = os.pathsep.join(map(str, [folder, *(paths or (ROOT / "runtime",))]))
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file=",
        "--strict",
        "--warn-unreachable",
        "--python-version=3.11",
        "--untyped-calls-exclude=torch",
    ]
    command += [f"--cache-dir={cache_dir}", "--no-error-summary", "--hide-error-context"]
    command += [part for package in packages for part in ("-p", package)]
    with FileLock(cache_dir / "lock"):
        return subprocess.run(
            command, cwd=folder, env={**os.environ, "MYPYPATH": where}, capture_output=True, text=True, timeout=110
        )
