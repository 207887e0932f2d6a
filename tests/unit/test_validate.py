from __future__ import annotations

import ast
import re
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dispatchgen.features import Selection, resolve
from dispatchgen.findings import CODES, Finding, Severity, error, in_order, near
from dispatchgen.model.build import read_catalog
from dispatchgen.source import Span
from dispatchgen.template_set import read_set
from dispatchgen.validate import validate

if TYPE_CHECKING:
    from tests.unit.conftest import Workshop

ROOT = Path(__file__).resolve().parents[2]


def shown(findings: tuple[Finding, ...]) -> list[str]:
    return [f"{each.span} {each.code} {each.message}" + (f" [{each.fix}]" if each.fix else "") for each in findings]


def test_the_small_catalog_is_right(workshop: Workshop) -> None:
    assert workshop.validate(workshop.build("saw"), date(2026, 1, 1)) == ()


FEATURES = [
    (
        "cfg: any_tool",
        'cfg: any(any_tol, feature = "sw")',
        [
            "spec/backends.yaml:28:10 DG203 there is no feature `sw` [did you mean `saw`?]",
            "spec/backends.yaml:28:10 DG204 there is no cfg `any_tol` [did you mean `any_tool`?]",
        ],
    ),
    (
        "cfg: any_tool",
        "cfg: any(any_tool, hammer)",
        ['spec/backends.yaml:28:10 DG204 there is no cfg `hammer` [write feature = "hammer"]'],
    ),
    (
        "  night: [saw]",
        "  night: [saw, hamer]",
        [
            "spec/backends.yaml:7:16 DG205 feature `night` turns on `hamer`, which is not declared [did you mean `hammer`?]"
        ],
    ),
    (
        "  saw: []",
        "  saw: [night]",
        ["spec/backends.yaml:6:3 DG206 features turn each other on in a circle: saw -> night -> saw"],
    ),
    (
        "  hammer: []",
        "  hammer: [hammer]",
        ["spec/backends.yaml:5:3 DG206 features turn each other on in a circle: hammer -> hammer"],
    ),
    (
        'any(feature = "hammer", feature = "saw")',
        "not(other)\n  other: all(any_tool)",
        ["spec/backends.yaml:10:3 DG207 a cfg is defined by itself: any_tool -> other -> any_tool"],
    ),
    (
        "cfg: any_tool",
        "cfg: any(any_tool, not(all()), any())",
        [
            "spec/backends.yaml:28:10 DG202 `all()` has nothing in it and is always true [write true if that is meant]",
            "spec/backends.yaml:28:10 DG202 `any()` has nothing in it and is always false [write false if that is meant]",
        ],
    ),
    (
        "  logged: []",
        "  logged: []\n  spare: []",
        ["spec/backends.yaml:9:3 DG209 nothing uses the feature `spare` [name it in a cfg, or take it out]"],
    ),
    (
        "  hammer: []",
        "  hammer: [böse]\n  böse: []",
        ["spec/backends.yaml:6:3 DG211 `böse` is no name for a feature: ASCII letters, digits and `_ + . -` only"],
    ),
    (
        "cfgs:\n",
        "cfgs:\n  feature: true\n",
        [
            "spec/backends.yaml:10:3 DG210 nothing uses the cfg `feature` [name it in a cfg, or take it out]",
            "spec/backends.yaml:10:3 DG211 `feature` is a word of the predicate grammar",
        ],
    ),
]

