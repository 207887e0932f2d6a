"""Ways to leave something out of generated code that look as if it were there, in a set that tells how it is written."""

from __future__ import annotations

import ast
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from dispatchgen.check import code as generated
from dispatchgen.check.patterns import expression, statement, unlike
from dispatchgen.check.things import Things
from dispatchgen.model.catalog import Catalog
from dispatchgen.plan import plan
from dispatchgen.render import render
from dispatchgen.statements import FIELDS
from dispatchgen.template_set import read_set
from tests import shipped
from tests.toy import Toy, swapped

PAPER = '        case k.PAPER:\n            return refuse("cannot")\n'
IRON = "        case k.IRON:\n            return iron_kernels.lift\n"
MATCH = '    """Pick the arm of lift."""\n    match place.backend:\n'
CLOSING = "        case backend:\n            assert_never(backend)\n"
BOTH = '[\n    "Iron",\n    "Paper",\n]'
BIND = "def bind_lift(place):\n"


@pytest.fixture
def toy(toy_folder: Path) -> Toy:
    toy = Toy(Path())
    toy.tell_shapes()
    return toy


def test_what_is_generated_is_what_is_told(toy: Toy) -> None:
    assert toy.arms(toy.code()) == []
    toy.features = ("steam",)
    assert toy.arms(toy.code()) == []


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        pytest.param(IRON, IRON.replace("k.IRON", "k.IRON if place.hot"), "DG825 an arm of bind_lift has a condition", id="condition"),
        pytest.param(IRON, IRON.replace("k.IRON", "other.IRON"), "DG825 an arm of bind_lift names no variant", id="other-constant"),
        pytest.param(IRON, IRON.replace("k.IRON", "k.IRON | k.PAPER"), "DG825 an arm of bind_lift names no", id="or-pattern"),
        pytest.param(IRON, f"        case _ if place:\n            return 1\n{IRON}", "DG825 an arm of bind_lift names no", id="wildcard-first"),
        pytest.param(IRON, "        case backend:\n            assert_never(backend)\n" + IRON, "DG825 an arm of", id="closed-first"),
        pytest.param(CLOSING, "", "DG825 bind_lift does not end with assert_never", id="not-closed"),
        pytest.param(CLOSING, CLOSING.replace("assert_never(backend)", "return assert_never"), "DG825", id="closed-otherwise"),
        pytest.param(CLOSING, CLOSING.replace("never(backend)", "never(place)"), "DG825", id="something-else-closed"),
        pytest.param(MATCH, MATCH.replace("place.backend", "other"), "DG825 bind_lift matches something else", id="other-subject"),
        pytest.param(MATCH, MATCH.replace("    match", "    return iron\n    match", 1), "DG825 bind_lift does something beside", id="early-return"),
        pytest.param(MATCH, MATCH.replace("    match", "    place = 1\n    match", 1), "DG825 bind_lift does something", id="other-place"),
        pytest.param("return iron_kernels.lift", "return iron_kernels.lift if place else None", "DG826 the arm of Iron", id="half-a-kernel"),
        pytest.param("return iron_kernels.lift", "return [iron_kernels.lift]", "DG826 the arm of Iron", id="wrapped-in-a-list"),
        pytest.param("return iron_kernels.lift", "iron_kernels.lift", "DG826 the arm of Iron", id="no-return"),
        pytest.param("return iron_kernels.lift", "return print or iron_kernels.lift", "DG826 the arm of Iron", id="something-before"),
        pytest.param("return iron_kernels.lift", "if place:\n                return iron_kernels.lift", "DG826", id="sometimes"),
        pytest.param('refuse("cannot")', 'print("cannot")', "DG826 the arm of Paper in bind_lift does not return", id="not-refused"),
        pytest.param("return lambda *_: False", "return lambda *_: True", "DG826 the arm of Paper in bind_is_up", id="other-answer"),
        pytest.param(BIND, "@cache\n" + BIND, "DG824 bind_lift is decorated", id="decorated"),
        pytest.param(BIND, "async " + BIND, "DG824 the generated code has no function bind_lift", id="async"),
        pytest.param(BIND, "def bind_lift(place, other):\n", "DG828 this is not `def bind_lift(place): ...`", id="signature"),
        pytest.param("\ndef lift(", "\nbind_lift = print\n\n\ndef lift(", "DG824 bind_lift stands for something else", id="rebound"),
        pytest.param("\ndef lift(", "\ndel bind_lift\n\n\ndef lift(", "DG824 bind_lift stands for something else", id="deleted"),
        pytest.param("\ndef lift(", "\nfor bind_lift in ():\n    pass\n\n\ndef lift(", "DG824 bind_lift stands", id="loop"),
        pytest.param("\ndef lift(", "\ntry:\n    from x import y as lift\nexcept E:\n    pass\n\n\ndef lift(", "DG823 lift stands", id="import"),
        pytest.param("return (bind_lift(thing),)", "return None and bind_lift(thing)", "DG823 lift does not call", id="never-called"),
        pytest.param("return (bind_lift(thing),)", "return thing\n    bind_lift(thing)", "DG823 lift does not call", id="after-return"),
        pytest.param("return (bind_lift(thing),)", "if False:\n        bind_lift(thing)\n    return thing", "DG823", id="if-False"),
        pytest.param("return (bind_lift(thing),)", "bind_lift = print\n    return bind_lift(thing)", "DG823", id="own-name"),
        pytest.param("return (bind_lift(thing),)", "while True:\n        return thing\n    bind_lift(thing)", "DG823", id="after-a-loop"),
        pytest.param("return (bind_lift(thing),)", "bind_lift", "DG823 lift does not call", id="only-named"),
        pytest.param("return (bind_lift(thing),)", "del thing.bind_lift", "DG823 lift does not call", id="only-deleted"),
        pytest.param("return (bind_lift(thing),)", "bind_lift(thing)", "DG822 lift gives nothing back", id="not-given-back"),
        pytest.param("return (bind_lift(thing),)", "return bind_lift(thing)\n    yield", "DG822 lift is a gen", id="generator"),
        pytest.param("return (bind_lift(thing),)", "return (bind_is_up(thing),)", "DG823 lift does not call", id="other-op"),
        pytest.param("def lift(thing: Thing, height: int)", "def lift(thing: Thing)", "DG828 this is not `def lift", id="parameters"),
        pytest.param("\ndef lift(", "\ndef left(thing):\n    return thing\n\n\ndef lift(", "DG829 nothing in the catalog", id="orphan"),
        pytest.param("\ndef lift(", "\ndef bind_left(place):\n    return place\n\n\ndef lift(", "DG829 nothing in", id="orphan-bound"),
    ],
)  # fmt: skip
def test_a_gap_in_a_family(toy: Toy, old: str, new: str, told: str) -> None:
    found = toy.arms(swapped(toy.code(), "ops/lift.py", old, new))
    assert any(each.startswith(told) for each in found), found


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (BOTH, '["Iron"]', ["DG827 BACKENDS does not say `'Paper'`"]),
        (BOTH, '["Iron", "Paper", "Steam"]', ["DG829 nothing in the catalog stands for `'Steam'`"]),
        (
            BOTH,
            '["Iron", "Paper", "Paper"]',
            ["DG829 'Paper' stands here again", "DG829 'Paper' stands here, and again in line"],
        ),
        (BOTH, '["Iron", *more]', ["DG829 nothing in the catalog", "DG827 BACKENDS does not say"]),
        (BOTH, "list(others)", ["DG829 nothing in the catalog", "DG827 BACKENDS does", "DG827 BACKENDS does"]),
        (BOTH, f"{BOTH}\nBACKENDS = []", ["DG827 BACKENDS is not here"]),
        (BOTH, f"{BOTH}\nBACKENDS += [1]", ["DG827 BACKENDS is not here"]),
        (f"BACKENDS = {BOTH}", "", ["DG827 BACKENDS is not here"]),
        (f"BACKENDS = {BOTH}", f"if place:\n    BACKENDS = {BOTH}", ["DG827 BACKENDS is not here"]),
    ],
)
def test_a_gap_in_what_a_file_says(toy: Toy, old: str, new: str, told: list[str]) -> None:
    found = toy.arms(swapped(toy.code(), "__init__.py", old, new))
    assert [each[: len(words)] for each, words in zip(found, told, strict=True)] == told


