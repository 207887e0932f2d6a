"""How names of the catalog become names in Python: the only place that knows."""

from __future__ import annotations

import builtins
import keyword
import re
import sys

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_CLASS_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
_DEVICES = re.compile(r"con|prn|aux|nul|(com|lpt)[0-9]")
_LONGEST = 100
BUILTINS = frozenset(dir(builtins))


def module_name(backend: str) -> str:
    """The module of a backend: its name in lower case (`BigIron` -> `bigiron`)."""
    return backend.lower()


def constant_name(name: str) -> str:
    """The constant that stands for a backend or a runtime: its name in upper case (`BigIron` -> `BIGIRON`).

    What cannot stand in a name of Python becomes `_`, behind `N_` where no letter begins it (`2.5-d` -> `N_2_5_D`).
    """
    constant = re.sub("[^A-Z0-9_]", "_", name.upper())
    return constant if constant[:1].isalpha() else f"N_{constant}"


def family_module(family: str) -> str:
    """The module of a family: words in lower case, a trailing `Ops` dropped (`SideToSideOps` -> `side_to_side`)."""
    stem = family.removesuffix("Ops") or family
    return _WORD_START.sub("_", stem).lower()


def class_name(op: str) -> str:
    """The class named after an operation (`turn_around` -> `TurnAround`)."""
    return "".join(word[:1].upper() + word[1:] for word in op.split("_"))


def unusable(name: str, reserved: frozenset[str] = frozenset(), builtins: frozenset[str] = BUILTINS) -> str | None:
    """Why the name cannot be one in generated Python code, or None where it can."""
    if not (name.isascii() and name.isidentifier()):
        return "is no ASCII identifier"
    if name.startswith("_"):
        return "begins with an underscore"
    if keyword.iskeyword(name):
        return "is a keyword of Python"
    if name in builtins:
        return "is a builtin of Python"
    if name in reserved:
        return "is a name that the generated modules use themselves"
    return None


def unusable_module(module: str) -> str | None:
    """Why a module cannot be called so although the name that it comes from can be used, or None where it can."""
    if keyword.iskeyword(module):
        return f"becomes the module `{module}`, which is a keyword of Python"
    return _unusable_file(module)


def _unusable_file(stem: str) -> str | None:
    """Why no file or folder can be called so, on whatever system the package is used."""
    if _DEVICES.fullmatch(stem.lower()):
        return f"becomes a file `{stem}`, which is a device on Windows"
    return f"is longer than {_LONGEST} characters" if len(stem) > _LONGEST else None


def is_class_path(text: str) -> bool:
    """Whether the text is of the form `package.module:Class`, with names that Python can import."""
    return bool(_CLASS_PATH.fullmatch(text)) and not any(map(keyword.iskeyword, re.split("[.:]", text)))


def unusable_package(name: str, reserved: frozenset[str] = frozenset()) -> str | None:
    """Why the name cannot be that of the generated package, or None where it can."""
    if name in sys.stdlib_module_names:
        return "is a module of Python's standard library"
    return unusable(name, reserved) or _unusable_file(name)
