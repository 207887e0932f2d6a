"""`dispatchgen watch`: generate again whenever the spec or a template changes.

The files are looked at four times a second. There are a few dozen of them, which takes a millisecond; and unlike what an
operating system reports, it works on network file systems, in containers, and for editors that replace files.
"""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from dispatchgen.cli import _inputs
from dispatchgen.cli._problem import Problem
from dispatchgen.cli.generate import generate
from dispatchgen.lock import DiskError

INTERVAL = 0.25
"""Seconds between two looks; a change counts once two of them see the same."""

Seen = Mapping[str, tuple[int, int, int]]
"""What tells whether a file changed: when it did, its size, and which file it is."""


class _Stop:
    """Whether somebody asked to end; who asks twice does not wait for what is being done."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


def watch(
    spec: _inputs.Spec = None,
    templates: _inputs.Templates = None,
    out: _inputs.Out = None,
    package: _inputs.Package = None,
    features: _inputs.Features = None,
    no_default_features: _inputs.NoDefault = False,
    all_features: _inputs.AllFeatures = False,
    overlay: _inputs.Overlays = None,
) -> int:
    """Generate now, and again whenever the spec or a template changes. Ctrl-C ends it.

    What is wrong is told, and it goes on: the package stays as it is until the spec is right again.
    """
    chosen = (spec, templates, out, package, features, no_default_features, all_features, overlay)
    _inputs.settings(*chosen)  # wrong usage is told before anything begins
    done: Seen | None = None
    with _stoppable() as stop:
        while not stop.asked:
            now = _settled(_places(chosen), stop)
            if now != done and not stop.asked:
                done = now
                _again(chosen)
            time.sleep(INTERVAL)
        print("stopped", flush=True)
    return 0


def _again(chosen: tuple[object, ...]) -> None:
    print(f"-- {time.strftime('%H:%M:%S')}", flush=True)
    try:
        generate(*chosen)  # type: ignore[arg-type]
    except (Problem, DiskError) as problem:
        print(f"error: {problem}")
    print("watching; Ctrl-C ends it", flush=True)
    gc.collect()  # commands go without, because they are short


def _places(chosen: tuple[object, ...]) -> tuple[Path, ...]:
    """The files and folders whose changes count, by the settings as they are now."""
    try:
        found = _inputs.settings(*chosen)  # type: ignore[arg-type]
    except Problem:  # the settings are wrong: that is told when generating, and ends when they change
        return (Path("pyproject.toml"),)
    return found.home / "pyproject.toml", found.spec, found.templates, *found.overlays, *found.template_overlays


def _settled(places: Iterable[Path], stop: _Stop) -> Seen:
    """What the files look like once nobody writes any more."""
    known = [*places]
    seen = _look(known)
    while not stop.asked:
        time.sleep(INTERVAL)
        if (now := _look(known)) == seen:
            break
        seen = now
    return seen


def _look(places: Iterable[Path]) -> Seen:
    found: dict[str, tuple[int, int, int]] = {}
    for place in places:
        for path in _files(place):
            try:
                state = os.stat(path)
            except OSError:  # it has gone meanwhile
                continue
            found[path] = (state.st_mtime_ns, state.st_size, state.st_ino)
    return found


def _files(place: Path) -> Iterator[str]:
    """A file, or all files of a folder but for hidden ones, which editors leave beside those that they write."""
    if not place.is_dir():
        yield str(place)
        return
    for folder, folders, names in os.walk(place):
        folders[:] = [name for name in folders if not name.startswith((".", "__pycache__"))]
        yield from (os.path.join(folder, name) for name in names if not name.startswith("."))


@contextmanager
def _stoppable() -> Iterator[_Stop]:
    """A first Ctrl-C ends the loop, and lets what is being written be written."""
    stop = _Stop()
    old = signal.signal(signal.SIGINT, stop)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, old)