@pytest.mark.parametrize(
    ("path", "line", "told"),
    [
        ("__init__.py", "del BACKENDS[0]", "DG834 this may change BACKENDS[0] after it was made"),
        ("__init__.py", "BACKENDS.clear()", "DG834 this may change BACKENDS after it was made"),
        ("__init__.py", "BACKENDS[0] = 1", "DG834 this may change BACKENDS[0] after it was made"),
        ("__init__.py", "_ = other.BACKENDS.pop()", "DG834 this may change other.BACKENDS after it was made"),
        ("__init__.py", "globals()['BACKENDS'] = []", "DG834 this may change globals()['BACKENDS'] after it was made"),
        ("__init__.py", "for each in x: setattr(each, 'a', 1)", "DG834 this may change what `setattr` reaches"),
        ("__init__.py", "from elsewhere import *", "DG834 what is imported by `*` may take the place of anything"),
        ("ops/lift.py", "refuse = print", "DG834 refuse stands for something else than in line"),
        ("ops/lift.py", "def refuse(*_): return 1", "DG834 refuse stands for something else than in line"),
        ("ops/lift.py", "import other as k", "DG834 k stands for something else than in line"),
        ("ops/lift.py", "k.IRON = k.PAPER", "DG834 this may change k.IRON after it was made"),
        ("ops/lift.py", "isinstance = print", "DG834 isinstance is no longer what Python has under that name"),
        ("ops/lift.py", "lift.__init__(1)", "DG834 this may change lift after it was made"),
        ("ops/lift.py", "lift.forget()", "DG834 this may change lift after it was made"),
    ],
)
def test_what_is_said_is_not_taken_back(toy: Toy, path: str, line: str, told: str) -> None:
    code = toy.code()
    given = "from toy import refuse, k\n"
    lead = given if path.startswith("ops") and b"import refuse" not in code[path] else ""
    future, _, rest = code[path].decode().partition("from __future__ import annotations\n")
    text = f"{future}from __future__ import annotations\n{lead}{rest}" if rest else f"{lead}{future}"
    assert toy.arms({**code, path: text.encode()}) == []
    found = toy.arms({**code, path: f"{text}\n{line}\n".encode()})
    assert any(each.startswith(told) for each in found), found


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{file: a.py, each: op, code: '{op} = {nothing}'}", "`{nothing}` is no field here"),
        ("{file: a.py, each: op, where: built, code: '{op}'}", "op has no field `built`"),
        ("{file: '{op', each: op, code: '{op}'}", "cannot be read: expected '}'"),
        ("{file: a.py, each: backend, code: '{engines[flying]}'}", "speaks of something that is not declared"),
        ("{file: a.py, each: backend, code: '{engines}'}", "`{engines}` is no field here"),
        ("{file: a.py, each: op, code: '{op.__class__}'}", "`{op.__class__}` is no field here"),
    ],
)
def test_a_statement_that_cannot_be_looked_for(toy: Toy, line: str, told: str) -> None:
    path = Path("templates/set.yaml")
    path.write_text(path.read_text() + f"  - {line}\n")
    _, findings = read_set(Path("templates"))
    assert [(each.code, told in each.message) for each in findings] == [("DG604", True)]
    assert findings[0].span is not None
    assert findings[0].span.line == len(path.read_text().splitlines())


