"""What README.md and docs/ show is true: the example runs, commands, flags, files and links exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(language: str, text: str = README) -> list[str]:
    """The fenced blocks of a language."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [body for name, body in fenced if name == language]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(str(ROOT / each) for each in ("generator", "runtime", "generated"))
    environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "200", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=90
    )


def test_python_example_runs_and_is_right() -> None:
    [example] = blocks("python")
    done = run("-W", "error", "-c", example)
    assert done.returncode == 0, done.stderr
    # the loss is the sum of 8 rows of rank 0 (zeros) and rank 1 (ones): 0 and 8 everywhere, whose mean is 4
    assert done.stdout.count("4.") == 2 * 2 * 4
    assert not re.search(r"\b(?!4\.)\d+\.", done.stdout)


def commands() -> list[list[str]]:
    """Every dispatchgen command of the README, as words after the program's name."""
    lines = [line.partition("#")[0].split() for text in blocks("sh") for line in text.splitlines()]
    return [line[1:] for line in lines if line and line[0].endswith("dispatchgen")]


def test_there_are_commands() -> None:
    assert len(commands()) >= 5
    assert {words[0] for words in commands()} >= {"generate", "check", "matrix", "explain"}


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_command_and_its_flags_exist(words: list[str]) -> None:
    known = run("-m", "dispatchgen", words[0], "--help")
    assert known.returncode == 0, known.stderr
    for flag in [each for each in words[1:] if each.startswith("--")]:
        assert flag in known.stdout, flag


def test_make_targets_exist() -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    named = {name for text in blocks("sh") for name in re.findall(r"\bmake ([a-z]+)", text)}
    assert named
    assert named <= set(targets)


def test_layout_names_what_is_there() -> None:
    [layout] = [text for text in blocks("") if "spec/" in text]
    for line in layout.splitlines():
        for folder in re.findall(r"([\w./]+/)(?=\s)", line.partition("  ")[0] + " "):
            assert (ROOT / folder).is_dir(), folder
    for path in re.findall(r"`((?:spec|templates|generator|runtime|generated|tests|docs|examples)/[\w./-]*)`", README):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_of_the_package_in_the_text_exist(page: Path) -> None:
    import torchdispatch as td

    for name in set(re.findall(r"\btd\.([A-Za-z_]\w*)", page.read_text(encoding="utf-8"))):
        assert hasattr(td, name), f"td.{name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_in_the_text_is_python(page: Path) -> None:
    for text in blocks("python", page.read_text(encoding="utf-8")):
        compile(text, str(page), "exec")
