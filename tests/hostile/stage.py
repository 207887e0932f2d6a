"""Projects in which `generate` is run in a process of its own, and what is found there when it did not end well.

The modules are loaded once and every run is a fork, so that one costs a fraction of a second.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.shipped import ROOT

JOURNAL = ".dispatchgen.journal"


@dataclass(frozen=True)
class Scenario:
    """A project, what was generated there before, and what is generated now."""

    project: Path
    """Holds `spec`, `templates` and `pyproject.toml`."""
    package: str
    beside: tuple[Path, ...]
    """Where what the package imports lies."""
    first: tuple[str, ...] | None
    """The options of an earlier run; None where there was none."""
    cut_off: tuple[str, ...] | None
    """The options of a run in between that died too."""
    now: tuple[str, ...]


STORAGE, TORCH = ROOT / "examples" / "storage", ROOT
SMALL = ("--no-default-features", "--features", "memory")
MIDDLE = ("--no-default-features", "--features", "folder,sqlite,cache")
SCENARIOS = {
    "first": Scenario(STORAGE, "storage", (STORAGE,), None, None, ()),
    "grown": Scenario(STORAGE, "storage", (STORAGE,), SMALL, None, ()),
    "shrunk": Scenario(STORAGE, "storage", (STORAGE,), (), None, SMALL),
    "again": Scenario(STORAGE, "storage", (STORAGE,), (), SMALL, MIDDLE),
    "shipped first": Scenario(TORCH, "torchdispatch", (ROOT / "runtime",), None, None, ()),
    "shipped": Scenario(
        TORCH, "torchdispatch", (ROOT / "runtime",), ("--no-default-features", "--features", "cpu,cuda"), None, ()
    ),
}


def in_child(work: Callable[[], Any]) -> tuple[int, Any]:
    """How a fork that does the work ended (its exit code, or minus the signal), and what the work gave back."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 99
        try:
            os.close(reading)
            with os.fdopen(writing, "w") as stream:
                json.dump(work(), stream)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as stream:
        answer = stream.read()
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), json.loads(answer) if answer else None


def run(project: Path, *words: str, under: Callable[[], object] = bool) -> tuple[int, Any]:
    """One run of the command line in a project: how it ended, and its exit code and what it printed.

    `under` is called first in that process.
    """

    def work() -> Any:
        from dispatchgen.cli import main

        os.chdir(project)
        out, err = io.StringIO(), io.StringIO()
        under()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([*words])
        return {"code": code, "out": out.getvalue(), "err": err.getvalue()}

    return in_child(work)


def tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


def imported(project: Path, scenario: Scenario) -> str:
    """What importing the package of a project comes to: `works`, or the exception."""

    def work() -> str:
        import importlib

        sys.dont_write_bytecode = True
        for name in [name for name in sys.modules if name.partition(".")[0] == scenario.package]:
            del sys.modules[name]
        sys.path[:0] = [str(project / "generated"), *map(str, scenario.beside)]
        importlib.invalidate_caches()
        try:
            module = importlib.import_module(scenario.package)
        except BaseException as problem:
            return f"{type(problem).__name__}: {problem}"
        return "works" if getattr(module, "__file__", None) else "an empty namespace"

    return str(in_child(work)[1])


def dying_after_the_journal() -> None:
    """Kill this process when the journal and one file are in their places."""
    renamed = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal renamed
        renamed += event == "os.rename" and "generated" in str(arguments[1])
        if renamed == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


