"""`check --fast`: it says what `check` says about hashes, imports next to nothing, and never passes what is stale."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dispatchgen import __version__
from dispatchgen.check import fast
from dispatchgen.cli import main
from dispatchgen.manifest import read
from dispatchgen.selection import Selection
from tests.toy import edited_after_its_key, swap

ROOT = Path(__file__).parents[2]
BASE = ROOT / "tests" / "cases" / "_base"


@pytest.fixture
def toy(toy_folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A generated package that is up to date."""
    assert main(["generate"]) == 0
    capsys.readouterr()
    return toy_folder


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, str], list[str]]:
    """The exit code, the verdict about each file, and the codes of findings."""
    code = main(["check", "--format", "json", *words])
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    verdicts = {file["path"]: file["verdict"] for file in facts.get("files", [])}
    return code, verdicts, [finding["code"] for finding in facts["findings"]]


def append(name: str, text: str) -> None:
    Path(name).write_text((Path(name).read_text() if Path(name).exists() else "") + text)


def in_manifest(old: str, new: str) -> None:
    path = Path("generated/toy/MANIFEST.json")
    text = re.sub(old, new, path.read_text(), count=1)
    assert text != path.read_text()
    path.write_text(text)


HARMLESS: dict[str, Callable[[], object]] = {
    "nothing": lambda: None,
    "a comment": lambda: append("spec/ops/lift.yaml", "# a remark\n"),
    "a comment above everything": lambda: Path("spec/backends.yaml").write_text(
        "# moved down\n\n" + Path("spec/backends.yaml").read_text()
    ),
    "other quotes": lambda: swap("spec/ops/lift.yaml", "doc: Ways up.", "doc: 'Ways up.'"),
    "keys in another order": lambda: swap(
        "spec/ops/carry.yaml", "version: 1\nfamily: CarryOps\n", "family: CarryOps\nversion: 1\n"
    ),
    "a template that nothing uses": lambda: append("templates/other.jinja", "x"),
    "a remark in the template set": lambda: append("templates/set.yaml", "# a remark\n"),
}

STALE: dict[str, tuple[Callable[[], object], list[str]]] = {
    "a doc": (lambda: swap("spec/ops/lift.yaml", "Bring a thing up", "Bring up a thing"), []),
    "a backend's name": (lambda: swap("spec/backends.yaml", "name: Iron", "name: Ore"), []),
    "a feature": (lambda: swap("spec/backends.yaml", "[iron, paper]", "[iron]"), []),
    "another op": (
        lambda: append(
            "spec/ops/lift.yaml",
            "  - name: drop\n    doc: Let it fall.\n    route: thing\n    args: [{name: thing, type: thing}]\n"
            "    returns: {type: thing}\n    otherwise: error\n",
        ),
        [],
    ),
    "another family": (
        lambda: Path("spec/ops/push.yaml").write_text("version: 1\nfamily: PushOps\ndoc: Ways on.\nops: []\n"),
        [],
    ),
    "a family less": (lambda: Path("spec/ops/carry.yaml").unlink(), []),
    "a template": (lambda: append("templates/about.txt.jinja", "more\n"), []),
    "a template that is taken in": (lambda: append("templates/ops/arm.jinja", "{# other #}"), []),
    "an annotation in the template set": (lambda: swap("templates/set.yaml", "public: int", "public: float"), []),
    "an edited file": (lambda: append("generated/toy/__init__.py", "# mine\n"), []),
    "a file edited to nothing": (lambda: Path("generated/toy/__init__.py").write_text(""), []),
    "a missing file": (lambda: Path("generated/toy/ops/lift.py").unlink(), []),
    "a missing package": (lambda: shutil.rmtree("generated"), []),
    "an orphan": (lambda: Path("generated/toy/more.py").write_text("x = 1\n"), []),
    "no manifest": (lambda: Path("generated/toy/MANIFEST.json").unlink(), []),
    "a damaged manifest": (lambda: append("generated/toy/MANIFEST.json", "}"), []),
    "a manifest in another layout": (lambda: in_manifest("  ", " "), []),
    "another generator": (lambda: in_manifest("dispatchgen [0-9.]+", "dispatchgen 0.0.1"), []),
    "another jinja2": (lambda: in_manifest('"jinja2": "[^"]+"', '"jinja2": "1"'), []),
    "another black": (lambda: in_manifest('"black": "[^"]+"', '"black": "1"'), []),
    "a write that was cut off": (lambda: Path("generated/toy/.dispatchgen.journal").write_text(""), []),
    "a link": (
        lambda: (
            Path("generated/toy/about.txt").rename("about.txt"),
            Path("generated/toy/about.txt").symlink_to("../../about.txt"),
        ),
        [],
    ),
    "features": (lambda: None, ["--features", "steam"]),
    "no default features": (lambda: None, ["--no-default-features"]),
    "all features": (lambda: None, ["--all-features"]),
    "the features that are on anyway, by name": (lambda: None, ["--features", "iron"]),
    "another package": (lambda: None, ["--package", "other"]),
    "another output folder": (lambda: None, ["--out", "elsewhere"]),
}


