"""Ways to have a kernel method that is not there, or does nothing, and that look as if it were: each is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from dispatchgen.check.classes import Sources, UnreadableError
from tests.toy import Toy

OTHERS = """
    def give(self, thing: Thing) -> Thing:
        return thing

    def take(self, thing: Thing, source: Place) -> Thing:
        return thing

    def is_up(self, thing: Thing) -> bool:
        return True
"""
LIFT = "    def lift(self, thing: Thing, height: int) -> Thing:\n        return thing\n"
HEAD = "    def lift(self, thing: Thing, height: int) -> Thing:\n"


@pytest.fixture
def toy(toy_folder: Path) -> Toy:
    return Toy(Path())


def inside(text: str, by: str = "    ") -> str:
    return "".join(f"{by}{line}" for line in text.splitlines(keepends=True))


def iron(body: str, *, before: str = "", after: str = "", bases: str = "") -> str:
    return f"{before}class Iron{bases}:{OTHERS}\n{body}\n{after}"


STUB_BASE = f"class Base:\n{HEAD}        raise NotImplementedError\n"
LATE_STUB_BASE = f"class Base:\n{HEAD}        name = type(self).__name__\n        raise NotImplementedError(name)\n"
ABSTRACT_BASE = f"class Base(ABC):\n    @abstractmethod\n{HEAD}        return thing\n"
PROTOCOL_BASE = f"class Base(Protocol):\n{HEAD}        ...\n"
REAL_BASE = f"class Base:\n{LIFT}"


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        pytest.param(iron("", before=STUB_BASE, bases="(Base)"), "DG803", "lift is a stub", id="base-raises"),
        pytest.param(iron("", before=LATE_STUB_BASE, bases="(Base)"), "DG803", "is a stub", id="base-raises-late"),
        pytest.param(iron("", before=ABSTRACT_BASE, bases="(Base)"), "DG802", "lacks the method", id="base-abstract"),
        pytest.param(iron("", before=PROTOCOL_BASE, bases="(Base)"), "DG803", "is a stub", id="base-protocol"),
        pytest.param(
            iron(HEAD + "        return super().lift(thing, height)\n", before=STUB_BASE, bases="(Base)"),
            "DG803",
            "is a stub",
            id="calls-a-stub-of-its-base",
        ),
        pytest.param(
            iron(HEAD + "        return self._later()\n    def _later(self): raise NotImplementedError"),
            "DG803",
            "is a stub",
            id="calls-a-stub-of-its-own",
        ),
        pytest.param(
            iron(
                HEAD + "        return self._later()\n"
                "    def _later(self): return self._much()\n"
                "    def _much(self): return self._never()\n"
                "    def _never(self): raise NotImplementedError"
            ),
            "DG803",
            "lift is a stub",
            id="calls-what-calls-what-calls-a-stub",
        ),
        pytest.param(
            iron(HEAD + "        return later(thing)\n", before="def later(thing): raise NotImplementedError\n"),
            "DG803",
            "is a stub",
            id="calls-a-stub-of-its-module",
        ),
        pytest.param(iron(HEAD + "        return NotImplemented"), "DG803", "is a stub", id="not-implemented"),
        pytest.param(iron(HEAD + "        assert False, 'later'"), "DG803", "is a stub", id="assert-false"),
        pytest.param(iron(HEAD + "        return None"), "DG803", "is a stub", id="returns-nothing"),
        pytest.param(iron(HEAD + "        return"), "DG803", "is a stub", id="bare-return"),
        pytest.param(iron(HEAD + "        thing\n        height"), "DG803", "is a stub", id="names-only"),
        pytest.param(
            iron(HEAD + "        raise builtins.NotImplementedError()"), "DG803", "is a stub", id="qualified-exception"
        ),
        pytest.param(
            iron(HEAD + "        if False:\n            return thing\n        raise NotImplementedError"),
            "DG803",
            "is a stub",
            id="work-that-never-runs",
        ),
        pytest.param(
            iron(HEAD + "        if thing:\n            return thing\n        raise NotImplementedError"),
            "DG803",
            "is a stub",
            id="half-done",
        ),
        pytest.param(iron("    setattr(Iron, 'lift', print)"), "DG802", "lacks the method", id="set-inside"),
        pytest.param(iron("", after="Iron.lift = print\n"), "DG802", "lacks the method", id="set-afterwards"),
        pytest.param(iron("    lift = print\n"), "DG802", "lacks the method", id="some-function"),
        pytest.param(iron("    lift = lambda self, thing, height: thing\n"), "DG802", "lacks the method", id="lambda"),
        pytest.param(iron("    lift: Callable[..., Thing]\n"), "DG802", "lacks the method", id="only-declared"),
        pytest.param(iron(LIFT + "    lift = None\n"), "DG802", "lacks the method", id="set-to-None"),
        pytest.param(iron(LIFT + "    del lift\n"), "DG802", "lacks the method", id="deleted"),
        pytest.param(
            iron("    lift = None\n", before=REAL_BASE, bases="(Base)"), "DG802", "lacks", id="base-set-to-None"
        ),
        pytest.param(iron(LIFT, after="Iron.lift = None\n"), "DG804", "is replaced in line", id="replaced-afterwards"),
        pytest.param(iron(LIFT, after="del Iron.lift\n"), "DG804", "is replaced in line", id="deleted-afterwards"),
        pytest.param(
            iron(LIFT, after="setattr(Iron, 'lift', None)\n"), "DG804", "is replaced", id="setattr-afterwards"
        ),
        pytest.param(
            iron(LIFT + "    def __init__(self) -> None:\n        self.lift = None\n"),
            "DG804",
            "is replaced",
            id="on-self",
        ),
        pytest.param(iron("    if False:\n" + inside(LIFT)), "DG802", "lacks the method", id="if-False"),
        pytest.param(iron("    if not True:\n" + inside(LIFT)), "DG802", "lacks the method", id="if-not-True"),
        pytest.param(iron("    if TYPE_CHECKING:\n" + inside(LIFT)), "DG802", "lacks", id="for-the-type-checker"),
        pytest.param(iron("    while 0:\n" + inside(LIFT)), "DG802", "lacks the method", id="while-0"),
        pytest.param(iron("    if FAST:\n" + inside(LIFT)), "DG804", "under a condition only", id="under-a-condition"),
        pytest.param(
            iron("    if FAST:\n" + inside(LIFT) + "    else:\n" + inside(HEAD) + "            ...\n"),
            "DG803",
            "is a stub",
            id="a-stub-otherwise",
        ),
        pytest.param(iron("    for each in ():\n" + inside(LIFT)), "DG804", "under a condition", id="in-a-loop"),
        pytest.param(
            iron("    try:\n        fast()\n    except OSError:\n" + inside(LIFT)),
            "DG804",
            "under a condition",
            id="in-except",
        ),
        pytest.param(iron("    class Inner:\n" + inside(LIFT)), "DG802", "lacks the method", id="in-an-inner-class"),
        pytest.param(
            iron("    def other(self):\n" + inside(LIFT)).replace("other", "_o"), "DG802", "lacks", id="nested"
        ),
        pytest.param(iron("    @property\n" + LIFT), "DG804", "is decorated", id="property"),
        pytest.param(iron("    @classmethod\n" + LIFT), "DG804", "is decorated", id="classmethod"),
        pytest.param(iron("    @overload\n" + LIFT), "DG804", "is decorated", id="overload-only"),
        pytest.param(iron("    @anything\n" + LIFT), "DG804", "is decorated", id="decorator"),
        pytest.param(iron(LIFT.replace("return", "yield")), "DG804", "is a generator", id="generator"),
        pytest.param(iron("    async " + LIFT.lstrip()), "DG804", "is asynchronous", id="async"),
        pytest.param(
            iron("    @overload\n" + LIFT + "    def lift(self, *args: object) -> Thing: return args\n"),
            "DG804",
            "takes ()",
            id="overloads-over-anything",
        ),
    ],
)
def test_a_method_that_is_none(toy: Toy, text: str, code: str, words: str) -> None:
    toy.write("src/toykernels/iron.py", text)
    (found,) = toy.kernels()
    assert (found.code, words in found.message) == (code, True), found


@pytest.mark.parametrize(
    ("body", "before"),
    [
        pytest.param('raise todo()', 'def todo() -> Exception: return NotImplementedError()\n', id='raises-what-a-helper-makes'),
        pytest.param('raise Later()', 'class Later(NotImplementedError): pass\n', id='raises-a-subclass'),
        pytest.param('raise Later', 'Later = NotImplementedError\n', id='raises-an-alias'),
        pytest.param('raise Later', 'from builtins import NotImplementedError as Later\n', id='raises-an-imported-alias'),
        pytest.param("log('x')\nreturn todo()", 'def todo() -> Thing: raise NotImplementedError\n', id='helper-after-something'),
        pytest.param('x = todo()\nreturn x', 'def todo() -> Thing: raise NotImplementedError\n', id='helper-assigned'),
        pytest.param('return first()', 'def todo() -> Thing: raise NotImplementedError\ndef first() -> Thing: return todo()\n', id='helper-behind-a-helper'),
        pytest.param('def inner():\n    raise NotImplementedError\nreturn inner()', '', id='own-function'),
        pytest.param('with lock:\n    raise NotImplementedError', '', id='in-with'),
        pytest.param("if thing:\n    raise NotImplementedError('a')\nelse:\n    raise NotImplementedError('b')", '', id='in-both-branches'),
        pytest.param('try:\n    raise NotImplementedError\nfinally:\n    pass', '', id='in-try'),
        pytest.param('match thing:\n    case 1:\n        raise NotImplementedError\n    case _:\n        raise NotImplementedError', '', id='in-every-case'),
        pytest.param('while True:\n    raise NotImplementedError', '', id='in-an-endless-loop'),
        pytest.param('try:\n    pass\nexcept OSError:\n    pass', '', id='try-pass'),
        pytest.param('if thing:\n    pass', '', id='if-pass'),
        pytest.param('x = thing', '', id='only-assigns'),
        pytest.param('import os', '', id='only-imports'),
        pytest.param("print('todo')", '', id='only-prints'),
        pytest.param("warnings.warn('todo')\nreturn None", '', id='warns-and-gives-None'),
        pytest.param('def inner():\n    return thing', '', id='unused-function'),
        pytest.param("return NotImplementedError('x')", '', id='returns-the-exception'),
        pytest.param('return cast(Thing, None)', '', id='casts-None'),
    ],
)  # fmt: skip
def test_a_body_that_does_nothing(toy: Toy, body: str, before: str) -> None:
    toy.write("src/toykernels/iron.py", iron(HEAD + inside(body, "        ") + "\n", before=before))
    (found,) = toy.kernels()
    assert (found.code, "lift is a stub" in found.message) == ("DG803", True), found


@pytest.mark.parametrize("imported", ["from toykernels.help import todo\n", "from toykernels import help\n"])
def test_a_helper_of_another_module_that_gives_up(toy: Toy, imported: str) -> None:
    toy.write("src/toykernels/help.py", "def todo() -> Thing: raise NotImplementedError\n")
    called = "todo()" if "todo" in imported else "help.todo()"
    toy.write("src/toykernels/iron.py", iron(f"{HEAD}        log()\n        return {called}\n", before=imported))
    assert [found.code for found in toy.kernels()] == ["DG803"]


@pytest.mark.parametrize(
    "body",
    [
        "self._trace()\nreturn thing\n    def _trace(self) -> None: pass",
        "if height:\n    todo()\nreturn thing",
        "try:\n    todo()\nexcept NotImplementedError:\n    return thing\nreturn thing",
        "while True:\n    if height:\n        return thing",
        "raise RefusedError(thing)",
        "with lock:\n    return thing",
    ],
)
def test_a_body_that_does_something_is_let_be(toy: Toy, body: str) -> None:
    before = "def todo() -> Thing: raise NotImplementedError\n"
    head, *rest = body.split("\n    def ")
    more = "".join(f"\n    def {each}\n" for each in rest)
    toy.write("src/toykernels/iron.py", iron(HEAD + inside(head, "        ") + more, before=before))
    assert toy.kernels() == []


@pytest.mark.parametrize(
    "after",
    [
        "class lift: pass",
        "import x as lift",
        "from m import f as lift",
        "for lift in (): pass",
        "with x as lift: pass",
        "(lift := None)",
        "lift += 1",
        "match x:\n        case lift: pass",
    ],
)
def test_a_method_whose_name_stands_for_something_else(toy: Toy, after: str) -> None:
    toy.write("src/toykernels/iron.py", iron(f"{LIFT}    {after}\n"))
    assert [found.code for found in toy.kernels()] == ["DG802"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (iron(LIFT, before="@strip\n"), "the class Iron is decorated with strip, so nobody can tell"),
        (iron(LIFT, bases="(metaclass=Odd)"), "the class Iron is made by the metaclass Odd, so"),
        (iron(LIFT + "    def __getattribute__(self, name): ...\n"), "decides by its own __getattribute__"),
        (iron(LIFT + "    locals()['lift'] = None\n"), "is changed by locals()"),
        (iron(LIFT, after="Iron: Any = None\n"), "has no class Iron"),
        (iron(LIFT, after="import x as Iron\n"), "has no class Iron"),
        (iron(LIFT, after="with x as Iron: pass\n"), "has no class Iron"),
        (iron(LIFT, after="from x import *\n"), "has no class Iron"),
        ("if FAST:\n" + inside(iron(LIFT)), "Iron is made under a condition only, so nobody can tell"),
        ("if FAST:\n" + inside(iron(HEAD + "        ...\n")) + "else:\n" + inside(iron(LIFT)), "under a condition"),
        ("try:\n" + inside(iron(HEAD + "        ...\n")) + "except E:\n" + inside(iron(LIFT)), "under a condition"),
    ],
)
def test_a_class_that_reading_does_not_tell(toy: Toy, text: str, words: str) -> None:
    toy.write("src/toykernels/iron.py", text)
    (found,) = toy.kernels()
    assert (found.code, words in found.message) == ("DG801", True), found


@pytest.mark.parametrize(
    "after",
    [
        "for each in NAMES:\n    setattr(Iron, each, None)",
        "for each in NAMES:\n    delattr(Iron, each)",
        "type.__setattr__(Iron, 'lift', None)",
        "Other = Iron\nOther.lift = None",
    ],
)
def test_a_class_that_is_changed_afterwards(toy: Toy, after: str) -> None:
    toy.write("src/toykernels/iron.py", iron(LIFT, after=f"{after}\n"))
    assert {found.code for found in toy.kernels()} == {"DG804"}


def test_a_base_that_another_module_changes(toy: Toy) -> None:
    toy.write("src/toykernels/base.py", f"class Base:\n{LIFT}")
    toy.write(
        "src/toykernels/iron.py", iron("", before="from .base import Base as B\n", bases="(B)", after="B.lift = 0\n")
    )
    (found,) = toy.kernels()
    assert (found.code, "lift of Iron is replaced in line" in found.message) == ("DG804", True), found


def test_what_is_too_long_or_too_deep_is_a_finding(toy: Toy) -> None:
    chain = "class A0: pass\n" + "".join(f"class A{each + 1}(A{each}): pass\n" for each in range(1500))
    aliases = "".join(f"A{each} = A{each - 1}\n" for each in range(1500, 0, -1))
    for text in ("x = " + "-" * 100_000 + "1\n", chain + "Iron = A1500\n", aliases + "Iron = A1500\n"):
        toy.write("src/toykernels/iron.py", text)
        assert {found.code for found in toy.kernels()} <= {"DG801", "DG802"}
        assert toy.kernels()
    for path in ("a." * 3000 + "b:C", "a" * 5000 + ":C"):
        with pytest.raises(UnreadableError, match="there is no module a"):
            Sources((Path(),)).find(path)


def test_bases_that_are_met_again_and_again_are_followed_once(toy: Toy) -> None:
    pairs = "".join(
        f"class A{each + 1}(A{each}, B{each}): pass\nclass B{each + 1}(A{each}, B{each}): pass\n" for each in range(60)
    )
    toy.write("src/toykernels/iron.py", iron("", before=f"class A0:\n{LIFT}class B0: pass\n{pairs}", bases="(A60)"))
    assert toy.kernels() == []


def test_a_class_with_harmless_decorators_is_read(toy: Toy) -> None:
    toy.write("src/toykernels/iron.py", iron(LIFT, before="@final\n@dataclasses.dataclass(frozen=True)\n"))
    assert toy.kernels() == []


@pytest.mark.parametrize(
    ("signature", "words"),
    [
        ("(self, thing: Thing, height: int = 1) -> Thing", "gives height a default"),
        ("(self, thing: Thing = None, height: int = 1) -> Thing", "gives thing a default"),
        ("(self, thing: Thing, height: int, more: int = 1) -> Thing", "takes (thing, height, more)"),
        ("(self, thing: Thing, height: int, /) -> Thing", "takes thing by position only"),
        ("(self, thing: Thing, height: int, *rest: int) -> Thing", "takes *rest"),
        ("(self, thing: Thing, height: int, **options: int) -> Thing", "takes **options"),
        ("(self, thing: Thing, height: int, *, loud: bool = False) -> Thing", "takes the keyword loud"),
        ("(self, thing: Thing, height: int)", "gives back nothing that it says"),
        ("(self, thing: Thing, height: bool) -> Thing", "says height: bool"),
        ("(thing: Thing, height: int) -> Thing", "takes (height)"),
        ("(*, thing: Thing, height: int) -> Thing", "takes no self"),
        ("() -> Thing", "takes no self"),
    ],
)
def test_signatures_are_compared_as_stubtest_does(toy: Toy, signature: str, words: str) -> None:
    toy.write("src/toykernels/iron.py", iron(f"    def lift{signature}:\n        return thing\n"))
    (found,) = toy.kernels()
    assert (found.code, words in found.message) == ("DG804", True), found


@pytest.mark.parametrize(
    "text",
    [
        iron("    @override\n" + LIFT),
        iron("    @typing.final\n" + LIFT),
        iron("    if FAST:\n" + inside(LIFT) + "    else:\n" + inside(LIFT)),
        iron("    if FAST:\n" + inside(LIFT), before=REAL_BASE, bases="(Base)"),
        iron("    if not TYPE_CHECKING:\n" + inside(LIFT)),
        iron("    try:\n" + inside(LIFT) + "    except OSError:\n        pass\n"),
        iron("    with anything():\n" + inside(LIFT)),
        iron(HEAD + "        if height:\n            raise NotImplementedError\n        return thing\n"),
        iron(HEAD + "        while 0:\n            pass\n        else:\n            return thing\n"),
        iron(HEAD + "        def inner():\n            yield 1\n        return thing\n"),
        iron("    @overload\n" + LIFT + LIFT),
        iron(LIFT.replace("height: int", "height: int, _speed: int = 1")),
        iron(LIFT) + "Steel = Iron\n",
        iron(LIFT).replace("Iron", "Steel") + "Iron = Steel\n",
    ],
)
def test_what_only_looks_odd_is_let_be(toy: Toy, text: str) -> None:
    toy.write("src/toykernels/iron.py", text)
    assert toy.kernels() == []


@pytest.mark.parametrize(
    "after",
    ["Iron = make(Iron)\n", "del Iron\n", "def Iron(place): ...\n", "Iron = None\n", "class Iron: pass\n"],
)
def test_a_class_that_is_shadowed_is_not_taken(toy: Toy, after: str) -> None:
    toy.write("src/toykernels/iron.py", iron(LIFT) + after)
    assert {found.code for found in toy.kernels()} <= {"DG801", "DG802"}
    assert toy.kernels()


def test_a_class_for_the_type_checker_is_not_taken(toy: Toy) -> None:
    toy.write("src/toykernels/iron.py", "if TYPE_CHECKING:\n" + inside(iron(LIFT)))
    (found,) = toy.kernels()
    assert found.code == "DG801"


def test_another_package_s_class_of_the_same_name_is_another_one(toy: Toy) -> None:
    settings = Path("templates/set.yaml").read_text()
    Path("templates/set.yaml").write_text(settings + "imports: {yard: [Thing]}\n")
    toy.write("src/toykernels/iron.py", iron(LIFT, before="from scrap import Thing\n"))
    assert {
        (found.code, found.message.rpartition(" means ")[2]) for found in toy.kernels() if "Iron" in found.message
    } == {("DG804", "scrap.Thing, and yard.Thing is expected")}
    toy.write("src/toykernels/iron.py", iron(LIFT, before="from toykernels.things import Thing\n"))
    toy.write("src/toykernels/things.py", "from yard.deep import Thing\n")
    own = "from yard.deep import Thing as Other\nclass Thing: pass\n"
    toy.write("src/toykernels/iron.py", iron(LIFT, before=own))
    assert {found.code for found in toy.kernels() if "Iron" in found.message} == {"DG804"}
    toy.write("src/toykernels/iron.py", iron(LIFT, before="from toykernels.things import Thing\n"))
    assert [found for found in toy.kernels() if "Iron" in found.message] == []


def test_a_type_by_its_module_is_the_module_s(toy: Toy) -> None:
    settings = Path("templates/set.yaml").read_text()
    Path("templates/set.yaml").write_text(settings + "imports: {yard: [Thing]}\n")
    for module, told in (("yard", []), ("scrap", ["scrap.Thing, and yard.Thing is expected"] * 4)):
        by_module = iron(LIFT, before=f"import {module}\n").replace(": Thing", f": {module}.Thing")
        toy.write("src/toykernels/iron.py", by_module.replace("-> Thing", f"-> {module}.Thing"))
        found = [each.message.rpartition(" means ")[2] for each in toy.kernels() if "Iron" in each.message]
        assert found == told


@pytest.mark.parametrize(("method", "other"), [("give", "take"), ("take", "give")])
def test_the_way_out_and_the_way_in_have_both_to_be_there(toy: Toy, method: str, other: str) -> None:
    toy.write("src/toykernels/iron.py", iron(LIFT).replace(f"def {method}(", f"def _{method}("))
    (found,) = toy.kernels()
    assert (found.code, f"lacks the method {method}" in found.message) == ("DG802", True)
    assert found.fix is not None
    assert f"def {method}(self, thing: Thing" in found.fix
    assert other not in found.fix


def test_a_finding_points_at_the_method_and_at_its_operation(toy: Toy) -> None:
    toy.write("src/toykernels/iron.py", iron(HEAD + "        ...\n"))
    (stub,) = toy.kernels()
    assert str(stub.span) == "src/toykernels/iron.py:11:5"
    assert [(str(each.span), each.message) for each in stub.related] == [
        ("spec/ops/lift.yaml:6:11", "lift is declared here")
    ]
    toy.write("src/toykernels/iron.py", iron("", before=ABSTRACT_BASE, bases="(Base)"))
    (abstract,) = toy.kernels()
    assert [(str(each.span), each.message) for each in abstract.related] == [
        ("spec/ops/lift.yaml:6:11", "lift is declared here"),
        ("src/toykernels/iron.py:3:5", "a base class only says that it has to be there"),
    ]


def test_bases_in_a_circle_end(toy: Toy) -> None:
    toy.write("src/toykernels/iron.py", iron(LIFT, before="class Base(Iron): pass\n", bases="(Base)"))
    assert toy.kernels() == []


def test_kernels_out_of_the_tree_are_found_by_a_folder(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "smithy").mkdir()
    (elsewhere / "smithy" / "iron.py").write_text(iron(LIFT))
    assert list(Sources((elsewhere,)).find("smithy.iron:Iron").methods) == ["give", "take", "is_up", "lift"]