@pytest.mark.parametrize(
    ("binds", "told"),
    [
        ("bind_{methonod}", "`{methonod}` is no field here"),
        ("bind_{}", "`{}` is no field here"),
        ("bind_{method", "cannot be read: expected '}'"),
        ("'bind_{method!z}'", "cannot be read"),
        ("'bind_{method:%}'", "cannot be read"),
    ],
)
def test_a_binder_that_cannot_be_looked_for(toy: Toy, binds: str, told: str) -> None:
    path = Path("templates/set.yaml")
    path.write_text(path.read_text().replace("binds: bind_{method}\n", f"binds: {binds}\n"))
    _, findings = read_set(Path("templates"))
    assert [(each.code, told in each.message) for each in findings] == [("DG604", True)]


def test_an_arm_that_cannot_be_looked_for(toy: Toy) -> None:
    path = Path("templates/set.yaml")
    path.write_text(path.read_text().replace("refuse({situation!r})", "refuse({situation!r}, {nothing}"))
    _, findings = read_set(Path("templates"))
    assert [(each.code, "`{nothing}` is no field" in each.message) for each in findings] == [("DG604", True)]
    path.write_text(path.read_text().replace("{nothing}", "1"))
    _, findings = read_set(Path("templates"))
    assert [(each.code, "is no expression" in each.message) for each in findings] == [("DG604", True)]


