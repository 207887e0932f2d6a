"""Overlays over a catalog: what they add, what they change, what they are refused for."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from dispatchgen.findings import Finding
from dispatchgen.model.build import read_catalog
from dispatchgen.model.catalog import Catalog
from dispatchgen.validate import validate

if TYPE_CHECKING:
    from tests.unit.conftest import Workshop


def read(workshop: Workshop, *overlays: str) -> tuple[Catalog | None, tuple[Finding, ...]]:
    paths = []
    for number, text in enumerate(overlays):
        paths.append(Path(f"over{number}.yaml"))
        paths[-1].write_text("version: 1\n" + dedent(text), encoding="utf-8")
    catalog, findings = read_catalog(Path("spec"), workshop.template_set, paths)
    return catalog, findings if catalog is None else (*findings, *validate(catalog, workshop.template_set))


def merged(workshop: Workshop, *overlays: str) -> Catalog:
    catalog, findings = read(workshop, *overlays)
    assert catalog is not None, findings
    assert findings == ()
    return catalog


def problems(workshop: Workshop, *overlays: str) -> list[str]:
    return [f"{each.span} {each.code} {each.message}" for each in read(workshop, *overlays)[1]]


def test_without_an_entry_nothing_changes_but_the_files(workshop: Workshop) -> None:
    catalog = merged(workshop, "")
    assert catalog.files == tuple(sorted((*workshop.catalog.files, "over0.yaml"), key=str.encode))
    assert catalog.backends == workshop.catalog.backends


def test_a_backend_with_its_feature(workshop: Workshop) -> None:
    catalog = merged(
        workshop,
        """\
        features: {default: [drill], drill: []}
        backends: [{name: Drill, id: 12, cfg: feature = "drill", kernels: drills:Drill}]
        """,
    )
    assert [backend.name for backend in catalog.backends] == ["Hammer", "Saw", "Box", "Drill"]
    drill = catalog.backends[-1]
    assert str(drill.span) == "over0.yaml:3:19"
    assert str(drill.where("kernels")) == "over0.yaml:3:67"
    implied = {feature.name: feature.implies for feature in catalog.features}
    assert implied["default"] == ("hammer", "logged", "drill")
    assert implied["drill"] == ()


def test_an_entry_is_changed_key_by_key_in_its_old_place(workshop: Workshop) -> None:
    catalog = merged(workshop, "backends: [{name: Hammer, override: true, priority: 7, talks: null}]\n")
    old, new = workshop.catalog.backends[0], catalog.backends[0]
    assert (new.name, new.id, new.cfg, new.kernels) == (old.name, old.id, old.cfg, old.kernels)
    assert (new.priority, dict(new.capabilities)) == (7, {})
    assert str(new.where("priority")) == "over0.yaml:2:53"
    assert str(new.where("kernels")).startswith("spec/backends.yaml:")


def test_features_and_cfgs_are_changed_in_a_form_of_their_own(workshop: Workshop) -> None:
    catalog = merged(
        workshop,
        """\
        features:
          night: {override: true, implies: [saw, hammer]}
        cfgs:
          any_tool: {override: true, cfg: feature = "saw"}
        """,
    )
    assert {feature.name: feature.implies for feature in catalog.features}["night"] == ("saw", "hammer")
    assert str(catalog.cfgs[0].predicate) == 'feature = "saw"'


def test_operations_and_families(workshop: Workshop) -> None:
    catalog = merged(
        workshop,
        """\
        ops:
          WorkOps:
            - {name: drop, doc: Drop it., route: value, args: [{name: value, type: value}], returns: {type: none}, otherwise: error}
            - {name: lift, override: true, doc: Lift it high.}
        families:
          - family: RestOps
            doc: What is not done.
            ops: [{name: sleep, doc: Sleep., route: value, args: [{name: value, type: value}], returns: {type: none}}]
          - {family: MoveOps, override: true, doc: What is moved.}
        """,
    )
    assert [(family.name, [op.name for op in family.ops]) for family in catalog.families] == [
        ("MoveOps", ["carry"]),
        ("WorkOps", ["lift", "is_heavy", "log", "drop"]),
        ("RestOps", ["sleep"]),
    ]
    ops = {op.name: op for _, op in catalog.ops}
    assert ops["lift"].doc == "Lift it high."
    assert ops["lift"].args == {op.name: op for _, op in workshop.catalog.ops}["lift"].args
    assert catalog.families[0].doc == "What is moved."


def test_errors_exemptions_and_wrappers(workshop: Workshop) -> None:
    catalog = merged(
        workshop,
        """\
        errors: [{code: WS101, override: true, help: Take a hammer.}]
        exemptions: [{op: lift, reason: later, until: 2999-01-01}, {backend: Saw, op: lift, reason: no, until: 2999-01-01}]
        wrappers: [{name: Logged, override: true, doc: Writes things down.}]
        """,
    )
    assert [error.help for error in catalog.errors].count("Take a hammer.") == 1
    assert [(each.backend, each.op) for each in catalog.exemptions] == [(None, "lift"), ("Saw", "lift")]
    assert catalog.wrappers[0].doc == "Writes things down."


def test_a_later_overlay_changes_an_earlier_one(workshop: Workshop) -> None:
    first = 'features: {drill: []}\nbackends: [{name: Drill, id: 12, cfg: feature = "drill"}]\n'
    second = "backends: [{name: Drill, override: true, id: 13}]\n"
    assert merged(workshop, first, second).backends[-1].id == 13
    assert problems(workshop, first, "backends: [{name: Drill, id: 13}]\n") == [
        "over1.yaml:2:19 DG117 `Drill` is there already in `backends`"
    ]


@pytest.mark.parametrize(
    ("overlay", "expected"),
    [
        ("features: {saw: [hammer]}", ["over0.yaml:2:12 DG117 `saw` is there already in `features`"]),
        ("cfgs: {any_tool: true}", ["over0.yaml:2:8 DG117 `any_tool` is there already in `cfgs`"]),
        ("backends: [{name: Saww, override: true}]", ["over0.yaml:2:19 DG118 `Saww` overrides nothing: `backends` has no such entry"]),
        ("backends: [{name: Saw, override: 1}]", ["over0.yaml:2:34 DG115 `override` must be true or false, not the number 1"]),
        ("families: [{family: WorkOps}]", ["over0.yaml:2:21 DG117 `WorkOps` is there already in `families`"]),
        ("families: [{doc: none}]", ["over0.yaml:2:12 DG115 `families` must be a list of mappings with a `family` each, not a mapping"]),
        ("ops: {WorkOp: []}", ["over0.yaml:2:7 DG118 there is no family `WorkOp` to add operations to"]),
        ("ops: []", ["over0.yaml:2:6 DG115 `ops` must be a mapping of families to lists of operations, not a list"]),
        ("backends: {}", ["over0.yaml:2:11 DG115 `backends` must be a list, not a mapping"]),
        ("features: no", ['over0.yaml:2:11 DG115 `features` must be a mapping, not the text "no"']),
        ("packag: other", ["over0.yaml:2:1 DG113 an overlay has no section `packag`"]),
        ("version: 2", ["over0.yaml:2:1 DG109 the key `version` stands here a second time"]),
        ("backends: [1]", ["over0.yaml:2:12 DG115 `backends[3]` must be a mapping, not the number 1"]),
        ("backends: [{name: [x], id: 1, cfg: true}]", ["over0.yaml:2:19 DG115 `backends[3].name` must be text, not a list"]),
        ("backends: [{name: Drill, id: 7, cfg: true}]", ["over0.yaml:2:30 DG303 Drill has the id 7, which is that of Saw"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(workshop: Workshop, overlay: str, expected: list[str]) -> None:
    assert problems(workshop, overlay + "\n") == expected


def test_the_version_is_demanded_and_checked(workshop: Workshop) -> None:
    for text, expected in (
        ("features: {}\n", "over.yaml:1:1 DG114 the key `version` is missing"),
        ("version: 2\n", "over.yaml:1:10 DG116 format version 2 is not known"),
        ("[]\n", "over.yaml:1:1 DG108 the file holds a list; it must hold a mapping of keys to values"),
    ):
        Path("over.yaml").write_text(text)
        _, findings = read_catalog(Path("spec"), workshop.template_set, [Path("over.yaml")])
        assert [f"{each.span} {each.code} {each.message}" for each in findings] == [expected]


def test_both_places_are_named(workshop: Workshop) -> None:
    _, findings = read(workshop, "backends: [{name: Saw}]\n")
    assert [str(each.span) for each in findings[0].related] == ["spec/backends.yaml:21:11"]


def test_a_spec_file_that_cannot_be_read_is_told_once(workshop: Workshop) -> None:
    workshop.write("spec/backends.yaml", "version: [\n")
    assert [text.split()[1] for text in problems(workshop, "ops: {}\n")] == ["DG103"]
