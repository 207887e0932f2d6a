"""Any text of a catalog reaches whom it is for as it is, and no text changes what the generated code is."""

from __future__ import annotations

import ast
import importlib
import inspect
import io
import re
import sys
import tempfile
import time
import tokenize
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dispatchgen.cache import NoCache
from dispatchgen.format import format_files
from dispatchgen.literals import comment, docstring, py
from dispatchgen.model.catalog import Catalog
from dispatchgen.plan import plan
from dispatchgen.render import RenderedFile, render
from tests.shipped import build_of, catalog_of, template_set

ANYTHING = st.characters(codec=None, exclude_categories=()) | st.sampled_from(
    "\"'\\`{}%#\0\t\r\n\x0b\x0c\x1b\x7f\x85\xa0\xad\u061c\u200b\u200f\u2028\u2029\u202e\u2066\ud800\udfff\ufeff\ufffe"
)
HOSTILE = [
    '"""',
    "'''",
    '"\\',
    "\\",
    "\\\\\\",
    '"; import os #',
    "'+str(exec('1'))+'",
    "{{ 7 * 7 }}",
    "{% raw %}",
    "{op}",
    "{0.__class__}",
    "\\N{BULLET} \\d \\x",
    "# type: ignore",
    "a\rb\x0cc\x85d\u2028e",
    "\ud800 \udfff",
    "\u202eevil\u2066",
    "\N{ZERO WIDTH NO-BREAK SPACE}x",
    "  indented\n\ttab\n\nlast  ",
    "a. b. c.",
    "x" * 5000,
    "word " * 3000,
]
TEXTS = (
    st.text(ANYTHING, max_size=40)
    | st.sampled_from(HOSTILE)
    | st.lists(st.sampled_from(HOSTILE), max_size=4).map("".join)
)
SOME = TEXTS.filter(str.strip).filter(lambda text: text.isascii() or not re.search("[\ud800-\udfff]", text))
"""A blank text is none, and may leave out what it would have stood in. No class can be documented with half a character:
Python refuses that, and so does the reader of catalogs."""
SLOW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def filled(text: str) -> Catalog:
    """The shipped catalog with the text wherever a person may write what he likes."""
    catalog = replace(catalog_of(), package="full_of_text")
    return replace(
        catalog,
        backends=tuple(replace(each, doc=text) for each in catalog.backends),
        wrappers=tuple(replace(each, doc=text) for each in catalog.wrappers),
        families=tuple(
            replace(
                family,
                doc=text,
                ops=tuple(
                    replace(op, doc=text, args=tuple(replace(arg, doc=text) for arg in op.args)) for op in family.ops
                ),
            )
            for family in catalog.families
        ),
        errors=tuple(
            replace(
                each,
                message=each.message + escaped(text),
                reason=each.reason + escaped(text),
                help=each.help + escaped(text),
                cause=text,
                before=text,
                after=text,
            )
            for each in catalog.errors
        ),
        exemptions=tuple(replace(each, reason=text) for each in catalog.exemptions),
    )


def escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def rendered(catalog: Catalog) -> tuple[RenderedFile, ...]:
    files, findings = render(plan(catalog, template_set(), build_of(catalog)), template_set())
    assert not findings, findings
    return files


def shape(text: str) -> list[str]:
    """The kinds of everything in a module, in order."""
    return [type(node).__name__ for node in ast.walk(ast.parse(text))]


@cache
def shapes() -> dict[str, list[str]]:
    return {file.path: shape(file.text) for file in rendered(filled("Some text")) if file.path.endswith(".py")}


@contextmanager
def imported(files: tuple[RenderedFile, ...]) -> Iterator[ModuleType]:
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            path = Path(folder, "full_of_text", file.path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file.text, encoding="utf-8")
        sys.path.insert(0, folder)
        written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        importlib.invalidate_caches()
        try:
            yield importlib.import_module("full_of_text")
        finally:
            sys.dont_write_bytecode = written
            sys.path.remove(folder)
            for name in [name for name in sys.modules if name.partition(".")[0] == "full_of_text"]:
                del sys.modules[name]


