"""The manifest: stable text, a round trip, and a located finding for every kind of damage."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatchgen import __version__
from dispatchgen.digests import sha256, template_digest
from dispatchgen.features import Build, Selection
from dispatchgen.format import FormattedFile, black_version
from dispatchgen.manifest import FileRecord, Manifest, is_inside, manifest_of, read

RECORD = FileRecord(template="t", template_sha256="1", spec="2", rendered="3", sha256="4")
MANIFEST = Manifest("dispatchgen 1", "2", "3", ("a", "b"), ("a",), True, False, {"b.py": RECORD, "a/b.py": RECORD})


def test_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "t.jinja").write_text("x")
    files = [FormattedFile(path="a.py", template="t.jinja", digest="d", rendered="r", text="ä\n")]
    manifest = manifest_of(files, [tmp_path], Build(frozenset("ba"), {}), Selection(("b",), default=False))
    assert json.loads(str(manifest)) == {
        "generator": f"dispatchgen {__version__}",
        "black": black_version(),
        "jinja2": jinja2.__version__,
        "features": ["a", "b"],
        "selection": {"features": ["b"], "default": False, "all": False},
        "files": {
            "a.py": {
                "template": "t.jinja",
                "template_sha256": template_digest([tmp_path], "t.jinja"),
                "spec": "d",
                "rendered": "r",
                "sha256": sha256("ä\n"),
            }
        },
    }


def test_its_text_is_stable() -> None:
    text = str(MANIFEST)
    assert text.endswith("}\n")
    assert text.isascii()
    assert text.index("a/b.py") < text.index("b.py", text.index("a/b.py") + 6)


def test_it_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "MANIFEST.json"
    path.write_text(str(MANIFEST))
    assert read(path, "shown") == (MANIFEST, ())


def test_none_is_not_a_mistake(tmp_path: Path) -> None:
    assert read(tmp_path / "MANIFEST.json", "shown") == (None, ())


def test_what_another_version_says_beside_it_is_left_aside(tmp_path: Path) -> None:
    path = tmp_path / "MANIFEST.json"
    value = json.loads(str(MANIFEST))
    value["files"]["b.py"]["more"] = value["more"] = {"x": 1}
    path.write_text(json.dumps(value))
    assert read(path, "shown") == (MANIFEST, ())
    del value["jinja2"]
    path.write_text(json.dumps(value))
    assert read(path, "shown") == (replace(MANIFEST, jinja2="unknown"), ())


def damaged(**changes: object) -> str:
    return json.dumps({**json.loads(str(MANIFEST)), **changes})


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('{\n  "generator": ', 2, "it is not JSON"),
        ("<<<<<<< HEAD\n", 1, "it is not JSON"),
        ("[]", 1, "form of a manifest"),
        ("{}", 1, "form of a manifest"),
        ("[" * 100_000, 1, "form of a manifest"),
        (damaged(files=[]), 1, "form of a manifest"),
        (damaged(files={"a.py": {"template": "t"}}), 1, "form of a manifest"),
        (damaged(files={"../../etc/passwd": vars(RECORD)}), 1, "not a path inside the package"),
        (damaged(selection={"features": [], "default": "yes", "all": False}), 1, "neither true nor false"),
        (damaged(black=1), 1, "1 is not text"),
    ],
)
def test_damage_is_a_finding(tmp_path: Path, text: str, line: int, words: str) -> None:
    path = tmp_path / "MANIFEST.json"
    path.write_text(text)
    manifest, (finding,) = read(path, "shown/MANIFEST.json")
    assert manifest is None
    assert finding.code == "DG708"
    assert words in finding.message
    assert finding.span is not None
    assert (finding.span.file, finding.span.line) == ("shown/MANIFEST.json", line)


@given(st.binary(max_size=200))
def test_no_bytes_give_a_traceback(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.json"
    path.write_bytes(content)
    manifest, findings = read(path, "shown")
    assert (manifest is None) == (len(findings) == 1)


@pytest.mark.parametrize("path", ["a.py", "a/b.py", "a/__init__.py", "py.typed"])
def test_paths_inside(path: str) -> None:
    assert is_inside(path)


@pytest.mark.parametrize(
    "path",
    ["", "/a", "../a", "a/../../b", "./a", "a//b", "a/", "a\\b", "C:a", "a\0", ".hidden", "a/.b", "MANIFEST.json"],
)
def test_paths_that_are_not_to_be_written(path: str) -> None:
    assert not is_inside(path)


def test_a_template_changes_with_what_it_takes_in(tmp_path: Path) -> None:
    (tmp_path / "a.jinja").write_text("{% from \"b.jinja\" import x %}{%- include 'gone.jinja' %}")
    (tmp_path / "b.jinja").write_text('{% extends "c.jinja" %}{% import "a.jinja" as a %}')
    (tmp_path / "c.jinja").write_text("1")
    first = template_digest([tmp_path], "a.jinja")
    (tmp_path / "other.jinja").write_text("1")
    assert template_digest([tmp_path], "a.jinja") == first
    (tmp_path / "c.jinja").write_text("2")
    assert template_digest([tmp_path], "a.jinja") != first
