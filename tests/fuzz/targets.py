"""What hostile input is given to. A target that raises, hangs or grows has been hurt: its input is a crasher."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from types import FrameType

from hypothesis import strategies as st

from dispatchgen.cli import main
from dispatchgen.node import Mapping, Node, Sequence
from dispatchgen.predicate import Feature, Flag, Predicate, PredicateError, atoms, evaluate, explain, parse, simplify
from dispatchgen.source import MAX_DEPTH, read
from tests.fuzz.inputs import TOY, files, predicates, projects

SECONDS = 10
"""The longest that one input may take."""
MEGABYTES = 400
"""The most that a process may grow by over all of its inputs, once it has warmed up."""


class HangError(BaseException):
    """An input took too long."""


@contextmanager
def in_time(seconds: float = SECONDS) -> Iterator[None]:
    """Raise HangError in what takes longer, where the system has alarms."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def late(number: int, frame: FrameType | None) -> None:
        raise HangError(f"more than {seconds} s")

    old = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def resident() -> int:
    """The megabytes that this process holds, or 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 2**20
    except (OSError, ValueError):
        return 0


def source(data: bytes) -> None:
    """Reading a file gives a mapping or findings, each at a place inside of it."""
    found, findings = read(data, "f.yaml")
    assert found is not None or findings
    lines = data.decode("utf-8", "replace").count("\n") + 2
    for finding in findings:
        assert finding.span is None or 1 <= finding.span.line <= lines
        assert finding.span is None or finding.span.column >= 1
        assert finding.code.startswith("DG1")
        assert len(finding.message) < 2000
    if found is not None:
        assert _depth(found) <= MAX_DEPTH
        repr(found.value)


def _depth(node: Node) -> int:
    inner: list[Node] = []
    if isinstance(node, Mapping):
        inner = [entry.value for entry in node.entries]
    elif isinstance(node, Sequence):
        inner = [*node.items]
    return 1 + max(map(_depth, inner), default=0)


def predicate(data: bytes) -> None:
    """A text is a predicate that prints itself, and simplifies to one with the same truth table; or has an error."""
    text = data.decode("utf-8", "replace")
    parsed = _parsed(text)
    if isinstance(parsed, PredicateError):
        assert 0 <= parsed.offset <= len(text)
        assert parsed.message
        return
    assert parse(str(parsed)) == parsed
    simple = simplify(parsed)
    assert simplify(simple) == simple
    leaves = list(atoms(parsed))
    features = sorted({leaf.name for leaf in leaves if isinstance(leaf, Feature)})[:5]
    cfgs = {leaf.name: Feature(leaf.name) for leaf in leaves if isinstance(leaf, Flag)}
    names = [*features, *sorted(cfgs)[:3]]
    for row in product((False, True), repeat=len(names)):
        on = frozenset(name for name, there in zip(names, row, strict=True) if there)
        assert evaluate(parsed, on, cfgs) == evaluate(simple, on, cfgs) == explain(parsed, on, cfgs).holds


def _parsed(text: str) -> Predicate | PredicateError:
    try:
        return parse(text)
    except PredicateError as problem:
        return problem


def project(data: bytes) -> None:
    """A run in a project with one damaged file: exit code 0, 1 or 2, and nothing written unless it is 0."""
    name, _, content = data.partition(b"\n")
    cache = Path(tempfile.gettempdir()) / f"dispatchgen-fuzz-{os.getuid() if hasattr(os, 'getuid') else 0}"
    here = Path.cwd()
    environment = {key: os.environ.get(key) for key in ("DISPATCHGEN_CACHE", "NO_COLOR")}
    with tempfile.TemporaryDirectory() as kept:
        folder = Path(kept) / "project"
        shutil.copytree(TOY, folder)
        (folder / name.decode()).write_bytes(content)
        os.environ |= {"DISPATCHGEN_CACHE": str(cache), "NO_COLOR": "1"}
        os.chdir(folder)
        try:
            before = _everything(folder)
            code, told = _run("generate")
            assert code in (0, 1, 2), told
            assert "Traceback" not in told
            if code:
                assert _everything(folder) == before, f"exit code {code}, and it wrote"
            for command in ("check", "check --fast", "matrix"):
                again, told = _run(*command.split())
                assert again in (0, 1, 2), told
                assert "Traceback" not in told
            outside = [path.name for path in Path(kept).iterdir()]
            assert outside == ["project"], f"it wrote {outside}"
        finally:
            os.chdir(here)
            for key, value in environment.items():
                os.environ.pop(key) if value is None else os.environ.update({key: value})


def _run(*words: str) -> tuple[int, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*words])
    told = out.getvalue() + err.getvalue()
    if code == 3:
        path = Path(told.rpartition("report it with ")[2].strip())
        told += path.read_text(encoding="utf-8") if path.is_file() else ""
        path.unlink(missing_ok=True)
    return code, told


def _everything(folder: Path) -> dict[str, bytes]:
    kept = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in kept}


TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[], st.SearchStrategy[bytes]]]] = {
    "source": (source, files),
    "predicate": (predicate, predicates),
    "project": (project, projects),
}


def hurt(target: str, data: bytes) -> BaseException | None:
    """What an input does to a target that it should not, or None."""
    try:
        with in_time(SECONDS):
            TARGETS[target][0](data)
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        return problem
    return None


if __name__ == "__main__":  # python -m tests.fuzz.targets TARGET FILE: once more, with the traceback
    TARGETS[sys.argv[1]][0](Path(sys.argv[2]).read_bytes())
