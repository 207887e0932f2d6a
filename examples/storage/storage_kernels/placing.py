"""From what people write to stores, keys and bytes; each refused with what was meant instead."""

from __future__ import annotations

import re
from typing import NoReturn

from storage_kernels.package import BackendSupport, Package
from storage_kernels.store import CACHED, unknown

_PART = r"[^/\\\0.][^/\\\0]*"
_KEY = re.compile(rf"{_PART}(?:/{_PART})*")


def named(package: Package, op: str, like: object) -> tuple[BackendSupport, str, bool]:
    """The backend, the place and whether there is a cache, of a text such as `folder:notes`.

    Raises `UnknownStore`, `NotBuilt` for a backend that this build leaves out, and TypeError for what is no text.
    """
    if not isinstance(like, str):
        raise TypeError(f"{op} takes a store of {package.name} or a text such as 'folder:notes', not {like!r}")
    scheme, colon, place = like.partition(":")
    cached = scheme.startswith(CACHED)
    scheme = scheme.removeprefix(CACHED)
    if not colon:
        raise unknown(package, op, repr(like), "there is no colon in it")
    for backend in package.backends.values():
        if backend.scheme == scheme:
            if not backend.built:
                raise package.not_built(op, backend)
            return backend, place, cached
    raise unknown(package, op, repr(like), f"no entry of the catalog has the scheme {scheme!r}")


def is_key(text: object) -> bool:
    """Whether the text can be a key: parts between slashes, none empty or beginning with a dot."""
    return (
        isinstance(text, str) and _KEY.fullmatch(text) is not None and not any("\ud800" <= c <= "\udfff" for c in text)
    )


def as_key(package: Package, op: str, key: object) -> str:
    """The key itself. Raises `BadKey`, and TypeError for what is no text."""
    text = as_text(op, key)
    if not is_key(text):
        problem = "a part of it is empty, begins with a dot, or has a character that not every store can keep"
        raise package.errors.make("bad_key", op, repr(text), problem=problem)
    return text


def as_text(op: str, text: object) -> str:
    """The text itself. Raises TypeError."""
    if not isinstance(text, str):
        raise TypeError(f"{op} takes a text here, not {text!r}")
    return text


def as_bytes(op: str, data: object) -> bytes:
    """The bytes, copied where the caller could change them. Raises TypeError."""
    if not isinstance(data, bytes | bytearray | memoryview):
        hint = "; call .encode() on a text" if isinstance(data, str) else ""
        raise TypeError(f"{op} takes bytes, not {type(data).__name__}{hint}")
    return bytes(data)


def as_size(op: str, size: object) -> int:
    """The size itself, in bytes. Raises TypeError and ValueError."""
    if not isinstance(size, int) or isinstance(size, bool):
        raise TypeError(f"{op} takes a number of bytes, not {size!r}")
    if size < 0:
        raise ValueError(f"{op} takes a number of bytes, and {size} is below zero")
    return size


def missing_attribute(package: Package, module: str, name: str) -> NoReturn:
    """Raise `NotBuilt` for a backend that this build leaves out, AttributeError for everything else."""
    backend = package.backends.get(name)
    if backend is not None and not backend.built:
        raise package.not_built("import", backend)
    raise AttributeError(f"module {module!r} has no attribute {name!r}")
