"""Formatting: black's bytes, remembered by content, and never a reason to fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import black
import pytest
from black.mode import TargetVersion

from dispatchgen.cache import FolderCache, NoCache, user_cache
from dispatchgen.digests import sha256
from dispatchgen.format import black_version, format_files
from dispatchgen.render import RenderedFile

UGLY = "x = {'a':1,\n  'b':2}\n"


def file(text: str = UGLY, path: str = "a.py") -> RenderedFile:
    return RenderedFile(path=path, template="a.jinja", digest="d", text=text)


class Counted:
    """A cache in memory that counts what it is asked."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}
        self.hits = 0

    def get(self, key: str) -> str | None:
        self.hits += key in self.kept
        return self.kept.get(key)

    def put(self, key: str, text: str) -> None:
        self.kept[key] = text


def test_python_comes_out_as_black_has_it() -> None:
    (formatted,), findings = format_files([file()], NoCache())
    versions = {TargetVersion.PY311, TargetVersion.PY312, TargetVersion.PY313}
    assert formatted.text == black.format_str(UGLY, mode=black.Mode(line_length=120, target_versions=versions))
    assert formatted.text == 'x = {"a": 1, "b": 2}\n'
    assert (formatted.path, formatted.template, formatted.digest) == ("a.py", "a.jinja", "d")
    assert formatted.rendered == sha256(UGLY)
    assert findings == ()


def test_other_files_stay_as_they_are() -> None:
    (formatted,), _ = format_files([file(path="a.txt")], NoCache())
    assert formatted.text == UGLY


def test_settings_of_the_reader_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.black]\nline-length = 10\nskip-string-normalization = true\n")
    monkeypatch.chdir(tmp_path)
    assert format_files([file()], NoCache())[0][0].text == 'x = {"a": 1, "b": 2}\n'


def test_what_black_refuses_is_a_finding_with_the_text_kept() -> None:
    formatted, (finding,) = format_files([file("x = (\n"), file()], NoCache())
    assert len(formatted) == 1
    assert finding.code == "DG703"
    assert finding.message.startswith("black cannot format a.py, rendered from a.jinja: ")
    assert finding.span is not None
    Path(finding.span.file).unlink()


def test_the_same_text_is_formatted_once() -> None:
    cache = Counted()
    first = format_files([file()], cache)
    assert format_files([file()], cache) == first
    assert cache.hits == 1


def test_a_folder_remembers(tmp_path: Path) -> None:
    cache = FolderCache(tmp_path / "deep" / "er")
    assert cache.get("ab12") is None
    cache.put("ab12", "text ä\r\n")
    assert cache.get("ab12") == "text ä\r\n"
    assert [path.name for path in (tmp_path / "deep" / "er").rglob("*") if path.is_file()] == ["ab12"]


@pytest.mark.parametrize("damage", [b"", b"nonsense", b"\xff\xfe", b"cut"])
def test_a_damaged_entry_counts_as_not_there(tmp_path: Path, damage: bytes) -> None:
    cache = FolderCache(tmp_path)
    cache.put("ab12", "text")
    entry = tmp_path / "ab" / "ab12"
    entry.write_bytes(entry.read_bytes()[:-2] if damage == b"cut" else damage)
    assert cache.get("ab12") is None


def test_a_folder_that_cannot_be_written_is_silently_no_cache(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = FolderCache(tmp_path / "file" / "cache")
    (formatted,), findings = format_files([file()], cache)
    assert formatted.text == 'x = {"a": 1, "b": 2}\n'
    assert findings == ()


def test_where_the_cache_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert user_cache({"DISPATCHGEN_CACHE": "/x", "XDG_CACHE_HOME": "/y"}) == FolderCache(Path("/x"))
    assert isinstance(user_cache({"DISPATCHGEN_CACHE": "", "XDG_CACHE_HOME": "/y"}), NoCache)
    assert user_cache({"XDG_CACHE_HOME": "/y"}) == FolderCache(Path("/y/dispatchgen"))
    assert user_cache({"XDG_CACHE_HOME": "relative"}) == FolderCache(tmp_path / ".cache" / "dispatchgen")
    assert user_cache({}) == FolderCache(tmp_path / ".cache" / "dispatchgen")


def test_black_is_imported_for_a_miss_only(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from dispatchgen.cache import user_cache\nfrom dispatchgen.format import format_files\n"
        "from dispatchgen.render import RenderedFile\n"
        "import os\n"
        f"format_files([RenderedFile('a.py', 't', 'd', {UGLY!r})], user_cache(os.environ))\n"
        "print('black' in sys.modules)\n"
    )
    generator = str(Path(__file__).parents[2] / "generator")
    environment = {**os.environ, "DISPATCHGEN_CACHE": str(tmp_path), "PYTHONPATH": generator}
    said = [
        subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert said == ["True\n", "False\n"]


def test_the_version_is_known_without_importing() -> None:
    assert black_version() == black.__version__
