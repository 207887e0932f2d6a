"""The command line: settings, exit codes, formats, colour, and what is imported when."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from dispatchgen.cli import _inputs, main
from dispatchgen.cli._problem import Problem
from dispatchgen.cli._report import Deny, Format, Report, counted, tell
from dispatchgen.features import Selection
from dispatchgen.findings import Finding, Related, error, note, warning
from dispatchgen.source import Span

ROOT = Path(__file__).parents[2]
BASE = ROOT / "tests" / "cases" / "_base"


@pytest.fixture
def toy(toy_folder: Path) -> Path:
    return toy_folder


def run(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """One run in a process of its own."""
    inherited = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")}
    return subprocess.run(
        [sys.executable, "-m", "dispatchgen", *arguments],
        cwd=cwd,
        env={**inherited, "PYTHONPATH": str(ROOT / "generator"), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


# Settings.


def table(text: str) -> None:
    Path("pyproject.toml").write_text("[tool.dispatchgen]\n" + text)


def test_settings_without_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = _inputs.settings()
    assert (found.spec, found.out, found.package, found.selection) == (
        Path("spec"),
        Path("generated"),
        None,
        Selection(),
    )
    assert found.templates == ROOT / "templates" / "torch"


def test_settings_of_a_file_are_relative_to_it(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table(
        'spec = "spec"\ntemplates = "templates"\nout = "made"\npackage = "other"\nfeatures = ["steam"]\n'
        'default-features = false\nsources = ["src"]\n'
    )
    for folder in (".", "spec/ops"):
        monkeypatch.chdir(toy / folder)
        home = Path() if folder == "." else toy
        assert _inputs.settings() == _inputs.Settings(
            spec=home / "spec",
            templates=home / "templates",
            out=home / "made",
            package="other",
            selection=Selection(("steam",), False),
            sources=(home / "src",),
            home=home,
        )


def test_the_command_line_wins(toy: Path) -> None:
    table('spec = "no"\ntemplates = "templates"\nout = "no"\npackage = "no"\nfeatures = ["steam"]\n')
    found = _inputs.settings(Path("a"), ["torch"], Path("b"), "c", ["iron,paper", "iron steam"], True, True)
    assert (found.spec, found.out, found.package) == (Path("a"), Path("b"), "c")
    assert found.templates == ROOT / "templates" / "torch"
    assert found.selection == Selection(("iron", "paper", "steam"), False, True)
    assert _inputs.settings(features=[]).selection.features == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("spec = 1", "spec in [tool.dispatchgen] must be text"),
        ("spec = " + "[" * 5000, "pyproject.toml cannot be read: "),
        ("spec = " + "9" * 5000, "pyproject.toml cannot be read: "),
        ("features = [1]", "features in [tool.dispatchgen] must be a list of texts"),
        ("default-features = 'no'", "default-features in [tool.dispatchgen] must be true or false"),
        ("featurs = []", "has no setting 'featurs'; did you mean `features`?"),
        ("templates = 'nowhere'", "'nowhere' is neither a folder nor a shipped template set (torch)"),
        ("spec = ", "cannot be read"),
        ('out = "a\\u0000b"', "out in [tool.dispatchgen] holds a NUL"),
        ("out = ''", "out in [tool.dispatchgen] is empty"),
        ("sources = ['src', '']", "sources in [tool.dispatchgen] is empty"),
    ],
)
def test_settings_that_make_no_sense(toy: Path, text: str, words: str) -> None:
    table(text)
    with pytest.raises(Problem) as told:
        _inputs.settings()
    assert words in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"tool = 1", "`tool` is not a table"),
        (b"[[tool]]\n[tool.dispatchgen]", "`tool` is not a table"),
        (b"[[tool.dispatchgen]]", "[tool.dispatchgen] is not a table"),
        (b"\xef\xbb\xbf[tool.dispatchgen]", "cannot be read: it begins with a byte order mark"),
        (b"[tool.dispatchgen]\rspec = 'spec'", "cannot be read: "),
        (b"\xff\xfe[\0", "cannot be read: "),
    ],
)
def test_a_settings_file_that_is_none(toy: Path, content: bytes, words: str) -> None:
    Path("pyproject.toml").write_bytes(content)
    with pytest.raises(Problem) as told:
        _inputs.settings()
    assert str(told.value).startswith(str(toy / "pyproject.toml"))
    assert words in str(told.value)


@pytest.mark.parametrize(
    "make",
    [
        Path.mkdir,
        lambda path: os.mkfifo(path),
        lambda path: path.symlink_to("gone"),
        lambda path: path.symlink_to(path),
    ],
    ids=["folder", "pipe", "link-to-nothing", "link-to-itself"],
)
def test_what_is_called_like_the_settings_file_and_is_no_file(
    toy: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None]
) -> None:
    Path("pyproject.toml").unlink()
    make(Path("pyproject.toml"))
    Path("below").mkdir()
    for here in (toy, toy / "below"):
        monkeypatch.chdir(here)
        with pytest.raises(Problem, match=r"pyproject\.toml cannot be read: it is no file"):
            _inputs.settings()


def test_line_ends_of_a_settings_file_may_be_of_windows(toy: Path) -> None:
    Path("pyproject.toml").write_bytes(b"[tool.dispatchgen]\r\ntemplates = 'templates'\r\npackage = 'other'\r\n")
    assert _inputs.settings().package == "other"


def test_another_package_name(toy: Path) -> None:
    assert main(["generate", "--package", "other", "--out", "made"]) == 0
    assert '"""The package other."""' in Path("made/other/__init__.py").read_text()


# Exit codes.


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("dispatchgen 0.")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_nothing_but_what_is_told(toy: Path, closed: str) -> None:
    for command, code in (("check", 1), ("generate", 0), ("check", 0)):
        shell = f'"{sys.executable}" -m dispatchgen {command} {closed}'
        environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        environment["PYTHONPATH"] = str(ROOT / "generator")
        assert subprocess.run(["sh", "-c", shell], cwd=toy, env=environment, timeout=60).returncode == code


@pytest.mark.parametrize(
    "arguments", [["nothing"], ["generate", "--nothing"], ["explain"], ["check", "--deny", "notes"]]
)
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Usage: dispatchgen" in captured.err


@pytest.mark.parametrize("command", ["generate", "check", "matrix", "explain"])
def test_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert f"Usage: dispatchgen {command}" in capsys.readouterr().out


def test_our_fault_is_one_line(toy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("deep inside")

    monkeypatch.setattr("dispatchgen.plan.plan", broken)
    assert main(["generate"]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "please report" in captured.err
    kept = Path(captured.err.split()[-1])
    assert "ZeroDivisionError: deep inside" in kept.read_text()
    kept.unlink()


def test_a_folder_that_cannot_be_written(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("generated").write_text("a file")
    assert main(["generate"]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: cannot write generated")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize("option", ["--spec", "--templates", "--overlay", "--out"])
def test_a_path_that_no_system_takes(toy: Path, capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert main(["generate", option, "x" * 300]) == 2
    captured = capsys.readouterr()
    assert "File name too long" in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize("command", ["generate", "check", "check --fast"])
def test_a_pipe_in_the_package_is_told_and_not_waited_for(
    toy: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert main(["generate"]) == 0
    os.mkfifo("generated/toy/pipe")
    assert main(command.split()) == 1
    assert "generated/toy/pipe is no plain file or folder" in capsys.readouterr().out


def test_line_ends_of_templates_make_no_difference(toy: Path) -> None:
    assert main(["generate"]) == 0
    for path in [*Path("templates").rglob("*.*"), *Path("spec").rglob("*.yaml")]:
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert main(["check", "--fast"]) == 0
    manifest = Path("generated/toy/MANIFEST.json").read_bytes()
    assert main(["generate"]) == 0
    assert Path("generated/toy/MANIFEST.json").read_bytes() == manifest


def test_check_writes_nothing(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def state() -> dict[str, int]:
        ours = [path for path in toy.rglob("*") if "cache" not in path.parts and "__pycache__" not in path.parts]
        return {str(path): path.lstat().st_mtime_ns for path in ours}

    main(["generate"])
    Path("generated/toy/__init__.py").write_text("edited\n")
    before = state()
    assert main(["check"]) == 1
    assert main(["generate", "--dry-run", "--force"]) == 0
    assert main(["matrix"]) == 0
    assert state() == before


def test_an_interrupted_run_is_seen_and_repaired(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["generate"])
    script = (
        "import os, signal\nfrom pathlib import Path\nreal, count = Path.replace, 0\n"
        "def replace(self, target):\n    global count\n    count += 'toy' in str(target)\n"
        "    if count == 3: os.kill(os.getpid(), signal.SIGKILL)\n    return real(self, target)\n"
        "Path.replace = replace\nfrom dispatchgen.cli import main\nmain(['generate', '--features', 'steam'])\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "generator")}
    assert subprocess.run([sys.executable, "-c", script], env=environment, timeout=60).returncode == -signal.SIGKILL
    capsys.readouterr()
    assert main(["check", "--features", "steam"]) == 1
    told = capsys.readouterr().out
    assert "interrupted      generated/toy/MANIFEST.json" in told
    assert "interrupted      generated/toy/.dispatchgen.journal" in told
    assert main(["generate", "--features", "steam"]) == 0
    assert main(["check", "--features", "steam"]) in (0, 1)
    assert "interrupted" not in capsys.readouterr().out.split("wrote")[-1]


def test_a_request_to_end_is_obeyed_and_leaves_no_temporary_file(toy: Path) -> None:
    main(["generate"])
    script = (
        "import os, signal, sys\nreal = os.fsync\n"
        "def fsync(handle):\n    os.kill(os.getpid(), signal.SIGTERM)\n    return real(handle)\n"
        "os.fsync = fsync\nfrom dispatchgen.cli import main\nsys.exit(main(['generate', '--features', 'steam']))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "generator")}
    before = sorted(path.name for path in Path("generated/toy").rglob("*"))
    done = subprocess.run([sys.executable, "-c", script], env=environment, timeout=60, capture_output=True, text=True)
    assert done.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in Path("generated/toy").rglob("*")) == before


def test_nobody_has_to_read_to_the_end(toy: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "generator")}
    process = subprocess.Popen(
        [sys.executable, "-m", "dispatchgen", "matrix", "--format", "json"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, told = process.communicate(timeout=60)
    assert "Traceback" not in told
    assert "report" not in told


# Determinism.


def test_the_same_bytes_whatever_the_surroundings(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    found = []
    for seed, cwd, extra in [
        ("0", toy, {}),
        ("1", tmp_path_factory.mktemp("elsewhere"), {"LC_ALL": "C", "TZ": "Asia/Tokyo"}),
    ]:
        out = tmp_path_factory.mktemp("out")
        done = run(
            *("generate", "--spec", str(toy / "spec"), "--templates", str(toy / "templates"), "--out", str(out)),
            cwd=cwd,
            PYTHONHASHSEED=seed,
            DISPATCHGEN_CACHE="",
            **extra,
        )
        assert done.returncode == 0, done.stderr
        found.append({path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()})
    assert found[0] == found[1]
    assert not any(str(toy).encode() in content for content in found[0].values())


# Formats.

SPAN = Span("spec.yaml", 2, 9, 2, 13)
FINDINGS = (
    error(
        "DG203", "wrong: 100%", SPAN, related=[Related(Span("spec.yaml", 1, 1, 1, 4), "first said here")], fix="right"
    ),
    warning("DG209", "unused"),
    note("DG808", "later"),
)


def told(report: Report, format: Format = Format.TEXT) -> str:
    stream = io.StringIO()
    tell(report, format, stream)
    return stream.getvalue()


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "spec.yaml"
    path.write_text("top: 1\n  name: Cuba\n")
    return path


def test_a_message_is_one_line(spec: Path) -> None:
    assert told(Report((error("DG301", "called `a\nb\x1b`"),))) == "error[DG301]: called `a\ufffdb\ufffd`\n\n"


def test_text(spec: Path) -> None:
    assert told(Report(FINDINGS, (((("the end"), "bold"),),))) == (
        "spec.yaml:2:9: error[DG203]: wrong: 100%\n"
        "  |\n"
        "2 |   name: Cuba\n"
        "  |         ^^^^\n"
        "spec.yaml:1:1: note: first said here\n"
        "  |\n"
        "1 | top: 1\n"
        "  | ^^^\n"
        "help: right\n"
        "\n"
        "warning[DG209]: unused\n"
        "\n"
        "note[DG808]: later\n"
        "\n"
        "the end\n"
    )


@pytest.mark.parametrize(
    ("line", "span", "source", "carets"),
    [
        ("\tname: Cuba", (8, 12), "\tname: Cuba", "\t      ^^^^"),
        ("漢字: Cuba", (5, 9), "漢字: Cuba", "      ^^^^"),
        ("a: 漢字", (4, 6), "a: 漢字", "   ^^^^"),
        ("a: x\x1b[31m", (4, 5), "a: x\N{REPLACEMENT CHARACTER}[31m", "   ^"),
        ("a:", (3, 3), "a:", "  ^"),
    ],
)
def test_the_caret_stands_under_the_place(
    spec: Path, line: str, span: tuple[int, int], source: str, carets: str
) -> None:
    spec.write_text(f"{line}\n")
    finding = error("DG103", "here", Span("spec.yaml", 1, span[0], 1, span[1]))
    assert told(Report((finding,))).splitlines()[2:4] == [f"1 | {source}", f"  | {carets}"]


def test_a_place_far_down(spec: Path) -> None:
    spec.write_text("x: 1\n" * 29_999 + "name: Cuba\n" + "x: 1\n" * 29_999)
    finding = error("DG103", "here", Span("spec.yaml", 30_000, 7, 30_000, 11))
    assert told(Report((finding,))).splitlines()[1:] == ["      |", "30000 | name: Cuba", "      |       ^^^^", ""]


@pytest.mark.parametrize(
    ("at", "length", "shown", "carets"),
    [
        (1, 4, "name" + "x" * 156 + "…", "^^^^"),
        (50_000, 4, "…" + "x" * 80 + "name" + "x" * 76 + "…", " " * 81 + "^^^^"),
        (99_997, 4, "…" + "x" * 80 + "name", " " * 81 + "^^^^"),
        (50_000, 500, "…" + "x" * 80 + ("name" * 125)[:80] + "…", " " * 81 + "^" * 80),
    ],
)
def test_a_place_in_a_file_of_one_line(spec: Path, at: int, length: int, shown: str, carets: str) -> None:
    """As tools write it that make YAML or JSON as small as it gets."""
    text = "x" * (at - 1) + ("name" * length)[:length]
    spec.write_text(text + "x" * (100_000 - len(text)))
    finding = error("DG103", "here", Span("spec.yaml", 1, at, 1, at + length))
    assert told(Report((finding,))).splitlines()[2:4] == [f"1 | {shown}", f"  | {carets}"]


def test_a_minified_catalog_has_findings_that_can_be_read(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    catalog = yaml.safe_load(Path("spec/backends.yaml").read_text())
    catalog["features"] |= {f"f{number}": [] for number in range(3000)} | {"odd": ["f2999", "irn"]}
    Path("spec/backends.yaml").write_text(json.dumps(catalog))
    assert main(["check"]) == 1
    lines = capsys.readouterr().out.splitlines()
    [where] = [number for number, line in enumerate(lines) if "error[DG205]" in line]
    assert max(map(len, lines[where : where + 4])) < 200
    caret = lines[where + 3]
    assert lines[where + 2][caret.index("^") : caret.rindex("^") + 1] == '"irn"'


def test_a_place_that_runs_over_lines_is_marked_to_the_end_of_the_first(spec: Path) -> None:
    finding = error("DG103", "here", Span("spec.yaml", 1, 6, 2, 3))
    assert told(Report((finding,))).splitlines()[3] == "  |      ^"


@pytest.mark.parametrize("name", ["gone.yaml", ".", "spec.yaml"])
def test_a_place_that_cannot_be_shown_is_still_named(spec: Path, name: str) -> None:
    assert told(Report((error("DG103", "here", Span(name, 99, 1, 99, 1)),))) == f"{name}:99:1: error[DG103]: here\n\n"


def test_json(spec: Path) -> None:
    found = json.loads(
        told(Report(FINDINGS, facts={"package": "toy"}, silent=(error("DG715", "missing"),)), Format.JSON)
    )
    assert (found["version"], found["package"]) == (1, "toy")
    assert [each["code"] for each in found["findings"]] == ["DG203", "DG209", "DG808", "DG715"]
    assert found["findings"][0] == {
        "code": "DG203",
        "severity": "error",
        "message": "wrong: 100%",
        "place": {"file": "spec.yaml", "line": 2, "column": 9, "end_line": 2, "end_column": 13},
        "related": [
            {
                "message": "first said here",
                "place": {"file": "spec.yaml", "line": 1, "column": 1, "end_line": 1, "end_column": 4},
            }
        ],
        "fix": "right",
    }


def test_github(spec: Path) -> None:
    odd = error("DG101", "two\nlines", Span("a,b:c.yaml", 1, 2, 3, 4))
    assert told(Report((*FINDINGS, odd)), Format.GITHUB).splitlines() == [
        "::error file=spec.yaml,line=2,col=9,endLine=2,title=DG203::wrong: 100%25%0Ahelp: right",
        "::warning title=DG209::unused",
        "::notice title=DG808::later",
        "::error file=a%2Cb%3Ac.yaml,line=1,col=2,endLine=3,title=DG101::two%0Alines",
    ]


@pytest.mark.parametrize(
    ("findings", "code", "denied"), [((), 0, 0), (FINDINGS[2:], 0, 0), (FINDINGS[1:], 0, 1), (FINDINGS, 1, 1)]
)
def test_what_counts(findings: tuple[Finding, ...], code: int, denied: int) -> None:
    assert Report(findings).exit_code() == Report((), silent=findings).exit_code() == code
    assert Report(findings).exit_code(Deny.WARNINGS) == denied


def test_how_many() -> None:
    assert counted(()) == ""
    assert counted((*FINDINGS, *FINDINGS[:1])) == "2 errors, 1 warning, 1 note"


def on_terminal(toy: Path, **environment: str) -> str:
    """What `check` prints where its output is a terminal."""
    ours, theirs = pty.openpty()
    inherited = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM")}
    settings = {**inherited, "PYTHONPATH": str(ROOT / "generator"), "TERM": "xterm-256color", **environment}
    process = subprocess.Popen([sys.executable, "-m", "dispatchgen", "check"], cwd=toy, env=settings, stdout=theirs)
    os.close(theirs)
    pieces = []
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        pieces.append(piece)
    process.wait(60)
    os.close(ours)
    return b"".join(pieces).decode()


def test_colour_on_a_terminal_only(toy: Path) -> None:
    assert "\x1b[" in on_terminal(toy)
    assert "\x1b[" not in on_terminal(toy, NO_COLOR="1")
    assert "\x1b[" not in run("check", cwd=toy).stdout


# The matrix.


def test_the_shipped_matrix_fits_a_page(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert main(["matrix"]) == 0
    lines = capsys.readouterr().out.splitlines()
    tables = lines[1:]
    assert max(map(len, tables)) <= 100
    assert all(line == line.rstrip() for line in tables)
    assert main(["matrix", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"family", "op", "backend", "runtime", "wrapper", "target", "arm", "situation", "kernel", "reason"} <= set(
        found["cells"][0]
    )
    codes = [line.split()[0] for line in lines[lines.index("") :] if line.startswith("TD")]
    assert codes == sorted(set(codes))
    assert codes


def test_a_wide_matrix_is_told_in_parts(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = "".join(
        f"  - {{name: Backend{place:02}, id: {place}, cfg: 'feature = \"iron\"', kernels: 'm:C'}}\n"
        for place in range(10, 40)
    )
    with Path("spec/backends.yaml").open("a") as stream:
        stream.write(more)
    assert main(["matrix"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    assert sum(line == "LiftOps" for line in lines) > 1
    heads = " ".join(line for line in lines if line.startswith("operation"))
    assert [f"Backend{place:02}" for place in range(10, 40)] == [
        word for word in heads.split() if word.startswith("Backend")
    ]


@pytest.mark.parametrize("features", ["", "cpu", "cpu,autodiff", "libtorch,remote,autodiff", "metal,capture,ndarray"])
def test_smaller_builds_of_the_shipped_catalog_are_complete(
    features: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    build = ["--no-default-features", "--features", features, "--out", str(tmp_path)]
    assert main(["generate", *build]) == 0
    capsys.readouterr()
    assert main(["check", *build, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {file["verdict"] for file in found["files"]} == {"up to date"}
    assert {finding["severity"] for finding in found["findings"]} <= {"note"}


# Imports.


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        (["explain", "DG101"], {"jinja2", "yaml", "black", "rich", "filelock"}),
        (["matrix", "--format", "json"], {"jinja2", "black", "rich", "filelock"}),
        (["generate"], {"black", "rich", "filelock"}),
        (["check"], {"black", "rich", "filelock"}),
    ],
)
def test_nothing_is_imported_that_is_not_needed(toy: Path, arguments: list[str], unwanted: set[str]) -> None:
    main(["generate"])
    script = f"import sys\nfrom dispatchgen.cli import main\ncode = main({arguments!r})\nprint('loaded:', *{{name.partition('.')[0] for name in sys.modules}})\nsys.exit(code)\n"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "generator")}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert not loaded & unwanted
    assert "torch" not in loaded


def test_the_entry_costs_nothing() -> None:
    script = "import sys\nimport dispatchgen.cli\nprint(*sys.modules)\n"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "generator")}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"typer", "pydantic", "jinja2", "yaml", "rich", "black", "importlib.metadata"}