BACKENDS = [
    (
        "name: Saw",
        "name: class",
        ["spec/backends.yaml:21:11 DG301 a backend cannot be called `class`: it is a keyword of Python"],
    ),
    (
        "name: Saw",
        "name: Class",
        [
            "spec/backends.yaml:21:11 DG301 a backend cannot be called `Class`: it becomes the module `class`, which is a keyword of Python"
        ],
    ),
    (
        "name: Saw",
        "name: Spot",
        [
            "spec/backends.yaml:21:11 DG301 a backend cannot be called `Spot`: it is a name that the generated modules use themselves"
        ],
    ),
    (
        "name: Saw",
        "name: HAMMER",
        ["spec/backends.yaml:21:11 DG302 `HAMMER` cannot be told from `Hammer` in the generated package"],
    ),
    (
        "name: Saw",
        "name: workOps",
        ["spec/ops/work.yaml:2:9 DG302 `WorkOps` cannot be told from `workOps` in the generated package"],
    ),
    (
        "id: 7",
        "id: 0",
        ["spec/backends.yaml:22:9 DG303 Saw has the id 0, which is that of Hammer"],
    ),
    ("id: 7", "id: 65536", ["spec/backends.yaml:22:9 DG304 the id of Saw is 65536; ids are 0 to 65535"]),
    ("id: 7", "id: -1", ["spec/backends.yaml:22:9 DG304 the id of Saw is -1; ids are 0 to 65535"]),
    (
        "talks: {engine: wire}",
        "talks: {engine: wires}",
        ["spec/backends.yaml:19:21 DG305 `talks` knows no engine `wires` [did you mean `wire`?]"],
    ),
    (
        "talks: {engine: radio}",
        "talks: {engine: horn}",
        ["spec/backends.yaml:33:39 DG305 `talks` knows no engine `horn` [known here: wire, radio]"],
    ),
    (
        "- {name: Logged, cfg",
        "- {name: Loged, cfg",
        ["spec/backends.yaml:12:12 DG307 the template set `plain` knows no wrapper `Loged` [did you mean `Logged`?]"],
    ),
    (
        "    id: 7",
        "    id: 7\n    priority: 1",
        ["spec/backends.yaml:23:15 DG308 Saw has the priority 1, which is that of Hammer"],
    ),
    (
        "kernels: shops.saw:Saw",
        "kernels: shops.saw.Saw",
        ["spec/backends.yaml:24:14 DG310 `shops.saw.Saw` names no class [write package.module:Class]"],
    ),
    (
        "kernels: shops.saw:Saw",
        "kernels: shops.class:Saw",
        ["spec/backends.yaml:24:14 DG310 `shops.class:Saw` names no class [write package.module:Class]"],
    ),
    (
        "name: bolts",
        "name: nails",
        ["spec/backends.yaml:34:16 DG311 the runtime `nails` stands twice"],
    ),
    (
        "name: bolts",
        "name: NAILS",
        ["spec/backends.yaml:34:16 DG311 the runtime `NAILS` cannot be told from `nails` in the generated package"],
    ),
    (
        "    transfer: into",
        "    transfer: into\n    talks: {engine: wire}",
        [
            "spec/backends.yaml:31:12 DG311 Box has runtimes, so `talks` is asked of each of them and not of the backend [move `talks:` to the runtimes that have it]"
        ],
    ),
    (
        "package: workshop",
        "package: json",
        [
            "spec/backends.yaml:2:10 DG312 the package cannot be called `json`: it is a module of Python's standard library"
        ],
    ),
    ("package: workshop\n", "", ["None DG312 the catalog names no package [write package: name, or pass --package]"]),
    (
        "    kernels: shops.box:Box\n",
        "",
        [
            "spec/backends.yaml:26:11 DG313 Box promises `talks` and names no kernels [write kernels: package.module:Class]"
        ],
    ),
]