def test_a_statement_that_is_no_code_is_a_finding(toy: Toy) -> None:
    path = Path("templates/set.yaml")
    path.write_text(path.read_text() + "  - {file: __init__.py, each: op, code: 'def {op}('}\n")
    found = toy.arms(toy.code())
    assert [each[:58] for each in found] == ["DG604 a statement for __init__.py cannot be read: '(' was "]


def test_the_fields_that_are_told_are_those_that_are_there() -> None:
    catalog = shipped.catalog_of()
    things = Things(catalog, shipped.template_set(), shipped.build_of(catalog))
    for kind, fields in FIELDS.items():
        for thing in things.of(kind):
            assert set(thing) == fields, kind


@pytest.mark.parametrize(
    ("pattern", "code", "alike"),
    [
        ("f(1, ...)", "f(1, 2, x=3)", True),
        ("f(1, ...)", "f(2)", False),
        ("f(1, ...)", "f()", False),
        ("f(x=1, y=...)", "f(x=1, y=2)", True),
        ("f(x=1, y=...)", "f(x=1)", False),
        ("f(1)", "f(1, 2)", False),
        ("f(1)", "f(True)", False),
        ("f(1, ..., x=2)", "f(1, 5, x=2, y=3)", True),
        ("f(1, ..., x=2)", "f(1, 5, x=3)", False),
        ("tuple[str, ...]", "tuple[str, int]", False),
        ("tuple[str, ...]", "tuple[str, ...]", True),
        ("f(__any__)", "f(a + b)", True),
        ("x___any__", "x_1", True),
        ("x___any__", "y_1", False),
        ("'__any__'", "1", True),
    ],
)
def test_gaps_in_expressions(pattern: str, code: str, alike: bool) -> None:
    assert (unlike(expression(pattern), ast.parse(code, mode="eval").body) is None) is alike


@pytest.mark.parametrize(
    ("pattern", "code", "alike"),
    [
        ("def f(a: int) -> int: ...", "def f(a: int) -> int:\n    'Says.'\n    return 1", True),
        ("def f(a: int) -> int: return a", "def f(a: int) -> int:\n    'Says.'\n    return a", True),
        ("def f(a: int) -> int: return a", "def f(a: int) -> int:\n    return 1", False),
        ("def f(a: int) -> int: ...", "def f(a: int = 1) -> int: ...", False),
        ("def f(a: int) -> int: ...", "async def f(a: int) -> int: ...", False),
        ("def f(a: int) -> int: ...", "@g\ndef f(a: int) -> int: ...", False),
        ("def f(__any__): ...", "def f(a, *, b=1): ...", True),
        ("class A(B): ...", "class A(B):\n    x = 1", True),
        ("class A(B): ...", "class A(C): ...", False),
        ("x: Final = ...", "x: Final = f(1)", True),
        ("from a import b", "from a import b as c", False),
    ],
)
def test_gaps_in_statements(pattern: str, code: str, alike: bool) -> None:
    assert (unlike(statement(pattern), ast.parse(code).body[0]) is None) is alike


@pytest.fixture(scope="module")
def shipped_code() -> dict[str, bytes]:
    catalog, template_set = shipped.catalog_of(), shipped.template_set()
    rendered, _ = render(plan(catalog, template_set, shipped.build_of(catalog)), template_set)
    return {file.path: file.text.encode() for file in rendered}


