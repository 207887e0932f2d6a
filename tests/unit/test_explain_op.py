"""Why an operation does what it does: the facts are those that decide, and the remedies work."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dispatchgen.features import Selection, resolve
from dispatchgen.matrix import Cell, cells
from dispatchgen.why import Fact, Variant, facts, remedy, title, variant

if TYPE_CHECKING:
    from tests.unit.conftest import Workshop


def found(workshop: Workshop, op: str, backend: str, *features: str, **where: str | None) -> tuple[Cell, list[Fact]]:
    build = workshop.build(*features, default=False)
    at = {"runtime": None, "wrapper": None, "target": None, **where}
    for cell in cells(workshop.catalog, workshop.template_set, build):
        if (cell.op, cell.backend) == (op, backend) and all(getattr(cell, key) == at[key] for key in at):
            return cell, list(facts(cell, workshop.catalog, build))
    raise AssertionError("no such cell")


def lines(found: list[Fact], depth: int = 0) -> list[str]:
    marks = {True: "+", False: "-", None: " "}
    return [
        line
        for fact in found
        for line in (f"{marks[fact.holds]}{'  ' * depth}{fact.text}", *lines(list(fact.parts), depth + 1))
    ]


def test_a_kernel(workshop: Workshop) -> None:
    cell, why = found(workshop, "lift", "Hammer", "hammer")
    assert cell.arm.kind == "kernel"
    assert lines(why) == [
        '+Hammer is in a build with feature = "hammer"',
        '+  feature = "hammer"',
        " WorkOps requires talks",
        "+talks of Hammer: wire",
        "+kernels of Hammer: shops.hammer:Hammer",
    ]
    assert [str(fact.span) for fact in why] == [
        "spec/backends.yaml:16:10",
        "spec/ops/work.yaml:4:11",
        "spec/backends.yaml:19:12",
        "spec/backends.yaml:18:14",
    ]


def test_a_runtime_and_a_derived_cfg(workshop: Workshop) -> None:
    cell, why = found(workshop, "lift", "Box", "saw", runtime="bolts")
    assert cell.arm.kind == "absent"
    assert lines(why)[:7] == [
        "+Box is in a build with any_tool",
        '+  any(feature = "hammer", feature = "saw")',
        '-    feature = "hammer"',
        '+    feature = "saw"',
        '-its runtime bolts is in a build with feature = "night"',
        '-  feature = "night"',
        " WorkOps requires talks",
    ]


def test_every_fact_has_a_place_and_a_refusal_has_a_fact_that_does_not_hold(workshop: Workshop) -> None:
    for selection in (Selection(), Selection(("saw",), default=False), Selection(all=True)):
        catalog = workshop.catalog
        build, _ = resolve(catalog, selection)
        assert build is not None
        for cell in cells(catalog, workshop.template_set, build):
            why = list(facts(cell, catalog, build))
            assert all(fact.span is not None for fact in why)
            wrong = [fact for fact in why if fact.holds is False]
            assert bool(wrong) == (cell.arm.kind != "kernel"), (title(cell), lines(why))


def test_a_remedy_for_what_is_not_built_builds_it(workshop: Workshop) -> None:
    catalog, template_set = workshop.catalog, workshop.template_set
    build = workshop.build(default=False)
    every = cells(catalog, template_set, build)
    tried = 0
    for cell in every:
        fix = remedy(cell, catalog, template_set, build, every)
        if cell.arm.kind != "absent" or fix is None or cell.runtime:
            continue
        features = fix.rpartition(" ")[2].split(",")
        again = workshop.build(*features, default=False)
        key = replace(cell, arm=cell.arm)
        after = next(each for each in cells(catalog, template_set, again) if replace(each, arm=key.arm) == key)
        assert after.arm.kind != "absent", (title(cell), fix)
        tried += 1
    assert tried > 5


def test_remedies_for_the_rest(workshop: Workshop) -> None:
    catalog, template_set = workshop.catalog, workshop.template_set
    build = workshop.build("saw", "logged")
    every = cells(catalog, template_set, build)

    def told(op: str, backend: str) -> str | None:
        cell = next(each for each in every if (each.op, each.backend) == (op, backend) and each.wrapper is None)
        return remedy(cell, catalog, template_set, build, every)

    assert told("lift", "Hammer") is None
    assert told("lift", "Saw") == "take one of this build that can: Hammer, Box[nails]"
    assert told("is_heavy", "Saw") == "take one of this build that can: Hammer, Box[nails]"
    assert told("log", "Hammer") == "put Logged around it"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hammer", Variant("Hammer")),
        ("hammer:0", Variant("Hammer")),
        ("Hammer(3)", Variant("Hammer")),
        (" hammer() ", Variant("Hammer")),
        ("Box[nails]", Variant("Box", "nails")),
        ("box[NAILS]:1", Variant("Box", "nails")),
        ("bolts:0", Variant("Box", "bolts")),
        ("bench", Variant("Hammer")),
        ("Logged(Hammer)", Variant("Hammer", None, "Logged")),
        ("logged(Box[nails](0))", Variant("Box", "nails", "Logged")),
    ],
)
def test_a_device_is_named_in_many_ways(workshop: Workshop, text: str, expected: Variant) -> None:
    assert variant(text, workshop.catalog, workshop.template_set) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hamer", "there is no backend 'Hamer'; did you mean `Hammer`?"),
        ("Box[nail]", "there is no 'nail' here; did you mean `nails`?"),
        ("Saw[x]", "there is no 'x' here; the catalog has none"),
        ("Loged(Saw)", "there is no 'Loged' here; did you mean `Logged`?"),
        ("", "names no device"),
        ("a b", "names no device"),
        ("0", "names no device"),
        ("((((", "names no device"),
        ("Hammer" * 5000 + "!", "names no device"),
    ],
)
def test_what_names_nothing_is_told(workshop: Workshop, text: str, words: str) -> None:
    with pytest.raises(ValueError, match=r"^") as told:
        variant(text, workshop.catalog, workshop.template_set)
    assert words in str(told.value)


def test_an_exemption_and_missing_kernels(workshop: Workshop) -> None:
    Path("spec/exemptions.yaml").write_text(
        "version: 1\nexemptions:\n  - {op: lift, reason: too heavy, until: 2999-01-01}\n"
    )
    workshop.change("spec/backends.yaml", "    kernels: shops.saw:Saw\n", "")
    cell, why = found(workshop, "lift", "Hammer", "hammer")
    assert " exempted until 2999-01-01: too heavy" in lines(why)
    build = workshop.build()
    assert remedy(cell, workshop.catalog, workshop.template_set, build, ()) == (
        "write the kernel; `dispatchgen check` says its signature and where it goes"
    )
    assert "-Saw names kernels" in lines(found(workshop, "carry", "Saw", "saw", target="Saw")[1])
