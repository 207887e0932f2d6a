"""Which class a reference to kernels names: modules are where Python finds them, and classes are what their bases are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dispatchgen.check.folders import Folders
from tests.toy import Toy

IRON = (Path(__file__).parents[1] / "cases/_base/src/toykernels/iron.py").read_text()
STUB = IRON.replace("        return thing", "        raise NotImplementedError", 1)
BASE = IRON.replace("class Iron", "class Base")
STUB_BASE = (
    "class StubBase:\n    def lift(self, thing: Thing, height: int) -> Thing:\n        raise NotImplementedError\n"
)
SETS = "from toykernels.iron import Iron\nIron.lift = None\n"
PATH = "src/toykernels/"
EXTENDS = "__path__ = __import__('pkgutil').extend_path(__path__, __name__)\n"
ASKS = """
import importlib.util, json, sys
names, sys.path[:0] = sys.stdin.read().split(), sys.argv[1:]
def origin(name):
    try:
        return (found := importlib.util.find_spec(name)) and found.origin
    except ModuleNotFoundError:
        return None
print(json.dumps({name: origin(name) for name in names}))
"""


@pytest.fixture
def toy(toy_folder: Path) -> Toy:
    return Toy(Path())


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(["a/pkg/__init__.py", "a/pkg/iron.py"], id="plain"),
        pytest.param(["a/pkg/__init__.py", "a/pkg/iron.py", "a/pkg/iron/__init__.py"], id="package-beside-module"),
        pytest.param(["a/pkg/__init__.py", "a/pkg/iron.py", "a/pkg/iron/other.py"], id="folder-beside-module"),
        pytest.param(["a/pkg/iron.py", "b/pkg/__init__.py", "b/pkg/iron.py"], id="package-behind-a-folder"),
        pytest.param(["a/pkg/__init__.py", "b/pkg/__init__.py", "b/pkg/iron.py"], id="package-without-it-before"),
        pytest.param(["a/pkg.py", "b/pkg/__init__.py", "b/pkg/iron.py"], id="module-of-the-name-before"),
        pytest.param(["a/pkg/other.py", "b/pkg/iron.py"], id="folders-together"),
        pytest.param(["a/pkg/sub/iron.py", "b/pkg/iron.py", "b/pkg/sub/__init__.py"], id="folders-within"),
        pytest.param(["a/pkg/__init__.py", "a/pkg/sub/iron.py"], id="folder-in-a-package"),
        pytest.param(["a/other.py"], id="nowhere"),
    ],
)
def test_modules_are_where_python_finds_them(tmp_path: Path, files: list[str]) -> None:
    for each in files:
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / each).write_text("")
    roots = (tmp_path / "a", tmp_path / "b")
    names = ("pkg", "pkg.iron", "pkg.sub", "pkg.sub.iron", "pkg.iron.other")
    run = subprocess.run(
        [sys.executable, "-c", ASKS, *map(str, roots)], input="\n".join(names), capture_output=True, text=True
    )
    python = json.loads(run.stdout)
    assert {name: (found := Folders(roots).locate(name)) and str(found) for name in names} == python


def test_a_package_may_say_that_it_lies_in_several_folders(tmp_path: Path) -> None:
    for root in ("a", "b"):
        (tmp_path / root / "pkg").mkdir(parents=True)
        (tmp_path / root / "pkg/__init__.py").write_text(EXTENDS)
    (tmp_path / "b/pkg/iron.py").write_text("")
    assert Folders((tmp_path / "a", tmp_path / "b")).locate("pkg.iron") == tmp_path / "b/pkg/iron.py"


def test_what_is_built_into_python_comes_before_all_folders(tmp_path: Path) -> None:
    (tmp_path / "time.py").write_text("")
    (tmp_path / "timer.py").write_text("")
    assert [Folders((tmp_path,)).locate(name) for name in ("time", "timer")] == [None, tmp_path / "timer.py"]


@pytest.mark.parametrize("name", ["", ".", "..pkg", "pkg.", "pkg..iron"])
def test_a_name_with_a_gap_is_nowhere(tmp_path: Path, name: str) -> None:
    (tmp_path / "pkg").mkdir()
    for each in ("pkg/__init__.py", "pkg/iron.py", "__init__.py"):
        (tmp_path / each).write_text("")
    assert Folders((tmp_path,)).locate(name) is None


@pytest.mark.parametrize(
    ("files", "reference", "code", "words"),
    [
        pytest.param({"iron/__init__.py": STUB}, "iron:Iron", "DG803", "is a stub", id="package-beside-module"),
        pytest.param({"__init__.py": SETS}, "iron:Iron", "DG804", "is replaced in line 2", id="set-by-its-package"),
        pytest.param({"k.py": SETS}, "k:Iron", "DG804", "is replaced in line 2", id="set-by-who-hands-it-on"),
        pytest.param(
            {
                "k.py": SETS.replace("Iron.lift", "iron.Iron.lift").replace(
                    "\n", "\nimport toykernels.iron as iron\n", 1
                )
            },
            "k:Iron",
            "DG804",
            "is replaced in line 3",
            id="set-by-its-module",
        ),
        pytest.param({"__init__.py": "def"}, "iron:Iron", "DG801", "cannot be read as Python", id="broken-package"),
        pytest.param(
            {"__init__.py": "raise OSError"}, "iron:Iron", "DG801", "raises an exception", id="failing-package"
        ),
        pytest.param(
            {"iron.py": IRON + "\nif True:\n    raise OSError\n"}, "iron:Iron", "DG801", "raises", id="failing"
        ),
    ],
)
def test_what_runs_where_kernels_are_imported_counts(
    toy: Toy, files: dict[str, str], reference: str, code: str, words: str
) -> None:
    for name, text in files.items():
        toy.write(PATH + name, text)
    toy.write("spec/backends.yaml", Path("spec/backends.yaml").read_text().replace("iron:Iron", reference))
    found = [each for each in toy.kernels() if "Iron" in each.message]
    assert [each.code for each in found] == [code]
    assert words in found[0].message


@pytest.mark.parametrize(
    ("before", "bases"),
    [
        pytest.param("from toykernels.other import *\n", "StubBase, Base", id="star"),
        pytest.param("from toykernels.other import Lazy\n", "Lazy, Base", id="not-in-its-module"),
        pytest.param("from toykernels import other\n", "other.Lazy, Base", id="not-in-the-module"),
        pytest.param("import toykernels.other\n", "toykernels.other.Lazy, Base", id="not-in-the-module-by-its-name"),
        pytest.param("Made = type('Made', (StubBase,), {})\n", "Made, Base", id="made-by-a-call"),
        pytest.param("def mix(): return StubBase\n", "mix(), Base", id="call"),
        pytest.param("ALL = [StubBase]\n", "ALL[0], Base", id="subscript"),
        pytest.param("ALL = [StubBase]\n", "*ALL, Base", id="starred"),
        pytest.param("ALL = [StubBase]\nOne = ALL[0]\n", "One, Base", id="alias-of-a-subscript"),
        pytest.param("", "StubBase if print else Base", id="either"),
        pytest.param("if print:\n    One = StubBase\nelse:\n    One = Base\n", "One", id="under-a-condition"),
        pytest.param("if print:\n    One = StubBase\n", "One, Base", id="under-a-condition-only"),
        pytest.param("class Outer:\n    One = StubBase\n", "Outer.One, Base", id="of-a-class"),
        pytest.param("One, two = StubBase, 2\n", "One, Base", id="unpacked"),
        pytest.param("class One: pass\ndef other():\n    global One\n    One = StubBase\n", "One, Base", id="global"),
        pytest.param("class One: pass\nglobals()['One'] = StubBase\n", "One, Base", id="globals"),
    ],
)
def test_a_base_that_reading_does_not_tell(toy: Toy, before: str, bases: str) -> None:
    toy.write(PATH + "other.py", STUB_BASE + "def __getattr__(name): return StubBase\n")
    head, star = (before, "") if "import" in before else ("", before)
    toy.write(PATH + "iron.py", f"{head}{STUB_BASE}{BASE}{star}class Iron({bases}):\n    pass\n")
    if "*" in head:
        toy.write(PATH + "iron.py", f"{head}{BASE}class Iron({bases}):\n    pass\n")
    (found,) = toy.kernels()
    assert found.code == "DG801"
    assert "nobody can tell by reading" in found.message


@pytest.mark.parametrize(
    ("before", "bases"),
    [
        pytest.param("from abc import ABC\n", "Base, ABC", id="abc"),
        pytest.param("import typing as t\n", "Base, t.Generic[t.T]", id="generic"),
        pytest.param("class Kind(Base, Generic[T]): pass\nOf = Kind[int]\n", "Of", id="alias-of-a-generic"),
        pytest.param("from collections import namedtuple\n", "Base, namedtuple('P', '')", id="namedtuple"),
        pytest.param(
            "try:\n    from fast import Fast\nexcept ImportError:\n    Fast = object\n", "Base, Fast", id="if-there"
        ),
        pytest.param(
            "if print:\n    from a import P\nelse:\n    from b import P\n", "Base, P", id="of-one-or-the-other"
        ),
        pytest.param("import yaml.loader\n", "Base, yaml.loader.Loader", id="of-another-project"),
        pytest.param("", "Base, Exception", id="builtin"),
    ],
)
def test_bases_from_elsewhere_are_let_be(toy: Toy, before: str, bases: str) -> None:
    head, tail = (before, "") if "import" in before and "Kind" not in before else ("", before)
    toy.write(PATH + "iron.py", f"{head}{BASE}{tail}class Iron({bases}):\n    pass\n")
    assert toy.kernels() == []


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        pytest.param(f"{STUB}One = Iron\n{IRON}Iron = One\n", ["DG803"], id="alias"),
        pytest.param(
            f"{STUB_BASE}{BASE}One = StubBase\nclass Iron(One, Base): pass\nOne = Base\n", ["DG803"], id="base"
        ),
        pytest.param(f"{IRON}class Iron(Iron): pass\n", [], id="of-its-own-name"),
        pytest.param(f"{STUB}class Iron(Iron): pass\n", ["DG803"], id="stub-of-its-own-name"),
    ],
)
def test_a_name_stands_for_what_it_stood_for_there(toy: Toy, text: str, codes: list[str]) -> None:
    toy.write(PATH + "iron.py", text)
    assert [each.code for each in toy.kernels()] == codes


def test_modules_that_hold_the_same_have_bases_of_their_own(toy: Toy) -> None:
    for name, base in (("good", IRON), ("bad", STUB)):
        toy.write(f"{PATH}{name}/__init__.py", "")
        toy.write(f"{PATH}{name}/base.py", base.replace("class Iron", "class Base"))
        toy.write(f"{PATH}{name}/metal.py", "from .base import Base\nclass Metal(Base):\n    pass\n")
    spec = Path("spec/backends.yaml").read_text()
    spec = spec.replace("iron:Iron", "good.metal:Metal").replace("steam:Steam", "bad.metal:Metal")
    toy.write("spec/backends.yaml", spec)
    toy.features = ("steam",)
    (found,) = toy.kernels()
    assert (found.code, found.message) == ("DG803", "Steam has no kernel for lift: lift is a stub")


@pytest.mark.parametrize(
    "after",
    [
        pytest.param("def later():\n    Iron.lift = None\nlater()\n", id="by-a-function"),
        pytest.param("vars(Iron)['lift'] = None\n", id="vars"),
        pytest.param("Iron.__bases__ = (object,)\n", id="bases"),
        pytest.param("\n    def __init__(self):\n        type(self).lift = None\n", id="type-of-self"),
        pytest.param("\n    def __init__(self):\n        self.__class__.lift = None\n", id="class-of-self"),
        pytest.param("\n    def __init__(self):\n        self.__dict__['lift'] = None\n", id="dict-of-self"),
        pytest.param(
            "\n    def __init__(self):\n        object.__setattr__(self, 'lift', None)\n", id="setattr-of-object"
        ),
        pytest.param("\n    def __init__(this):\n        this.lift = None\n", id="self-by-another-name"),
        pytest.param("\n    def __init_subclass__(cls):\n        cls.lift = None\n", id="cls"),
    ],
)
def test_a_method_that_is_set_by_what_runs_later(toy: Toy, after: str) -> None:
    toy.write(PATH + "iron.py", IRON + after)
    found = toy.kernels()
    assert {each.code for each in found} == {"DG804"}
    assert any(each.message.startswith("lift of Iron is replaced in line") for each in found)


def test_attributes_of_other_things_are_let_be(toy: Toy) -> None:
    toy.write(PATH + "iron.py", IRON + "\n    def __init__(self, other):\n        other.lift = self.size = None\n")
    assert toy.kernels() == []


@pytest.mark.parametrize(
    "after", ["globals()['Iron'] = 3\n", "exec('Iron = 3')\n", "import sys\nsys.modules[__name__] = 3\n"]
)
def test_a_class_whose_name_may_stand_for_something_else(toy: Toy, after: str) -> None:
    toy.write(PATH + "iron.py", IRON + after)
    (found,) = toy.kernels()
    assert found.code == "DG801"
    assert "may be set to something else" in found.message


def test_a_module_that_only_reads_its_names_is_read(toy: Toy) -> None:
    after = "__all__ = [name for name in globals()]\nexec('x = 3', {})\nCOUNT = 0\ndef up():\n    global COUNT\n    COUNT = 1\n"
    toy.write(PATH + "iron.py", IRON + after)
    assert toy.kernels() == []
