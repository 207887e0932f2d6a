"""What a package is to be made from, without rendering a template, and without parsing a spec that is known.

Imports next to nothing: this is what runs before every commit.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dispatchgen.digests import template_digest
from dispatchgen.findings import Finding, from_json, to_json
from dispatchgen.manifest import FileRecord, Manifest
from dispatchgen.tools import GENERATOR, fingerprint, installed

if TYPE_CHECKING:
    from dispatchgen.selection import Selection


@dataclass(frozen=True)
class Expected:
    """What a spec makes of a package, as far as it can be told before anything is rendered."""

    package: str
    features: tuple[str, ...]
    files: Mapping[str, tuple[str, str]]
    """By path: the template, and the digest of the part of the spec that the file depends on."""
    findings: tuple[Finding, ...]
    """What is wrong with the spec, short of errors."""

    def __str__(self) -> str:
        return json.dumps({**vars(self), "findings": [to_json(finding) for finding in self.findings]})


def expected(text: str) -> Expected:
    """The value that `str` made the text of."""
    value = json.loads(text)
    return Expected(
        package=value["package"],
        features=tuple(value["features"]),
        files={path: (template, digest) for path, (template, digest) in value["files"].items()},
        findings=tuple(map(from_json, value["findings"])),
    )


def spec_key(
    spec: Path, template_set: Path, overlays: Iterable[Path], package: str | None, selection: Selection
) -> str | None:
    """A hash of all that decides what is expected, or None where a file cannot be read.

    The modules of the generator count too, and the folders from which messages name files.
    """
    found = (*sorted(spec.glob("*.y*ml")), *sorted(spec.glob("*/*.y*ml")), template_set / "set.yaml", *overlays)
    facts = (fingerprint(), os.getcwd(), str(spec), str(template_set), package, repr(selection))
    digest = hashlib.sha256(json.dumps(facts).encode())
    try:
        if not all(path.is_file() for path in found):  # a pipe would be waited for
            return None
        for path in found:
            digest.update(json.dumps([str(path), hashlib.sha256(path.read_bytes()).hexdigest()]).encode())
    except OSError:
        return None
    return digest.hexdigest()


def manifest(expected: Expected, folders: Sequence[Path], selection: Selection, written: Manifest | None) -> Manifest:
    """The manifest that a package would have now if every file still became what the written manifest says.

    The versions of black and jinja2 count where they are installed. `folders` are where templates are looked for.
    """
    digests = {template: _digest(folders, template) for template, _ in expected.files.values()}
    known = written.files if written else {}
    records = {}
    for path, (template, spec) in expected.files.items():
        then = known.get(path)
        made = (then.rendered, then.sha256) if then else ("", "")
        records[path] = FileRecord(template, digests[template], spec, *made)
    return Manifest(
        generator=GENERATOR,
        black=installed("black") or (written.black if written else ""),
        jinja2=installed("jinja2") or (written.jinja2 if written else ""),
        features=expected.features,
        asked=tuple(sorted(selection.features)),
        default=selection.default,
        all=selection.all,
        files=records,
    )


def _digest(folders: Sequence[Path], template: str) -> str:
    try:
        return template_digest(folders, template)
    except OSError:
        return ""  # it is not there: nothing was ever made from what it is now