@pytest.mark.parametrize(
    ("path", "old", "new", "told"),
    [
        ("__init__.py", "import recv, send", "import recv", "DG827 the file does not say `from torchdispatch.ops"),
        ("__init__.py", "import recv, send", "import recv, recv as send", "DG828 this is not `from torchdispatch.ops"),
        (
            "__init__.py",
            "Cpu, Cuda, Device",
            "Cuda, Device",
            "DG827 the file does not say `from torchdispatch.devices import Cpu`",
        ),
        ("__init__.py", "is_built, ", "", "DG827 the file does not say `from torchdispatch.guards import is_built`"),
        ("__init__.py", "NoBackend, ", "", "DG827 the file does not say `from torchdispatch.errors import NoBackend`"),
        ("__init__.py", "arms_class=Arms", "arms_class=None", "DG827 the file does not say `_binding.PACKAGE.bind("),
        ("_binding.py", "errors=ERRORS", "errors=()", "DG828 this is not `errors=ERRORS`"),
        ("_binding.py", "backends=BACKENDS", "backends={}", "DG828 this is not `backends=BACKENDS`"),
        ("_variants.py", "return backend\n", "return Backend.CPU\n", "DG828 this is not `def backend_of("),
        ("devices.py", "= k.CUDA\n", "= k.CPU\n", "DG828 this is not `backend: ClassVar[Backend] = k.CUDA`"),
        (
            "dispatch.py",
            "class Dispatch:",
            "class Dispatch(metaclass=Odd):",
            "DG834 the class Dispatch is made by the meta",
        ),
        (
            "dispatch.py",
            "class Dispatch:",
            "class Dispatch:\n    locals().clear()\n",
            "DG834 the class Dispatch is changed",
        ),
        (
            "ops/collective.py",
            "    return bound.broadcast(",
            "    if devices is None:\n        return bound.scatter(routed, root)\n    return bound.broadcast(",
            "DG823 broadcast calls `bound.scatter`, which is bound for something else",
        ),
        ("guards.py", "return guards.is_built", "pass\n    return guards.is_built", "DG828 this is not `def is_built("),
    ],
)
def test_a_gap_in_the_shipped_package(shipped_code: dict[str, bytes], path: str, old: str, new: str, told: str) -> None:
    catalog = shipped.catalog_of()
    code = swapped(shipped_code, path, old, new)
    found = generated.check(catalog, shipped.template_set(), shipped.build_of(catalog), Path("out"), code)
    assert any(f"{each.code} {each.message}".startswith(told) for each in found)


@pytest.mark.parametrize("line", ["x = " + "-" * 100_000 + "1", "x = " + "a." * 2500 + "b", "x = 1" + " + 1" * 3000])
def test_a_generated_file_that_is_too_deep_is_a_finding(toy: Toy, line: str) -> None:
    code = toy.code()
    assert "DG821" in [each[:5] for each in toy.arms({**code, "ops/lift.py": code["ops/lift.py"] + line.encode()})]


def test_templates_that_are_laid_over_a_set_may_write_otherwise(toy: Toy) -> None:
    toy.write("mine/ops/arm.jinja", Path("templates/ops/arm.jinja").read_text().replace("return ", "return 0 or ", 1))
    template_set, findings = read_set(Path("templates"), (Path("mine"),))
    assert template_set is not None, findings
    catalog, _, build = toy.read()
    folder = Path("out")
    rendered, _ = render(plan(catalog, template_set, build), template_set)
    code = {file.path: file.text.encode() for file in rendered}
    assert b"return 0 or iron_kernels.lift" in code["ops/lift.py"]
    found = list(generated.check(catalog, template_set, build, folder, code))
    assert [(each.code, each.severity.value) for each in found] == [("DG833", "note")]
    assert found[0].message.startswith("ops/carry.py and 1 more come from templates of an overlay")
    wrong = {**code, "ops/lift.py": code["ops/lift.py"].replace(b"iron_kernels.lift", b"iron_kernels.is_up")}
    assert "DG826" in [each.code for each in generated.check(catalog, template_set, build, folder, wrong)]
    wrong = {**code, "__init__.py": code["__init__.py"].replace(b'"Iron", ', b"")}
    assert "DG827" in [each.code for each in generated.check(catalog, template_set, build, folder, wrong)]


@pytest.fixture(params=["shipped", "burn_2026_08", "burn_2026_09"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Catalog:
    """The shipped catalog, or its operations on the backends of Burn."""
    if request.param == "shipped":
        return shipped.catalog_of()
    shutil.copytree(shipped.SPEC, tmp_path / "spec", ignore=shutil.ignore_patterns("exemptions.yaml", "schema"))
    shutil.copy(shipped.ROOT / "tests" / "data" / "burn" / f"{request.param}.yaml", tmp_path / "spec" / "backends.yaml")
    return replace(shipped.catalog_of(tmp_path / "spec"), package="burned")


def test_no_build_of_the_shipped_templates_is_accused(catalog: Catalog) -> None:
    features = [feature.name for feature in catalog.features if feature.name != "default"]
    template_set = shipped.template_set()
    for subset in [(), *((each,) for each in features), tuple(features)]:
        build = shipped.build_of(catalog, *subset, default=False)
        rendered, findings = render(plan(catalog, template_set, build), template_set)
        assert findings == ()
        code = {file.path: file.text.encode() for file in rendered}
        assert list(generated.check(catalog, template_set, build, Path("out"), code)) == [], subset