def survives(text: str) -> None:
    catalog = filled(text)
    files = rendered(catalog)
    for file in files:
        if file.path.endswith(".py"):
            assert shape(file.text) == shapes()[file.path], file.path
            assert not any("\ud800" <= char <= "\udfff" or char in "\0\r\x0b\x0c\x1b\u202e\u2028" for char in file.text)
    with imported(files) as pkg:
        for name, support in pkg.BACKENDS.items():
            assert support.doc.split() == text.split(), name
        for entry in catalog.errors:
            found = pkg.device.__globals__["PACKAGE"].errors.entries[entry.when]
            assert (found.message, found.reason, found.help) == (entry.message, entry.reason, entry.help)
            assert (found.cause, found.before, found.after) == (text, text, text)
        error = pkg.device.__globals__["PACKAGE"].errors.make("nested", "op", "subject", what="device")
        assert error.help.endswith(text)
        assert text in str(error)
        for _, op in catalog.ops:
            told = (inspect.getdoc(getattr(pkg, op.name)) or "").split()
            assert told[: len(text.split())] == text.split()
            assert " ".join(told).count(" ".join(text.split())) >= 1 + len([arg for arg in op.args if text])


@settings(SLOW, max_examples=8)
@given(SOME)
@example('"""\\')
@example("\\")
@example("{{ x }} {% y %} {# z #}")
def test_no_text_changes_what_the_code_is_or_is_changed_by_it(text: str) -> None:
    survives(text)


@pytest.mark.slow
@settings(SLOW, max_examples=60)
@given(SOME)
def test_many_texts(text: str) -> None:
    survives(text)


@pytest.mark.slow
@pytest.mark.parametrize("text", HOSTILE)
def test_formatting_changes_no_text(text: str) -> None:
    """As it goes to disk: what black makes of it means the same."""
    files = rendered(filled(text))
    some = tuple(file for file in files if file.path in ("errors.py", "support.py", "ops/transfer.py"))
    formatted, findings = format_files(some, NoCache())
    assert not findings
    assert len(formatted) == 3
    for before, after in zip(some, formatted, strict=True):
        assert meant(after.text) == meant(before.text), before.path


def meant(text: str) -> list[str]:
    """A module without where things stand, and docstrings by their words: black lays them out."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = " ".join(node.value.split())
    return ast.dump(tree).split()


@given(TEXTS)
def test_a_literal_means_its_text(text: str) -> None:
    assert ast.literal_eval(py(text)) == text


@given(TEXTS, st.sampled_from([0, 4, 12]))
def test_a_docstring_is_one_expression_with_the_words_of_its_text(text: str, indent: int) -> None:
    [statement] = ast.parse(docstring(text, indent)).body
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Constant)
    assert str(statement.value.value).split() == text.split()


@given(TEXTS, st.sampled_from([0, 4, 12]))
def test_a_comment_has_the_words_of_its_text_and_is_nothing_else(text: str, indent: int) -> None:
    source = comment(text, indent)
    tokens = [each for each in tokenize.generate_tokens(io.StringIO(source + "\n").readline) if each.string.strip()]
    assert {each.type for each in tokens} <= {tokenize.COMMENT}
    words = " ".join(each.string.removeprefix("# | ").removeprefix("#") for each in tokens).split()
    assert [ast.literal_eval(py(word)) for word in words] == words
    assert "".join(words) == "".join(visible(text).split())


def visible(text: str) -> str:
    """The text as a comment can have it: what cannot be seen is spelled out, as in a literal."""
    return "\n".join(
        py(line)[1:-1].replace('\\"', '"').replace("\\'", "'").replace("\\\\", "\\")
        for line in text.strip().split("\n")
    )


def test_a_very_long_text_takes_no_time() -> None:
    begun = time.monotonic()
    rendered(filled('very long, with \\ and " in it. ' * 1500))
    assert time.monotonic() - begun < 30
