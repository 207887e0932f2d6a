"""The names in a piece of code, changed for those of other backends and methods."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from dispatchgen import _names as names


def renamed(code: str, rename: Callable[[str], str]) -> str:
    """The code with every word in it renamed."""
    return re.sub(r"\w+", lambda found: rename(found[0]), code)


def module_to(backend: str, other: str) -> Callable[[str], str]:
    """Every word that begins with the module of a backend begins with that of another one."""
    module, new = names.module_name(backend), names.module_name(other)
    return lambda word: new + word[len(module) :] if word == module or word.startswith(f"{module}_") else word


def method_to(method: str, other: str) -> Callable[[str], str]:
    """Every word that ends with a method ends with another one."""
    return lambda word: (
        word[: len(word) - len(method)] + other if word == method or word.endswith(f"_{method}") else word
    )


def lookalikes(all_names: Sequence[str], name: str) -> list[str]:
    """Another name of several, and all that end alike, which are most easily taken for it."""
    alike = [each for each in all_names if each != name and (each.endswith(f"_{name}") or name.endswith(f"_{each}"))]
    return list(dict.fromkeys([*alike, *filter(None, [next_name(all_names, name)])]))


def next_name(all_names: Sequence[str], name: str) -> str | None:
    """The name after another one."""
    left = [each for each in all_names if each != name]
    place = all_names.index(name) if name in all_names else 0
    return left[place % len(left)] if left else None
