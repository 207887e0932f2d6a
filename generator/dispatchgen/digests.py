"""Hashes of text and of templates."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

_REFERENCE = re.compile(r"""\{%[-+]?\s*(?:include|import|extends|from)\s+["']([^"']+)["']""")


def sha256(content: str | bytes) -> str:
    """The SHA-256 of a text (as UTF-8) or of bytes, in hexadecimal."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def template_path(folders: Sequence[Path], name: str) -> Path:
    """Where a template lies: in the first of the folders that has it, else where the last one would have it."""
    return next((path for folder in folders if (path := folder / name).is_file()), folders[-1] / name)


def template_sources(folders: Sequence[Path], name: str) -> dict[str, bytes]:
    """The template and, by name, every one that it names in include, import, from or extends, and so on.

    Raises OSError where the template itself cannot be read. One that is only referred to counts as empty where it is
    not there: rendering says what is wrong with it.
    """
    sources = {name: _read(template_path(folders, name))}
    left = [name]
    while left:
        for reference in _REFERENCE.findall(sources[left.pop()].decode(errors="replace")):
            if reference not in sources:
                path = template_path(folders, reference)
                sources[reference] = _read(path) if path.is_file() else b""
                left.append(reference)
    return sources


def _read(path: Path) -> bytes:
    """The template, with line ends as Jinja sees them: version control may have changed them."""
    return path.read_bytes().replace(b"\r\n", b"\n")


def template_digest(folders: Sequence[Path], name: str) -> str:
    """The hash of a template and of all that it takes in. Raises OSError like `template_sources`."""
    sources = template_sources(folders, name)
    return sha256(b"\0".join(part for each in sorted(sources) for part in (each.encode(), sources[each])))
