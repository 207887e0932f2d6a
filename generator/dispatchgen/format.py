"""Formatted text: black in process, with settings of our own and a cache by content.

black is by far the slowest part of generating, so it is imported for what the cache does not have, and only then.
Its Python API is not a promise: this module is the only one that touches it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from dispatchgen._garbage import no_collection
from dispatchgen.cache import Cache
from dispatchgen.digests import sha256
from dispatchgen.findings import Finding, error
from dispatchgen.render import RenderedFile, keep
from dispatchgen.tools import black_version

LINE_LENGTH = 120
TARGETS = ("PY311", "PY312", "PY313")
WORTHWHILE = 200
"""Lines from which on a text is formatted in pieces."""


@dataclass(frozen=True)
class FormattedFile:
    """A file as it goes to disk, and what it was made from."""

    path: str
    template: str
    digest: str
    rendered: str
    """The SHA-256 of the text before formatting."""
    text: str


def format_files(files: Iterable[RenderedFile], cache: Cache) -> tuple[tuple[FormattedFile, ...], tuple[Finding, ...]]:
    """The files with their Python formatted, and a finding for each that black refuses. Other files stay as they are."""
    formatted, findings = [], []
    salt = f"{black_version()}\n{LINE_LENGTH}\n{','.join(TARGETS)}\n"
    with no_collection():  # black's trees make it cost more than half of the time again
        for file in files:
            text = file.text
            if file.path.endswith(".py"):
                key = sha256(salt + file.text)
                known = cache.get(key)
                if known is None:
                    try:
                        known = _in_pieces(file.text, salt, cache)
                    except Exception as cause:  # black documents no exception: whatever it raises is about this text
                        findings.append(_refused(file, cause))
                        continue
                    cache.put(key, known)
                text = known
            formatted.append(FormattedFile(file.path, file.template, file.digest, sha256(file.text), text))
    return tuple(formatted), tuple(findings)


def _in_pieces(text: str, salt: str, cache: Cache) -> str:
    """The formatted text. Of a long one, each piece is looked up, so that one function more costs one function."""
    pieces = _pieces(text) if text.count("\n") > WORTHWHILE else [text]
    if len(pieces) == 1:
        return _black(text)
    formatted = []
    for piece in pieces:
        key = sha256(salt + piece)
        known = cache.get(key)
        if known is None:
            known = _black(piece)
            cache.put(key, known)
        formatted.append(known.rstrip("\n"))
    return "\n\n\n".join(formatted) + "\n"


def _pieces(text: str) -> list[str]:
    """The text, cut before functions and classes where black formats neither side with the other in mind.

    That is behind two blank lines: they stay two, unless a comment or the module's docstring stands before them.
    """
    lines = text.splitlines(keepends=True)
    if "fmt:" in text or len(lines) != text.count(
        "\n"
    ):  # a comment may rule over what follows; `\r`, `\f` and the like
        return [text]
    body = ast.parse(text).body
    cuts = [0]
    for previous, statement in pairwise(body):
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        start = min(node.lineno for node in (statement, *statement.decorator_list)) - 1
        above = [line.strip() for line in lines[previous.lineno - 1 : start]]
        told = next(line for line in reversed(above) if line)
        if above[-2:] == ["", ""] and not told.startswith("#") and not _is_docstring(previous, body):
            cuts.append(start)
    return ["".join(lines[start:end]) for start, end in pairwise([*cuts, len(lines)])]


def _is_docstring(statement: ast.stmt, body: list[ast.stmt]) -> bool:
    return statement is body[0] and isinstance(statement, ast.Expr)


def _black(text: str) -> str:
    import black
    from black.mode import TargetVersion

    mode = black.Mode(line_length=LINE_LENGTH, target_versions={TargetVersion[name] for name in TARGETS})
    return black.format_str(text, mode=mode)


def _refused(file: RenderedFile, cause: Exception) -> Finding:
    return error(
        "DG703",
        f"black cannot format {file.path}, rendered from {file.template}: {cause}",
        keep(file),
        fix=f"change {file.template} so that it renders Python that black {black_version()} understands",
    )
