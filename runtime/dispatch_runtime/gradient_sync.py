"""Gradient sync: what a backward pass of each rank registers, hands over, and gets back reduced.

Gradients are matched by the id of their parameter. Small ones travel together, one buffer per dtype; large ones are
reduced where they are. What one rank did not hand over counts as zero, and a parameter that no rank used stays as it
is, so that an optimizer still sees `None`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from dispatch_runtime.gradient_forms import Form, agree
from dispatch_runtime.tensors import GradientRef, TensorLike, TensorRef
from dispatch_runtime.values import DistributedParams, ParamId, ReduceOperation

if TYPE_CHECKING:
    from dispatch_runtime.communicator import Communicator
    from dispatch_runtime.devices import Device

LARGE = 1 << 20
"""From this many bytes on a gradient is reduced in place, without a copy into a shared buffer."""

_OP = "submit_sync_collective"


@dataclass
class Round:
    """What one device has registered and handed over since its last sync."""

    registered: set[ParamId] = field(default_factory=set)
    submitted: dict[ParamId, list[TensorRef]] = field(default_factory=dict)


def round_of(device: Device) -> Round:
    """The open round of the device of a group."""
    assert device.context is not None
    found: Round = device.context.state(device).setdefault("round", Round())
    return found


def abandon(device: Device) -> None:
    """Forget what was registered and handed over by a backward pass that did not come to its end."""
    assert device.context is not None
    device.context.state(device).pop("round", None)


def register(device: Device, params: Iterable[DistributedParams]) -> None:
    """Add parameters to the device's round. Registering one twice is the same as once."""
    round_of(device).registered.update(each.param_id for each in params)


def submit(device: Device, ref: TensorRef, params: DistributedParams) -> None:
    """Add one gradient to the device's round; several of one parameter add up, the same one counts once.

    Raises `not_registered`, and `unsupported_tensor` for a gradient that no result can be written back to.
    """
    current = round_of(device)
    if params.param_id not in current.registered:
        registered = _listing(sorted(current.registered)) or "none"
        errors = device.package.errors
        raise errors.make(
            "not_registered", "submit_gradient_sync", device, param=params.param_id, registered=registered
        )
    _check(device, ref, params)
    refs = current.submitted.get(params.param_id)
    if refs is None:
        current.submitted[params.param_id] = [ref]
    elif not any(type(known) is type(ref) and known.base is ref.base for known in refs):
        refs.append(ref)


def _check(device: Device, ref: TensorRef, params: DistributedParams) -> None:
    tensor = ref.base.grad if isinstance(ref, GradientRef) else ref.base
    if tensor is None:
        return
    errors, op, subject = device.package.errors, "submit_gradient_sync", f"parameter {params.param_id}"
    if tensor.device != device.torch_device:
        fix = f"move it to {device.torch_device} first"
        raise errors.make("wrong_place", op, subject, torch_device=tensor.device, fix=fix)
    if isinstance(ref, GradientRef) and tensor.requires_grad:
        problem = "its gradient is part of a graph (backward(create_graph=True)), which the other ranks do not share"
        fix = "take the inner gradient by torch.autograd.grad(..., create_graph=True), and call backward() without it"
        raise errors.make("unsupported_tensor", op, subject, problem=problem, fix=fix)
    if tensor.layout is torch.strided and not tensor.is_contiguous() and 0 in tensor.stride():
        problem = "its gradient is expanded: several elements share memory, so no result can be written back"
        fix = "submit TensorRef(tensor.contiguous())"
        raise errors.make("unsupported_tensor", op, subject, problem=problem, fix=fix)


@dataclass(frozen=True)
class _Gradient:
    """One registered parameter of this rank: where its result goes, and what the rank adds to it."""

    refs: tuple[TensorRef, ...]
    value: torch.Tensor | None
    form: Form


def synchronise(device: Device, timeout: float | None) -> None:
    """Reduce all that is registered over the group and write the results back; the round is over, whatever happens.

    Raises `disagreement`, on every rank, where the ranks registered different parameters or the shapes or dtypes of
    one differ: nothing has been moved then.
    """
    current = round_of(device)
    abandon(device)
    context = device.context
    assert context is not None
    communicator = context.communicator(device, context.devices)
    with torch.no_grad():
        own = [_gradient(param_id, current.submitted.get(param_id, [])) for param_id in sorted(current.registered)]
        forms = agree(device, communicator, [each.form for each in own], _OP, timeout)
        pairs = [(each, form) for each, form in zip(own, forms, strict=True) if form.used]
        used = [each if each.form is form else replace(each, form=form) for each, form in pairs]
        _reduce(device, communicator, used, context.config.all_reduce_op, timeout)


