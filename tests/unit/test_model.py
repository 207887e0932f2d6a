from __future__ import annotations

import errno
import os
import shutil
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatchgen import _names, _resources
from dispatchgen.features import Selection, resolve
from dispatchgen.findings import Finding
from dispatchgen.matrix import cells
from dispatchgen.model.build import read_catalog
from dispatchgen.predicate import Const, Feature, Flag
from dispatchgen.template_set import read_set
from dispatchgen.validate import validate

if TYPE_CHECKING:
    from tests.unit.conftest import Workshop

ROOT = Path(__file__).resolve().parents[2]


def shown(findings: tuple[Finding, ...]) -> list[str]:
    return [f"{each.span} {each.code} {each.message}" + (f" [{each.fix}]" if each.fix else "") for each in findings]


def problems(workshop: Workshop) -> list[str]:
    return shown(workshop.read()[1])


def test_the_catalog_says_what_the_files_say(workshop: Workshop) -> None:
    catalog = workshop.catalog
    assert catalog.package == "workshop"
    assert [(each.name, each.implies) for each in catalog.features][:2] == [
        ("default", ("hammer", "logged")),
        ("hammer", ()),
    ]
    hammer, saw, box = catalog.backends
    assert (hammer.id, hammer.cfg, hammer.priority, hammer.transfer) == (0, Feature("hammer"), 1, "both")
    assert {name: each.engine for name, each in hammer.capabilities.items()} == {"talks": "wire"}
    assert dict(hammer.keys) == {"place": "bench"}
    assert (hammer.wrappers, saw.wrappers) == (("Logged",), ())
    assert (saw.kernels, saw.capabilities, saw.priority) == ("shops.saw:Saw", {}, None)
    assert (box.cfg, box.transfer) == (Flag("any_tool"), "into")
    assert [(each.name, each.cfg, list(each.capabilities)) for each in box.runtimes] == [
        ("nails", Const(True), ["talks"]),
        ("bolts", Feature("night"), []),
    ]
    assert [family.name for family in catalog.families] == ["MoveOps", "WorkOps"]
    lift, is_heavy, _ = catalog.families[1].ops
    assert [(each.name, each.type, each.has_default, each.default) for each in lift.args] == [
        ("value", "value", False, None),
        ("way", "way", False, None),
        ("patience", "patience", True, None),
    ]
    assert isinstance(lift.backward, tuple)
    assert [(each.choice, each.op, each.with_) for each in lift.backward] == [("UP", "lift", "DOWN")]
    assert (lift.returns.type, lift.returns.of, dict(lift.keys)) == ("later", "value", {"fast": True})
    assert is_heavy.otherwise == "false"
    carry = catalog.families[0].ops[0]
    assert carry.pair is not None
    assert (carry.pair.argument, carry.pair.out, carry.pair.into) == ("spot", "take_out", "put_in")
    assert (catalog.errors[0].code, catalog.errors[0].exception, catalog.errors[0].when, catalog.errors[0].before) == (
        "WS100",
        "NoPower",
        "no_power",
        "a",
    )
    assert catalog.files == ("backends.yaml", "errors.yaml", "ops/move.yaml", "ops/work.yaml")


def test_every_fact_knows_its_place(workshop: Workshop) -> None:
    catalog = workshop.catalog
    hammer = catalog.backends[0]
    assert str(hammer.span) == "spec/backends.yaml:14:11"
    assert str(hammer.where("cfg")) == "spec/backends.yaml:16:10"
    assert hammer.where("doc") == hammer.span
    assert str(catalog.features[0].where("implies[1]")) == "spec/backends.yaml:4:21"
    assert str(catalog.families[1].ops[0].args[1].where("type")) == "spec/ops/work.yaml:12:27"
    assert str(catalog.at["package"]) == "spec/backends.yaml:2:10"


def test_places_are_no_part_of_equality(workshop: Workshop) -> None:
    before = workshop.catalog
    text = (workshop.root / "spec/backends.yaml").read_text()
    workshop.write("spec/backends.yaml", "# one line more\n" + text)
    assert workshop.catalog == before
    assert workshop.catalog.backends[0].span != before.backends[0].span


