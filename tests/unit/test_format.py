"""Formatting: black's bytes, remembered by content, and never a reason to fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import black
import pytest
from black.mode import TargetVersion

from dispatchgen import format
from dispatchgen.cache import FolderCache, NoCache, user_cache
from dispatchgen.digests import sha256
from dispatchgen.format import black_version, format_files
from dispatchgen.render import RenderedFile

VERSIONS = {TargetVersion.PY311, TargetVersion.PY312, TargetVersion.PY313}
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
    assert formatted.text == black.format_str(UGLY, mode=black.Mode(line_length=120, target_versions=VERSIONS))
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


PIECES = {
    "functions": "import os\n\n\ndef f( a ):\n    return {'a':a}\n\n\ndef g( ): return 1\n",
    "one blank line between": "import os\n\n\ndef f( a ):\n    return a\n\ndef g( ): return 1\n",
    "many blank lines": "import os\n\n\n\n\n\ndef f( a ):\n    return a\n\n\n\n\ndef g( ): return 1\n",
    "a comment before": "import os\n\n\n# about f\ndef f( a ):\n    return a\n\n\n# about g\n\n\ndef g( ): return 1\n",
    "a comment behind": "def f( a ):\n    return a\n    # the end\n\n\ndef g( ): return 1\n# the end of g\n\n\nclass C: pass\n",
    "decorators": "import os\n\n\n@a\n@b( 1 )\ndef f( a ):\n    return a\n\n\n@c\n\nclass C: pass\n",
    "a docstring only": '"""Doc."""\n\n\ndef f( a ):\n    return a\n\n\ndef g( ): return 1\n',
    "a docstring and a comment": '"""Doc."""\n# more\n\n\ndef f( a ):\n    return a\n\n\ndef g( ): return 1\n',
    "stubs": "def f( a ): ...\n\n\ndef g( a ): ...\n\n\nclass C( A ): ...\n\n\nclass D( A ): ...\n",
    "overloads": "@overload\ndef f( a: int ): ...\n@overload\ndef f( a: str ): ...\n\n\ndef f( a ): return a\n",
    "what looks like code in a text": "X = '''\n\n\ndef f( a ):\n    return a\n'''\n\n\ndef g( ): return 1\n",
    "statements between": "def f( a ): return a\n\n\nX = [1,2]\n\n\ndef g( ): return 1\n\n\nif X :\n    pass\n\n\nclass C: pass\n",
    "under a condition": "if X :\n    def f( a ): return a\n\n\n    def g( ): return 1\n\n\ndef h( ): return 1\n",
    "left as it is": "# fmt: off\nX = [1,\n 2]\n\n\ndef f( a ): return a\n\n\n# fmt: on\ndef g( ): return 1\n",
    "left as it is, at its end": "def f( a ): return a  # fmt: skip\n\n\ndef g( ): return 1\n",
    "asynchronous": "async def f( a ): return a\n\n\nasync def g( ): return 1\n\n\n\nX = 1\n",
    "a form feed": "def f( a ): return a\n\x0c\n\ndef g( ): return 1\n",
    "on one line": "X = 1; Y = 2\n\n\ndef f( a ): return a\n\n\nclass C: x = 1; y = 2\n",
}


@pytest.mark.parametrize("text", PIECES.values(), ids=PIECES)
def test_pieces_are_formatted_as_the_whole_is(text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    whole = black.format_str(text, mode=black.Mode(line_length=120, target_versions=VERSIONS))
    monkeypatch.setattr(format, "WORTHWHILE", 0)
    for cache in (NoCache(), FolderCache(tmp_path)):
        formatted, findings = format_files([file(text)], cache)
        assert (formatted[0].text, findings) == (whole, ())


@pytest.mark.slow
def test_generated_modules_are_formatted_as_wholes_in_pieces() -> None:
    modules = sorted((Path(__file__).parents[2] / "generated").rglob("*.py"))
    assert len([module for module in modules if len(format._pieces(module.read_text())) > 9]) > 2
    for module in modules:
        ugly = module.read_text().replace(",\n", ", \n").replace(" = ", "  =  ")
        pieces = format._pieces(ugly)
        assert "".join(pieces) == ugly
        assert "\n\n\n".join(format._black(piece).rstrip("\n") for piece in pieces) + "\n" == format._black(ugly)


def test_one_function_more_costs_one_function(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    functions = [f"def f{number}( a ):\n    return [a,{number}]\n" for number in range(100)]
    text, cache, real, formatted = "\n\n".join(functions), FolderCache(tmp_path), format._black, []

    def counted(piece: str) -> str:
        formatted.append(piece)
        return real(piece)

    monkeypatch.setattr(format, "_black", counted)
    format_files([file(text)], cache)
    assert len(formatted) == 100
    format_files([file(text)], cache)
    assert len(formatted) == 100
    format_files([file(text.replace("[a,50]", "[a,500]"))], cache)
    assert formatted[100:] == ["def f50( a ):\n    return [a,500]\n\n\n"]
