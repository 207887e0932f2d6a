"""Verdicts about files, kernels read from their source, and arms read from generated code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dispatchgen.check import code as generated
from dispatchgen.check import kernels
from dispatchgen.check.classes import Sources, UnreadableError
from dispatchgen.check.folders import default_roots
from dispatchgen.check.verdicts import FileVerdict, Verdict, finding, verdicts
from dispatchgen.digests import sha256
from dispatchgen.disk import Disk
from dispatchgen.format import FormattedFile
from dispatchgen.manifest import FileRecord, Manifest
from tests import shipped
from tests.toy import Toy, swapped

BASE = Path(__file__).parents[1] / "cases" / "_base"

# Verdicts.

NEW = FormattedFile("a.py", "a.jinja", "spec 2", "rendered 2", "new\n")


def manifest(files: dict[str, FileRecord], **changes: object) -> Manifest:
    made = Manifest("generator 1", "1", "3", ("x",), (), True, False, files)
    return replace(made, **changes)  # type: ignore[arg-type]


def record(text: str = "new\n", **changes: str) -> FileRecord:
    made = FileRecord("a.jinja", "template 2", "spec 2", "rendered 2", sha256(text))
    return replace(made, **changes)


NOW = manifest({"a.py": record()})


def disk(
    files: dict[str, str], then: Manifest | None, *, others: tuple[str, ...] = (), journal: tuple[str, ...] = ()
) -> Disk:
    return Disk(
        files={path: text.encode() for path, text in files.items()},
        others=others,
        leftovers=(".dispatchgen.journal",) if journal else (),
        journal=frozenset(("a.py", sha256(text)) for text in journal),
        manifest=then,
        manifest_text=None if then is None else str(then).encode(),
        findings=(),
    )


OLD = "old\n"


@pytest.mark.parametrize(
    ("there", "verdict", "why"),
    [
        (disk({"a.py": "new\n"}, NOW), Verdict.UP_TO_DATE, ""),
        (disk({}, NOW), Verdict.MISSING, ""),
        (disk({}, None), Verdict.MISSING, ""),
        (disk({"a.py": "new\n"}, None), Verdict.UP_TO_DATE, ""),
        (disk({"a.py": "new\n"}, manifest({})), Verdict.INTERRUPTED, "the file is new and the manifest is old"),
        (disk({"a.py": OLD}, manifest({"a.py": record(OLD, spec="spec 1")})), Verdict.SPEC_CHANGED, ""),
        (
            disk({"a.py": OLD}, manifest({"a.py": record(OLD, spec="spec 1")}, features=("y",))),
            Verdict.SPEC_CHANGED,
            "made with other features: -y +x",
        ),
        (
            disk({"a.py": OLD}, manifest({"a.py": record(OLD, template_sha256="template 1")})),
            Verdict.TEMPLATE_CHANGED,
            "a.jinja",
        ),
        (
            disk({"a.py": OLD}, manifest({"a.py": record(OLD)}, black="0", generator="generator 0")),
            Verdict.TOOL_CHANGED,
            "generator 0 -> generator 1, black 0 -> black 1",
        ),
        (
            disk({"a.py": OLD}, manifest({"a.py": record(OLD)}, jinja2="2")),
            Verdict.TOOL_CHANGED,
            "jinja2 2 -> jinja2 3",
        ),
        (  # another generator digests in another way, and brings other templates along
            disk(
                {"a.py": OLD}, manifest({"a.py": record(OLD, spec="1", template_sha256="1")}, generator="generator 0")
            ),
            Verdict.TOOL_CHANGED,
            "generator 0 -> generator 1",
        ),
        (disk({"a.py": OLD}, manifest({"a.py": record(OLD, spec="1")}, black="0")), Verdict.SPEC_CHANGED, ""),
        (disk({"a.py": OLD}, manifest({"a.py": record(OLD, rendered="rendered 1")})), Verdict.TOOL_CHANGED, ""),
        (
            disk({"a.py": OLD}, manifest({"a.py": record(OLD)})),
            Verdict.EDITED,
            "and the manifest was changed to match",
        ),
        (disk({"a.py": "mine\n"}, manifest({"a.py": record(OLD)})), Verdict.EDITED, ""),
        (disk({"a.py": "mine\n"}, manifest({})), Verdict.EDITED, "no manifest lists it, and the content differs"),
        (
            disk({"a.py": "new\n"}, manifest({"a.py": record(OLD)})),
            Verdict.INTERRUPTED,
            "the file is new and the manifest is old",
        ),
        (
            disk({"a.py": "newer\n"}, manifest({"a.py": record(OLD)}), journal=("newer\n",)),
            Verdict.INTERRUPTED,
            "written by a generate that was cut off",
        ),
    ],
)
def test_the_verdict_about_a_file(there: Disk, verdict: Verdict, why: str) -> None:
    found = {each.path: each for each in verdicts((NEW,), NOW, there)}
    assert (found["a.py"].verdict, found["a.py"].why) == (verdict, why)


@pytest.mark.parametrize(
    ("there", "verdict"),
    [
        (disk({"a.py": "new\n"}, NOW), Verdict.UP_TO_DATE),
        (disk({"a.py": "new\n"}, None), Verdict.MISSING),
        (disk({"a.py": "new\n"}, manifest({"a.py": record(OLD)})), Verdict.INTERRUPTED),
        (disk({"a.py": "new\n"}, replace(NOW, black="0")), Verdict.TOOL_CHANGED),
        (disk({"a.py": "new\n"}, replace(NOW, jinja2="0")), Verdict.TOOL_CHANGED),
        (
            replace(disk({"a.py": "new\n"}, replace(NOW, black="0")), manifest_text=b"{} in another layout"),
            Verdict.TOOL_CHANGED,
        ),
        (disk({"a.py": "new\n"}, replace(NOW, features=("y",))), Verdict.TEMPLATE_CHANGED),
        (disk({"a.py": OLD}, manifest({"a.py": record(OLD, spec="1")})), Verdict.SPEC_CHANGED),
        (replace(disk({"a.py": "new\n"}, None), manifest_text=b"<<<<"), Verdict.EDITED),
        (replace(disk({"a.py": "new\n"}, NOW), manifest_text=str(NOW).encode() + b"\n"), Verdict.EDITED),
    ],
)
def test_the_verdict_about_the_manifest(there: Disk, verdict: Verdict) -> None:
    found = {each.path: each for each in verdicts((NEW,), NOW, there)}
    assert found["MANIFEST.json"].verdict is verdict


def test_files_that_nothing_generates() -> None:
    then = manifest({"a.py": record(), "b.py": record("b\n"), "c.py": record("c\n"), "gone.py": record("d\n")})
    there = disk({"a.py": "new\n", "b.py": "b\n", "c.py": "edited\n"}, then, others=("mine.txt",))
    found = {each.path: each.verdict for each in verdicts((NEW,), NOW, there)}
    assert found == {
        "MANIFEST.json": Verdict.SPEC_CHANGED,
        "a.py": Verdict.UP_TO_DATE,
        "b.py": Verdict.SPEC_CHANGED,
        "c.py": Verdict.EDITED,
        "mine.txt": Verdict.ORPHAN,
    }


@pytest.mark.parametrize(
    ("text", "changes", "journal", "verdict", "why"),
    [
        ("b\n", {}, (), Verdict.SPEC_CHANGED, "not generated any more"),
        ("b\n", {"features": ("y",)}, (), Verdict.SPEC_CHANGED, "not generated with these features: -y +x"),
        ("b\n", {"generator": "generator 0"}, (), Verdict.TOOL_CHANGED, "generator 0 -> generator 1"),
        ("c\n", {}, (), Verdict.EDITED, "not generated any more"),
        ("c\n", {}, ("d\n",), Verdict.EDITED, "not generated any more"),
    ],
)
def test_the_verdict_about_a_file_that_would_not_be_generated(
    text: str, changes: dict[str, Any], journal: tuple[str, ...], verdict: Verdict, why: str
) -> None:
    then = manifest({"a.py": record(), "b.py": record("b\n")}, **changes)
    there = disk({"a.py": "new\n", "b.py": text}, then, journal=journal)
    found = {each.path: each for each in verdicts((NEW,), NOW, there)}
    assert (found["b.py"].verdict, found["b.py"].why) == (verdict, why)


def test_a_file_that_a_generate_left_behind_and_that_would_not_be_generated() -> None:
    there = replace(disk({"a.py": "new\n", "b.py": "b\n"}, NOW), journal=frozenset({("b.py", sha256("b\n"))}))
    found = {each.path: each for each in verdicts((NEW,), NOW, there)}
    assert (found["b.py"].verdict, found["b.py"].why) == (
        Verdict.INTERRUPTED,
        "written by a generate that was cut off",
    )


@pytest.mark.parametrize(
    ("spec", "features", "why"),
    [("1", ("x",), ""), ("1", ("y",), "made with other features: -y +x")],
)
def test_the_manifest_says_with_which_features_it_was_made(spec: str, features: tuple[str, ...], why: str) -> None:
    then = manifest({"a.py": record(OLD, spec=spec)}, features=features)
    found = {each.path: each for each in verdicts((NEW,), NOW, disk({"a.py": OLD}, then))}
    assert (found["MANIFEST.json"].verdict, found["MANIFEST.json"].why) == (Verdict.SPEC_CHANGED, why)


@pytest.mark.parametrize(
    ("verdict", "why", "code", "message", "fix"),
    [
        (Verdict.SPEC_CHANGED, "", "DG711", "spec changed", "run `dispatchgen generate`"),
        (Verdict.TEMPLATE_CHANGED, "a", "DG712", "template changed: a", "run `dispatchgen generate`"),
        (Verdict.TOOL_CHANGED, "b", "DG713", "tool changed: b", "install the versions"),
        (Verdict.EDITED, "", "DG714", "edited by hand", "generate --force"),
        (Verdict.MISSING, "", "DG715", "missing", "run `dispatchgen generate`"),
        (Verdict.ORPHAN, "c", "DG716", "orphan: c", "delete it"),
        (Verdict.INTERRUPTED, "", "DG717", "interrupted", "run `dispatchgen generate`"),
    ],
)
def test_what_is_said_about_a_file(verdict: Verdict, why: str, code: str, message: str, fix: str) -> None:
    told = finding(Path("out/p"), FileVerdict("a.py", verdict, why))
    assert told is not None
    assert (told.code, told.severity.value, told.message) == (code, "error", message)
    assert str(told.span) == "out/p/a.py:1:1"
    assert fix in (told.fix or "")


def test_nothing_is_said_about_a_file_that_is_up_to_date() -> None:
    assert finding(Path("out/p"), FileVerdict("a.py", Verdict.UP_TO_DATE, "")) is None


# Kernels and arms.


@pytest.fixture
def toy(toy_folder: Path) -> Toy:
    return Toy(Path())


def test_kernels_that_are_all_there(toy: Toy) -> None:
    assert toy.kernels() == []


IRON = """
class Iron(Base):
    def give(self, thing: Thing) -> Thing:
        return thing

    def take(self, thing: Thing, source: Place) -> Thing:
        return thing

    def is_up(self, thing: Thing) -> bool:
        return True