def test_only_name_id_and_cfg_are_required(workshop: Workshop) -> None:
    workshop.write("spec/backends.yaml", "version: 1\nbackends: [{name: no, id: 0, cfg: true}]\n")
    catalog = workshop.catalog
    assert [(each.name, each.cfg, each.kernels) for each in catalog.backends] == [("no", Const(True), None)]
    assert catalog.package == ""


def test_exemptions_answer_no_kernel_unless_they_say_otherwise(workshop: Workshop) -> None:
    workshop.write(
        "spec/exemptions.yaml",
        """\
        version: 1
        exemptions:
          - {op: lift, reason: later, until: 2027-01-01}
          - {backend: Saw, answer: bare, reason: later, until: 2027-01-01}
        """,
    )
    assert [(each.op, each.backend, each.answer, each.until) for each in workshop.catalog.exemptions] == [
        ("lift", None, "unwritten", "2027-01-01"),
        (None, "Saw", "bare", "2027-01-01"),
    ]


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        (
            "backends",
            "kernels: shops.hammer:Hammer",
            "kernel: shops.hammer:Hammer",
            ["spec/backends.yaml:18:5 DG113 unknown key `kernel` in `backends[0]` [did you mean `kernels`?]"],
        ),
        (
            "backends",
            "    place: bench\n",
            "    plaice: bench\n",
            ["spec/backends.yaml:17:5 DG113 unknown key `plaice` in `backends[0]` [did you mean `place`?]"],
        ),
        (
            "backends",
            "    id: 0\n",
            "",
            ["spec/backends.yaml:14:5 DG114 the key `id` is missing in `backends[0]` [write `id: ...` there]"],
        ),
        (
            "backends",
            "id: 7",
            "id: seven",
            [
                'spec/backends.yaml:22:9 DG115 `backends[1].id` must be a whole number, not the text "seven" [write digits alone, such as 7]'
            ],
        ),
        (
            "backends",
            "name: Saw",
            "name: 12",
            [
                'spec/backends.yaml:21:11 DG115 `backends[1].name` must be text, not the number 12 [put it in quotes: "12"]'
            ],
        ),
        (
            "backends",
            "transfer: into",
            "transfer: away",
            [
                "spec/backends.yaml:30:15 DG115 "
                '`backends[2].transfer` must be both or into or out or none, not the text "away"'
            ],
        ),
        (
            "backends",
            "cfg: any_tool",
            "cfg: [any_tool]",
            ['spec/backends.yaml:28:10 DG115 `backends[2].cfg` must be a predicate, such as feature = "x", not a list'],
        ),
        (
            "backends",
            "  saw: []",
            "  saw:",
            ["spec/backends.yaml:6:7 DG115 `features.saw` must be a list, not nothing [write a list, such as [a, b]]"],
        ),
        (
            "backends",
            "talks: {engine: wire}",
            "talks: true",
            [
                "spec/backends.yaml:19:12 DG115 `backends[0].talks` must be a mapping, not the boolean true [write keys with values, such as {key: value}]"
            ],
        ),
        (
            "backends",
            'cfg: feature = "hammer"',
            "cfg: feature = hammer",
            [
                'spec/backends.yaml:16:20 DG201 `feature = hammer` is no predicate: the name `hammer` needs quotes [write feature = "hammer"]'
            ],
        ),
        (
            "backends",
            "version: 1",
            "version: 2",
            ["spec/backends.yaml:1:10 DG116 format version 2 is not known [write version: 1]"],
        ),
        (
            "ops/work",
            "{name: value, type: value, doc: What is lifted.}",
            "{name: value, type: value, doc: What, when, is lifted.}",
            [
                "spec/ops/work.yaml:11:47 DG113 unknown key `when` in `ops[0].args[0]` [quote the value before it: between brackets, a comma ends plain text]",
                "spec/ops/work.yaml:11:53 DG113 unknown key `is lifted.` in `ops[0].args[0]` [quote the value before it: between brackets, a comma ends plain text]",
            ],
        ),
        (
            "ops/work",
            "      UP: {op: lift, with: DOWN}",
            "      UP: {op: lift, without: DOWN}",
            ["spec/ops/work.yaml:17:22 DG113 unknown key `without` in `ops[0].backward.UP` [did you mean `with`?]"],
        ),
        (
            "ops/work",
            "    backward:\n      UP: {op: lift, with: DOWN}",
            "    backward: own",
            ['spec/ops/work.yaml:16:15 DG115 `ops[0].backward` must be native, not the text "own"'],
        ),
        (
            "ops/work",
            "patience, default: null",
            "patience, default: [1]",
            [
                "spec/ops/work.yaml:13:51 DG115 `ops[0].args[2].default` must be a single value, not a list [write one value, without brackets]"
            ],
        ),
        (
            "ops/work",
            "fast: true",
            "fast: 1",
            [
                "spec/ops/work.yaml:9:11 DG115 `ops[0].fast` must be true or false, not the number 1 [write true or false, without quotes]"
            ],
        ),
        (
            "backends",
            "version: 1",
            "version: 1\nversion: 1",
            [
                "spec/backends.yaml:2:1 DG109 the key `version` stands here a second time [keep one of the two, or rename one]"
            ],
        ),
    ],
)
def test_the_shape_is_checked_with_places(
    workshop: Workshop, file: str, old: str, new: str, expected: list[str]
) -> None:
    workshop.change(f"spec/{file}.yaml", old, new)
    assert problems(workshop) == expected


