"""Whether an error arm says what it has to: the op, who, why, what helps, and the features that would."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any

from tests.feature_space.reader import Spec


def unsaid(error: Any, spec: Spec, op: str, backend: str, runtime: str | None, *, placed: bool) -> str | None:
    """What an error arm fails to say, or None: the op, who, why, what helps, and the features that would."""
    text = str(error)
    said = {
        "op": not placed or (error.op == op and op in text),  # where a device cannot even be named, no op was reached
        "device": backend in text and bool(error.subject),
        "reason": bool(error.reason) and error.reason in text,
        "help": bool(error.help) and error.help in text,
        "code": error.code in text,
    }
    if error.entry.situation == "not_built":
        wrapper = not error.fields["backend"].startswith(backend)

        def there(build: Spec) -> bool:
            return build.wrapped if wrapper else build.built(backend, runtime)

        named = features_of(error.help)
        said["features"] = there(spec.with_features(named)) if named else not any(map(there, larger(spec)))
    unsaid = [name for name, there in said.items() if not there]
    return f"{type(error).__name__} does not say its {', '.join(unsaid)}: {text}" if unsaid else None


def larger(spec: Spec) -> Iterator[Spec]:
    """The catalog for every set of features that has more than this one."""
    off = [name for name in spec.catalog["features"] if name not in spec.on and name != "default"]
    for size in range(1, len(off) + 1):
        for added in combinations(off, size):
            yield spec.with_features((*spec.on, *added))


def features_of(command: str) -> tuple[str, ...]:
    """The features that a command generates with; none where it is no such command."""
    match = re.search(r"--no-default-features --features ([A-Za-z0-9_+.,-]+)", command)
    return tuple(match[1].split(",")) if match else ()
