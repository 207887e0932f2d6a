"""Tensors of the dispatch layer: a torch tensor and the device that it counts as living on.

One truth for autodiff: torch's own `requires_grad`. Kind and autodiff context are derived from it and the device.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from dispatch_runtime.devices import Device
from dispatch_runtime.handles import CollectiveTensor
from dispatch_runtime.values import Checkpointing, DistributedParams, expect
from torch.utils._pytree import tree_map_only

if TYPE_CHECKING:
    import numpy as np


class Kind(enum.Enum):
    """What a tensor is made of. `Autodiff` is a float tensor that is tracked, or lives on an autodiff device."""

    Float = "Float"
    Int = "Int"
    Bool = "Bool"
    Quantized = "Quantized"
    Autodiff = "Autodiff"


@dataclass(frozen=True)
class AutodiffContext:
    """Whether operations on a tensor are recorded, and what the recording keeps."""

    enabled: bool
    checkpointing: Checkpointing = Checkpointing.DISABLED


DISABLED = AutodiffContext(False)


def base_kind(primitive: torch.Tensor) -> Kind:
    """The kind of a torch tensor, autograd left aside. Complex counts as Float."""
    if primitive.is_quantized:
        return Kind.Quantized
    dtype = primitive.dtype
    if dtype.is_floating_point or dtype.is_complex:
        return Kind.Float
    return Kind.Bool if dtype is torch.bool else Kind.Int


class Tensor:
    """A torch tensor on a device of the dispatch layer.

    `primitive` is the torch tensor, shared and never copied. Use `from_torch` and `from_numpy` to make one; naming
    `kind` or `context` here checks that they do not contradict what `primitive` and `device` say, and raises
    `ContextMismatch` or `WrongKind` where they do.
    """

    __slots__ = ("__weakref__", "device", "primitive")

    primitive: torch.Tensor
    device: Device

    def __init__(
        self,
        primitive: torch.Tensor,
        device: Device,
        *,
        kind: Kind | None = None,
        context: AutodiffContext | None = None,
    ) -> None:
        self.primitive = expect("Tensor", primitive, torch.Tensor)
        self.device = expect("Tensor", device, Device)
        if context is not None:
            _check_context(self, kind, expect("Tensor", context, AutodiffContext))
        if kind is not None and expect("Tensor", kind, Kind) is not self.kind:
            errors = device.package.errors
            fix = f"leave `kind` out, or pass Kind.{self.kind.name}"
            raise errors.make("wrong_kind", subject=kind.name, kind=kind.name, accepted=self.kind.name, fix=fix)

    @property
    def kind(self) -> Kind:
        """Float, Int, Bool, Quantized, or Autodiff for a float that autograd may track."""
        kind = base_kind(self.primitive)
        return Kind.Autodiff if kind is Kind.Float and (self.device.autodiff or self.tracked) else kind

    @property
    def tracked(self) -> bool:
        """Whether autograd records operations on it."""
        return self.primitive.requires_grad

    @property
    def context(self) -> AutodiffContext:
        """Enabled with the device's strategy where it is tracked or the device is an autodiff device."""
        device = self.device
        return AutodiffContext(True, device.checkpointing) if device.autodiff or self.tracked else DISABLED

    @property
    def shape(self) -> torch.Size:
        """Its shape."""
        return self.primitive.shape

    @property
    def dtype(self) -> torch.dtype:
        """Its torch dtype."""
        return self.primitive.dtype

    @property
    def requires_grad(self) -> bool:
        """Whether autograd records operations on it."""
        return self.primitive.requires_grad

    @property
    def grad(self) -> torch.Tensor | None:
        """The gradient of a leaf, as torch keeps it."""
        return self.primitive.grad

    def backward(self, gradient: TensorLike | None = None) -> None:
        """Run autograd from here."""
        self.primitive.backward(None if gradient is None else primitive_of("backward", gradient))

    def torch(self) -> torch.Tensor:
        """The torch tensor itself."""
        return self.primitive

    def numpy(self) -> np.ndarray[Any, Any]:
        """Its values as a NumPy array that shares the memory; torch refuses where that cannot be."""
        array: np.ndarray[Any, Any] = self.primitive.numpy()
        return array

    def tolist(self) -> Any:
        """Its values as nested lists."""
        return self.primitive.tolist()

    def item(self) -> bool | int | float | complex:
        """Its only value."""
        value: bool | int | float | complex = self.primitive.item()
        return value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        own = self.primitive.detach()
        there = own.resolve_conj().resolve_neg().cpu()
        shared = there.numpy()
        array = shared.astype(shared.dtype if dtype is None else dtype, copy=bool(copy))
        if copy is False and (array is not shared or there.data_ptr() != own.data_ptr()):
            raise ValueError(f"{self.dtype} on {self.device} is no array of {array.dtype} without a copy")
        return array

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Torch functions take it as the torch tensor that it holds, and answer with torch tensors."""
        plain, named = tree_map_only(Tensor, lambda tensor: tensor.primitive, (args, kwargs or {}))
        return func(*plain, **named)

    def __repr__(self) -> str:
        return f"Tensor({self.primitive!r}, device={self.device!r})"


TensorLike: TypeAlias = Tensor | torch.Tensor


def primitive_of(op: str, tensor: Any) -> torch.Tensor:
    """The torch tensor of a tensor; a TypeError for what is none, `Unresolved` for a handle of one."""
    if isinstance(tensor, Tensor):
        return tensor.primitive
    if isinstance(tensor, CollectiveTensor):
        tensor.refuse(f"`{op}`")
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{op} takes a Tensor or a torch.Tensor, not {type(tensor).__name__}")
    return tensor


def _check_context(tensor: Tensor, kind: Kind | None, context: AutodiffContext) -> None:
    """Refuse an autodiff context that contradicts the primitive, in the words that people search for."""
    tracked = tensor.tracked
    if not context.enabled and (tracked or kind is Kind.Autodiff):
        problem = "an autodiff float primitive must have an enabled autodiff context"
        fix = "pass AutodiffContext(True), or detach() the primitive"
    elif context.enabled and (kind is Kind.Float or tensor.kind is Kind.Float):
        problem = "an enabled float tensor must use an autodiff primitive"
        fix = "leave `context` out, use an autodiff device, or call requires_grad_() on the primitive"
    elif context.enabled and tensor.device.autodiff and context.checkpointing is not tensor.device.checkpointing:
        problem = f"the context says {context.checkpointing!r} and the device {tensor.device.checkpointing!r}"
        fix = "leave `context` out: the device says how to checkpoint"
    else:
        return
    raise tensor.device.package.errors.make("context_mismatch", subject=tensor.device, problem=problem, fix=fix)


_new = object.__new__


def wrap(primitive: torch.Tensor, device: Device) -> Tensor:
    """The tensor of a primitive that is known to be right: what generated code makes of kernel results."""
    tensor = _new(Tensor)
    tensor.primitive = primitive
    tensor.device = device
    return tensor


class TensorRef:
    """A reference through which a tensor is read and its successor written.

    `set` copies the new value into the referenced tensor, in place and unseen by autograd. `device` is the device of
    the referenced tensor; for a plain torch tensor it is None, and found when the reference is used.
    """

    __slots__ = ("_device", "_tensor")

    def __init__(self, tensor: TensorLike, device: Device | None = None) -> None:
        self._tensor = primitive_of("TensorRef", tensor)
        self._device = tensor.device if isinstance(tensor, Tensor) else device

    @property
    def device(self) -> Device | None:
        """The device of the referenced tensor, where it is known."""
        return self._device

    @property
    def base(self) -> torch.Tensor:
        """The torch tensor that the reference was made of."""
        return self._tensor

    def get(self) -> torch.Tensor | None:
        """The referenced tensor; None where a reference to a gradient finds none yet."""
        return self._tensor

    def set(self, value: TensorLike) -> None:
        """Write a new value through the reference."""
        with torch.no_grad():
            self._tensor.copy_(primitive_of("TensorRef.set", value))

    def __repr__(self) -> str:
        return f"TensorRef({self._tensor!r})"


class GradientRef(TensorRef):
    """A reference to the `.grad` of a parameter, which may not be there yet."""

    __slots__ = ()

    def get(self) -> torch.Tensor | None:
        """The gradient, or None."""
        return self._tensor.grad

    def set(self, value: TensorLike) -> None:
        """Write into the gradient where there is one of that form, else put the value there."""
        fresh = primitive_of("TensorRef.set", value)
        grad = self._tensor.grad
        with torch.no_grad():
            if grad is None or grad.is_sparse or fresh.is_sparse:
                self._tensor.grad = fresh
            elif grad is not fresh:
                grad.copy_(fresh)


MARK = "_dispatch_distributed_params"


def mark_of(primitive: torch.Tensor) -> DistributedParams | None:
    """What `set_distributed_params` left on a torch tensor."""
    return getattr(primitive, MARK, None)


def set_mark(primitive: torch.Tensor, params: DistributedParams) -> None:
    """Leave a mark that `mark_of` finds."""
    setattr(primitive, MARK, params)
