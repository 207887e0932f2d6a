"""Where Python modules lie: below some folders, else on Python's path or in an installed distribution."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlparse

from dispatchgen.digests import sha256

UNREADABLE = ""
"""Stands for the hash of a file that cannot be read."""
CHANGING = "?"
"""Stands for that of a file that was another at every reading, so that nothing is ever like it."""


class Folders:
    """Some folders in which modules are looked for before they are looked for where Python does; each looked for once."""

    def __init__(self, roots: tuple[Path, ...]) -> None:
        self.roots = roots
        self._path = tuple(Path(entry) for entry in dict.fromkeys(sys.path) if entry)
        self._places: dict[str, Path | None] = {}
        self._hashes: dict[Path, str] = {}

    @property
    def places(self) -> Mapping[str, Path | None]:
        """The modules that were asked for so far, and where each lies."""
        return self._places

    @property
    def hashes(self) -> Mapping[Path, str]:
        """The files that were read so far, and the SHA-256 of what each held."""
        return self._hashes

    def content(self, file: Path) -> bytes:
        """What a file holds. Raises OSError."""
        before = self._hashes.get(file)
        self._hashes[file] = UNREADABLE if before in (None, UNREADABLE) else CHANGING
        held = file.read_bytes()
        digest = sha256(held)
        self._hashes[file] = digest if before in (None, digest) else CHANGING
        return held

    def digest(self, file: Path) -> str:
        """The SHA-256 of what a file holds, or what stands for that of one that cannot be read."""
        if file not in self._hashes:
            with suppress(OSError):
                self.content(file)
        return self._hashes[file]

    def has(self, file: str) -> bool:
        """Whether the file lies below one of the folders and not in something that is installed there."""
        path = Path(file).absolute()
        return "site-packages" not in path.parts and any(path.is_relative_to(root.absolute()) for root in self.roots)

    def locate(self, name: str) -> Path | None:
        """The file of a module, or None where there is none. Metadata is asked only about packages that no folder has."""
        if name not in self._places:
            self._places[name] = self._locate(name)
        return self._places[name]

    def _locate(self, name: str) -> Path | None:
        package = name.partition(".")[0]
        folders = [root for root in (*self.roots, *self._path) if _has(root, package)]
        for root in folders or _installed(package):
            stem = root.joinpath(*name.split("."))
            for candidate in (stem.with_name(f"{stem.name}.py"), stem / "__init__.py"):
                if os.path.isfile(candidate):  # which takes any text
                    return candidate
        return None


def shown(path: Path) -> str:
    """The path as people see it: relative where it lies below the current folder."""
    here = os.path.join(os.getcwd(), "")  # asked for every method: paths as objects would cost more than the rest
    absolute = os.path.abspath(path)
    return absolute.removeprefix(here) if absolute.startswith(here) else str(path)


def default_roots(here: Path) -> tuple[Path, ...]:
    """Where modules are looked for unless somebody says otherwise: the usual folders of a project."""
    return tuple(path for path in (here / "runtime", here / "src", here) if path.is_dir())


def _has(root: Path, package: str) -> bool:
    return os.path.isdir(root / package) or os.path.isfile(root / f"{package}.py")


def _installed(package: str) -> Iterator[Path]:
    """Folders in which an installed distribution has the package, by its metadata: for installs in development mode."""
    import json
    from importlib.metadata import distributions  # which takes long, and is rarely needed

    for distribution in distributions():
        files = distribution.files or ()
        if any(file.parts[0] == package for file in files):
            yield Path(str(distribution.locate_file("")))
        text = distribution.read_text("direct_url.json")
        url = json.loads(text).get("url", "") if text else ""
        if url.startswith("file:"):
            root = Path(unquote(urlparse(url).path))
            yield from (root, root / "src")
