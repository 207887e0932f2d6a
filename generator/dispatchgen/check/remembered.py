"""What the checks found the last time, for as long as nothing that they look at is another.

Generated code is told by its bytes. What kernels depend on shows only in reading them: every module that was looked
for, and every file that was read, is remembered with what was found.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dispatchgen.check.folders import Folders
from dispatchgen.digests import sha256
from dispatchgen.findings import Finding, from_json, to_json

if TYPE_CHECKING:
    from dispatchgen.cache import Cache


def in_code(
    cache: Cache, spec: str, folder: Path, files: Mapping[str, bytes], find: Callable[[], Iterable[Finding]]
) -> tuple[Finding, ...]:
    """What `find` finds in generated files, where it did not find it in the same before.

    `spec` stands for all else that it depends on.
    """
    key = _key("code", spec, str(folder), {path: sha256(content) for path, content in sorted(files.items())})
    if (known := cache.get(key)) is not None:
        return tuple(map(from_json, json.loads(known)))
    found = tuple(find())
    cache.put(key, json.dumps([*map(to_json, found)]))
    return found


def in_kernels(
    cache: Cache, spec: str, roots: tuple[Path, ...], find: Callable[[], tuple[Iterable[Finding], Folders]]
) -> tuple[Finding, ...]:
    """What `find` finds in the modules of kernels, where it did not find it in the same before.

    `spec` stands for all that it depends on apart from modules; it gives back the folders too in which it looked.
    """
    key = _key("kernels", spec, [str(root.absolute()) for root in roots])
    if (known := cache.get(key)) is not None:
        seen = json.loads(known)
        if _as_then(seen, Folders(roots)):
            return tuple(map(from_json, seen["found"]))
    findings, folders = find()
    found = tuple(findings)
    seen = {
        "places": {name: _text(place) for name, place in folders.places.items()},
        "hashes": {str(file): digest for file, digest in folders.hashes.items()},
        "found": [*map(to_json, found)],
    }
    cache.put(key, json.dumps(seen))
    return found


def _as_then(seen: Mapping[str, Mapping[str, str | None]], folders: Folders) -> bool:
    """Whether every module still lies where it lay, and every file holds what it held."""
    return all(_text(folders.locate(name)) == place for name, place in seen["places"].items()) and all(
        folders.digest(Path(file)) == digest for file, digest in seen["hashes"].items()
    )


def _text(place: Path | None) -> str | None:
    return None if place is None else str(place)


def _key(kind: str, *facts: object) -> str:
    return sha256(json.dumps([kind, sys.version, *facts]))  # every Python has a grammar of its own
