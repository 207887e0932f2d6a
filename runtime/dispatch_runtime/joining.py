"""Uneven inputs: ranks that run out of batches keep the others company until all have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeAlias

from dispatch_runtime import contexts
from dispatch_runtime.replicas import backward_of, give_values
from dispatch_runtime.syncs import sync_of

if TYPE_CHECKING:
    from dispatch_runtime.context import DistributedContext

DivideBy: TypeAlias = Literal["size", "active"]


@contextmanager
def join(context: DistributedContext, divide_by: DivideBy) -> Iterator[None]:
    """A block that ends on all ranks together, however many backward passes each has in it."""
    device = contexts.acting_in(context, "join")
    sync = sync_of(device)
    parameters = backward_of(device).parameters
    with parameters.apart(), sync.joined(divide_by):
        yield
        while sync.keep_company():
            pass
        if sync.active != sync.communicator.members:
            give_values(device, parameters.state(context.config.broadcast_buffers), root=max(sync.active))