def test_all_files_are_checked_in_one_run(workshop: Workshop) -> None:
    workshop.change("spec/backends.yaml", "id: 0", "id: no")
    workshop.change("spec/backends.yaml", "id: 7", "id: no")
    workshop.change("spec/ops/work.yaml", "family: WorkOps", "famly: WorkOps")
    workshop.write("spec/errors.yaml", "")
    catalog, findings = workshop.read()
    assert catalog is None
    assert [f"{each.code} {each.span.file}" for each in findings if each.span] == [
        "DG115 spec/backends.yaml",
        "DG115 spec/backends.yaml",
        "DG108 spec/errors.yaml",
        "DG114 spec/ops/work.yaml",
        "DG113 spec/ops/work.yaml",
    ]


def test_a_bad_predicate_does_not_hide_the_rest(workshop: Workshop) -> None:
    workshop.change("spec/backends.yaml", "cfg: any_tool", "cfg: any(")
    catalog, findings = workshop.read()
    assert catalog is not None
    assert catalog.backends[2].cfg == Const(False)
    assert [each.code for each in findings] == ["DG201"]


def test_files_that_are_missing_or_unreadable(workshop: Workshop) -> None:
    (workshop.root / "spec/errors.yaml").unlink()
    assert problems(workshop) == ["spec/errors.yaml:1:1 DG112 the spec has no errors.yaml"]
    (workshop.root / "spec/backends.yaml").unlink()
    (workshop.root / "spec/backends.yaml").mkdir()
    catalog, findings = workshop.read()
    assert catalog is None
    assert findings[0].message == "spec/backends.yaml cannot be read: Is a directory"
    shutil.rmtree(workshop.root / "spec")
    assert problems(workshop)[0] == "spec/backends.yaml:1:1 DG112 the spec has no backends.yaml"


def test_a_pipe_in_the_spec_is_not_waited_for(workshop: Workshop) -> None:
    os.mkfifo(workshop.root / "spec/exemptions.yaml")
    assert problems(workshop) == ["spec/exemptions.yaml:1:1 DG112 spec/exemptions.yaml is no plain file"]