@pytest.mark.parametrize("known", [True, False], ids=["known spec", "unknown spec"])
@pytest.mark.parametrize("change", HARMLESS.values(), ids=HARMLESS)
def test_what_changes_no_file_passes(
    toy: Path, capsys: pytest.CaptureFixture[str], change: Callable[[], object], known: bool
) -> None:
    if known:
        assert told(capsys, "--fast")[0] == 0
    change()
    verdicts = dict.fromkeys(["MANIFEST.json", "__init__.py", "about.txt", "ops/carry.py", "ops/lift.py"], "up to date")
    assert told(capsys, "--fast") == (0, verdicts, [])
    assert told(capsys, "--fast") == (0, verdicts, [])
    assert told(capsys) == (0, verdicts, [])


@pytest.mark.parametrize("known", [True, False], ids=["known spec", "unknown spec"])
@pytest.mark.parametrize(("change", "words"), STALE.values(), ids=STALE)
def test_what_is_stale_never_passes(
    toy: Path, capsys: pytest.CaptureFixture[str], change: Callable[[], object], words: list[str], known: bool
) -> None:
    if known:
        assert told(capsys, "--fast")[0] == 0
    change()
    first, again, full = told(capsys, "--fast", *words), told(capsys, "--fast", *words), told(capsys, *words)
    assert first == again
    assert first[0] == full[0] == 1
    for path, verdict in full[1].items():  # hashes may accuse a file whose text happens to stay; they excuse none
        assert verdict == "up to date" or first[1][path] != "up to date", path