OPS = [
    (
        "name: log\n",
        "name: lift\n",
        ["spec/ops/work.yaml:24:11 DG402 the operation `lift` cannot be told from `lift`"],
    ),
    (
        "name: log\n",
        "name: shops\n",
        [
            "spec/ops/work.yaml:24:11 DG401 an operation cannot be called `shops`: it is a name that the generated modules use themselves"
        ],
    ),
    (
        "name: log\n",
        "name: print\n",
        ["spec/ops/work.yaml:24:11 DG401 an operation cannot be called `print`: it is a builtin of Python"],
    ),
    (
        "family: WorkOps",
        "family: ClassOps",
        [
            "spec/ops/work.yaml:2:9 DG401 a family cannot be called `ClassOps`: it becomes the module `class`, which is a keyword of Python"
        ],
    ),
    (
        "{name: way, type: way}",
        "{name: value, type: way}",
        ["spec/ops/work.yaml:12:16 DG402 `lift` has two arguments `value`"],
    ),
    (
        "{name: way, type: way}",
        "{name: lambda, type: way}",
        ["spec/ops/work.yaml:12:16 DG401 an argument cannot be called `lambda`: it is a keyword of Python"],
    ),
    (
        "{name: way, type: way}",
        "{name: self, type: way}",
        [
            "spec/ops/work.yaml:12:16 DG401 an argument cannot be called `self`: it is a name that the generated modules use themselves"
        ],
    ),
    (
        "    route: value\n    fast: true",
        "    route: valu\n    fast: true",
        ["spec/ops/work.yaml:8:12 DG403 the template set `plain` knows no route `valu` [did you mean `value`?]"],
    ),
    (
        "{name: way, type: way}",
        "{name: way, type: spots}",
        [
            "spec/ops/work.yaml:12:27 DG404 the template set `plain` knows no argument type `spots` [did you mean `spot`?]",
            "spec/ops/work.yaml:17:7 DG411 `lift` has no choice `UP` [known here: always]",
            "spec/ops/work.yaml:17:28 DG411 `lift` has no choice `DOWN` [take it out]",
        ],
    ),
    (
        "returns: {type: later, of: value}",
        "returns: {type: latr, of: values}",
        [
            "spec/ops/work.yaml:14:21 DG405 the template set `plain` knows no return type `latr` [did you mean `later`?]",
            "spec/ops/work.yaml:14:31 DG405 the template set `plain` knows no return type `values` [did you mean `value`?]",
        ],
    ),
    (
        "returns: {type: later, of: value}",
        "returns: {type: later}",
        ["spec/ops/work.yaml:14:21 DG405 a `later` is of something [say what with `of:`]"],
    ),
    (
        "returns: {type: later, of: value}",
        "returns: {type: value, of: value}",
        ["spec/ops/work.yaml:14:32 DG405 a `value` is not of `value`"],
    ),
    (
        "returns: {type: later, of: value}",
        "returns: {type: later, of: later}",
        ["spec/ops/work.yaml:14:32 DG405 a `later` is not of `later`"],
    ),
    (
        "requires: talks",
        "requires: talk",
        ["spec/ops/work.yaml:4:11 DG406 the template set `plain` knows no capability `talk` [did you mean `talks`?]"],
    ),
    (
        "    route: value\n    wrapper",
        "    route: spot\n    wrapper",
        ["spec/ops/work.yaml:26:12 DG407 `log` goes by the route `spot` and has no argument of type `spot`"],
    ),
    (
        "    otherwise: error\n    backward",
        "    backward",
        [
            "spec/ops/work.yaml:6:11 DG408 `lift` does not say what it does where `talks` is missing [write otherwise: error, or none or false for a question]"
        ],
    ),
    (
        "    otherwise: error\n    backward",
        "    otherwise: none\n    backward",
        [
            "spec/ops/work.yaml:15:16 DG408 `lift` answers None and its returns are not optional [write optional: true under returns]"
        ],
    ),
    (
        "    otherwise: error\n    backward",
        "    otherwise: false\n    backward",
        ["spec/ops/work.yaml:15:16 DG408 `lift` answers False and returns `later`"],
    ),
    (
        "wrapper: Logged",
        "wrapper: Loged",
        ["spec/ops/work.yaml:27:14 DG409 the template set `plain` knows no wrapper `Loged` [did you mean `Logged`?]"],
    ),
    (
        "UP: {op: lift, with: DOWN}",
        "UPP: {op: lft, with: DOWN}",
        [
            "spec/ops/work.yaml:17:7 DG411 `lift` has no choice `UPP` [did you mean `UP`?]",
            "spec/ops/work.yaml:17:17 DG410 there is no operation `lft` [did you mean `lift`?]",
        ],
    ),
    (
        "UP: {op: lift, with: DOWN}",
        "UP: {op: lift}",
        ["spec/ops/work.yaml:17:16 DG411 the gradient by `lift` needs a choice [write with: UP or DOWN]"],
    ),
    (
        "UP: {op: lift, with: DOWN}",
        "UP: {op: carry, only: wai}",
        [
            "spec/ops/work.yaml:17:16 DG411 the gradient by `carry` needs `spot`, which `lift` has not [name an operation that the arguments fit]",
            "spec/ops/work.yaml:17:29 DG411 `lift` has no argument `wai` [did you mean `way`?]",
        ],
    ),
    (
        "{name: patience, type: patience, default: null}",
        "{name: patience, type: patience, default: None}",
        [
            "spec/ops/work.yaml:13:51 DG415 the default of `patience` is the text 'None' [write null: YAML has its own words for what Python calls None]"
        ],
    ),
    (
        "{name: value, type: value, doc: What is lifted.}",
        "{name: value, type: value, default: 1}",
        [
            "spec/ops/work.yaml:12:16 DG414 `way` has no default and stands after `value`, which has one [move it before `value`]"
        ],
    ),
]

