"""Writing: only what changed, whole or not at all, and nothing that is not ours."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from dispatchgen.digests import sha256
from dispatchgen.disk import look
from dispatchgen.format import FormattedFile
from dispatchgen.journal import JOURNAL
from dispatchgen.lock import LOCK, DiskError
from dispatchgen.manifest import FileRecord, Manifest
from dispatchgen.survey import survey
from dispatchgen.write import Outcome, write

ROOT = os.geteuid() == 0 if hasattr(os, "geteuid") else False
Content = dict[str, str]


def package(content: Content) -> tuple[tuple[FormattedFile, ...], Manifest]:
    files = tuple(FormattedFile(path, "t", "spec", sha256(text), text) for path, text in sorted(content.items()))
    records = {file.path: FileRecord("t", "0", "spec", file.rendered, sha256(file.text)) for file in files}
    return files, Manifest("dispatchgen", "black", "jinja2", (), (), True, False, records)


def put(out: Path, content: Content, *, force: bool = False) -> Outcome:
    files, manifest = package(content)
    return write(out, "p", files, manifest, force=force)


def tree(folder: Path) -> Content:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def generated(folder: Path) -> Content:
    return {path: text for path, text in tree(folder).items() if path not in (f"p/{JOURNAL}", "p/MANIFEST.json", LOCK)}


def test_first_write(tmp_path: Path) -> None:
    outcome = put(tmp_path / "new" / "out", {"a.py": "a\n", "sub/b.py": "b\n"})
    assert outcome == Outcome(written=("a.py", "sub/b.py", "MANIFEST.json"))
    assert set(tree(tmp_path / "new" / "out")) == {"p/a.py", "p/sub/b.py", "p/MANIFEST.json", LOCK}
    assert list(json.loads((tmp_path / "new" / "out" / "p" / "MANIFEST.json").read_text())["files"]) == [
        "a.py",
        "sub/b.py",
    ]


def test_what_did_not_change_is_not_touched(tmp_path: Path) -> None:
    put(tmp_path, {"a.py": "a\n", "b.py": "b\n"})
    for path in (tmp_path / "p").iterdir():
        os.utime(path, ns=(1, 1))
    assert put(tmp_path, {"a.py": "a\n", "b.py": "new\n"}).written == ("b.py", "MANIFEST.json")
    assert (tmp_path / "p" / "a.py").stat().st_mtime_ns == 1
    for path in (tmp_path / "p").iterdir():
        os.utime(path, ns=(1, 1))
    assert put(tmp_path, {"a.py": "a\n", "b.py": "new\n"}) == Outcome(unchanged=("a.py", "b.py", "MANIFEST.json"))
    assert {path.stat().st_mtime_ns for path in (tmp_path / "p").iterdir()} == {1}


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        put(tmp_path, {"a.py": "a\n"})
    finally:
        os.umask(old)
    assert (tmp_path / "p" / "a.py").stat().st_mode & 0o777 == 0o640


def test_obsolete_files_and_empty_folders_go(tmp_path: Path) -> None:
    put(tmp_path, {"a.py": "a\n", "x/y/b.py": "b\n", "z/c.py": "c\n"})
    (tmp_path / "p" / "z" / "mine.txt").write_text("mine")
    outcome = put(tmp_path, {"a.py": "a\n"})
    assert outcome.deleted == ("x/y/b.py", "z/c.py")
    assert generated(tmp_path) == {"p/a.py": "a\n", "p/z/mine.txt": "mine"}
    assert not (tmp_path / "p" / "x").exists()


def test_an_edited_obsolete_file_stays(tmp_path: Path) -> None:
    put(tmp_path, {"a.py": "a\n", "b.py": "b\n"})
    (tmp_path / "p" / "b.py").write_text("edited\n")
    for force in (False, True):
        outcome = put(tmp_path, {"a.py": "a2\n" if force else "a\n"}, force=force)
        assert outcome.deleted == ()
    assert (tmp_path / "p" / "b.py").read_text() == "edited\n"


def test_the_edited_obsolete_file_is_told(tmp_path: Path) -> None:
    put(tmp_path, {"a.py": "a\n", "b.py": "b\n"})
    (tmp_path / "p" / "b.py").write_text("edited\n")
    (finding,) = put(tmp_path, {"a.py": "a\n"}).findings
    assert (finding.code, finding.severity.value) == ("DG709", "warning")


def test_an_edited_file_is_not_overwritten(tmp_path: Path) -> None:
    put(tmp_path, {"a.py": "a\n", "b.py": "b\n"})
    (tmp_path / "p" / "a.py").write_text("edited\n")
    before = tree(tmp_path)
    outcome = put(tmp_path, {"a.py": "new\n", "b.py": "new\n"})
    assert [(finding.code, str(finding.span)) for finding in outcome.findings] == [("DG707", f"{tmp_path}/p/a.py:1:1")]
    assert "edited by hand" in outcome.findings[0].message
    assert outcome.written == ()
    assert tree(tmp_path) == before
    assert put(tmp_path, {"a.py": "new\n", "b.py": "new\n"}, force=True).written == ("a.py", "b.py", "MANIFEST.json")


def test_a_foreign_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "a.py").write_text("mine\n")
    outcome = put(tmp_path, {"a.py": "new\n"})
    assert "was not generated" in outcome.findings[0].message
    assert tree(tmp_path) == {"p/a.py": "mine\n"}


def test_a_file_that_is_right_already_is_nobodys_edit(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "a.py").write_text("a\n")
    assert put(tmp_path, {"a.py": "a\n"}) == Outcome(written=("MANIFEST.json",), unchanged=("a.py",))


def test_a_damaged_manifest_is_written_anew(tmp_path: Path) -> None:
    put(tmp_path, {"a.py": "a\n"})
    (tmp_path / "p" / "MANIFEST.json").write_text("<<<<<<< HEAD\n")
    outcome = put(tmp_path, {"a.py": "a\n"})
    assert outcome.written == ("MANIFEST.json",)
    assert [(finding.code, finding.severity.value) for finding in outcome.findings] == [("DG708", "warning")]
    (tmp_path / "p" / "MANIFEST.json").write_text("<<<<<<< HEAD\n")
    assert [finding.code for finding in put(tmp_path, {"a.py": "b\n"}).findings] == ["DG708", "DG707"]


@pytest.mark.parametrize("link", ["p", "p/sub", "p/sub/b.py", "p/MANIFEST.json", "p/other.txt"])
def test_links_are_refused(tmp_path: Path, link: str) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    put(out, {"sub/b.py": "b\n"})
    os.rename(out / link, elsewhere) if (out / link).exists() else elsewhere.write_text("x")
    (out / link).symlink_to(elsewhere)
    before = tree(tmp_path)
    outcome = put(out, {"sub/b.py": "new\n"}, force=True)
    assert "DG705" in [finding.code for finding in outcome.findings]
    assert outcome.written == ()
    assert tree(tmp_path) == before


def test_a_link_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "a.py").symlink_to(tmp_path / "gone")
    assert [finding.code for finding in put(tmp_path, {"a.py": "a\n"}).findings] == ["DG705"]
    assert not (tmp_path / "gone").exists()


def test_a_lock_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / LOCK).symlink_to(tmp_path / "target")
    with pytest.raises(DiskError, match="is a link"):
        put(tmp_path, {"a.py": "a\n"})
    assert not (tmp_path / "target").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_is_no_plain_file_is_refused_and_not_opened(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    os.mkfifo(tmp_path / "p" / "a.py")
    assert [finding.code for finding in put(tmp_path, {"a.py": "a\n"}).findings] == ["DG706"]


@pytest.mark.parametrize("path", ["../a.py", "/tmp/a.py", "sub/../../a.py", "MANIFEST.json", ".dispatchgen.journal"])
def test_paths_that_leave_the_package_are_refused(tmp_path: Path, path: str) -> None:
    outcome = put(tmp_path, {path: "a\n"}, force=True)
    assert [finding.code for finding in outcome.findings] == ["DG704"]
    assert tree(tmp_path) == {}


def test_a_folder_where_a_file_belongs_is_found(tmp_path: Path) -> None:
    (tmp_path / "p" / "a.py").mkdir(parents=True)
    assert [finding.code for finding in put(tmp_path, {"a.py": "a\n", "b.py": "b\n"}, force=True).findings] == ["DG706"]
    assert tree(tmp_path) == {}


def test_a_file_where_the_package_belongs_is_found(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("mine")
    assert [finding.code for finding in put(tmp_path, {"a.py": "a\n"}, force=True).findings] == ["DG706"]
    assert tree(tmp_path) == {"p": "mine"}


def test_a_file_where_a_folder_belongs_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "sub").write_text("mine")
    with pytest.raises(DiskError, match=r"^cannot write .*sub"):
        put(tmp_path, {"a.py": "a\n", "sub/b.py": "b\n"})
    assert generated(tmp_path) == {"p/sub": "mine"}


class Crash(BaseException):
    """Stops the process as a signal would."""


def run_and_crash(monkeypatch: pytest.MonkeyPatch, out: Path, content: Content, at: int) -> bool:
    """Write, raising instead of making the `at`-th change to the disk. Whether it came to that."""
    made = 0

    def stopping(real):  # type: ignore[no-untyped-def]
        def step(*args, **kwargs):  # type: ignore[no-untyped-def]
            nonlocal made
            made += 1
            if made == at:
                raise Crash
            return real(*args, **kwargs)

        return step

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", stopping(os.fsync))
        patch.setattr(Path, "replace", stopping(Path.replace))
        patch.setattr(Path, "unlink", stopping(Path.unlink))
        try:
            put(out, content)
        except Crash:
            return True
    return False


@pytest.mark.parametrize("at", range(1, 22))
def test_a_crash_leaves_whole_files_and_one_run_repairs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, at: int
) -> None:
    old = {"a.py": "old a\n", "b.py": "old b\n", "gone/c.py": "old c\n"}
    new = {"a.py": "new a\n", "b.py": "new b\n", "d/e.py": "new e\n"}
    newer = {"a.py": "newer a\n", "b.py": "newer b\n", "d/e.py": "new e\n"}
    put(tmp_path, old)
    crashed = run_and_crash(monkeypatch, tmp_path, new, at)
    assert crashed or at > 15
    for path, text in generated(tmp_path).items():
        name = path.removeprefix("p/")
        assert path.endswith(".dispatchgen") or text in (old.get(name), new.get(name)), path
    run_and_crash(monkeypatch, tmp_path, newer, at)  # a second crash, with another spec
    outcome = put(tmp_path, old)
    assert outcome.findings == ()
    assert generated(tmp_path) == {f"p/{path}": text for path, text in old.items()}
    assert not (tmp_path / "p" / JOURNAL).exists()


def test_a_failure_before_anything_changed_leaves_no_trace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put(tmp_path, {"a.py": "a\n"})
    before = tree(tmp_path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device", "a.py")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(DiskError, match=r"^cannot write a\.py: No space left on device$"):
            put(tmp_path, {"a.py": "b\n"})
    assert tree(tmp_path) == before


def test_half_written_files_of_a_killed_run_go(tmp_path: Path) -> None:
    put(tmp_path, {"a.py": "a\n"})
    (tmp_path / "p" / ".a.py.0123abcd.dispatchgen").write_text("ha")
    (tmp_path / "p" / ".mine").write_text("mine")
    put(tmp_path, {"a.py": "a\n"})
    assert generated(tmp_path) == {"p/a.py": "a\n", "p/.mine": "mine"}


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
import importlib.util
spec = importlib.util.spec_from_file_location("test_write", {me!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
real, count = Path.replace, 0
def replace(self, target):
    global count
    count += 1
    if count == 3:  # after the journal and one file
        os.kill(os.getpid(), signal.SIGKILL)
    return real(self, target)
Path.replace = replace
module.put(Path({out!r}), {content!r})
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kills a process")
def test_a_killed_process_holds_no_lock_and_is_repaired(tmp_path: Path) -> None:
    put(tmp_path, {"a.py": "a\n", "b.py": "b\n"})
    content = {"a.py": "a2\n", "b.py": "b2\n"}
    script = KILLED.format(tests=str(Path(__file__).parent), me=__file__, out=str(tmp_path), content=content)
    generator = str(Path(__file__).parents[2] / "generator")
    done = subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": generator}, timeout=60)
    assert done.returncode == -9
    assert generated(tmp_path)["p/a.py"] == "a2\n"
    assert generated(tmp_path)["p/b.py"] == "b\n"
    assert (tmp_path / "p" / JOURNAL).exists()
    assert put(tmp_path, content).findings == ()
    assert generated(tmp_path) == {"p/a.py": "a2\n", "p/b.py": "b2\n"}


def _write_repeatedly(out: str, word: str) -> None:
    for turn in range(5):
        put(Path(out), {f"m{index}.py": f"{word} {turn}\n" for index in range(5)})


def test_two_writers_take_turns(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn")
    writers = [context.Process(target=_write_repeatedly, args=(str(tmp_path), word)) for word in ("one", "two")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert len(set(generated(tmp_path).values())) == 1
    assert put(tmp_path, {f"m{index}.py": next(iter(generated(tmp_path).values())) for index in range(5)}).written == ()


def test_a_reader_sees_a_package_before_a_write_or_after_it(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn")
    put(tmp_path, {f"m{index}.py": "old\n" for index in range(5)})
    writer = context.Process(target=_write_repeatedly, args=(str(tmp_path), "new"))
    writer.start()
    looks = []
    while writer.is_alive():
        looks.append(look(tmp_path, "p", ()))
    for seen in looks:
        assert seen.manifest is not None
        assert {path: sha256(text) for path, text in seen.files.items()} == {
            path: record.sha256 for path, record in seen.manifest.files.items()
        }
    assert len({seen.manifest_text for seen in looks}) > 1


def test_who_waits_too_long_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from filelock import FileLock

    monkeypatch.setattr("dispatchgen.lock.PATIENCE", 0.2)
    with FileLock(tmp_path / LOCK), pytest.raises(DiskError, match="another dispatchgen has been writing"):
        put(tmp_path, {"a.py": "a\n"})


READ_ONLY = """
import os, sys
from pathlib import Path
import importlib.util
spec = importlib.util.spec_from_file_location("test_write", {me!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
import filelock
if os.geteuid() == 0:
    os.setgid(65534), os.setuid(65534)
try:
    module.put(Path({out!r}), {{"a.py": "new"}})
except module.DiskError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="folders are not read-only there")
def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    out = tmp_path / "out"
    put(out, {"a.py": "a\n"})
    for path in (tmp_path, *tmp_path.parents):
        if path.stat().st_uid == os.geteuid() and path != Path(path.anchor):
            path.chmod(path.stat().st_mode | 0o055)
        if path == Path("/tmp"):
            break
    for path in (out, out / "p"):
        path.chmod(0o555)
    generator = str(Path(__file__).parents[2] / "generator")
    script = READ_ONLY.format(me=__file__, out=str(out))
    environment = {**os.environ, "PYTHONPATH": generator, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60
        )
    finally:
        for path in (out, out / "p"):
            path.chmod(0o755)
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1
    assert textwrap.shorten(done.stdout, 400).startswith("cannot write ")
    assert "Permission denied" in done.stdout
    assert generated(out) == {"p/a.py": "a\n"}


def test_a_survey_writes_nothing(tmp_path: Path) -> None:
    put(tmp_path, {"a.py": "a\n", "b.py": "b\n"})
    before = tree(tmp_path)
    files, manifest = package({"a.py": "new\n", "c.py": "c\n"})
    changes = survey(tmp_path, "p", files, manifest).changes
    assert [(change.path, change.old, change.new) for change in changes[:-1]] == [
        ("a.py", b"a\n", "new\n"),
        ("c.py", None, "c\n"),
        ("b.py", b"b\n", None),
    ]
    assert changes[-1].path == "MANIFEST.json"
    assert tree(tmp_path) == before


def test_a_first_write_is_made_beside_its_place_and_moved_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[set[str]] = []
    real = os.fsync

    def watching(handle: int) -> None:
        seen.append({path.name for path in tmp_path.iterdir()})
        real(handle)

    monkeypatch.setattr(os, "fsync", watching)
    put(tmp_path, {"a.py": "a\n", "sub/b.py": "b\n"})
    assert len(seen) == 3
    assert not any("p" in names for names in seen)
    assert {path.name for path in tmp_path.iterdir()} == {"p", LOCK}


def test_a_first_write_that_fails_leaves_no_trace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskError, match=r"^cannot write .*a\.py: No space left on device$"):
        put(tmp_path, {"a.py": "a\n"})
    assert {path.name for path in tmp_path.iterdir()} == {LOCK}


