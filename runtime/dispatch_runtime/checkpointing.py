"""Balanced checkpointing: of the forward pass only the inputs of a module's children are kept, the rest is recomputed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

_CONTAINERS = (torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ModuleDict)


class Recomputed:
    """The forward of a child that runs again in the backward pass, with the same random numbers."""

    def __init__(self, child: torch.nn.Module) -> None:
        self._child = child
        self._forward = child.forward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the child's own forward gives."""
        if not torch.is_grad_enabled():
            return self._forward(*args, **kwargs)
        if next(self._child.buffers(), None) is None:
            return checkpoint(self._forward, *args, use_reentrant=False, **kwargs)
        return checkpoint(self._forward, *args, use_reentrant=False, context_fn=self._contexts, **kwargs)

    def _contexts(self) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), _kept_buffers(self._child)


@contextmanager
def _kept_buffers(module: torch.nn.Module) -> Iterator[None]:
    """Statistics such as batch norm's count a batch once, however often it is computed."""
    before = [(buffer, buffer.detach().clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        for buffer, value in before:
            buffer.data.copy_(value)


def balance(module: torch.nn.Module) -> None:
    """Have the children of the module recomputed in its backward passes; those of containers one by one."""
    for child in _blocks(module):
        if not isinstance(child.__dict__.get("forward"), Recomputed):
            child.forward = Recomputed(child)


def unbalance(module: torch.nn.Module) -> None:
    """Undo `balance`."""
    for child in module.modules():
        if isinstance(child.__dict__.get("forward"), Recomputed):
            del child.forward


def _blocks(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    for child in module.children():
        if isinstance(child, _CONTAINERS):
            yield from _blocks(child)
        else:
            yield child