PAIRS = [
    (
        "{argument: spot,",
        "{argument: sport,",
        ["spec/ops/move.yaml:9:22 DG412 `carry` has no argument `sport` [did you mean `spot`?]"],
    ),
    (
        "out: take_out,",
        "out: take-out,",
        ["spec/ops/move.yaml:9:33 DG412 a kernel method cannot be called `take-out`: it is no ASCII identifier"],
    ),
    ("out: take_out,", "out: put_in,", ["spec/ops/move.yaml:9:47 DG412 `put_in` cannot be both ways"]),
    (
        "    returns: {type: value}",
        "    returns: {type: value}\n    exceptions:\n      - {source: Saw, target: Hamer, reason: r}\n      - {source: Saw, target: Hamer, reason: r}",
        [
            "spec/ops/move.yaml:12:31 DG413 there is no backend `Hamer` [did you mean `Hammer`?]",
            "spec/ops/move.yaml:13:18 DG413 the exception from Saw to Hamer stands twice",
            "spec/ops/move.yaml:13:31 DG413 there is no backend `Hamer` [did you mean `Hammer`?]",
        ],
    ),
    (
        "    pair: {argument: spot, out: take_out, into: put_in}",
        "    exceptions: [{source: Saw, target: Hammer, reason: r}]",
        ["spec/ops/move.yaml:9:27 DG413 `carry` has exceptions between backends and no `pair:`"],
    ),
    (
        "    returns: {type: value}",
        "    returns: {type: value, optional: true}\n    otherwise: none",
        [
            "spec/ops/move.yaml:11:16 DG408 nothing is required of `carry`, so there is no `otherwise: none` [take it out]"
        ],
    ),
]