@pytest.mark.parametrize("what", ["a file", "a link to itself", "not for us"])
def test_operations_that_nobody_can_look_at_are_no_catalog_without_operations(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    folder = workshop.root / "spec/ops"
    look = os.listdir
    if what == "not for us":

        def refuse(path: Path) -> list[str]:
            if path == folder:
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return look(path)

        monkeypatch.setattr(os, "listdir", refuse)
    else:
        shutil.rmtree(folder)
        folder.touch() if what == "a file" else folder.symlink_to("ops")
    catalog, findings = workshop.read()
    assert catalog is None
    (found,) = findings
    assert (found.code, str(found.span)) == ("DG112", "spec/ops:1:1")
    assert found.message.startswith("spec/ops cannot be read: ")


def test_files_of_operations_in_other_places_are_told(workshop: Workshop) -> None:
    for name in ("ops/more/later.yaml", "ops/more/.hidden.yaml", "ops/OTHER.YAML", "ops/README.md", "notes/x.yaml"):
        workshop.write(f"spec/{name}", "version: 1\n")
    assert problems(workshop) == [
        "spec/ops/OTHER.YAML:1:1 DG119 nothing reads spec/ops/OTHER.YAML: the files of a catalog end in .yaml [rename it]",
        "spec/ops/more/later.yaml:1:1 DG119 nothing reads spec/ops/more/later.yaml: "
        "the files of operations lie in spec/ops itself [move it there]",
    ]


def test_files_that_nothing_reads_are_told(workshop: Workshop) -> None:
    (workshop.root / "spec/ops/.#work.yaml").symlink_to("somebody@somewhere.1234")  # as an editor leaves them
    workshop.write("spec/ops/more.yml", "version: 1\n")
    assert problems(workshop) == [
        "spec/ops/more.yml:1:1 DG119 nothing reads spec/ops/more.yml: the files of a catalog end in .yaml [rename it]"
    ]
    shutil.rmtree(workshop.root / "spec/ops")
    catalog, findings = workshop.read()
    assert catalog is not None
    assert [str(each.span) + " " + each.message for each in findings] == [
        "spec/ops:1:1 the spec has no operations: there is no file ops/*.yaml"
    ]


@pytest.mark.parametrize(
    ("written", "value"),
    [("1.5", 1.5), ("-0.25", -0.25), ("'1.5'", "1.5"), ("1.5.0", "1.5.0"), ("3", 3), ("1e3", "1e3")],
)
def test_a_default_may_be_a_fraction(workshop: Workshop, written: str, value: object) -> None:
    workshop.change("spec/ops/work.yaml", "default: null", f"default: {written}")
    default = workshop.catalog.ops[1][1].args[2].default
    assert (default, type(default)) == (value, type(value))


def test_paths_are_shown_as_people_see_them(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = workshop.root.resolve() / "spec"
    template_set = workshop.template_set
    (spec / "errors.yaml").unlink()
    span = read_catalog(spec, template_set)[1][0].span
    assert span is not None
    assert span.file == "spec/errors.yaml"
    monkeypatch.chdir(workshop.root / "set")
    span = read_catalog(Path("../spec"), template_set)[1][0].span
    assert span is not None
    assert span.file == "../spec/errors.yaml"


def test_keys_of_a_set_may_be_called_like_anything(workshop: Workshop) -> None:
    workshop.change("set/set.yaml", "{name: fast, type: flag}", "{name: model_dump, type: number}")
    workshop.change("spec/ops/work.yaml", "fast: true", "model_dump: 3")
    assert dict(workshop.catalog.families[1].ops[0].keys) == {"model_dump": 3}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "wrong_wrapper: bare",
            "wrong_wrapper: naked",
            "DG601 the decision `wrong_wrapper` raises the situation `naked`, which is not declared",
        ),
        (
            "{name: spot, argument: spot}",
            "{name: spot, argument: sport}",
            "DG601 the route `spot` takes an argument of type `sport`, which is not declared",
        ),
        ("{name: bare}", "{name: no_way}", "DG602 `no_way` stands twice in `situations`"),
        ("{name: fast, type: flag}", "{name: route, type: flag}", "DG602 the key `route` has a meaning already"),
        (
            "{name: floor, type: number, identity: true}",
            "{name: logged, type: number}",
            "DG602 the key `logged` has a meaning already",
        ),
        ("path: main.py", "path: ../main.py", "DG603 the path `../main.py` leaves the package"),
        ("path: main.py", "path: /main.py", "DG603 the path `/main.py` leaves the package"),
        (
            "'shops/{module}.py'",
            "shops/all.py",
            "DG603 the path `shops/all.py` needs `{module}`: it is rendered for each backend",
        ),
        (
            "path: main.py",
            "path: '{module}.py'",
            "DG603 the path `{module}.py` has a field, and the file is rendered once",
        ),
        ("each: backend", "each: op", 'DG115 `files[1].each` must be family or backend, not the text "op"'),
        ("wrong_wrapper: bare}", "wrong_wraper: bare}", "DG114 the key `wrong_wrapper` is missing in `decisions`"),
        ("name: plain", "name: plain\nprobes: a", "DG113 unknown key `probes`"),
        ("name: plain", "name: plain\nfolder: a", "DG113 unknown key `folder`"),
    ],
)
def test_what_is_wrong_with_a_template_set(workshop: Workshop, old: str, new: str, expected: str) -> None:
    workshop.change("set/set.yaml", old, new)
    _, findings = read_set(workshop.root / "set")
    assert expected in [f"{each.code} {each.message}" for each in findings]
    assert all(each.span is not None and each.span.file == "set/set.yaml" for each in findings)


