"""Data-parallel modules: the gradients that a backward pass leaves behind are those of all replicas together."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import torch

if TYPE_CHECKING:
    from dispatch_runtime.context import DistributedContext

ModuleT = TypeVar("ModuleT", bound=torch.nn.Module)


def distribute(module: ModuleT, context: DistributedContext) -> ModuleT:
    """The module itself, as this device's replica of one module that all devices of the group train.

    Every replica gets rank 0's parameters and, unless the config says otherwise, buffers. From then on each
    `backward()` leaves in `.grad` the reduction (`config.all_reduce_op`) of what the replicas accumulated since the
    last sync, outside of `context.no_sync()`. Parameters that a replica did not use count as zero; one that no replica
    used keeps its gradient. `torch.autograd.grad` stays local. On a device with balanced checkpointing the children of
    the module are recomputed in the backward pass.

    All devices call it, once per replica and in the same order of modules; inside `context.run` where a process has
    several devices. Raises `disagreement` on every rank where the modules differ, `parameters_changed` for a module
    that an open context has distributed already, `unplaced` where the device cannot be known.
    """
    from dispatch_runtime.replicas import replicate  # whoever does not train does not import what training takes

    replicate(module, context)
    return module