ERRORS = [
    (
        "when: bare",
        "when: no_way",
        [
            "spec/errors.yaml:35:11 DG501 no error has `when: bare`.",
            "spec/errors.yaml:37:11 DG502 WS104 and WS103 have the situation `no_way`",
        ],
    ),
    (
        "when: bare",
        "when: bear",
        [
            "spec/errors.yaml:35:11 DG501 no error has `when: bare`.",
            "spec/errors.yaml:37:11 DG503 the template set `plain` knows no situation `bear` [did you mean `bare`?]",
        ],
    ),
    ("code: WS104", "code: WS103", ["spec/errors.yaml:35:11 DG504 WS103 and WS103 have the code `WS103`"]),
    (
        "code: WS104",
        "code: ws4",
        [
            "spec/errors.yaml:35:11 DG505 `ws4` is no code of an error [write capital letters and a number of three digits or more]"
        ],
    ),
    ("class: Bare", "class: NoWay", ["spec/errors.yaml:36:12 DG506 WS104 and WS103 have the class `NoWay`"]),
    (
        "class: Bare",
        "class: a.Bare",
        ["spec/errors.yaml:36:12 DG506 a class cannot be called `a.Bare`: it is no ASCII identifier"],
    ),
    (
        "class: Bare",
        "class: a:b.c",
        ["spec/errors.yaml:36:12 DG506 `a:b.c` names no class [write Class, or package.module:Class]"],
    ),
    ("class: Bare", "class: a.b:Bare\n    guard: ok", []),
    (
        "class: Bare",
        "class: Bare\n    guard: not",
        ["spec/errors.yaml:37:12 DG509 a guard cannot be called `not`: it is a keyword of Python"],
    ),
]


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        (file, *case)
        for file, cases in {
            "backends": FEATURES + BACKENDS,
            "ops/work": OPS,
            "ops/move": PAIRS,
            "errors": ERRORS,
        }.items()
        for case in cases
    ],
)
def test_what_is_wrong_with_a_catalog(workshop: Workshop, file: str, old: str, new: str, expected: list[str]) -> None:
    workshop.change(f"spec/{file}.yaml", old, new)
    assert shown(workshop.validate()) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("'{op} {subject} {who}'", []),
        ("'{{op}} stays'", []),
        (
            "'{whom}'",
            [
                "DG507 `message` uses the field `whom`, which the situation `no_power` does not give [did you mean `who`?]"
            ],
        ),
        (
            "'{who.__class__}'",
            [
                "DG508 `message` uses `{who.__class__}`; a field is a name and nothing else [double a brace that is only a brace]"
            ],
        ),
        (
            "'{who[0]}'",
            [
                "DG508 `message` uses `{who[0]}`; a field is a name and nothing else [double a brace that is only a brace]"
            ],
        ),
        (
            "'{who!r}'",
            [
                "DG508 `message` uses `{who!r}`; a field is a name and nothing else [double a brace that is only a brace]"
            ],
        ),
        (
            "'{who:>10}'",
            [
                "DG508 `message` uses `{who:>10}`; a field is a name and nothing else [double a brace that is only a brace]"
            ],
        ),
        (
            "'{}'",
            ["DG508 `message` uses `{}`; a field is a name and nothing else [double a brace that is only a brace]"],
        ),
        (
            "'{'",
            [
                "DG508 `message` is no template: Single '{' encountered in format string [double a brace that is only a brace]"
            ],
        ),
    ],
)
def test_texts_of_errors_use_what_their_situation_gives(workshop: Workshop, message: str, expected: list[str]) -> None:
    text = (workshop.root / "spec/errors.yaml").read_text()
    workshop.write("spec/errors.yaml", text.replace("message: '{op} on {subject}'", f"message: {message}", 1))
    assert shown(workshop.validate()) == [f"spec/errors.yaml:6:14 {each}" for each in expected]


def test_two_backends_for_one_thing_are_wrong_in_builds_with_both(workshop: Workshop) -> None:
    workshop.change("spec/backends.yaml", "    kernels: shops.saw:Saw", "    place: bench\n    kernels: shops.saw:Saw")
    assert workshop.validate() == ()
    assert workshop.validate(workshop.build()) == ()
    findings = workshop.validate(workshop.build("saw"))
    assert shown(findings) == [
        "spec/backends.yaml:21:11 DG309 this build has both Hammer and Saw, and both are place: bench"
    ]
    assert [str(related.span) for related in findings[0].related] == ["spec/backends.yaml:14:11"]
    workshop.change("spec/backends.yaml", "    kernels: shops.saw:Saw", "    floor: 2\n    kernels: shops.saw:Saw")
    assert workshop.validate(workshop.build("saw")) == ()


def test_two_files_with_one_path_are_refused(workshop: Workshop) -> None:
    workshop.change("set/set.yaml", "path: 'work/{module}.py'", "path: 'Shops/{module}.py'")
    workshop.change("spec/ops/work.yaml", "family: WorkOps", "family: SawOps")
    assert shown(workshop.validate()) == [
        "spec/ops/work.yaml:2:9 DG302 `SawOps` becomes the file Shops/saw.py, which is there already"
    ]


def test_an_exempted_backend_may_lack_kernels(workshop: Workshop) -> None:
    workshop.change("spec/backends.yaml", "    kernels: shops.box:Box\n", "")
    workshop.write("spec/exemptions.yaml", "version: 1\nexemptions: [{backend: Box, reason: r, until: 2026-12-31}]\n")
    assert workshop.validate() == ()


def test_a_package_does_not_hide_the_kernels(workshop: Workshop) -> None:
    workshop.change("spec/backends.yaml", "package: workshop", "package: shops")
    (finding,) = workshop.validate()
    assert shown((finding,)) == [
        "spec/backends.yaml:2:10 DG312 the generated package and that of the kernels of Hammer are both called `shops` "
        "[give one of the two another name]"
    ]
    assert [str(related.span) for related in finding.related] == ["spec/backends.yaml:18:14"]


