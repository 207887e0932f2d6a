"""The schemas as they lie in the folder of a spec, and whether they are what they would be now."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pydantic

from dispatchgen._place import place
from dispatchgen._shape import shown
from dispatchgen.cache import Cache, NoCache
from dispatchgen.digests import sha256
from dispatchgen.findings import Finding, error
from dispatchgen.tools import fingerprint

if TYPE_CHECKING:
    from dispatchgen.template_set import TemplateSet

FOLDER = "schema"
"""In the spec folder."""


def outdated(template_set: TemplateSet, spec: Path, cache: Cache | None = None) -> tuple[str, ...]:
    """The schemas that are missing in the spec's folder, or are not what they would be now."""
    texts = _remembered(template_set, cache or NoCache())
    return tuple(name for name, text in texts.items() if _on_disk(spec / FOLDER / name) != text)


def _remembered(template_set: TemplateSet, cache: Cache) -> dict[str, str]:
    """The schemas, from the cache where it has those of this `set.yaml`: pydantic takes its time to tell them."""
    declared = sha256((template_set.folder / "set.yaml").read_bytes())
    key = sha256(f"schemas\n{fingerprint()}\n{pydantic.VERSION}\n{sys.version}\n{declared}")
    if (known := cache.get(key)) is not None:
        texts: dict[str, str] = json.loads(known)
        return texts
    from dispatchgen.schema import schemas

    made = schemas(template_set)
    cache.put(key, json.dumps(made))
    return made


def stale(template_set: TemplateSet, spec: Path, cache: Cache | None = None) -> tuple[Finding, ...]:
    """A finding for each of the outdated schemas."""
    return tuple(
        error(
            "DG718",
            f"{name} {'is not what the format and the template set make of it now' if path.exists() else 'is missing'}",
            place(shown(path)),
            fix="run `dispatchgen schema`",
        )
        for name in outdated(template_set, spec, cache)
        for path in [spec / FOLDER / name]
    )


def _on_disk(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
