"""What the tests of the generated package share: builds for any set of features, imported."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.package.builds import Build, write_build
from tests.shipped import SPEC


@pytest.fixture
def build_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Build]:
    """What renders a build for some features, and imports it."""
    made: list[str] = []
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def build(*features: str, spec: Path = SPEC, name: str | None = None) -> ModuleType:
        package = name or "built_" + "_".join(features or ("nothing",))
        made.append(package)
        write_build(spec, features, package, tmp_path)
        importlib.invalidate_caches()
        return importlib.import_module(package)

    yield build
    for package in made:
        for module in [each for each in sys.modules if each.partition(".")[0] == package]:
            del sys.modules[module]