def test_the_words_are_those_of_check(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    append("generated/toy/about.txt", "mine\n")
    append("templates/__init__.py.jinja", "\nMORE = 1\n")
    Path("generated/toy/ops/lift.py").unlink()
    assert main(["check"]) == 1
    full = capsys.readouterr().out
    assert main(["check", "--fast"]) == 1
    assert capsys.readouterr().out.replace(" by hashes alone", "") == full


def test_a_warning_stays_told_once_the_spec_is_known(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    swap("spec/backends.yaml", "  steam: []\n", "  steam: []\n  unused: []\n")
    assert main(["generate"]) == 0
    capsys.readouterr()
    first, again = told(capsys, "--fast"), told(capsys, "--fast")
    assert first == again
    assert len(first[2]) == 1
    assert told(capsys, "--fast", "--deny", "warnings")[0] == 1


def test_an_error_in_the_spec_is_told(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, "--fast")[0] == 0
    append("spec/backends.yaml", "nonsense: 1\n")
    for _ in range(2):
        code, verdicts, codes = told(capsys, "--fast")
        assert (code, verdicts, codes) == (1, {}, ["DG113"])


def test_a_spec_that_changes_while_it_is_read_is_not_remembered(
    toy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    edited_after_its_key(monkeypatch, lambda: swap("spec/ops/lift.yaml", "Bring a thing up", "Bring up a thing"))
    assert told(capsys, "--fast")[0] == 1
    swap("spec/ops/lift.yaml", "Bring up a thing", "Bring a thing up")
    assert told(capsys, "--fast")[0] == 0


@pytest.mark.parametrize("damage", [b"", b"x", b"\xff", None])
def test_a_damaged_cache_is_no_answer(toy: Path, capsys: pytest.CaptureFixture[str], damage: bytes | None) -> None:
    assert told(capsys, "--fast")[0] == 0
    for entry in [path for path in (toy / "cache").rglob("*") if path.is_file()]:
        entry.write_bytes(entry.read_bytes().replace(b"lift", b"left") if damage is None else damage)
    assert told(capsys, "--fast")[0] == 0
    swap("spec/ops/lift.yaml", "Bring a thing up", "Bring up a thing")
    assert told(capsys, "--fast")[0] == 1


@pytest.mark.parametrize("cache", ["", "/dev/null/nowhere"])
def test_it_works_without_a_cache(
    toy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, cache: str
) -> None:
    monkeypatch.setenv("DISPATCHGEN_CACHE", cache)
    assert told(capsys, "--fast")[0] == 0
    swap("spec/ops/lift.yaml", "Bring a thing up", "Bring up a thing")
    assert told(capsys, "--fast")[0] == 1


def alone(toy: Path, code: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "generator"), "DISPATCHGEN_CACHE": str(toy / "cache")}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=toy, env=environment, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("words", [[], ["--fast"]], ids=["whole", "fast"])
def test_after_an_upgrade_of_the_generator_the_tool_changed(
    toy: Path, tmp_path_factory: pytest.TempPathFactory, words: list[str]
) -> None:
    """It digests the spec in another way and says its version in every header; nobody's spec is stale for that."""
    newer = tmp_path_factory.mktemp("newer")
    shutil.copytree(ROOT / "generator" / "dispatchgen", newer / "dispatchgen")
    version = newer / "dispatchgen" / "__init__.py"
    version.write_text(version.read_text().replace(__version__, "9.9"))
    done = subprocess.run(
        [sys.executable, "-m", "dispatchgen", "check", *words],
        env={**os.environ, "PYTHONPATH": str(newer)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1, done.stderr
    files = [line for line in done.stdout.splitlines() if line.startswith(("tool changed", "spec", "template"))]
    assert len(files) >= 4
    assert all(each.startswith("tool changed ") for each in files)
    assert all(each.endswith(f"(dispatchgen {__version__} -> dispatchgen 9.9)") for each in files)
    assert "help: neither the spec nor a template has to change: run `dispatchgen generate`" in done.stdout


def test_it_imports_next_to_nothing(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, "--fast")[0] == 0
    heavy = ("typer", "pydantic", "jinja2", "rich", "yaml", "black", "torch", "importlib.metadata", "dispatchgen.plan")
    done = alone(
        toy,
        "import sys; from dispatchgen.cli import main; code = main(['check', '--fast', '--features=', '-v'])\n"
        f"print([name for name in {heavy} if name in sys.modules]); sys.exit(code)",
    )
    assert (done.returncode, done.stdout.splitlines()[-1], done.stderr) == (0, "[]", "")


@pytest.mark.parametrize(("old", "new", "code"), [("doc: Ways up.", "doc:  Ways up.", 0), ("Ways up", "Ways on", 1)])
def test_it_needs_neither_black_nor_templates(toy: Path, old: str, new: str, code: int) -> None:
    swap("spec/ops/lift.yaml", old, new)
    done = alone(
        toy,
        "import sys; sys.modules.update(dict.fromkeys(['black', 'jinja2', 'torch', 'typer', 'rich']))\n"
        "from dispatchgen.cli import main; sys.exit(main(['check', '--fast']))",
    )
    assert (done.returncode, done.stderr) == (code, "")


def test_the_manifest_knows_no_places(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = Path("generated/toy/MANIFEST.json")
    before = manifest.read_bytes()
    for name in ("backends.yaml", "errors.yaml", "ops/lift.yaml", "ops/carry.yaml"):
        path = Path("spec", name)
        path.write_text("# first\n\n\n" + path.read_text().replace("\n", "  # said\n", 1))
    assert main(["generate"]) == 0
    assert manifest.read_bytes() == before
    assert set(json.loads(before)) == {"generator", "black", "jinja2", "features", "selection", "files"}
    for record in json.loads(before)["files"].values():
        assert set(record) == {"template", "template_sha256", "spec", "rendered", "sha256"}


@pytest.mark.parametrize("words", [["--fast"], []], ids=["fast", "whole"])
def test_a_file_that_the_manifest_does_not_list(
    toy: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    path = Path("generated/toy/MANIFEST.json")
    facts = json.loads(path.read_text())
    del facts["files"]["about.txt"]
    path.write_text(json.dumps(facts))
    code, verdicts, _ = told(capsys, *words)
    assert (code, verdicts["about.txt"]) == (1, "edited by hand" if words else "interrupted")


def test_a_template_that_is_gone_has_changed(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("templates/about.txt.jinja").unlink()
    code, verdicts, _ = told(capsys, "--fast")
    assert code == 1
    assert {path for path, verdict in verdicts.items() if verdict == "template changed"} == {
        "about.txt",
        "MANIFEST.json",
    }


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="there is no file here that nobody can read")
def test_a_spec_file_that_cannot_be_read_is_a_finding(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("spec/ops/unreadable.yaml").symlink_to("/proc/self/mem")
    for words in (["--fast"], []):
        code, _, codes = told(capsys, *words)
        assert (code, codes) == (1, ["DG112"])


def test_without_black_and_jinja2_their_versions_are_taken_as_written(
    toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    then, _ = read(Path("generated/toy/MANIFEST.json"), "MANIFEST.json")
    assert then is not None
    then = replace(then, black="1.0", jinja2="2.0")
    spec = fast.Expected("toy", (), {}, ())
    monkeypatch.setattr(sys, "path", [str(ROOT / "generator")])
    now = fast.manifest(spec, [], Selection(), then)
    assert (now.black, now.jinja2) == ("1.0", "2.0")
    new = fast.manifest(spec, [], Selection(), None)
    assert (new.black, new.jinja2) == ("", "")
