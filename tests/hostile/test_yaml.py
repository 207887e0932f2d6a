"""Catalog files made to hurt: bombs, encodings, and the parts of YAML that surprise. Every one is findings in good time."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import pytest

from dispatchgen.cli import main
from dispatchgen.source import read

MEGABYTE = 2**20


def laughs(levels: int) -> str:
    lines = ["a0: &a0 [" + ", ".join(["lol"] * 10) + "]"]
    lines += [f"a{level}: &a{level} [" + ", ".join([f"*a{level - 1}"] * 10) + "]" for level in range(1, levels)]
    return "\n".join(lines)


BOMBS = {
    "laughs": laughs(9),
    "many anchors": "\n".join(f"k{number}: &a{number} 1" for number in range(20_000)),
    "many aliases": "a: &a 1\nb: [" + "*a, " * 50_000 + "]",
    "flow depth": "a: " + "[" * 100_000,
    "map depth": "a: " + "{a: " * 50_000,
    "block depth": "\n".join(" " * level + "a:" for level in range(2000)),
    "dashes": "- " * 100_000,
    "question marks": "? " * 100_000,
    "long key": "k" * 5000 + ": 1",
    "long scalar": "a: " + "x" * (10 * MEGABYTE),
    "long quoted": 'a: "' + "x" * (10 * MEGABYTE) + '"',
    "long quoted escapes": 'a: "' + "\\x41" * MEGABYTE + '"',
    "long block": "a: |\n" + "  line\n" * (MEGABYTE),
    "long comment": "# " + "x" * (10 * MEGABYTE) + "\na: 1",
    "many entries": "\n".join(f"key_{number}: value" for number in range(20_000)),
    "one key": "a: 1\n" * 20_000,
    "unclosed quote": 'a: "' + "x\n" * MEGABYTE,
    "spaces": " " * (10 * MEGABYTE),
    "newlines": "\n" * (10 * MEGABYTE),
    "colons": ": " * 100_000,
    "tags": "a: " + "!x " * 50_000,
    "documents": "---\n" * 50_000,
    "directives": "%YAML 1.1\n" * 1000 + "---\na: 1",
    "NULs": "\0" * MEGABYTE,
    "bad lines": "a: @\n" * 10_000,
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_goes_off_quietly(name: str) -> None:
    data = BOMBS[name].encode()
    begun = time.monotonic()
    tracemalloc.start()
    try:
        found, findings = read(data, "f.yaml")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found is not None or findings
    assert time.monotonic() - begun < 60, "far more than its size explains"  # about 1 s where nothing else runs
    assert most < 60 * MEGABYTE + 40 * len(data)
    assert sum(len(finding.message) for finding in findings) < 60 * len(data) + 10_000


@pytest.mark.parametrize("name", ["laughs", "flow depth", "long block", "documents"])
def test_a_bomb_in_a_project_is_findings_and_nothing_is_written(
    toy_folder: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    for path in ("spec/ops/lift.yaml", "templates/set.yaml"):
        kept = Path(path).read_bytes()
        Path(path).write_text(BOMBS[name], encoding="utf-8")
        for command in (["generate"], ["check", "--fast"]):
            assert main(command) == 1
            assert len(capsys.readouterr().out) < 100_000
        Path(path).write_bytes(kept)
    assert not Path("generated").exists()


def test_a_long_line_is_shown_around_the_place(toy_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lift = Path("spec/ops/lift.yaml")
    lift.write_text(f"{{version: 1, family: LiftOps, doc: {'x' * MEGABYTE}, wrong: 1, ops: []}}\n")
    assert main(["generate"]) == 1
    told = capsys.readouterr().out
    assert len(told) < 5000
    line, caret = told.split("\n")[2:4]
    assert line[caret.index("^") :].startswith("wrong: 1")
    lift.write_text(lift.read_text().replace("wrong", "'" + "y" * MEGABYTE + "'"))
    assert main(["generate"]) == 1
    assert len(capsys.readouterr().out) < 12_000


WHOLE = "version: 1\nfamily: LiftOps\n"
SURPRISES = {
    "utf-16": (WHOLE.encode("utf-16"), "is not UTF-8"),
    "utf-16 without a mark": (WHOLE.encode("utf-16-le"), "U+0000"),
    "utf-32": (WHOLE.encode("utf-32"), "is not UTF-8"),
    "two byte order marks": (b"\xef\xbb\xbf\xef\xbb\xbf" + WHOLE.encode(), "U+FEFF"),
    "overlong": (b"a: \xc0\xaf\n", "is not UTF-8"),
    "a surrogate": (b"a: \xed\xa0\x80\n", "is not UTF-8"),
    "beyond unicode": (b"a: \xf4\x90\x80\x80\n", "is not UTF-8"),
    "cut in a character": (b"a: \xe4\xb8", "is not UTF-8"),
    "CR only": (WHOLE.replace("\n", "\r").encode(), "a carriage return alone ends no line"),
    "NUL": (b"a: b\0\n", "U+0000"),
    "escape codes": (b"a: \x1b[31mred\n", "U+001B"),
    "NEL": ("a: b\x85c: d\n".encode(), "U+0085"),
    "tab indent": (b"a:\n\tb: 1\n", "tab"),
    "tab after dash": (b"a:\n  -\tb: 1\n    c: 2\n", ""),
    "directive": (b"%YAML 1.1\n---\na: 1\n", ""),
    "unknown directive": (b"%FOO bar\n---\na: 1\n", ""),
    "version 3": (b"%YAML 3.0\n---\na: 1\n", "incompatible"),
    "tag directive": (b"%TAG !e! tag:example.com,2000:\n---\na: !e!x 1\n", "asks for a type"),
    "two documents": (b"a: 1\n---\nb: 2\n", "a second document"),
    "text after the end": (b"a: 1\n...\nb: 2\n", ""),
    "complex key": (b"? {a: 1}\n: b\n", "not a mapping"),
    "list as key": (b"[a, b]: c\n", "not a list"),
    "null key": (b"~: 1\n? \n: 2\n", ""),
    "tilde key": (b"version: 1\n~x: 1\nfamily: A\n", "unknown key `~x`"),
    "twice, quoted otherwise": (b"no: 1\n'no': 2\n", "a second time"),
    "merge": (b"a: {b: 1}\n<<: {c: 1}\n", "`<<`"),
    "self": (b"a: &a [*a]\n", "*a"),
    "python": (b"a: !!python/object/apply:os.system ['true']\n", "asks for a type"),
    "binary": (b"a: !!binary aGk=\n", "asks for a type"),
    "set": (b"a: !!set {b, c}\n", "asks for a type"),
}


@pytest.mark.parametrize("name", SURPRISES)
def test_a_surprise_is_a_finding_or_read_as_it_looks(
    toy_folder: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    data, words = SURPRISES[name]
    Path("spec/ops/lift.yaml").write_bytes(data)
    assert main(["generate"]) == 1
    told = capsys.readouterr().out
    assert words in told
    assert "spec/ops/lift.yaml:" in told
    assert not Path("generated").exists()


WORDS = [
    "no",
    "on",
    "yes",
    "off",
    "1_000",
    "0o7",
    "0x1f",
    "1:20",
    "1e3",
    ".inf",
    ".nan",
    "+1",
    "2024-01-01",
    "~x",
    "=",
    "y",
]


@pytest.mark.parametrize("word", WORDS)
def test_a_word_that_other_readers_change_stays_what_it_is(toy_folder: Path, word: str) -> None:
    lift = Path("spec/ops/lift.yaml")
    lift.write_text(lift.read_text().replace("doc: Ways up.", f"doc: {word}"))
    assert main(["generate"]) == 0
    assert f"LiftOps: {word}\n" in Path("generated/toy/about.txt").read_text()


@pytest.mark.parametrize("word", ["no", "on", "yes", "true", "null", "1", "~"])
def test_a_word_as_a_name_is_that_word_or_a_finding(
    toy_folder: Path, capsys: pytest.CaptureFixture[str], word: str
) -> None:
    spec = Path("spec/backends.yaml")
    spec.write_text(
        spec.read_text().replace("  steam: []", f"  {word}: []").replace('feature = "steam"', f'feature = "{word}"')
    )
    code = main(["generate", "--features", word])
    told = capsys.readouterr().out
    assert code == 0 or f"`{word}`" in told
    assert code == 1 or word in Path("generated/toy/MANIFEST.json").read_text()
