"""The versions of the tools that generated files are made with."""

from __future__ import annotations

import hashlib
import os
import sys
from functools import cache
from pathlib import Path

from dispatchgen import __version__

GENERATOR = f"dispatchgen {__version__}"


def version_of(tool: str) -> str:
    """The version of a tool that is needed. Raises PackageNotFoundError where none is installed."""
    found = installed(tool)
    if found is None:
        from importlib.metadata import version

        return version(tool)
    return found


def black_version() -> str:
    """The version of black that formats. Raises PackageNotFoundError where none is installed."""
    return version_of("black")


def installed(tool: str) -> str | None:
    """The version of a tool on Python's path, or None where there is none.

    Read from the name of its metadata folder: importlib.metadata takes three times as long to import as all that
    comparing hashes needs.
    """
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            if name.lower().startswith(f"{tool}-") and name.endswith(".dist-info"):
                return name[len(tool) + 1 :].removesuffix(".dist-info")
    return None


@cache
def fingerprint() -> str:
    """The SHA-256 over the modules of the generator: what is remembered about its results holds as long as it does."""
    digest = hashlib.sha256()
    package = Path(__file__).parent
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()
