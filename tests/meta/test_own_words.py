"""The project speaks of itself only: of no machine that it was made on, of no host that it was fetched from, of no one
who helped."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

FORBIDDEN = {
    "an absolute path of somebody's machine": r"(?<![\w.])/(?:home|Users|root|work|mnt|workspace)/\w",
    "a path on a Windows machine": r"\b[A-Z]:\\+Users\\",
    "a host of a package registry or mirror": r"\b(?:pypi\.org|files\.pythonhosted\.org|npmjs\.|artifactory|nexus\.|crates\.io|mirror[.-])",
    "an option for another registry": r"--(?:extra-)?index-url|PIP_INDEX_URL|trusted-host",
    "a helper": r"\b(?i:assistant|chatbot|language model|LLM|GPT|Claude|Copilot|Anthropic|OpenAI|prompt engineering)\b",
    "a work order": r"\b(?i:issue \d+|sub-?agent|as instructed|per the instructions|this session|the brief)\b",
    "something left to do": r"\b(?:TODO|FIXME|XXX|HACK)\b",
    "a secret": r"(?i:api[_-]?key|secret[_-]?key|BEGIN (?:RSA |OPENSSH )?PRIVATE KEY|ghp_\w{20})",
}


def files() -> list[Path]:
    """What is tracked, and what would be: everything that git does not ignore."""
    found = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = [ROOT / name for name in found.stdout.splitlines()]
    return [path for path in paths if path.is_file() and path != Path(__file__).resolve()]


def findings(pattern: str) -> list[str]:
    found = []
    for path in files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if match := re.search(pattern, line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {match.group()}")
    return found


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_speaks_of(what: str) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout: git knows which files are the project's")
    wrong = findings(FORBIDDEN[what])
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("an absolute path of somebody's machine", "see /home/me/x"),
        ("a host of a package registry or mirror", "from https://pypi.org/simple"),
        ("a helper", "written by an Assistant"),
        ("a work order", "see issue 12"),
        ("something left to do", "# TODO: more"),
    ],
)
def test_the_search_finds(what: str, line: str) -> None:
    assert re.search(FORBIDDEN[what], line)
    assert not re.search(FORBIDDEN[what], "the tests/work/ folder, an issue, a session of torch.fx")


def test_generated_and_hand_written_code_have_no_banner() -> None:
    for path in files():
        if path.suffix == ".py" and path.is_relative_to(ROOT / "runtime"):
            assert not re.search(r"(?i)copyright|licen[sc]ed under", path.read_text(encoding="utf-8")), path
