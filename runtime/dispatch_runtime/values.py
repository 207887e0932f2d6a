"""The small values that calls are made with."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

T = TypeVar("T")

LONGEST = 1e9
"""The longest timeout in seconds, thirty years: what waits in an engine or a socket counts no further."""

ParamId: TypeAlias = str
"""`<module ordinal in the context>:<qualified name>`; the first name for tied parameters."""


class ReduceOperation(enum.Enum):
    """How the contributions of the ranks become one."""

    SUM = "sum"
    MEAN = "mean"
    MIN = "min"
    MAX = "max"
    PRODUCT = "product"

    def __repr__(self) -> str:
        return self.name


class Checkpointing(enum.Enum):
    """What autograd keeps of the forward pass: all of it, or only the boundaries between a module's children."""

    DISABLED = "disabled"
    BALANCED = "balanced"

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class DistributedParams:
    """The mark of a parameter whose gradients are synchronised."""

    param_id: ParamId


@dataclass(frozen=True)
class DistributedConfig:
    """How a device group meets and reduces.

    `timeout` is in seconds, `1e9` at most, and holds for every operation that names none. `rendezvous` is an address
    (`tcp://host:port`, `file://path`, `env://`); None means torchrun's environment where that is set, else this
    process alone. `rank` and `world_size` count processes, and go with an explicit rendezvous.
    """

    all_reduce_op: ReduceOperation = ReduceOperation.MEAN
    timeout: float = 300.0
    rendezvous: str | None = None
    rank: int | None = None
    world_size: int | None = None
    agreement: Literal["always", "first", "off"] = "always"
    overlap: Literal["auto", "on", "off"] = "auto"
    shared_gradients: bool = False
    broadcast_buffers: bool = True


def expect(op: str, value: Any, kind: type[T]) -> T:
    """The value itself; a TypeError that names `op` and what it takes for a value of another type."""
    if isinstance(value, kind):
        return value
    choices = f", one of {', '.join(kind.__members__)}" if issubclass(kind, enum.Enum) else ""
    raise TypeError(f"{op} takes {_article(kind)}{choices}, not {type(value).__name__}")


def expect_all(op: str, values: Any, kind: type[T]) -> list[T]:
    """The values as a list; a TypeError as of `expect` for what is no list, and for a value of another type."""
    if isinstance(values, str | kind) or not isinstance(values, Iterable):
        raise TypeError(f"{op} takes a list, each {_article(kind)}, not {type(values).__name__}")
    return [expect(op, value, kind) for value in values]


def _article(kind: type[Any]) -> str:
    return f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"
