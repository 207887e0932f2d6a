"""A revision of git as a folder: the settings of the project in it, and the spec files that they name."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from dispatchgen.cli._problem import Problem
from dispatchgen.cli._settings import table_of


def checked_out(revision: str, project: Path, into: Path) -> Path:
    """The folder below `into` that the project has there, with what was in it at the revision.

    Only what `diff` reads is written: settings, spec, template set, overlays; no link is followed, no filter run.
    Raises Problem where there is no git, no repository or no such revision.
    """
    commit = _git(project, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if commit is None:
        raise Problem(
            f"{revision} is neither a folder nor a revision that git knows here; "
            "in a shallow clone, fetch it first (fetch-depth: 0)"
        )
    prefix = (_git(project, "rev-parse", "--show-prefix") or b"").decode().strip()
    sha, folder = commit.decode().strip(), into / prefix
    _write(project, sha, [f"{prefix}pyproject.toml"], into)
    folder.mkdir(parents=True, exist_ok=True)
    _, table = table_of(folder)
    templates = table.get("templates", [])
    named = [table.get("spec", "spec"), *([templates] if isinstance(templates, str) else templates)]
    inside = (os.path.normpath(os.path.join(prefix, name)) for name in (*named, *table.get("overlays", [])))
    _write(project, sha, [path for path in inside if not path.startswith(("..", "/"))], into)
    return folder


def _write(project: Path, commit: str, paths: list[str], into: Path) -> None:
    """Write the plain files of a commit that are at these paths or below them."""
    listing = _git(project, "ls-tree", "-r", "-z", "--full-tree", commit, "--", *paths) if paths else b""
    found = [entry.partition("\t") for entry in os.fsdecode(listing or b"").split("\0") if entry]
    plain = [(about.split()[2], path) for about, _, path in found if about.startswith("100")]
    asked = "".join(f"{blob}\n" for blob, _ in plain).encode()
    contents = _blobs(_git(project, "cat-file", "--batch", given=asked) or b"") if plain else iter(())
    for (_, path), content in zip(plain, contents, strict=True):
        (into / path).parent.mkdir(parents=True, exist_ok=True)
        (into / path).write_bytes(content)


def _blobs(batch: bytes) -> Iterator[bytes]:
    """The contents that `git cat-file --batch` prints, each behind a line that ends in its size."""
    at = 0
    while at < len(batch):
        end = batch.index(b"\n", at)
        size = int(batch[at:end].rpartition(b" ")[2])
        yield batch[end + 1 : end + 1 + size]
        at = end + size + 2


def _git(folder: Path, *words: str, given: bytes | None = None) -> bytes | None:
    """What git prints, or None where it refuses. Raises Problem where there is none."""
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], input=given, capture_output=True, check=False)
    except OSError as cause:
        raise Problem(f"git cannot be run, so there are no revisions to compare: {cause.strerror}") from None
    return done.stdout if done.returncode == 0 else None