"""

LIFT = """
    def lift(self, thing: Thing, height: int) -> Thing:
        return thing
"""


@pytest.mark.parametrize(
    "files",
    [
        {"iron.py": "from toykernels.base import Base\n" + IRON, "base.py": "class Base:" + LIFT},
        {"iron.py": "from .base import Base\n" + IRON, "base.py": "class Base:" + LIFT},
        {"iron.py": "from . import base as b\n" + IRON.replace("Base", "b.Base"), "base.py": "class Base:" + LIFT},
        {
            "iron.py": "import toykernels.base\n" + IRON.replace("Base", "toykernels.base.Base"),
            "base.py": "class Base:" + LIFT,
        },
        {"iron.py": "from .base import Other as Base\n" + IRON, "base.py": "class Other:" + LIFT},
        {
            "iron.py": "from .base import Base\n" + IRON.replace("(Base)", "(Base[int])"),
            "base.py": "class Base:" + LIFT,
        },
        {"iron.py": "from .base import Iron\n", "base.py": IRON.replace("(Base)", "") + LIFT},
        {
            "iron.py": "try:\n    from .fast import Iron\nexcept ImportError:\n    from .base import Iron\n",
            "base.py": IRON.replace("(Base)", "") + LIFT,
        },
        {
            "iron.py": "from .base import A, B\n" + IRON.replace("Base", "A, B"),
            "base.py": "class Root:\n    def lift(self): ...\nclass A(Root): pass\nclass B(Root):" + LIFT,
        },
        {
            "iron.py": IRON.replace("(Base)", "")
            + "    lift = is_up\n    if True:"
            + LIFT.replace("\n    ", "\n        ")
        },
        {
            "iron.py": IRON.replace("(Base)", "")
            + LIFT.replace("thing: Thing", "thing: 'shop.Thing'").replace("int", '"int"')
        },
        {
            "iron.py": IRON.replace("(Base)", "")
            + LIFT.replace("height: int", "height: int, _speed: int = 1, *, _loud: bool = False")
        },
    ],
)
def test_kernels_are_found_wherever_they_come_from(toy: Toy, files: dict[str, str]) -> None:
    for name, text in files.items():
        toy.write(f"src/toykernels/{name}", text)
    assert toy.kernels() == []


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ("", "DG802", "Iron lacks the method lift"),
        ("    def lift(self, thing: Thing, height: int) -> Thing: ...", "DG803", "lift is a stub"),
        ("    def lift(self, thing: Thing, height: int) -> Thing: pass", "DG803", "lift is a stub"),
        ("    def lift(self, thing: Thing, height: int) -> Thing:\n        'Up.'", "DG803", "lift is a stub"),
        (
            "    def lift(self, thing: Thing, height: int) -> Thing:\n        raise NotImplementedError",
            "DG803",
            "lift is a stub",
        ),
        (
            "    def lift(self, thing: Thing, height: int) -> Thing:\n        del thing\n        raise NotImplementedError('later')",
            "DG803",
            "lift is a stub",
        ),
        (
            "    def lift(self, thing: Thing) -> Thing: return 1",
            "DG804",
            "takes (thing), and is called with (thing, height)",
        ),
        ("    def lift(self, height: int, thing: Thing) -> Thing: return 1", "DG804", "takes (height, thing)"),
        ("    def lift(self, thing: Thing, *, height: int) -> Thing: return 1", "DG804", "takes (thing)"),
        (
            "    def lift(self, thing: Thing, height: int, more: int) -> Thing: return 1",
            "DG804",
            "takes (thing, height, more)",
        ),
        (
            "    def lift(self, thing: Thing, height: int, *, more: int) -> Thing: return 1",
            "DG804",
            "demands the keyword more",
        ),
        (
            "    def lift(self, thing: Thing, height: str) -> Thing: return 1",
            "DG804",
            "says height: str, and is called with int",
        ),
        ("    def lift(self, thing, height: int) -> Thing: return 1", "DG804", "says thing: nothing"),
        (
            "    def lift(self, thing: Thing, height: int) -> int: return 1",
            "DG804",
            "gives back int, and Thing is expected",
        ),
        ("    async def lift(self, thing: Thing, height: int) -> Thing: return 1", "DG804", "is asynchronous"),
        ("    @staticmethod\n    def lift(thing: Thing, height: int) -> Thing: return 1", "DG804", "is decorated"),
    ],
)
def test_a_kernel_that_does_not_do(toy: Toy, body: str, code: str, words: str) -> None:
    toy.write("src/toykernels/iron.py", IRON.replace("(Base)", "").lstrip() + "\n" + body + "\n")
    (found,) = toy.kernels()
    assert found.code == code
    assert words in found.message
    assert found.span is not None
    assert found.span.file == "src/toykernels/iron.py"

    assert "def lift(self, thing: Thing, height: int) -> Thing:" in str(found.fix)
    assert found.related[0].span.file == "spec/ops/lift.yaml"


def test_a_kernel_module_that_is_no_python_is_told_where_it_is_none(toy: Toy) -> None:
    toy.write("src/toykernels/iron.py", "class Iron:\n    def lift(self:\n        pass\n")
    (found,) = toy.kernels()
    assert found.code == "DG801"
    assert (found.span.file, found.span.line) == ("src/toykernels/iron.py", 2)
    assert [(each.span.file, each.message) for each in found.related] == [
        ("spec/backends.yaml", "Iron names them here")
    ]


def test_a_stub_with_a_wrong_signature_is_told_both(toy: Toy) -> None:
    toy.write("src/toykernels/iron.py", IRON.replace("(Base)", "").lstrip() + "\n    def lift(self, thing): ...\n")
    assert [found.code for found in toy.kernels()] == ["DG803", "DG804"]


def test_where_to_write_a_missing_kernel(toy: Toy) -> None:
    toy.write("src/toykernels/iron.py", IRON.replace("(Base)", "").lstrip())
    (found,) = toy.kernels()
    assert str(found.span) == "src/toykernels/iron.py:9:1"
    assert (
        found.fix
        == "add to the class Iron, below src/toykernels/iron.py:9: `def lift(self, thing: Thing, height: int) -> Thing:`"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "there is no module toykernels.iron in "),
        ("class Other: pass\n", "src/toykernels/iron.py has no class Iron"),
        ("class Iron(:\n", "src/toykernels/iron.py cannot be read as Python: "),
        ("class Iron:\n    x = '\0'\n", "cannot be read as Python: "),
        ("from .iron import Iron\n", "has no class Iron"),
    ],
)
def test_a_class_that_cannot_be_found(toy: Toy, text: str | None, words: str) -> None:
    if text is None:
        Path("src/toykernels/iron.py").unlink()
    else:
        toy.write("src/toykernels/iron.py", text)
    (found,) = toy.kernels()
    assert found.code == "DG801"
    assert found.message.startswith(("the kernels of Iron cannot be found: ", "the kernels of Iron cannot be told: "))
    assert words in found.message
    assert any(
        str(each).startswith("spec/backends.yaml:12:") for each in [found.span, *(at.span for at in found.related)]
    )


def test_no_code_is_run(toy: Toy) -> None:
    path = Path("src/toykernels/iron.py")
    path.write_text("exit('run')\n" + path.read_text())
    Path("src/toykernels/__init__.py").write_text("exit('run')\n")
    assert toy.kernels() == []


def test_installed_packages_are_found(tmp_path: Path) -> None:
    assert Sources(()).find("yaml.loader:SafeLoader").name == "SafeLoader"
    with pytest.raises(UnreadableError, match="there is no module nobody_wrote_this"):
        Sources(()).find("nobody_wrote_this.at_all:Ever")


def test_packages_in_development_are_found_by_their_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site, project = tmp_path / "site", tmp_path / "my project"
    (site / "smithy-1.dist-info").mkdir(parents=True)
    (site / "smithy-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: smithy\nVersion: 1\n")
    (site / "smithy-1.dist-info" / "direct_url.json").write_text(f'{{"url": "{project.as_uri()}", "dir_info": {{}}}}')
    (project / "src" / "smithy").mkdir(parents=True)
    (project / "src" / "smithy" / "anvil.py").write_text("class Anvil:\n    def hit(self): return 1\n")
    monkeypatch.syspath_prepend(site)
    assert list(Sources(()).find("smithy.anvil:Anvil").methods) == ["hit"]


def test_a_method_that_no_op_knows_is_a_warning(toy: Toy) -> None:
    path = Path("src/toykernels/iron.py")
    more = "\n    def shine(self) -> None:\n        print(1)\n\n    def _dull(self) -> None:\n        print(2)\n\n    @property\n    def weight(self) -> int:\n        return 1\n"
    path.write_text(path.read_text() + more)
    (found,) = toy.kernels()
    assert (found.code, found.severity.value) == ("DG805", "warning")
    assert found.message == "no op of the catalog forwards to shine of Iron"


def test_a_promise_without_kernels_is_an_error(toy: Toy) -> None:
    text = Path("spec/backends.yaml").read_text()
    Path("spec/backends.yaml").write_text(text.replace("    kernels: toykernels.iron:Iron\n", ""))
    (found,) = toy.kernels()
    assert (found.code, found.severity.value) == ("DG806", "error")
    toy.write(
        "spec/exemptions.yaml",
        """
        version: 1
        exemptions:
          - {backend: Iron, answer: unfinished, reason: still ore, until: 2999-01-01}
        """,
    )
    assert [found.code for found in toy.kernels()] == ["DG808"]


def test_only_backends_of_the_build_need_kernels(toy: Toy) -> None:
    assert toy.kernels() == []
    toy.features = ("steam",)
    assert [found.code for found in toy.kernels()] == ["DG801"]


def test_an_exemption_says_what_is_there_already(toy: Toy) -> None:
    toy.features = ("steam",)
    toy.write(
        "spec/exemptions.yaml",
        """
        version: 1
        exemptions:
          - {op: lift, answer: unfinished, reason: too heavy, until: 2999-01-01}
          - {backend: Steam, answer: unfinished, reason: no boiler, until: 2999-01-01}
        """,
    )
    told = [found.message for found in toy.kernels()]
    assert told[1] == "exempted until 2999-01-01: Steam: no boiler"
    assert told[0].startswith("the exemption of lift excuses nothing")  # Iron lifts, and Steam has an excuse of its own


def test_every_exemption_is_told_of(toy: Toy) -> None:
    toy.write(
        "spec/exemptions.yaml",
        """
        version: 1
        exemptions:
          - {op: lift, backend: Paper, answer: unfinished, reason: too thin, until: 2999-01-01}
          - {op: is_up, answer: unfinished, reason: too dark, until: 2999-01-01}
          - {backend: Steam, answer: unfinished, reason: no boiler, until: 2999-01-01}
        """,
    )
    found = toy.kernels()
    assert [each.code for each in found] == ["DG807", "DG807", "DG808"]
    assert "the catalog promises no such kernel" in found[0].message
    assert found[1].message == "the exemption of is_up excuses nothing: every kernel is there"
    assert [str(each.span) for each in found[1].related] == ["src/toykernels/iron.py:11:5"]


def test_generated_code_that_is_right(toy: Toy) -> None:
    toy.features = ("steam",)
    assert toy.arms(toy.code()) == []


PAPER = '        case k.PAPER:\n            return refuse("cannot")\n'


@pytest.mark.parametrize(
    ("path", "old", "new", "told"),
    [
        ("ops/lift.py", PAPER, "", ["DG825 bind_lift does not name Paper"]),
        ("ops/lift.py", PAPER, PAPER + PAPER, ["DG825 bind_lift names Paper 2 times"]),
        (
            "ops/lift.py",
            "case k.PAPER:",
            "case k.STEAM:",
            ["DG825 bind_lift does not name Paper", "DG825 bind_lift names Steam, which is not in this build"],
        ),
        (
            "ops/lift.py",
            "case k.PAPER:",
            "case k.STONE:",
            ["DG825 an arm of bind_lift names no variant of the catalog", "DG825 bind_lift does not name Paper"],
        ),
        (
            "ops/lift.py",
            "case k.PAPER:",
            "case _:",
            ["DG825 an arm of bind_lift names no variant of the catalog", "DG825 bind_lift does not name Paper"],
        ),
        (
            "ops/lift.py",
            "return iron_kernels.lift",
            "pass",
            ["DG826 the arm of Iron in bind_lift does not forward to its kernel"],
        ),
        (
            "ops/lift.py",
            "return iron_kernels.lift",
            "return paper_kernels.lift",
            ["DG826 the arm of Iron in bind_lift does not forward to its kernel"],
        ),
        (
            "ops/lift.py",
            "return iron_kernels.lift",
            "return iron_kernels.is_up",
            ["DG826 the arm of Iron in bind_lift does not forward to its kernel"],
        ),
        (
            "ops/lift.py",
            "return iron_kernels.lift",
            "raise NotImplementedError",
            ["DG826 the arm of Iron in bind_lift does not forward to its kernel"],
        ),
        (
            "ops/lift.py",
            'refuse("cannot")',
            "paper_kernels.lift",
            ["DG826 the arm of Paper in bind_lift forwards to a kernel that it does not have"],
        ),
        (
            "ops/lift.py",
            'refuse("cannot")',
            'refuse("absent")',
            ["DG826 the arm of Paper in bind_lift does not answer with cannot"],
        ),
        (
            "ops/lift.py",
            "return lambda *_: False",
            "return paper_kernels.is_up",
            ["DG826 the arm of Paper in bind_is_up forwards to a kernel that it does not have"],
        ),
        ("ops/lift.py", "def bind_lift", "def bend_lift", ["DG824 the generated code has no function bind_lift"]),
        ("ops/lift.py", "def lift(", "def loft(", ["DG823 the generated code has no function lift"]),
        (
            "ops/lift.py",
            "return (bind_lift(thing),)",
            "return None",
            ["DG822 the generated function lift does nothing", "DG823 lift does not call what is bound for lift"],
        ),
        (
            "ops/lift.py",
            "return (bind_lift(thing),)",
            "...",
            ["DG822 the generated function lift does nothing", "DG823 lift does not call what is bound for lift"],
        ),
        ("ops/lift.py", "def lift(", "def lift((", ["DG821 the generated file is no Python: "]),
        (
            "ops/carry.py",
            "return paper_kernels.take",
            'return refuse("no_way")',
            ["DG826 the arm of Paper in bind_take does not forward to its kernel"],
        ),
    ],
)
def test_generated_code_that_is_wrong(toy: Toy, path: str, old: str, new: str, told: list[str]) -> None:
    found = toy.arms(swapped(toy.code(), path, old, new))
    assert [each[: len(expected)] for each, expected in zip(found, told, strict=True)] == told


def test_runtimes_are_matched_one_by_one(toy: Toy) -> None:
    text = Path("spec/backends.yaml").read_text()
    steam = "    moving: {engine: piston}\n"
    runtimes = "    runtimes:\n      - {name: hot, moving: {engine: piston}}\n      - {name: cold}\n"
    Path("spec/backends.yaml").write_text(text.replace(steam, runtimes))
    toy.features = ("steam",)
    nested = """
        case k.STEAM:
            match k.SteamRuntime(place.runtime):
                case k.SteamRuntime.HOT:
                    return steam_kernels.lift
                case k.SteamRuntime.COLD:
                    return refuse("cannot")
                case runtime:
                    assert_never(runtime)
