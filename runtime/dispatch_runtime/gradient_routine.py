"""The usual sync: every registered gradient is there, dense, and looks as it did last time. Most steps are like that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from dispatch_runtime.accumulated import AccumulatedGradient
from dispatch_runtime.gradient_forms import Plan
from dispatch_runtime.gradient_parts import Cargo
from dispatch_runtime.values import ParamId


@dataclass(frozen=True)
class Routine:
    """What one sync found, by position in its plan, so that the next can tell at a glance that nothing has changed."""

    registered: frozenset[ParamId]
    refs: Sequence[tuple[AccumulatedGradient]]
    parameters: Sequence[torch.Tensor]
    looks: list[tuple[Any, ...]]
    plan: Plan

    @classmethod
    def of(
        cls, registered: set[ParamId], refs: Sequence[AccumulatedGradient], place: torch.device, plan: Plan
    ) -> Routine | None:
        """The routine that a sync with these gradients begins; None where they are not the usual ones."""
        found = cls(frozenset(registered), [(ref,) for ref in refs], [ref.base for ref in refs], [], plan)
        gradients, looks = found._look(place)
        usual = all(
            grad.layout is torch.strided and not grad.requires_grad and grad.device == place for grad in gradients
        )
        if not usual or len(gradients) < len(refs):
            return None
        found.looks.extend(looks)
        return found

    def cargo(self, registered: set[ParamId], place: torch.device) -> Cargo | None:
        """What travels, if this sync is like the last."""
        if registered != self.registered:
            return None
        gradients, looks = self._look(place)
        return Cargo(gradients, gradients, self.refs) if looks == self.looks else None

    def _look(self, place: torch.device) -> tuple[list[torch.Tensor], list[tuple[Any, ...]]]:
        """The gradients that go as they are, and what they look like."""
        if not all(ref.fresh and not ref.borrowed and ref.shared is None for (ref,) in self.refs):
            return [], []
        gradients = [grad for parameter in self.parameters if (grad := parameter.grad) is not None]
        if place.type == "cpu":
            return gradients, [(g.shape, g.dtype, g.layout, g.requires_grad, g.is_cpu) for g in gradients]
        return gradients, [(g.shape, g.dtype, g.layout, g.requires_grad, g.device) for g in gradients]
