"""The manifest of a generated package: what each of its files was made from, and the hash that proves it untouched.

This module imports nothing heavy, so that comparing hashes stays cheap.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatchgen._place import place
from dispatchgen.digests import sha256, template_digest
from dispatchgen.findings import Finding, error
from dispatchgen.tools import GENERATOR, version_of

if TYPE_CHECKING:
    from dispatchgen.features import Build
    from dispatchgen.format import FormattedFile
    from dispatchgen.selection import Selection

NAME = "MANIFEST.json"


@dataclass(frozen=True)
class FileRecord:
    """What one generated file was made from. Hashes are SHA-256, in hexadecimal."""

    template: str
    template_sha256: str
    """Of the template and the templates that it takes in."""
    spec: str
    """Of the part of the spec that the file depends on."""
    rendered: str
    """Of the text before formatting."""
    sha256: str
    """Of the bytes of the file."""


@dataclass(frozen=True)
class Manifest:
    """What a generated package was made with, and from."""

    generator: str
    """Name and version of the generator."""
    black: str
    """The version of the formatter."""
    jinja2: str
    """The version of what renders templates."""
    features: tuple[str, ...]
    """Every feature that is on, sorted, but for `default`, which only stands for others."""
    asked: tuple[str, ...]
    """The features that were asked for by name, sorted."""
    default: bool
    """Whether the default features were taken too."""
    all: bool
    """Whether all features were taken."""
    files: Mapping[str, FileRecord]

    @property
    def tools(self) -> tuple[str, ...]:
        """Each tool with its version."""
        return self.generator, f"black {self.black}", f"jinja2 {self.jinja2}"

    def __str__(self) -> str:
        return _dumps(self)


def manifest_of(
    files: Iterable[FormattedFile], templates: Sequence[Path], build: Build, selection: Selection
) -> Manifest:
    """The manifest of a package that consists of these files. Raises OSError where a template cannot be read.

    `templates` are the folders in which templates are looked for, in this order.
    """
    digests: dict[str, str] = {}
    records = {}
    for file in files:
        if file.template not in digests:
            digests[file.template] = template_digest(templates, file.template)
        records[file.path] = FileRecord(
            template=file.template,
            template_sha256=digests[file.template],
            spec=file.digest,
            rendered=file.rendered,
            sha256=sha256(file.text),
        )
    return Manifest(
        generator=GENERATOR,
        black=version_of("black"),
        jinja2=version_of("jinja2"),
        features=build.flags,
        asked=tuple(sorted(selection.features)),
        default=selection.default,
        all=selection.all,
        files=records,
    )


def is_inside(path: str) -> bool:
    """Whether a posix path stays in the package folder and names a file that a template may become there.

    Names that start with a dot and the manifest's own are kept back.
    """
    odd = any(part == "" or part.startswith(".") for part in path.split("/"))
    return not odd and not set(path) & set("\\:\0") and path != NAME


def read(path: Path, shown: str) -> tuple[Manifest | None, tuple[Finding, ...]]:
    """The manifest at `path`, or None where there is none or where it is damaged, which is a finding too.

    `shown` is how messages name the file. Raises OSError where a manifest is there and cannot be read.
    """
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None, ()
    try:
        return _loads(json.loads(content.decode())), ()
    except json.JSONDecodeError as cause:
        return None, (_damaged(shown, f"it is not JSON: {cause.msg}", cause.lineno, cause.colno),)
    except UnicodeDecodeError:
        return None, (_damaged(shown, "it is not UTF-8 text"),)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as cause:
        return None, (_damaged(shown, f"it does not have the form of a manifest ({type(cause).__name__}: {cause})"),)


def _damaged(shown: str, problem: str, line: int = 1, column: int = 1) -> Finding:
    return error(
        "DG708",
        f"the manifest cannot be read: {problem}",
        place(shown, line, column),
        fix="restore it from version control, or run `dispatchgen generate --force`, which overwrites every generated file",
    )


def _dumps(manifest: Manifest) -> str:
    value = {
        "generator": manifest.generator,
        "black": manifest.black,
        "jinja2": manifest.jinja2,
        "features": list(manifest.features),
        "selection": {"features": list(manifest.asked), "default": manifest.default, "all": manifest.all},
        "files": {path: vars(record) for path, record in sorted(manifest.files.items())},
    }
    return json.dumps(value, indent=2, ensure_ascii=True) + "\n"


def _loads(value: Any) -> Manifest:
    """The manifest that the values say. What another version of the generator says beside them is left aside."""
    files = {}
    for path, record in value["files"].items():
        if not is_inside(path):
            raise ValueError(f"{path!r} is not a path inside the package")
        files[path] = FileRecord(**{each.name: _text(record[each.name]) for each in fields(FileRecord)})
    return Manifest(
        generator=_text(value["generator"]),
        black=_text(value["black"]),
        jinja2=_text(value.get("jinja2", "unknown")),
        features=tuple(_text(name) for name in value["features"]),
        asked=tuple(_text(name) for name in value["selection"]["features"]),
        default=_flag(value["selection"]["default"]),
        all=_flag(value["selection"]["all"]),
        files=files,
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value
