"""What is planned for a build: which files there are, and what a template sees of backends, operations and arms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dispatchgen.plan import plan
from dispatchgen.plan.ops import public_signature
from dispatchgen.plan.views import ArmView, MatchView, RuleView
from tests.unit.conftest import Workshop


def files(workshop: Workshop, *features: str, default: bool = True) -> dict[str, Any]:
    """The planned files by path."""
    planned = plan(workshop.catalog, workshop.template_set, workshop.build(*features, default=default)).files
    return {file.path: file for file in planned}


def whole(workshop: Workshop, *features: str, default: bool = True) -> Any:
    """What the template sees that is there once."""
    return files(workshop, *features, default=default)["main.py"].context


def backend(workshop: Workshop, name: str, *features: str, default: bool = True) -> Any:
    return next(each for each in whole(workshop, *features, default=default)["backends"] if each.name == name)


def op(workshop: Workshop, name: str, *features: str) -> Any:
    families = whole(workshop, *features)["families"]
    return next(each for family in families for each in family.ops if each.name == name)


def arms(match: MatchView) -> list[str]:
    """Each arm in a word: what it is refused or answered with, or that it forwards."""

    def word(arm: ArmView) -> str:
        if arm.runtimes:
            return f"({' '.join(map(word, arm.runtimes))})"
        told = "forwards" if arm.forwards else arm.situation or arm.value or f"{arm.wrapped_only} or wrapped"
        return f"{arm.name}: {told}"

    return [word(arm) for arm in match.arms]


def test_a_backend_has_a_file_where_the_build_forwards_to_it(workshop: Workshop) -> None:
    ops = ["work/move.py", "work/work.py"]
    assert list(files(workshop, default=False)) == ["main.py", *ops]
    assert list(files(workshop)) == ["main.py", "shops/box.py", "shops/hammer.py", *ops]
    assert list(files(workshop, "saw")) == ["main.py", "shops/box.py", "shops/hammer.py", "shops/saw.py", *ops]
    workshop.change("spec/backends.yaml", "shops.saw:Saw\n", "shops.saw:Saw\n    transfer: none\n")
    assert list(files(workshop, "saw")) == ["main.py", "shops/box.py", "shops/hammer.py", *ops]
    saw = backend(workshop, "Saw", "saw")
    assert (saw.built, saw.forwards) == (True, False)


def test_what_is_forwarded_inside_of_a_wrapper_only_is_forwarded(workshop: Workshop) -> None:
    text = (workshop.root / "spec/ops/work.yaml").read_text(encoding="utf-8")
    head, log = text[: text.index("  - name: lift")], text[text.index("  - name: log") :]
    workshop.write("spec/ops/work.yaml", head + log)
    (workshop.root / "spec/ops/move.yaml").unlink()
    assert arms(op(workshop, "log").matches[0]) == ["Hammer: bare or wrapped", "(nails: bare)"]
    assert op(workshop, "log").matches[0].forwards
    assert (backend(workshop, "Hammer").forwards, backend(workshop, "Box").forwards) == (True, False)
    (family,) = whole(workshop)["families"]
    assert family.kernel_modules == ("hammer",)


def test_a_backend_as_templates_see_it(workshop: Workshop) -> None:
    hammer, saw, box = whole(workshop)["backends"]
    assert [each.name for each in whole(workshop)["built"]] == ["Hammer", "Box"]
    assert (hammer.module, hammer.constant, hammer.kernel_module, hammer.kernel_class) == (
        "hammer",
        "HAMMER",
        "shops.hammer",
        "Hammer",
    )
    assert (hammer.engines, hammer.keys["place"], hammer.wrappers) == ({"talks": "wire"}, "bench", ("Logged",))
    assert (saw.built, saw.missing, saw.engines) == (False, ("saw",), {"talks": None})
    assert [(each.name, each.cfg, each.built, each.missing, each.engines["talks"]) for each in box.runtimes] == [
        ("nails", "true", True, (), "radio"),
        ("bolts", 'feature = "night"', False, ("night",), None),
    ]
    workshop.change("spec/backends.yaml", "    kernels: shops.saw:Saw\n", "")
    saw = backend(workshop, "Saw")
    assert (saw.kernels, saw.kernel_module, saw.kernel_class) == (None, None, None)


def test_a_runtime_misses_what_its_backend_misses_too(workshop: Workshop) -> None:
    nails, bolts = backend(workshop, "Box", default=False).runtimes
    assert (nails.built, nails.missing, bolts.missing) == (False, ("hammer",), ("night",))


def test_what_is_there_once(workshop: Workshop) -> None:
    seen = whole(workshop)
    assert (seen["package"], seen["set_name"], seen["features"]) == ("workshop", "plain", ("hammer", "logged"))
    assert (seen["methods"], seen["questions"]) == (("take_out", "put_in", "lift", "is_heavy", "log"), ("is_heavy",))
    assert seen["error_names"] == ("Bare", "LeftOut", "NoPower", "NoWay", "Unwritten")
    assert [(each.name, each.module) for each in seen["errors"]][:2] == [("NoPower", None), ("LeftOut", None)]
    assert [(each.name, each.built, each.missing) for each in seen["wrappers"]] == [("Logged", True, ())]
    (wrapper,) = whole(workshop, "hammer", default=False)["wrappers"]
    assert (wrapper.built, wrapper.missing) == (False, ("logged",))
    assert [(each.names, each.kernel_modules) for each in seen["families"]] == [
        (("carry",), ("box", "hammer")),
        (("is_heavy", "lift", "log"), ("box", "hammer")),
    ]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("is_heavy", [["Hammer: forwards", "Saw: False", "(nails: forwards bolts: False)"]]),
        ("lift", [["Hammer: forwards", "Saw: no_power", "(nails: forwards bolts: no_power)"]]),
        ("log", [["Hammer: bare or wrapped", "Saw: no_power", "(nails: bare bolts: no_power)"]]),
        (
            "carry",
            [
                ["Hammer: forwards", "Saw: forwards", "(nails: no_way bolts: no_way)"],
                ["Hammer: forwards", "Saw: forwards", "(nails: forwards bolts: forwards)"],
            ],
        ),
    ],
)
def test_the_arms_of_an_operation(workshop: Workshop, name: str, wanted: list[list[str]]) -> None:
    assert [arms(match) for match in op(workshop, name, "saw", "night").matches] == wanted


def test_a_wrapper_does_not_make_up_for_a_capability(workshop: Workshop) -> None:
    workshop.change("spec/backends.yaml", "    talks: {engine: wire}\n", "")
    (match,) = op(workshop, "log").matches
    assert (arms(match), match.forwards) == (["Hammer: no_power", "(nails: bare)"], False)


def test_an_arm_says_why_it_refuses(workshop: Workshop) -> None:
    _, saw, box = op(workshop, "log", "saw").matches[0].arms
    assert saw.reason == "the catalog lists no talks for Saw"
    assert [each.reason for each in box.runtimes] == ["log works inside of Logged only"]


def test_a_backend_that_is_not_built_has_no_arm(workshop: Workshop) -> None:
    for name in ("lift", "carry"):
        for match in op(workshop, name).matches:
            assert match.forwards
            assert [arm.name for arm in match.arms] == ["Hammer", "Box"]
            assert [arm.name for arm in match.arms[1].runtimes] == ["nails"]


def test_how_an_operation_is_called(workshop: Workshop) -> None:
    lift = op(workshop, "lift")
    assert lift.parameters == "value: Value, way: Way, *, patience: float | None = None"
    assert (lift.returns, lift.result, lift.of) == ("Later[Value]", "value", "Value(value)")
    assert (lift.routed, lift.call) == ("value", "routed, way, patience")
    assert (lift.kernel_call, lift.direct_call) == ("value.raw, way, patience", "routed.raw, way, patience")
    assert lift.docstring == "Lift it.\n\nArgs:\n    value: What is lifted."
    assert (lift.choice, lift.gradient_parameters, lift.gradient_arguments) == (
        "way",
        "way: Way, patience: float | None",
        "way, patience",
    )
    (match,) = lift.matches
    assert (match.arm_parameters, match.arm_returns) == ("value: Value, way: Way, patience: float | None", lift.returns)
    assert (match.kernel_parameters, match.kernel_returns) == (
        "value: int, way: Way, patience: float | None",
        "Later[int]",
    )
    assert (lift.question, lift.native, lift.answer, lift.keys) == (False, False, "", {"fast": True})
    heavy = op(workshop, "is_heavy")
    assert (heavy.question, heavy.answer, heavy.parameters, heavy.rules) == (True, "False", "value: Value", ())
    assert (heavy.gradient_parameters, heavy.gradient_arguments, heavy.docstring) == ("", "", "Whether it is heavy.")


def test_the_signature_that_generated_code_is_held_against_is_the_public_one(workshop: Workshop) -> None:
    for _, each in workshop.catalog.ops:
        view = op(workshop, each.name)
        assert public_signature(each, workshop.template_set) == (view.parameters, view.returns)


def test_what_may_be_none_is_handed_on_as_none(workshop: Workshop) -> None:
    workshop.change(
        "spec/ops/work.yaml",
        "args: [{name: value, type: value}]\n    returns: {type: truth}\n    otherwise: false",
        "args: [{name: value, type: value}, {name: other, type: value, optional: true},"
        " {name: last, type: value, default: null}]\n    returns: {type: value, optional: true}\n    otherwise: none",
    )
    weigh = op(workshop, "is_heavy", "saw")
    assert weigh.parameters == "value: Value, other: Value | None, last: Value | None = None"
    assert weigh.kernel_call == "value.raw, None if other is None else other.raw, last.raw"
    assert weigh.matches[0].kernel_parameters == "value: int, other: int | None, last: int"
    assert (weigh.returns, weigh.matches[0].kernel_returns) == ("Value | None", "int | None")
    assert (weigh.question, weigh.answer, arms(weigh.matches[0])[1]) == (True, "None", "Saw: None")
    assert weigh.direct_call == ("routed.raw, None if other is None else other.raw, None if last is None else last.raw")


def test_what_is_handed_on_as_it_is_or_not_at_all_may_be_none_too(workshop: Workshop) -> None:
    workshop.change(
        "spec/ops/work.yaml",
        "args: [{name: value, type: value}]\n    returns: {type: truth}",
        "args: [{name: value, type: value}, {name: way, type: way, optional: true},"
        " {name: spot, type: spot, optional: true}]\n    returns: {type: truth}",
    )
    weigh = op(workshop, "is_heavy")
    assert weigh.parameters == "value: Value, way: Way | None, spot: Spot | None"
    assert weigh.kernel_call == "value.raw, way"
    assert weigh.matches[0].kernel_parameters == "value: int, way: Way | None"
    assert weigh.direct_call == "routed.raw, way"


def test_what_is_adopted_is_so_before_anything_gets_it(workshop: Workshop) -> None:
    workshop.change("set/set.yaml", "choices: [UP", "adopt: 'adopt({name}, {op})', choices: [UP")
    workshop.change("set/set.yaml", "keyword: true", "keyword: true, adopt: 'seconds({name})'")
    lift = op(workshop, "lift")
    assert lift.call == 'routed, adopt(way, "lift"), None if patience is None else seconds(patience)'
    assert lift.direct_call == 'routed.raw, adopt(way, "lift"), None if patience is None else seconds(patience)'
    assert lift.kernel_call == "value.raw, way, patience"


def test_an_operation_between_two_backends(workshop: Workshop) -> None:
    carry = op(workshop, "carry")
    assert (carry.pair_target, carry.call, carry.kernel_call) == ("spot", "routed", "value.raw")
    assert [(match.method, match.class_name, match.arm_parameters) for match in carry.matches] == [
        ("take_out", "TakeOut", "value: int"),
        ("put_in", "PutIn", "value: int, source: "),
    ]
    assert {match.arm_returns for match in carry.matches} == {"int"}


def test_the_gradient_of_an_operation(workshop: Workshop) -> None:
    rule = RuleView("Way.UP", "lift", None, "gradient, Way.DOWN, patience=patience", None, "Value", True)
    assert op(workshop, "lift").rules == (rule,)
    workshop.change("spec/ops/work.yaml", "UP: {op: lift, with: DOWN}", "UP: {op: carry}")
    (elsewhere,) = op(workshop, "lift").rules
    assert elsewhere == replace(rule, op="carry", module="move", call="gradient", pending=False)


def test_a_gradient_hands_on_nothing_behind_what_the_operation_does_not_have(workshop: Workshop) -> None:
    spot, other = "{name: spot, type: spot, default: null}", "{name: other, type: value, default: null}"
    workshop.change("spec/ops/work.yaml", "- {name: patience", f"- {spot}\n      - {{name: patience")
    workshop.change("spec/ops/work.yaml", "UP: {op: lift, with: DOWN}", "UP: {op: log}")
    log = "wrapper: Logged\n    args: [{name: value, type: value}"
    workshop.change("spec/ops/work.yaml", log, f"{log}, {spot}, {other}")
    (rule,) = op(workshop, "lift").rules
    assert rule.call == "gradient, spot"
    workshop.change("spec/ops/work.yaml", f"{spot}, {other}", f"{other}, {spot}")
    (rule,) = op(workshop, "lift").rules
    assert rule.call == "gradient"


def test_a_digest_is_of_what_the_file_shows(workshop: Workshop) -> None:
    before = {path: file.digest for path, file in files(workshop).items()}
    assert {path: file.digest for path, file in files(workshop).items()} == before
    workshop.change("spec/ops/work.yaml", "doc: Write it down.", "doc: Write it up.")
    after = {path: file.digest for path, file in files(workshop).items()}
    assert [path for path in before if before[path] != after[path]] == ["main.py", "work/work.py"]
    workshop.change("spec/backends.yaml", "place: bench", "place: table")
    last = {path: file.digest for path, file in files(workshop).items()}
    assert [path for path in before if after[path] != last[path]] == ["main.py", "shops/hammer.py"]
