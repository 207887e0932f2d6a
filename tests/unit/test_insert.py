"""Entries put into YAML text: what was there stays, byte for byte, and the new entry reads back."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatchgen.insert import InsertError, add_entry, add_item, add_text, flow, scalar
from dispatchgen.source import read

ROOT = Path(__file__).parents[2]
NEW = {"name": "New", "id": "7"}


def value(text: str) -> object:
    node, findings = read(text.encode(), "")
    assert node is not None, findings
    assert findings == ()
    return node.value


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a: 1\nxs:\n  - name: One\n", "a: 1\nxs:\n  - name: One\n  - name: New\n    id: 7\n"),
        ("xs:\n- name: One\n# end\n", "xs:\n- name: One\n- name: New\n  id: 7\n# end\n"),
        ("xs:\n  - name: One", "xs:\n  - name: One\n  - name: New\n    id: 7\n"),
        (
            "xs:\n  - name: One # one\n\n  - name: Two\n    doc: >-\n      long\n      text\n\n\n# end\nb: 1\n",
            "xs:\n  - name: One # one\n\n  - name: Two\n    doc: >-\n      long\n      text\n\n  - name: New\n    id: 7\n"
            "\n\n# end\nb: 1\n",
        ),
        ("xs: [{name: One}]\n", "xs: [{name: One}, {name: New, id: 7}]\n"),
        (
            "xs: [{name: One},\n     {name: Two}]  # all\n",
            "xs: [{name: One},\n     {name: Two}, {name: New, id: 7}]  # all\n",
        ),
        ("xs: []\nb: 1\n", "xs:\n  - name: New\n    id: 7\nb: 1\n"),
        ("xs: [ ]  # none yet\n", "xs:\n  - name: New\n    id: 7  # none yet\n"),
        ("xs:\nb: 1\n", "xs:\n  - name: New\n    id: 7\nb: 1\n"),
        ("xs: null # none\nb: 1\n", "xs:  # none\n  - name: New\n    id: 7\nb: 1\n"),
        ("b: 1\n# end\n", "b: 1\n\nxs:\n  - name: New\n    id: 7\n# end\n"),
        ("b: 1\r\nxs:\r\n  - name: One\r\n", "b: 1\r\nxs:\r\n  - name: One\r\n  - name: New\r\n    id: 7\r\n"),
        ("xs: []\r\nb: 1\r\n", "xs:\r\n  - name: New\r\n    id: 7\r\nb: 1\r\n"),
    ],
)
def test_an_item_at_the_end_of_a_list(old: str, new: str) -> None:
    assert add_item(old, ("xs",), NEW) == new


def test_an_item_in_a_list_that_is_not_there_at_any_depth() -> None:
    assert add_item("a: 1\n", ("b", "c"), NEW) == "a: 1\n\nb:\n  c:\n    - name: New\n      id: 7\n"
    assert add_item("b:\n  d: 1\n", ("b", "c"), NEW) == "b:\n  d: 1\n  c:\n    - name: New\n      id: 7\n"


def test_a_list_inside_an_item() -> None:
    block = {"name": "New", "args": ["{name: a}", "{name: b}"]}
    assert add_item("xs:\n  - name: Old\n", ("xs",), block).endswith(
        "  - name: New\n    args:\n      - {name: a}\n      - {name: b}\n"
    )
    assert add_item("xs: [{}]\n", ("xs",), block) == "xs: [{}, {name: New, args: [{name: a}, {name: b}]}]\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("f:\n  a: []\n  b: [a]  # b\n\nc: 1\n", "f:\n  a: []\n  b: [a]  # b\n  new: []\n\nc: 1\n"),
        ("f: {a: [], b: []}\n", "f: {a: [], b: [], new: []}\n"),
        ("f: {}\n", "f: {new: []}\n"),
        ("f:\nc: 1\n", "f:\n  new: []\nc: 1\n"),
        ("c: 1\n", "c: 1\n\nf:\n  new: []\n"),
    ],
)
def test_an_entry_at_the_end_of_a_mapping(old: str, new: str) -> None:
    assert add_entry(old, ("f",), "new", "[]") == new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("f:\n  default: [a, b]\n", "f:\n  default: [a, b, new]\n"),
        ("f:\n  default: [a,\n    b,]\n", "f:\n  default: [a,\n    b, new,]\n"),
        ("f:\n  default: []  # none\n", "f:\n  default: [new]  # none\n"),
        ("f:\n  default:\n    - a  # a\n  a: []\n", "f:\n  default:\n    - a  # a\n    - new\n  a: []\n"),
        ("f:\n  a: []\n", "f:\n  default: [new]\n  a: []\n"),
        ("f: {a: []}\n", "f: {default: [new], a: []}\n"),
    ],
)
def test_a_word_at_the_end_of_a_list(old: str, new: str) -> None:
    assert add_text(old, ("f", "default"), "new") == new


@pytest.mark.parametrize("text", ["xs: 1\n", "xs: {a: 1}\n", "xs: [1\n", "b: &x 1\n", "{a: 1}\n"])
def test_what_cannot_be_done_safely_is_refused(text: str) -> None:
    with pytest.raises(InsertError):
        add_item(text, ("xs",), NEW)


@pytest.mark.parametrize("name", ["backends", "ops/distributed", "ops/transfer", "errors", "exemptions"])
def test_the_shipped_files_only_gain_lines(name: str) -> None:
    old = (ROOT / "spec" / f"{name}.yaml").read_text(encoding="utf-8")
    new = add_item(old, (name.split("/")[0],), NEW)
    changes = [line for line in difflib.ndiff(old.splitlines(), new.splitlines()) if line[0] in "+-?"]
    assert [line for line in changes if line.strip() != "+"] == ["+   - name: New", "+     id: 7"]


@given(st.text(st.characters(exclude_categories=("Cs", "Cc", "Cf", "Zl", "Zp", "Cn"), include_characters="\n\t")))
def test_any_text_survives(text: str) -> None:
    assert value(f"x: {scalar(text)}\ny: {flow({'a': scalar(text), 'b': '1'})}\n") == {
        "x": text,
        "y": {"a": text, "b": 1},
    }


def test_texts_stay_plain_where_they_can() -> None:
    assert scalar('feature = "x"') == 'feature = "x"'
    assert scalar("true") == "'true'"
    assert scalar("a: b") == "'a: b'"
    assert scalar("") == "''"
    assert scalar("a, b") == "'a, b'"
