"""Runs of `generate` that the system does not let write, and what they leave.

`python -m tests.hostile.denials SCENARIO full|forbidden` prints one line of JSON per try. A disk that is full is a small
tmpfs where one can be mounted, else a limit on the size of files: what it was is in each line.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.hostile.stage import SCENARIOS, Stage, run, tree

NOBODY = 65534


def told(done: Any) -> list[str]:
    """What is wrong with how a run that could not write said so."""
    if done is None:
        return ["the run did not end properly"]
    wrong = [] if done["code"] == 2 else [f"exit code {done['code']}"]
    if done["err"].count("\n") != 1 or not done["err"].startswith("error: cannot "):
        wrong.append(f"it says {done['err']!r}")
    return wrong


def tried(stage: Stage, project: Path, how: str, under: Callable[[], object], mended: Callable[[], object]) -> Any:
    """What is found after a run that was kept from writing, once nothing keeps it from it any more."""
    before = tree(project / "generated")
    _, done = run(project, "generate", *stage.scenario.now, under=under)
    mended()
    after = tree(project / "generated")
    succeeded = done is not None and done["code"] == 0
    wrong = [] if succeeded else told(done)
    new = {path: text for path, text in after.items() if before.get(path) != text and path != ".dispatchgen.lock"}
    if new and not succeeded:
        wrong.append(f"it left {sorted(new)}")
    found = stage.look(project)
    return {"how": how, "said": done and done["err"].strip(), **found, "wrong": [*wrong, *found["wrong"]]}


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[Path | None]:
    """A folder on a disk of its own of this size, or None where none can be mounted."""
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "none", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    try:
        yield folder if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)


def full(stage: Stage) -> Iterator[Any]:
    """Runs out of room at different files."""
    size = sum(-(-path.stat().st_size // 4096) * 4 for path in stage.before.rglob("*") if path.is_file())
    for more in (0, 8, 16, 32, 48):
        with small_disk(stage.folder / "disk", size + 512 + more) as disk:
            if disk is None:
                break
            project = stage.project(disk)
            filler = disk / "filler"
            room = os.statvfs(disk)
            filler.write_bytes(b"x" * max(0, room.f_bavail * room.f_bsize - more * 1024))

            yield tried(stage, project, f"tmpfs with {more} kB left", bool, filler.unlink)
    for limit in (0, 100, 2000, 5000):

        def limited(limit: int = limit) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        yield tried(stage, stage.project(), f"RLIMIT_FSIZE of {limit} bytes", limited, bool)


def forbidden(stage: Stage) -> Iterator[Any]:
    """Meets folders that may be read and not written, as a user without privileges."""
    places = ["", "generated", f"generated/{stage.scenario.package}", f"generated/{stage.scenario.package}/ops"]
    for place in places:
        project = stage.project()
        if not (project / place).exists():
            continue
        for path in (project, *project.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        (project / place).chmod(0o555)
        yield tried(stage, project, f"{place or 'the project'} is read-only", nobody, partial(opened, project))


def nobody() -> None:
    if os.geteuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def opened(project: Path) -> None:
    for path in (project, *project.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)


def main(name: str, what: str) -> None:
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    try:
        stage = Stage(SCENARIOS[name], folder)
        for found in {"full": full, "forbidden": forbidden}[what](stage):
            print(json.dumps(found), flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
