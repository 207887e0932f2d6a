"""One rank's part in the reduction of one parameter: what it brings, and where the result goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from dispatch_runtime.accumulated import AccumulatedGradient
from dispatch_runtime.gradient_forms import Form, Plan
from dispatch_runtime.tensors import GradientRef, TensorRef
from dispatch_runtime.values import ParamId

if TYPE_CHECKING:
    from dispatch_runtime.devices import Device
    from dispatch_runtime.gradient_buckets import Line


class Part(NamedTuple):
    """What a rank adds to one gradient, and the references that get the result.

    `target` is `value` itself where that is the memory that the result belongs in; then it may be reduced there. `used`
    says whether there is anything new in it.
    """

    refs: Sequence[TensorRef] = ()
    value: torch.Tensor | None = None
    target: torch.Tensor | None = None
    used: bool = False

    @property
    def facts(self) -> tuple[tuple[int, ...] | None, torch.dtype | None, int, bool]:
        """Shape, dtype, sparse dimensions and use; a parameter stands for its gradient that is not there."""
        known = self.value if self.value is not None else self.refs[0].base if self.refs else None
        if known is None:
            return None, None, 0, False
        return known.shape, known.dtype, known.sparse_dim() if known.is_sparse else 0, self.used

    def brought(self, form: Form, place: torch.device) -> torch.Tensor:
        """What travels, in the layout that all ranks have agreed on."""
        value = self.value
        if value is None:
            return form.zeros(place)
        if value.is_sparse and not form.sparse:
            return value.to_dense()
        return value.to_sparse(form.sparse) if form.sparse and not value.is_sparse else value


class Cargo(NamedTuple):
    """The parts of a rank in the order of a plan: what travels, where the results belong, and who else gets them.

    In a routine, where all that travels is where its result belongs, `lines` is the memory of its buckets, by first place.
    """

    brought: Sequence[torch.Tensor | None]
    targets: Sequence[torch.Tensor | None]
    refs: Sequence[Sequence[TensorRef]]
    lines: dict[int, Line] | None = None

    @classmethod
    def of(cls, parts: Sequence[Part], plan: Plan, place: torch.device) -> Cargo:
        """The parts as the plan wants them."""
        brought = [
            part.brought(form, place) if form.used else None for part, form in zip(parts, plan.forms, strict=True)
        ]
        return cls(brought, [part.target for part in parts], [part.refs for part in parts])

    def take(self, at: int, result: torch.Tensor) -> None:
        """Write a result through the references of its position; it may lie in memory of others."""
        for ref in self.refs[at]:
            current = ref.base.grad if isinstance(ref, GradientRef) else ref.base
            if current is not None and current.is_sparse and not result.is_sparse:
                ref.set(result.to_sparse(current.sparse_dim()))
            else:
                ref.set(result.clone() if current is None else result)

    def give(self, at: int, result: torch.Tensor) -> None:
        """Make a result the gradient of its position, in the memory that it is in."""
        for ref in self.refs[at]:
            ref.base.grad = result.detach()

    def lend(self, at: int, result: torch.Tensor) -> bool:
        """Leave a result where it is, in memory that replicas share, if a gradient can be there."""
        ref = next(iter(self.refs[at]), None)
        if result.is_sparse or not isinstance(ref, AccumulatedGradient):
            return False
        ref.lend(result)
        return True


def standing(ref: AccumulatedGradient) -> Part:
    """The part of a gradient that was handed over once and for all."""
    grad = ref.base.grad
    used = ref.fresh and grad is not None
    if grad is None or not ref.is_whole:
        value = ref.get()
        return Part((ref,), value.clone() if value is not None and ref.borrowed else value, None, used)
    in_memory = not (grad.is_sparse or grad.is_conj() or grad.is_neg())
    return Part((ref,), grad, grad if in_memory else None, used)


def submitted(refs: Sequence[TensorRef]) -> Part:
    """The part of gradients that were handed over for this round: several add up."""
    values = [value.detach() for value in (ref.get() for ref in refs) if value is not None]
    if not values:
        return Part(refs)
    if len(values) > 1:
        total = torch.stack([each.to_dense() if each.is_sparse else each for each in values]).sum(0)
        return Part(refs, total, None, True)
    (value,) = values
    in_memory = len(refs) == 1 and not (value.is_sparse or value.is_conj() or value.is_neg())
    return Part(refs, value, value if in_memory else None, True)


def check(device: Device, ref: TensorRef, param_id: ParamId) -> None:
    """Raise `wrong_place` or `unsupported_tensor` for what cannot be sent from the device, or written back to."""
    errors, op, subject = device.package.errors, "submit_gradient_sync", f"parameter {param_id}"
    tensor = ref.base.grad if isinstance(ref, GradientRef) else ref.base
    if tensor is None:
        return
    if tensor.device != device.torch_device:
        fix = f"move it to {device.torch_device} first"
        raise errors.make("wrong_place", op, subject, torch_device=tensor.device, fix=fix)
    if isinstance(ref, GradientRef) and tensor.requires_grad:
        problem = "its gradient is part of a graph (backward(create_graph=True)), which the other ranks do not share"
        fix = "take the inner gradient by torch.autograd.grad(..., create_graph=True), and call backward() without it"
    elif tensor.layout not in (torch.strided, torch.sparse_coo):
        layout = str(tensor.layout).removeprefix("torch.")
        problem, fix = f"its gradient has the layout {layout}", "make it dense or sparse COO"
    elif tensor.layout is torch.strided and tensor.numel() > 1 and 0 in tensor.stride():
        problem = "its gradient is expanded: several elements share memory, so no result can be written back"
        fix = "submit TensorRef(tensor.contiguous())"
    else:
        return
    raise errors.make("unsupported_tensor", op, subject, problem=problem, fix=fix)