@pytest.mark.parametrize("name", ["Con", "Nul", "AUX", "com1", "Lpt9", "B" * 101])
def test_a_name_is_a_file_on_every_system(workshop: Workshop, name: str) -> None:
    workshop.change("spec/backends.yaml", "name: Saw", f"name: {name}")
    workshop.change("spec/ops/work.yaml", "family: WorkOps", f"family: {name}Ops")
    workshop.change("spec/backends.yaml", "package: workshop", f"package: {name}")
    assert [each.code for each in workshop.validate() if each.code != "DG302"] == ["DG312", "DG301", "DG401"]


@pytest.mark.parametrize("name", ["Hammer", "WorkOps", "lift", "Logged", "a.b:Saw"])
def test_an_error_is_called_like_nothing_else(workshop: Workshop, name: str) -> None:
    workshop.change("spec/errors.yaml", "class: Bare", f"class: {name}")
    (finding,) = workshop.validate()
    assert finding.code == "DG506"
    assert finding.message.endswith(f"are both called `{name.rpartition(':')[2]}`")


def test_an_exemption_has_a_reason(workshop: Workshop) -> None:
    workshop.write("spec/exemptions.yaml", "version: 1\nexemptions: [{op: log, reason: ' ', until: 2026-12-31}]\n")
    assert shown(workshop.validate()) == ["spec/exemptions.yaml:2:32 DG527 `log` is excused without a reason"]


def test_exemptions(workshop: Workshop) -> None:
    workshop.write(
        "spec/exemptions.yaml",
        """\
        version: 1
        exemptions:
          - {backend: Sew, reason: r, until: 2026-12-31}
          - {op: lft, reason: r, until: 2026-12-31}
          - {op: lift, answer: bear, reason: r, until: 2026-12-31}
          - {op: log, reason: r, until: 31.12.2026}
          - {op: carry, backend: Saw, reason: r, until: 2026-02-30}
          - {reason: r, until: '20261231'}
          - {op: log, reason: r, until: 2026-12-31}
        """,
    )
    findings = workshop.validate(today=date(2026, 12, 31))
    assert shown(findings) == [
        "spec/exemptions.yaml:3:15 DG521 there is no backend `Sew` [did you mean `Saw`?]",
        "spec/exemptions.yaml:4:10 DG521 there is no op `lft` [did you mean `lift`?]",
        "spec/exemptions.yaml:5:24 DG522 the template set `plain` knows no situation `bear` [did you mean `bare`?]",
        "spec/exemptions.yaml:6:33 DG523 `31.12.2026` is no date [write YYYY-MM-DD]",
        "spec/exemptions.yaml:7:49 DG523 `2026-02-30` is no date [write YYYY-MM-DD]",
        "spec/exemptions.yaml:8:6 DG525 the exemption excuses everything [name a backend, an op, or both]",
        "spec/exemptions.yaml:8:24 DG523 `20261231` is no date [write YYYY-MM-DD]",
        "spec/exemptions.yaml:9:6 DG526 `log` is excused twice",
    ]


def test_an_exemption_ends_after_its_last_day(workshop: Workshop) -> None:
    workshop.write("spec/exemptions.yaml", "version: 1\nexemptions: [{op: log, reason: r, until: 2026-12-31}]\n")
    assert workshop.validate() == workshop.validate(today=date(2026, 12, 31)) == ()
    assert shown(workshop.validate(today=date(2027, 1, 1))) == [
        "spec/exemptions.yaml:2:42 DG524 the excuse for `log` ended on 2026-12-31 [write the kernel, or set another day and say why]"
    ]


def test_the_shipped_catalog_is_valid_in_its_default_build() -> None:
    template_set, _ = read_set(ROOT / "templates" / "torch")
    assert template_set is not None
    catalog, _ = read_catalog(ROOT / "spec", template_set)
    assert catalog is not None
    build, _ = resolve(catalog, Selection())
    assert shown(validate(catalog, template_set, build=build, today=date(2026, 12, 1))) == []


