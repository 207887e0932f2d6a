"""The shipped template set, and catalogs read with it: read once, however many tests ask."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from dispatchgen.features import Build, Selection, resolve
from dispatchgen.model.build import read_catalog
from dispatchgen.model.catalog import Catalog
from dispatchgen.template_set import TemplateSet, read_set

ROOT = Path(__file__).resolve().parents[1]
SPEC = ROOT / "spec"


@cache
def template_set() -> TemplateSet:
    """The shipped template set."""
    found, findings = read_set(ROOT / "templates" / "torch")
    assert found is not None, findings
    return found


@cache
def catalog_of(spec: Path = SPEC) -> Catalog:
    """The catalog in a spec folder, the shipped one where none is named."""
    found, findings = read_catalog(spec, template_set())
    assert found is not None, findings
    return found


def build_of(catalog: Catalog, *features: str, default: bool = True) -> Build:
    """The build of a catalog with these features, and those of its default unless told not to."""
    found, findings = resolve(catalog, Selection(features, default))
    assert found is not None, findings
    return found
