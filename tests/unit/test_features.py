from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dispatchgen.features import Build, Selection, missing, named_features, resolve, told_cfg
from dispatchgen.predicate import parse

if TYPE_CHECKING:
    from tests.unit.conftest import Workshop


@pytest.mark.parametrize(
    ("selection", "flags"),
    [
        (Selection(), ("hammer", "logged")),
        (Selection(default=False), ()),
        (Selection(("saw",)), ("hammer", "logged", "saw")),
        (Selection(("saw",), default=False), ("saw",)),
        (Selection(("night",), default=False), ("night", "saw")),
        (Selection(("default",), default=False), ("hammer", "logged")),
        (Selection(default=False, all=True), ("hammer", "logged", "night", "saw")),
        (Selection(("saw", "saw"), default=False), ("saw",)),
    ],
)
def test_features_are_resolved_as_cargo_does(workshop: Workshop, selection: Selection, flags: tuple[str, ...]) -> None:
    build, findings = resolve(workshop.catalog, selection)
    assert findings == ()
    assert build is not None
    assert build.flags == flags


def test_default_is_a_feature_itself(workshop: Workshop) -> None:
    predicate = parse('feature = "default"')
    assert workshop.build().holds(predicate)
    assert not workshop.build(default=False).holds(predicate)


def test_without_a_default_feature_nothing_is_on(workshop: Workshop) -> None:
    workshop.change("spec/backends.yaml", "  default: [hammer, logged]\n", "")
    assert workshop.build().features == frozenset()


def test_unknown_features_are_all_named(workshop: Workshop) -> None:
    build, findings = resolve(workshop.catalog, Selection(("hamer", "saw", "x")))
    assert build is None
    assert [(finding.code, finding.message, finding.fix) for finding in findings] == [
        ("DG208", "the catalog has no feature `hamer`", "did you mean `hammer`?"),
        ("DG208", "the catalog has no feature `x`", "known here: default, hammer, saw, night, logged"),
    ]


def test_a_circle_of_features_ends(workshop: Workshop) -> None:
    workshop.change("spec/backends.yaml", "  saw: []", "  saw: [night]")
    assert workshop.build("saw", default=False).flags == ("night", "saw")


@pytest.mark.parametrize(
    ("predicate", "added"),
    [
        ('feature = "hammer"', ("hammer",)),
        ("any_tool", ("hammer",)),
        ('all(feature = "logged", any(feature = "saw", feature = "hammer"))', ("logged", "saw")),
        ('any(all(feature = "hammer", feature = "logged"), feature = "night")', ("night",)),
        ('all(feature = "saw", feature = "night")', ("night",)),
        ('not(feature = "on")', ()),
        ('feature = "on"', ()),
        ('all(feature = "saw", not(feature = "night"))', ("saw",)),
        ("false", ()),
        ("nobody", ()),
    ],
)
def test_missing_is_a_smallest_set_that_helps(predicate: str, added: tuple[str, ...]) -> None:
    build = Build(
        frozenset({"on"}), {"any_tool": parse('any(feature = "hammer", feature = "saw")')}, {"night": ("saw",)}
    )
    assert missing(build, parse(predicate)) == added


def test_missing_gives_up_on_predicates_that_would_take_ages() -> None:
    many = ", ".join(f'feature = "f{number}"' for number in range(40))
    assert missing(Build(frozenset()), parse(f"all({many}, false)")) == ()


def test_named_features_follow_cfgs() -> None:
    cfgs = {"x": parse('any(feature = "b", y)'), "y": parse('all(feature = "c", x)')}
    assert named_features(parse('all(x, feature = "a")'), cfgs) == ("a", "b", "c")


@pytest.mark.parametrize(
    ("features", "told"),
    [((), 'all(any_tool, feature = "night")'), (("saw",), 'feature = "night"'), (("night",), 'feature = "night"')],
)
def test_what_a_runtime_needs_names_what_its_backend_needs_where_that_is_missing(
    workshop: Workshop, features: tuple[str, ...], told: str
) -> None:
    box = next(each for each in workshop.catalog.backends if each.name == "Box")
    bolts = next(each for each in box.runtimes if each.name == "bolts")
    assert str(told_cfg(workshop.build(*features, default=False), box, bolts)) == told
