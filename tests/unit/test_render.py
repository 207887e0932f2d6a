"""Literals that mean exactly their text, and templates whose mistakes are found before anything is written."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import black
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatchgen.literals import comma, comment, docstring, py, wrap
from dispatchgen.plan import Plan, PlannedFile
from dispatchgen.render import render
from dispatchgen.template_set import TemplateSet, read_set

SET = Path(__file__).parents[2] / "templates" / "torch"

ANY_TEXT = st.text() | st.text(alphabet="\"'\\ \n\tab#{}%\x00\x0b\x85\u2028\u202eä")
PLAIN = st.recursive(
    ANY_TEXT | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple),
    max_leaves=8,
)


@given(PLAIN)
def test_a_literal_gives_its_value_back(value: object) -> None:
    assert ast.literal_eval(py(value)) == value


@given(ANY_TEXT)
def test_a_literal_is_one_line_that_hides_nothing(text: str) -> None:
    assert len(py(text).splitlines()) == 1
    assert py(text).isprintable()


@pytest.mark.parametrize(
    ("value", "literal"),
    [("it's", '"it\'s"'), ('a "b"', "'a \"b\"'"), ("both ' \"", '"both \' \\""'), ("ä…", '"ä…"'), ((1,), "(1,)")],
)
def test_literals_read_well(value: object, literal: str) -> None:
    assert py(value) == literal


@pytest.mark.parametrize("value", [float("nan"), {"a": 1}, b"x", object(), [float("inf")]])
def test_what_has_no_literal_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="has no literal"):
        py(value)


def as_doc(text: str, *, formatted: bool) -> str | None:
    source = f"class C:\n    def f():\n        {docstring(text, 8)}\n"
    if formatted:
        source = black.format_str(source, mode=black.Mode(line_length=120))
    scope: dict[str, Any] = {}
    exec(source, scope)
    return inspect.getdoc(scope["C"].f)


@given(ANY_TEXT)
def test_a_docstring_says_the_words_of_the_text(text: str) -> None:
    assert (as_doc(text, formatted=False) or "").split() == text.split()
    assert (as_doc(text, formatted=True) or "").split() == text.split()


def test_a_docstring_keeps_paragraphs_and_wraps_long_ones() -> None:
    text = "First line.\n\n" + "word " * 40 + "end\n  - indented"
    source = docstring(text, 4)
    assert max(map(len, source.splitlines())) <= 100
    assert source.startswith('"""First line.\n\n    word')
    assert source.endswith('\n      - indented\n    """')


@given(ANY_TEXT)
def test_a_comment_is_nothing_but_comment(text: str) -> None:
    source = comment(text, 4)
    assert all(line.strip().startswith("#") for line in source.split("\n"))
    assert ast.parse(source).body == []


@pytest.mark.parametrize(
    "text", ["fmt: off", "type: ignore", "noqa", "-*- coding: latin-1 -*-", "x " * 48 + "fmt: off"]
)
def test_a_comment_instructs_no_tool(text: str) -> None:
    assert comment(text).split("\n")[-1].startswith("# | ")


def test_a_list_goes_on_behind_a_comma() -> None:
    assert (comma("a, b"), comma("")) == (", a, b", "")


def test_running_text_wraps_between_words() -> None:
    assert wrap("one two three four five six", indent=2, width=24) == "one two three four\n  five six"


@pytest.fixture
def templates(tmp_path: Path) -> TemplateSet:
    template_set, findings = read_set(SET)
    assert template_set is not None, findings
    return replace(template_set, folder=tmp_path)


def plan_of(template: str, path: str = "a.py", **context: Any) -> Plan:
    return Plan(package="p", files=(PlannedFile(path=path, template=template, context=context, digest="d"),))


def test_a_template_becomes_text(templates: TemplateSet) -> None:
    (templates.folder / "a.jinja").write_text(
        '{% from "m.jinja" import line %}\n{% for name in names %}\n{{ line(name) }}\n{% endfor %}\n'
    )
    (templates.folder / "m.jinja").write_text("{% macro line(name) %}{{ name }} = {{ name | py }}{% endmacro %}")
    files, findings = render(plan_of("a.jinja", names=("x", "y")), templates)
    assert findings == ()
    assert [(file.path, file.template, file.digest, file.text) for file in files] == [
        ("a.py", "a.jinja", "d", 'x = "x"\ny = "y"\n')
    ]


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        ("\n{{ missing }}", 2, "'missing' is undefined"),
        ("\n\n{{ thing.nope }}", 3, "has no attribute 'nope'"),
        ("{% if %}", 1, "Expected an expression"),
        ("a\n{{ none }}", 2, "None is a NoneType, not text"),
        ("{{ flag }}", 1, "True is a bool, not text"),
        ("{{ 1 }}", 1, "1 is a int, not text"),
        (
            "{{ thing.upper }}",
            1,
            "`upper` is a builtin_function_or_method, not text: write `upper()` for what it gives",
        ),
        ("{{ {1: 2} | py }}", 1, "a dict has no literal"),
        ("{% include 'gone.jinja' %}", 1, "there is no template gone.jinja"),
        ("\n{{ x | nofilter }}", 2, "No filter named 'nofilter'"),
        ("{% set name = 'in' ~ 'ner.jinja' %}{% include name %}", 1, "a name that is computed"),
    ],
)
def test_a_mistake_in_a_template_is_found_at_its_line(
    templates: TemplateSet, source: str, line: int, words: str
) -> None:
    (templates.folder / "bad.jinja").write_text(source)
    (templates.folder / "inner.jinja").write_text("x = 1")
    _, (finding,) = render(plan_of("bad.jinja", none=None, flag=True, thing="t", x="x"), templates)
    assert finding.code == "DG701"
    assert words in finding.message
    assert finding.span is not None
    assert finding.span.line == line
    assert Path(finding.span.file).parent == templates.folder