class Stage:
    """A scenario set up: the state before, and the state that the run leads to."""

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self.scenario, self.folder = scenario, folder
        self.before = folder / "before"
        self.before.mkdir()
        templates = "templates/torch" if scenario.project == TORCH else "templates"
        for name in ("spec", templates):
            shutil.copytree(scenario.project / name, self.before / name)
        (self.before / "pyproject.toml").write_text(f'[tool.dispatchgen]\ntemplates = "{templates}"\n')
        os.environ["DISPATCHGEN_CACHE"] = str(folder / "cache")
        self.load()
        if scenario.first is not None:
            self.generate(self.before, *scenario.first)
        self.package = Path("generated") / scenario.package
        self.old = tree(self.before / self.package)
        after = folder / "after"
        shutil.copytree(self.before, after)
        self.generate(after, *scenario.now)
        self.new = tree(after / self.package)
        self.between: dict[str, bytes] = {}
        if scenario.cut_off is not None:
            between = folder / "between"
            shutil.copytree(self.before, between)
            self.generate(between, *scenario.cut_off)
            self.between = tree(between / self.package)
            run(self.before, "generate", *scenario.cut_off, under=dying_after_the_journal)
            assert (self.before / self.package / JOURNAL).exists()

    def load(self) -> None:
        """Load in this process what every run needs, so that no fork has to."""
        from dispatchgen import write  # noqa: F401
        from dispatchgen.cli import main

        here = Path.cwd()
        os.chdir(self.before)
        with contextlib.redirect_stdout(io.StringIO()):
            main(["check", *self.scenario.now])
        os.chdir(here)
        import filelock  # noqa: F401

        if self.scenario.project == TORCH:
            import dispatch_runtime.backends.capture  # noqa: F401  # brings torch

    def generate(self, project: Path, *options: str) -> None:
        code, done = run(project, "generate", *options)
        assert code == 0, code
        assert done["code"] == 0, done

    def project(self, folder: Path | None = None) -> Path:
        """A fresh copy of the state before, here or elsewhere."""
        project = (folder or self.folder) / "project"
        shutil.rmtree(project, ignore_errors=True)
        return Path(shutil.copytree(self.before, project))

    def look(self, project: Path) -> dict[str, Any]:
        """What state a project is in after a run that failed, and what is wrong with that: nothing, where all is well.

        One run has to repair it.
        """
        wrong: list[str] = []
        now = tree(project / self.package)
        ours = {path: text for path, text in now.items() if ".dispatchgen" not in path}
        for path, text in ours.items():
            if text not in (self.old.get(path), self.new.get(path), self.between.get(path)):
                wrong.append(f"{path} is not whole")
        code, checked = run(project, "check", *self.scenario.now, "--format", "json")
        verdicts = {each["verdict"] for each in json.loads(checked["out"])["files"]}
        if strange := verdicts - {"up to date", "spec changed", "missing", "interrupted"}:
            wrong.append(f"check says {sorted(strange)}")
        whole = now in (self.old, self.new)
        if not whole and "interrupted" not in verdicts and ours != self.old:
            wrong.append(f"check does not say that it was interrupted, but {sorted(verdicts)}")
        if now == self.new and verdicts != {"up to date"} and not self._begun(project):
            wrong.append(f"all is new, and check says {sorted(verdicts)}")
        came_to = imported(project, self.scenario)
        absent = not (project / self.package).exists() and came_to.startswith("ModuleNotFoundError")
        refused = came_to.startswith("ImportError") and "dispatchgen generate" in came_to
        if not (absent or refused or (came_to == "works" and ours in (self.old, self.new))):
            wrong.append(f"importing {'all of one' if ours in (self.old, self.new) else 'a mixture'}: {came_to}")
        code, repaired = run(project, "generate", *self.scenario.now)
        if code or repaired["code"]:
            wrong.append(f"one generate does not repair: {repaired}")
        if tree(project / self.package) != self.new or self._begun(project):
            wrong.append(f"after one generate there is {sorted(tree(project / 'generated'))}")
        if imported(project, self.scenario) != "works":
            wrong.append("after one generate it does not import")
        return {"verdicts": sorted(verdicts), "import": came_to[:60], "wrong": wrong}

    def _begun(self, project: Path) -> list[Path]:
        return [*(project / "generated").glob(".*.dispatchgen")]
