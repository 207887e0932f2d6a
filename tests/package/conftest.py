"""Plumbing for the tests of the generated package: builds of the catalog for any set of features."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from dispatchgen.features import Selection, resolve
from dispatchgen.model.build import read_catalog
from dispatchgen.plan import plan
from dispatchgen.render import render
from dispatchgen.template_set import read_set

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def build_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModuleType]:
    """Render a build of the shipped catalog under a name of its own and import it."""
    made: list[str] = []

    def build(*features: str, name: str | None = None) -> ModuleType:
        package = name or "built_" + "_".join(features or ("nothing",))
        template_set, findings = read_set(ROOT / "templates" / "torch")
        assert template_set is not None, findings
        catalog, findings = read_catalog(ROOT / "spec", template_set)
        assert catalog is not None, findings
        catalog = type(catalog)(**{**catalog.__dict__, "package": package})
        chosen, findings = resolve(catalog, Selection(features=features, default=False))
        assert chosen is not None, findings
        files, findings = render(plan(catalog, template_set, chosen), template_set)
        assert not findings
        for file in files:
            path = tmp_path / package / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file.text, encoding="utf-8")
        monkeypatch.syspath_prepend(str(tmp_path))
        made.append(package)
        return importlib.import_module(package)

    yield build
    for package in made:
        for module in [each for each in sys.modules if each.partition(".")[0] == package]:
            del sys.modules[module]
