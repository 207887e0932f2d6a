"""The small values that calls are made with."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal, TypeAlias

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

    `timeout` is in seconds and holds for every operation that names none. `rendezvous` is an address
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