def test_a_file_that_cannot_be_written_is_called_by_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    told = rf"^cannot write {re.escape(str(tmp_path))}/p/sub/b\.py: No space left on device$"
    real = os.fsync
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskError, match=told):
        put(tmp_path, {"sub/b.py": "b\n"})
    monkeypatch.setattr(os, "fsync", real)
    put(tmp_path, {"sub/b.py": "b\n"})
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskError, match=r"^cannot write [^ ]*/p/\.dispatchgen\.journal: No space left on device$"):
        put(tmp_path, {"sub/b.py": "c\n"})


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="there is no folder in which nobody makes files")
def test_a_lock_that_nobody_can_make_is_not_waited_for() -> None:
    with pytest.raises(DiskError, match=r"^cannot write /proc/self/\.dispatchgen\.lock: "):
        put(Path("/proc/self"), {"a.py": "a\n"})


def test_what_a_first_write_left_behind_is_seen_and_goes(tmp_path: Path) -> None:
    begun = tmp_path / ".p.0123abcd.dispatchgen"
    begun.mkdir()
    (begun / "a.py").write_text("ha")
    files, manifest = package({"a.py": "a\n"})
    assert survey(tmp_path, "p", files, manifest).leftovers == ("../.p.0123abcd.dispatchgen",)
    put(tmp_path, {"a.py": "a\n"})
    assert {path.name for path in tmp_path.iterdir()} == {"p", LOCK}
    begun.mkdir()
    assert put(tmp_path, {"a.py": "a\n"}).unchanged == ("a.py", "MANIFEST.json")
    assert not begun.exists()