@pytest.mark.parametrize(("month", "unused"), [("2026_08", {"remote-server"}), ("2026_09", {"autodiff"})])
def test_the_catalogs_of_burn_are_valid_with_the_shipped_operations(
    tmp_path: Path, month: str, unused: set[str]
) -> None:
    spec = tmp_path / "spec"
    (spec / "ops").mkdir(parents=True)
    for file in [ROOT / "spec/errors.yaml", *(ROOT / "spec/ops").glob("*.yaml")]:
        (spec / file.relative_to(ROOT / "spec")).write_bytes(file.read_bytes())
    (spec / "backends.yaml").write_bytes((ROOT / f"tests/data/burn/burn_{month}.yaml").read_bytes())
    template_set, _ = read_set(ROOT / "templates" / "torch")
    assert template_set is not None
    catalog, findings = read_catalog(spec, template_set)
    assert shown(findings) == []
    assert catalog is not None
    findings = validate(replace(catalog, package="burndispatch"), template_set, build=resolve(catalog, Selection())[0])
    assert [each for each in findings if each.severity is Severity.ERROR] == []
    assert {each.code for each in findings} <= {"DG209", "DG210", "DG313"}


def test_findings_are_in_order_and_each_is_there_once() -> None:
    def at(file: str, line: int, column: int = 1) -> Span:
        return Span(file, line, column, line, column)

    wanted = [
        error("DG301", "no place"),
        error("DG302", "a", at("a", 2)),
        error("DG301", "a", at("a", 10, 2)),
        error("DG301", "b", at("a", 10, 2)),
        error("DG302", "a", at("a", 10, 2)),
        error("DG101", "a", at("b", 1)),
    ]
    assert list(in_order([*reversed(wanted), wanted[2]])) == wanted


def test_near_is_kind() -> None:
    assert near("Hamer", ["Saw", "Hammer"]) == "did you mean `Hammer`?"
    assert near("HAMMER", ["Saw", "hammer"]) == "did you mean `hammer`?"
    assert near("x", ["Saw", "Hammer"]) == "known here: Saw, Hammer"
    assert near("x", map(str, range(20))) == "known here: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, …"
    assert near("x", []) is None


def test_every_code_is_explained_and_every_explanation_is_of_a_code_in_use() -> None:
    used = set()
    for path in (ROOT / "generator" / "dispatchgen").rglob("*.py"):
        if path.name != "_codes.py":
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if (
                    isinstance(node, ast.Constant)
                    and isinstance(node.value, str)
                    and re.fullmatch(r"DG\d{3}", node.value)
                ):
                    used.add(node.value)
    assert sorted(used) == sorted(CODES)
    assert list(CODES) == sorted(CODES)
    assert all(len(text.split()) > 5 and text.endswith(".") for text in CODES.values())


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('cfg: feature = "saw"', 'cfg: feature = "saww"', "DG203"),
        ('cfg: feature = "saw"', 'cfg: feature == "saw"', "DG201"),
        ('cfg: feature = "saw"', "cfg: saw", "DG204"),
        ("    cfg: any_tool\n", "    cfg: any_tol\n", "DG204"),
        ("    cfg: any_tool\n", "    cfg: not any_tool\n", "DG201"),
    ],
)
def test_what_a_broken_predicate_meant_is_not_called_unused(workshop: Workshop, old: str, new: str, code: str) -> None:
    workshop.change("spec/backends.yaml", 'any_tool: any(feature = "hammer", feature = "saw")', "any_tool: true")
    workshop.change("spec/backends.yaml", "  night: [saw]\n", "  night: []\n")
    workshop.change("spec/backends.yaml", old, new)
    catalog, findings = workshop.read()
    assert catalog is not None
    assert [each.code for each in (*findings, *validate(catalog, workshop.template_set))] == [code]


def test_what_a_broken_predicate_did_not_mean_still_is(workshop: Workshop) -> None:
    workshop.change("spec/backends.yaml", "  night: [saw]\n", "  night: [saw]\n  moon: []\n")
    workshop.change("spec/backends.yaml", 'cfg: feature = "saw"', 'cfg: feature == "saw"')
    catalog, _ = workshop.read()
    assert catalog is not None
    found = [each.message for each in validate(catalog, workshop.template_set)]
    assert found == ["nothing uses the feature `moon`"]
