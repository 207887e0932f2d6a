"""`check` with what it remembers: the same answer as without, whatever was changed since."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dispatchgen.cache import FolderCache
from dispatchgen.check.folders import UNREADABLE, Folders
from dispatchgen.check.remembered import in_kernels
from dispatchgen.cli import main
from dispatchgen.digests import sha256
from dispatchgen.findings import Finding
from tests.toy import Toy, edited_after_its_key, swap

IRON = Path("src/toykernels/iron.py")
PACKAGE = Path("generated/toy/__init__.py")


@pytest.fixture
def toy(toy_folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A project that `check` has found clean, and remembers."""
    Toy(toy_folder).tell_shapes()
    Path("runtime").mkdir()  # a folder where modules are looked for first
    assert main(["generate"]) == 0
    assert told(capsys) == []
    return toy_folder


def told(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    """All that is found."""
    capsys.readouterr()
    main(["check", "--format", "json", *words])
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["findings"]
    return found


def codes(findings: list[dict[str, Any]]) -> set[str]:
    return {each["code"] for each in findings}


def afresh(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> list[dict[str, Any]]:
    """All that is found where nothing is remembered."""
    with monkeypatch.context() as without:
        without.setenv("DISPATCHGEN_CACHE", "")
        return told(capsys, *words)


def shadow() -> None:
    """Another module of the name, in a folder that comes before."""
    shutil.copytree(IRON.parent, "runtime/toykernels")
    swap(Path("runtime/toykernels/iron.py"), "def lift", "def left")


def sign_anew(path: Path) -> None:
    """Let the manifest say that the file was always so."""
    manifest = Path("generated/toy/MANIFEST.json")
    facts = json.loads(manifest.read_text())
    facts["files"][path.relative_to("generated/toy").as_posix()]["sha256"] = sha256(path.read_bytes())
    manifest.write_text(json.dumps(facts))


def damage_code() -> None:
    swap(PACKAGE, '"Iron"', '"Irony"')
    sign_anew(PACKAGE)


CHANGES: dict[str, tuple[Callable[[], object], set[str]]] = {
    "a method goes": (lambda: swap(IRON, "def lift", "def left"), {"DG802", "DG805"}),
    "a module goes": (IRON.unlink, {"DG801"}),
    "a module cannot be parsed": (lambda: IRON.write_text("def"), {"DG801"}),
    "a module of the name comes before it": (shadow, {"DG802", "DG805"}),
    "the code loses a backend, and the manifest says so": (damage_code, {"DG714", "DG827", "DG829"}),
    "the spec promises more": (
        lambda: swap(Path("spec/backends.yaml"), "toykernels.paper:Paper", "toykernels.paper:Paperweight"),
        {"DG711", "DG801"},
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_changed_is_found_and_what_is_put_back_is_forgiven(
    toy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    before = {path: path.read_bytes() for path in toy.rglob("*") if path.is_file() and "cache" not in path.parts}
    make, expected = CHANGES[change]
    make()
    found = told(capsys)
    assert codes(found) == expected
    assert told(capsys) == found, "remembered, it is told again"
    assert afresh(capsys, monkeypatch) == found, "without a cache it is the same"
    for path in [each for each in toy.rglob("*") if each.is_file() and "cache" not in each.parts]:
        path.write_bytes(before[path]) if path in before else path.unlink()
    for path, content in before.items():
        path.write_bytes(content)
    assert told(capsys) == []


def test_neither_code_nor_kernels_are_read_again(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is remembered is believed even where reading would find something else, so nothing was read."""
    invented: dict[str, Any] = {
        "code": "DG801",
        "severity": "error",
        "message": "",
        "place": None,
        "related": [],
        "fix": None,
    }
    changed = 0
    for entry in (path for path in (toy / "cache").rglob("*") if path.is_file()):
        text = entry.read_text().partition("\n")[2]
        if text == "[]" or text.startswith('{"places"'):
            facts = [invented] if text == "[]" else {**json.loads(text), "found": [{**invented, "code": "DG802"}]}
            entry.write_text(f"{sha256(json.dumps(facts))}\n{json.dumps(facts)}")
            changed += 1
    assert changed == 2
    assert codes(told(capsys)) == {"DG801", "DG802"}


@pytest.mark.parametrize("first", [[], ["--templates", "over"]], ids=["without", "with"])
def test_templates_laid_over_the_set_are_another_thing_to_check(
    toy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, first: list[str]
) -> None:
    """Even one that is the same as the set's: of what it makes, less is checked."""
    Path("over").mkdir()
    shutil.copy("templates/__init__.py.jinja", "over")
    damage_code()
    told(capsys, *first)
    plain, laid_over = afresh(capsys, monkeypatch), afresh(capsys, monkeypatch, "--templates", "over")
    assert "DG827" in codes(plain)
    assert "DG833" in codes(laid_over)
    assert told(capsys) == plain
    assert told(capsys, "--templates", "over") == laid_over


def test_a_spec_that_moves_moves_what_is_told(
    toy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that is generated is another then, and neither is the manifest."""
    IRON.unlink()
    before = told(capsys)
    backends = Path("spec/backends.yaml")
    backends.write_text("# One line more.\n" + backends.read_text())
    after = told(capsys)
    assert after != before
    assert after == afresh(capsys, monkeypatch)


def test_what_is_edited_while_it_is_read_is_not_remembered(
    toy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    backends = "spec/backends.yaml"
    with monkeypatch.context() as meanwhile:
        edited_after_its_key(meanwhile, lambda: swap(backends, "toykernels.paper:Paper", "toykernels.paper:Sheet"))
        assert "DG801" in codes(told(capsys))
    swap(backends, "toykernels.paper:Sheet", "toykernels.paper:Paper")
    assert told(capsys) == []


def test_a_file_that_changes_between_two_readings_is_like_nothing(tmp_path: Path) -> None:
    folders, file = Folders((tmp_path,)), tmp_path / "iron.py"
    for text in ("a", "b"):
        file.write_text(text)
        folders.content(file)
    assert folders.hashes[file] not in (UNREADABLE, sha256("a"), sha256("b"))
    file.unlink()
    with suppress(OSError):
        folders.content(file)
    assert folders.hashes[file] != UNREADABLE


def test_a_module_that_could_not_be_read_is_read_once_it_can(tmp_path: Path) -> None:
    cache, file, asked = FolderCache(tmp_path / "cache"), tmp_path / "iron.py", []

    def find() -> tuple[list[Finding], Folders]:
        folders = Folders((tmp_path,))
        with suppress(OSError):
            folders.content(file)
        asked.append(folders.digest(file))
        return [], folders

    for _ in range(2):
        in_kernels(cache, "spec", (tmp_path,), find)
    file.write_text("")
    for _ in range(2):
        in_kernels(cache, "spec", (tmp_path,), find)
    assert asked == [UNREADABLE, sha256("")]


def test_another_python_reads_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def find() -> tuple[list[Finding], Folders]:
        asked.append(sys.version)
        return [], Folders(())

    for version in ("3.11", "3.12", "3.11", "3.12"):
        monkeypatch.setattr(sys, "version", version)
        in_kernels(FolderCache(tmp_path), "spec", (), find)
    assert asked == ["3.11", "3.12"]
