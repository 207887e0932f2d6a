"""Any text as a piece of Python that means exactly that text, and nothing else.

What comes out is the same on every Python: only characters of Unicode 3.2, which all carry, are left as they are.
"""

from __future__ import annotations

import re
import textwrap
from math import isfinite
from unicodedata import ucd_3_2_0

WIDTH = 100
"""The column at which docstrings, comments and running text wrap, between words only."""

_DIRECTIVE = re.compile(
    r"\s*(?:(?:fmt|yapf|type|ruff|mypy|pyright|pylint|isort|pragma|noqa|flake8)\b|.*coding[:=]|!)", re.I
)


def py(value: object) -> str:
    """The literal of a str, number, bool, None, or of a tuple or list of them, which `ast.literal_eval` gives back.

    Raises TypeError for anything else.
    """
    match value:
        case str():
            quote = "'" if '"' in value and "'" not in value else '"'
            return quote + _escape(value, "\\" + quote) + quote
        case bool() | int() | None:
            return repr(value)
        case float() if isfinite(value):
            return repr(value)
        case tuple():
            return f"({', '.join(map(py, value))}{',' if len(value) == 1 else ''})"
        case list():
            return f"[{', '.join(map(py, value))}]"
    raise TypeError(f"a {type(value).__name__} has no literal: `py` takes str, numbers, bool, None, tuple and list")


def docstring(text: str, indent: int = 0) -> str:
    """The docstring of a text, quotes included, for code that is indented by `indent` spaces.

    `inspect.getdoc` gives the words of the text back; paragraphs longer than a line are wrapped.
    """
    body = "\n".join(_wrapped(_escape(line, "\\").rstrip(), WIDTH - indent) for line in text.strip().split("\n"))
    if body.endswith('"'):
        body = body[:-1] + r"\x22"  # the formatter would set a quote beside the quotes off with a blank
    if body.startswith('"'):
        body = r"\x22" + body[1:]
    body = body.replace('"""', r"\"\"\"")
    margin = "\n" + " " * indent
    inner = re.sub(r"(?m)^ +$", "", body.replace("\n", margin))
    closing = margin if "\n" in body else ""
    return f'"""{inner}{closing}"""'


def comment(text: str, indent: int = 0) -> str:
    """The text as comment lines, wrapped; what a tool would take for an instruction to it is set off by a bar."""
    room = WIDTH - indent - len("# | ")
    lines = [piece for line in text.strip().split("\n") for piece in _wrapped(_escape(line, ""), room).split("\n")]
    marked = [("# | " if _DIRECTIVE.match(line) else "# ") + line for line in lines]
    return ("\n" + " " * indent).join(line.rstrip(" ") for line in marked)


def comma(text: str) -> str:
    """The text as what follows in a list: behind a comma, or nothing where there is no text."""
    return f", {text}" if text else ""


def wrap(text: str, indent: int = 0, width: int = WIDTH) -> str:
    """The text with its lines wrapped between words; every line after the first is indented."""
    wrapped = "\n".join(_wrapped(line, width - indent) for line in text.split("\n"))
    return wrapped.replace("\n", "\n" + " " * indent)


def _wrapped(line: str, width: int) -> str:
    """One line as several where it is too long, each with the white space that the line started with."""
    lead = line[: len(line) - len(line.lstrip(" "))]
    if len(line) <= width:
        return line
    wrapped = textwrap.wrap(
        line,
        max(width, 20),
        subsequent_indent=lead,
        break_long_words=False,
        break_on_hyphens=False,
        expand_tabs=False,
    )
    return "\n".join(wrapped)


def _escape(text: str, special: str) -> str:
    """The text with a backslash before each special character, and every unprintable one as an escape sequence."""
    if text.isascii() and text.isprintable() and not set(special) & set(text):
        return text
    return "".join("\\" + char if char in special else char if _prints(char) else _sequence(char) for char in text)


def _prints(char: str) -> bool:
    return " " <= char <= "~" or (char > "~" and char.isprintable() and ucd_3_2_0.category(char)[0] not in "CZ")


def _sequence(char: str) -> str:
    simple = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}.get(char)
    code = ord(char)
    return simple or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