"""
    code = toy.code()
    lines = code["ops/lift.py"].decode()
    start = lines.index("        case k.STEAM:")
    end = lines.index("        case backend:", start)
    right = {**code, "ops/lift.py": (lines[:start] + nested.lstrip("\n") + lines[end:]).encode()}
    told = [each for each in toy.arms(right) if "bind_lift" in each]
    assert told == []
    for old, new, words in [
        (
            "case k.SteamRuntime.COLD:",
            "case k.SteamRuntime.WARM:",
            "DG825 an arm of bind_lift names no runtime of Steam",
        ),
        ('refuse("cannot")', "steam_kernels.lift", "DG826 the arm of Steam[cold] in bind_lift forwards"),
        (
            "return steam_kernels.lift",
            'return refuse("cannot")',
            "DG826 the arm of Steam[hot] in bind_lift does not forward",
        ),
    ]:
        wrong = (lines[:start] + nested.lstrip("\n").replace(old, new) + lines[end:]).encode()
        assert any(each.startswith(words) for each in toy.arms({**code, "ops/lift.py": wrong})), words


def test_a_set_that_does_not_say_how_it_matches_is_not_judged(toy: Toy) -> None:
    text = Path("templates/set.yaml").read_text()
    code = toy.code()
    Path("templates/set.yaml").write_text(text.replace("binds: bind_{method}\n", ""))
    assert toy.arms(swapped(code, "ops/lift.py", PAPER, "")) == []


def test_the_shipped_package_is_complete() -> None:
    root = Path(__file__).parents[2]
    template_set, catalog = shipped.template_set(), shipped.catalog_of()
    build = shipped.build_of(catalog)
    folder = root / "generated" / catalog.package
    code = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.py")}
    assert list(generated.check(catalog, template_set, build, folder, code)) == []
    found = list(kernels.check(catalog, template_set, build, Sources(default_roots(root))))
    assert [each for each in found if each.severity.value != "note"] == []
