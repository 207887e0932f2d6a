"""The usual sync: the same gradients as in an earlier one, dense, and looking as they did. Most steps are like that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from dispatch_runtime.accumulated import AccumulatedGradient
from dispatch_runtime.gradient_buckets import Line
from dispatch_runtime.gradient_forms import Plan
from dispatch_runtime.gradient_parts import Cargo
from dispatch_runtime.values import ParamId

Looks = tuple[list[Any], ...]
"""What tensors look like: for each thing that counts a list of what they have."""


@dataclass(frozen=True)
class Routine:
    """What one sync found, so that a later one can tell at a glance that it is the same.

    `refs` and `plan` are in the order of ids. `used` are those of the gradients that had something new, `at` their
    positions, and `looks` what these gradients, and the `idle` parameters, looked like. `lines` are those of the buckets,
    by their first position.
    """

    registered: frozenset[ParamId]
    refs: Sequence[tuple[AccumulatedGradient]]
    used: Sequence[AccumulatedGradient]
    at: Sequence[int]
    idle: Sequence[torch.Tensor]
    looks: tuple[Looks, Looks]
    plan: Plan
    lines: dict[int, Line] = field(default_factory=dict)

    @classmethod
    def of(
        cls, registered: Iterable[ParamId], refs: Sequence[AccumulatedGradient], plan: Plan, place: torch.device
    ) -> Routine | None:
        """The routine that a sync with these gradients begins; None where one of them is not a usual one."""
        at = [place for place, ref in enumerate(refs) if ref.fresh]
        used = [refs[place] for place in at]
        gradients = [ref.base.grad for ref in used]
        for ref, grad in zip(used, gradients, strict=True):
            if grad is None or ref.borrowed or ref.shared is not None:
                return None
            if grad.layout is not torch.strided or grad.requires_grad or grad.device != place:
                return None
            if grad.is_conj() or grad.is_neg():
                return None
        known = [grad for grad in gradients if grad is not None]
        idle = [ref.base for ref in refs if not ref.fresh]
        looks = _looks(known), _looks(idle)
        return cls(frozenset(registered), [(ref,) for ref in refs], used, at, idle, looks, plan)

    def cargo(self, registered: set[ParamId]) -> Cargo | None:
        """What travels, if this sync, of the same gradients, is like that one."""
        if registered != self.registered or any(ref.borrowed or ref.shared is not None for ref in self.used):
            return None
        gradients = [grad for ref in self.used if (grad := ref.base.grad) is not None]
        if len(gradients) != len(self.used) or (_looks(gradients), _looks(self.idle)) != self.looks:
            return None
        if not self.idle:
            return Cargo(gradients, gradients, self.refs, self.lines)
        brought: list[torch.Tensor | None] = [None] * len(self.refs)
        for at, grad in zip(self.at, gradients, strict=True):
            brought[at] = grad
        return Cargo(brought, brought, self.refs, self.lines)


def _looks(tensors: Sequence[torch.Tensor]) -> Looks:
    return (
        [each.shape for each in tensors],
        [each.dtype for each in tensors],
        [each.layout for each in tensors],
        [each.requires_grad for each in tensors],
        [each.device for each in tensors],
        [each.is_neg() or each.is_conj() for each in tensors],
    )