@dataclass(frozen=True)
class Named:
    """What templates see: it has methods of its own, whose bound form tells no address."""

    name: str

    def title(self) -> str:
        return self.name.title()


@pytest.mark.parametrize(
    "source",
    [
        "x\n{{ 'a ' ~ thing.name.upper }}",
        "x\n{{ 'a ' ~ thing.title }}",
        "x\n{{ thing.name.upper | string }}",
        "x\n{{ [thing.title] | join(', ') }}",
        "x\n{{ '%s' | format(thing.title) }}",
    ],
)
def test_a_method_that_is_not_called_never_becomes_text(templates: TemplateSet, source: str) -> None:
    (templates.folder / "bad.jinja").write_text(source)
    for _ in range(2):  # the same finding in every run
        _, (finding,) = render(plan_of("bad.jinja", path="a.txt", thing=Named("n")), templates)
        assert finding.code == "DG701"
        assert "line 2 of a.txt would show <b" in finding.message
        assert not re.search("0x[0-9a-f]", finding.message)


def test_words_that_look_like_a_method_stay_what_they_are(templates: TemplateSet) -> None:
    words = 'shows <object at 0x7f00>, <a "quoted" \\ thing at 0x1> or <bound method x.y of z>'
    (templates.folder / "a.jinja").write_text("{{ thing.name | py }}, {{ texts[0] }}, like <f at 0x12>")
    files, findings = render(plan_of("a.jinja", path="a.txt", thing=Named(words), texts=(words,)), templates)
    assert findings == ()
    assert files[0].text == f"{py(words)}, {words}, like <f at 0x12>"


@pytest.mark.parametrize("char", ["x", "<", ".", " ", "-"])
def test_the_longest_word_is_looked_through_at_once(templates: TemplateSet, char: str) -> None:
    """A search that looks ahead from each of its characters would not end before the day does."""
    (templates.folder / "a.jinja").write_text("{{ thing.name }} {{ [thing.title] | join }}")
    _, (finding,) = render(plan_of("a.jinja", path="a.txt", thing=Named(char * 1_000_000)), templates)
    assert "would show <b" in finding.message


def test_a_mistake_in_a_macro_is_found_in_the_macro(templates: TemplateSet) -> None:
    (templates.folder / "a.jinja").write_text('{% from "m.jinja" import m %}\n\n{{ m() }}')
    (templates.folder / "m.jinja").write_text("{% macro m() %}\n{{ gone }}{% endmacro %}")
    _, (finding,) = render(plan_of("a.jinja"), templates)
    assert str(finding.span) == f"{templates.folder / 'm.jinja'}:2:1"


def test_the_same_mistake_is_told_once(templates: TemplateSet) -> None:
    (templates.folder / "a.jinja").write_text("{{ gone }}")
    files = tuple(PlannedFile(path=f"{name}.py", template="a.jinja", context={}, digest="d") for name in "abc")
    assert len(render(Plan(package="p", files=files), templates)[1]) == 1


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("x = 1\ny = (", "line 2: '(' was never closed"),
        ('x = "\\d"\n', "line 1: "),  # an invalid escape sequence is a warning, and counts
        ("x = \0", "null bytes"),
        ("assert (1, 'always true')", "line 1: assertion is always true"),
    ],
)
def test_text_that_is_no_python_is_found_and_kept(templates: TemplateSet, source: str, words: str) -> None:
    (templates.folder / "a.jinja").write_text("{{ source }}")
    _, (finding,) = render(plan_of("a.jinja", source=source), templates)
    assert finding.code == "DG702"
    assert "a.jinja renders a.py as something that is not Python" in finding.message
    assert words in finding.message
    assert finding.span is not None
    kept = Path(finding.span.file)
    assert kept.read_bytes().decode() == source
    kept.unlink()
    assert finding.related[0].span.file == str(templates.folder / "a.jinja")


def test_only_python_is_compiled(templates: TemplateSet) -> None:
    (templates.folder / "a.jinja").write_text("{{ source }}")
    files, findings = render(plan_of("a.jinja", path="a.txt", source="not python"), templates)
    assert files[0].text == "not python"
    assert findings == ()
