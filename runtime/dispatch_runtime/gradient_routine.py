"""The usual sync: the same gradients as in an earlier one, dense, and looking as they did. Most steps are like that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from dispatch_runtime.accumulated import AccumulatedGradient
from dispatch_runtime.gradient_forms import Plan
from dispatch_runtime.gradient_parts import Cargo
from dispatch_runtime.values import ParamId

Look = tuple[Any, ...]


@dataclass(frozen=True)
class Routine:
    """What one sync found, so that a later one can tell at a glance that it is the same.

    `refs` and `plan` are in the order of ids. `used` are the positions of the gradients that had something new, and
    `looks` what these gradients, and the other parameters, looked like.
    """

    registered: frozenset[ParamId]
    refs: Sequence[tuple[AccumulatedGradient]]
    used: Sequence[int]
    looks: list[Look]
    plan: Plan

    @classmethod
    def of(
        cls, registered: Iterable[ParamId], refs: Sequence[AccumulatedGradient], plan: Plan, place: torch.device
    ) -> Routine | None:
        """The routine that a sync with these gradients begins; None where one of them is not a usual one."""
        used = [at for at, ref in enumerate(refs) if ref.fresh]
        gradients = [refs[at].base.grad for at in used]
        for at, grad in zip(used, gradients, strict=True):
            ref = refs[at]
            if grad is None or ref.borrowed or ref.shared is not None:
                return None
            if grad.layout is not torch.strided or grad.requires_grad or grad.device != place:
                return None
            if grad.is_conj() or grad.is_neg():
                return None
        known = [grad for grad in gradients if grad is not None]
        idle = [refs[at].base for at in range(len(refs)) if not refs[at].fresh]
        return cls(frozenset(registered), [(ref,) for ref in refs], used, _looks(known, idle), plan)

    def cargo(self, registered: set[ParamId]) -> Cargo | None:
        """What travels, if this sync is like that one."""
        if registered != self.registered:
            return None
        gradients, idle = [], []
        for (ref,) in self.refs:
            parameter = ref.base
            if not ref.fresh:
                idle.append(parameter)
                continue
            grad = parameter.grad
            if grad is None or ref.borrowed or ref.shared is not None:
                return None
            gradients.append(grad)
        if len(gradients) != len(self.used) or _looks(gradients, idle) != self.looks:
            return None
        if not idle:
            return Cargo(gradients, gradients, self.refs)
        brought: list[torch.Tensor | None] = [None] * len(self.refs)
        for at, grad in zip(self.used, gradients, strict=True):
            brought[at] = grad
        return Cargo(brought, brought, self.refs)


def _looks(gradients: Sequence[torch.Tensor], idle: Sequence[torch.Tensor]) -> list[Look]:
    seen: list[Look] = [(g.shape, g.dtype, g.layout, g.requires_grad, g.device, g.is_neg()) for g in gradients]
    return seen + [(parameter.shape, parameter.dtype) for parameter in idle]