def test_a_template_set_that_is_not_there(tmp_path: Path) -> None:
    template_set, findings = read_set(tmp_path / "nothing")
    assert template_set is None
    assert [each.code for each in findings] == ["DG112"]


def test_the_shipped_set_and_catalog_read_without_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    root = _resources.data_root()
    assert root == ROOT
    template_set, findings = read_set(root / "templates" / "torch")
    assert findings == ()
    assert template_set is not None
    assert template_set.argument("reduce_operation").choices
    catalog, findings = read_catalog(root / "spec", template_set)
    assert shown(findings) == []
    assert catalog is not None
    assert {"Cpu", "Remote"} <= {backend.name for backend in catalog.backends}


def test_installed_data_comes_first(tmp_path: Path) -> None:
    package = tmp_path / "generator" / "dispatchgen"
    package.mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match="not installed whole"):
        _resources.data_root(package)
    (tmp_path / "spec").mkdir()
    assert _resources.data_root(package) == tmp_path
    (package / "_data" / "spec").mkdir(parents=True)
    assert _resources.data_root(package) == package / "_data"


@pytest.mark.parametrize(
    ("family", "module"),
    [
        ("DistributedOps", "distributed"),
        ("PointToPointOps", "point_to_point"),
        ("Ops", "ops"),
        ("HTTPServerOps", "http_server"),
        ("Int8Ops", "int8"),
    ],
)
def test_family_modules(family: str, module: str) -> None:
    assert _names.family_module(family) == module


def test_names_of_backends_and_ops() -> None:
    assert _names.module_name("NdArray") == "ndarray"
    assert _names.constant_name("NdArray") == "NDARRAY"
    assert _names.class_name("all_reduce") == "AllReduce"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("Good", None),
        ("match", None),
        ("böse", "is no ASCII identifier"),
        ("two words", "is no ASCII identifier"),
        ("3d", "is no ASCII identifier"),
        ("", "is no ASCII identifier"),
        ("_x", "begins with an underscore"),
        ("class", "is a keyword of Python"),
        ("async", "is a keyword of Python"),
        ("None", "is a keyword of Python"),
        ("print", "is a builtin of Python"),
        ("Taken", "is a name that the generated modules use themselves"),
    ],
)
def test_usable_names(name: str, problem: str | None) -> None:
    assert _names.unusable(name, frozenset({"Taken"})) == problem


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["spec/backends.yaml", "spec/ops/work.yaml", "spec/ops/move.yaml", "spec/errors.yaml"]),
    st.lists(
        st.tuples(st.floats(0, 1), st.sampled_from(["", ": ", "[", "}", "x", "- ", "null", "\n", "12", '"'])),
        max_size=4,
    ),
)
def test_no_spec_gives_a_traceback(workshop: Workshop, file: str, edits: list[tuple[float, str]]) -> None:
    """Cuts a character out of a file here and there and puts another text in: a catalog or findings, whatever comes."""
    path = workshop.root / file
    before = path.read_text(encoding="utf-8")
    text = before
    for where, put in edits:
        at = int(where * len(text))
        text = text[:at] + put + text[at + 1 :]
    path.write_text(text, encoding="utf-8")
    try:
        catalog, findings = workshop.read()
        assert catalog is not None or findings
        if catalog is not None:
            build, _ = resolve(catalog, Selection(all=True))
            assert build is not None
            assert validate(catalog, workshop.template_set, build=build, today=date(2026, 1, 1)) is not None
            assert cells(catalog, workshop.template_set, build) is not None
    finally:
        path.write_text(before, encoding="utf-8")
