"""Any catalog that is right generates, imports, and does on every variant what a second reader of it says."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from dispatchgen.findings import has_errors
from dispatchgen.model.build import read_catalog
from dispatchgen.validate import validate
from tests.feature_space.space import explore
from tests.property.catalogs import catalogs, written
from tests.shipped import build_of, template_set

SLOW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def holds(catalog: tuple[dict[str, Any], list[dict[str, Any]]], data: st.DataObject) -> None:
    features = tuple(data.draw(st.lists(st.sampled_from(sorted(catalog[0]["features"])), unique=True)))
    with tempfile.TemporaryDirectory() as kept:
        folder = written(catalog, Path(kept) / "spec")
        read, findings = read_catalog(folder, template_set())
        assert read is not None, findings
        findings = validate(read, template_set(), build=build_of(read, *features, default=False))
        assert not has_errors(findings), findings
        found = explore(folder, features, Path(kept))
    event(f"{len({key[1:3] for key in found.executed})} variants")
    assert not found.wrong, "\n".join(found.wrong)
    assert found.executed == found.expected


@settings(SLOW, max_examples=25)
@given(catalogs(), st.data())
def test_a_random_catalog_does_what_it_says(catalog: Any, data: st.DataObject) -> None:
    holds(catalog, data)


@pytest.mark.slow
@settings(SLOW, max_examples=120)
@given(catalogs(), st.data())
def test_many_random_catalogs_do_what_they_say(catalog: Any, data: st.DataObject) -> None:
    holds(catalog, data)