def _gradient(param_id: ParamId, refs: Sequence[TensorRef]) -> _Gradient:
    values = [value for value in (ref.get() for ref in refs) if value is not None]
    values = [
        value.to_dense() if value.is_sparse else value.detach() if value.requires_grad else value for value in values
    ]
    value = None if not values else values[0] if len(values) == 1 else torch.stack(values).sum(0)
    known = value if value is not None else refs[0].base if refs else None
    used = value is not None and any(not isinstance(ref, AccumulatedGradient) or ref.fresh for ref in refs)
    if known is None:
        return _Gradient((), None, Form(param_id))
    return _Gradient(tuple(refs), value, Form(param_id, tuple(known.shape), str(known.dtype), used))


def buckets(forms: Sequence[Form]) -> list[list[int]]:
    """Which gradients travel together, as positions: each large one alone, the small ones of a dtype in one bucket."""
    plan: list[list[int]] = []
    small: dict[str | None, list[int]] = {}
    for place, form in enumerate(forms):
        if form.nbytes >= LARGE:
            plan.append([place])
        elif form.dtype in small:
            small[form.dtype].append(place)
        else:
            small[form.dtype] = [place]
            plan.append(small[form.dtype])
    return plan


def _reduce(
    device: Device,
    communicator: Communicator,
    gradients: Sequence[_Gradient],
    op: ReduceOperation,
    timeout: float | None,
) -> None:
    plan = [[gradients[place] for place in bucket] for bucket in buckets([each.form for each in gradients])]
    buffers = [packed([_contribution(each, device) for each in bucket]) for bucket in plan]
    flights = [communicator.all_reduce(buffer, op, timeout, in_place=True, label=_OP) for buffer in buffers]
    for flight in flights:
        flight.wait()
    for bucket, buffer in zip(plan, buffers, strict=True):
        for gradient, value in zip(bucket, unpacked(buffer, [each.form for each in bucket]), strict=True):
            for ref in gradient.refs:
                _write_back(ref, value)


def _contribution(gradient: _Gradient, device: Device) -> torch.Tensor:
    form = gradient.form
    if gradient.value is not None:
        return gradient.value
    return torch.zeros(form.shape or (), dtype=form.torch_dtype, device=device.torch_device)


def packed(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """One contiguous buffer with the elements of all; a single tensor as it is where it is contiguous."""
    if len(tensors) == 1:
        return tensors[0].contiguous()
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def unpacked(buffer: torch.Tensor, forms: Sequence[Form]) -> list[torch.Tensor]:
    """The tensors of these forms in a buffer that `packed` made, as views."""
    if len(forms) == 1:
        return [buffer]
    parts = torch.split(buffer, [form.numel for form in forms])
    return [part.view(form.shape or ()) for part, form in zip(parts, forms, strict=True)]


def _write_back(ref: TensorRef, value: torch.Tensor) -> None:
    """Put the result where the gradient is; one that was not there gets memory of its own, a sparse one stays sparse."""
    current = ref.base.grad if isinstance(ref, GradientRef) else ref.base
    if current is None:
        value = value.clone()
    elif current.is_sparse:
        value = value.to_sparse(current.sparse_dim())
    ref.set(value)


class AccumulatedGradient(GradientRef):
    """The gradient of a parameter over several backward passes, of which all ranks may share an earlier part.

    `fresh` says that this rank has accumulated something since the last sync. A mean may be taken of the whole
    gradient again and again; of a sum only the part that came since counts, so for one (`sums`) the shared part is
    remembered.
    """

    __slots__ = ("_shared", "fresh", "sums")

    def __init__(self, parameter: torch.Tensor, device: Device, op: ReduceOperation) -> None:
        super().__init__(parameter, device)
        self.sums = op is ReduceOperation.SUM
        self._shared: torch.Tensor | None = None
        self.fresh = False

    def accumulates(self) -> None:
        """Something is about to be added to the gradient: remember what all ranks share of it."""
        grad = self.base.grad
        if grad is None or not (grad.to_dense() if grad.is_sparse else grad).any():
            self._shared = None
        elif not self.fresh:
            self._shared = grad.detach().clone()

    def get(self) -> torch.Tensor | None:
        """What this rank has to contribute, or None."""
        grad = self.base.grad
        if grad is None or not self.sums:
            return grad
        if not self.fresh:
            return None
        return grad if self._shared is None else grad - self._shared

    def set(self, value: TensorLike) -> None:
        """Write the reduced value, on top of what was shared before."""
        grad = self.base.grad
        shared = self._shared if self.fresh else grad
        if self.sums and grad is not None and shared is not None:
            value = shared + value  # type: ignore[operator]
        super().set(value)
        self._shared, self.fresh = None, False


def _listing(names: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
