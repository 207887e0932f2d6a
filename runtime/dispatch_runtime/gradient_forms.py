"""What the ranks say about their gradients before any of them moves, and what travels together."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import torch
from dispatch_runtime.errors import DispatchError
from dispatch_runtime.values import ParamId

if TYPE_CHECKING:
    from dispatch_runtime.devices import Device

LARGE = 1 << 20
"""From this many bytes on a gradient travels alone, and is reduced where it lies, where there is much of its dtype."""

TOGETHER = 1 << 22
"""Up to this many bytes the gradients of one dtype all travel together: one more collective costs more than copies."""

_SHOWN = 5


@dataclass(frozen=True)
class Form:
    """One registered parameter: what its gradient looks like, and whether this rank has one to add.

    Shape and dtype are None where the rank registered the id and never handed anything over. `sparse` is the number of
    sparse dimensions of a gradient in COO layout, 0 for a dense one. `gone` says that the parameter went with its
    module: the others have to know until it is gone from all. One that is gone and used has a gradient that was not synced
    yet, which somebody may wait for.
    """

    param_id: ParamId
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    sparse: int = 0
    used: bool = False
    gone: bool = False

    @classmethod
    def of(
        cls,
        param_id: ParamId,
        shape: Sequence[int] | None,
        dtype: torch.dtype | None,
        sparse: int = 0,
        used: bool = True,
        gone: bool = False,
    ) -> Self:
        """The form of a tensor with this shape and dtype."""
        known = None if shape is None else tuple(shape), None if dtype is None else str(dtype)
        return cls(param_id, *known, sparse, used, gone)

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype as torch's own value."""
        found: torch.dtype = getattr(torch, (self.dtype or "torch.float32").removeprefix("torch."))
        return found

    @property
    def numel(self) -> int:
        """The number of elements."""
        return math.prod(self.shape or ())

    @property
    def nbytes(self) -> int:
        """The size in bytes, if it is dense."""
        return self.numel * self.torch_dtype.itemsize

    def zeros(self, device: torch.device) -> torch.Tensor:
        """What a rank contributes that has nothing to add."""
        shape = self.shape or ()
        if not self.sparse:
            return torch.zeros(shape, dtype=self.torch_dtype, device=device)
        indices = torch.empty((self.sparse, 0), dtype=torch.int64, device=device)
        values = torch.empty((0, *shape[self.sparse :]), dtype=self.torch_dtype, device=device)
        return torch.sparse_coo_tensor(indices, values, shape, check_invariants=False)


@dataclass(frozen=True)
class Plan:
    """The forms of a sync in the order of their ids, and how the used ones travel."""

    forms: tuple[Form, ...]

    @cached_property
    def buckets(self) -> list[list[int]]:
        """Which gradients travel together, as positions; see `buckets`."""
        return buckets(self.forms)

    @cached_property
    def singles(self) -> list[list[int]]:
        """The used gradients each alone, which is how they travel in memory."""
        return [[place] for place, form in enumerate(self.forms) if form.used]

    @cached_property
    def sparse(self) -> frozenset[ParamId]:
        """The parameters whose gradients travel in COO layout."""
        return frozenset(form.param_id for form in self.forms if form.sparse)

    @cached_property
    def text(self) -> str:
        """The forms in a line that `merged` reads."""
        return as_text(self.forms)

    @cached_property
    def digest(self) -> str:
        """What ranks compare: equal where their plans are."""
        return hashlib.blake2b(self.text.encode(), digest_size=16).hexdigest()


def buckets(forms: Sequence[Form]) -> list[list[int]]:
    """Which used gradients travel together, as positions: those of a dtype, but each large or sparse one alone.

    Large counts only where there is much of the dtype in all.
    """
    plan: list[list[int]] = []
    dense = [form for form in forms if form.used and not form.sparse]
    much = {each for each in {form.dtype for form in dense} if _bytes(dense, each) > TOGETHER}
    shared: dict[str | None, list[int]] = {}
    for place, form in enumerate(forms):
        if not form.used:
            continue
        if form.sparse or not form.numel or (form.nbytes >= LARGE and form.dtype in much):
            plan.append([place])
        elif form.dtype in shared:
            shared[form.dtype].append(place)
        else:
            shared[form.dtype] = [place]
            plan.append(shared[form.dtype])
    return plan


def _bytes(forms: Iterable[Form], dtype: str | None) -> int:
    return sum(form.nbytes for form in forms if form.dtype == dtype)


def as_text(forms: Iterable[Form]) -> str:
    """The forms in a line that `merged` reads."""
    return json.dumps(
        [[form.param_id, form.shape, form.dtype, form.sparse, form.used, *[True][: form.gone]] for form in forms]
    )


JOINED = "joined"
"""What a rank says that has no backward passes of its own any more, and only keeps the others company."""

REFUSED = "refused: "
"""What stands before the reason of a rank that cannot take part."""

VOID = "void"
"""What a rank says whose backward pass broke off after some of its gradients had been sent."""


def merged(device: Device, op: str, said: Mapping[int, str]) -> Plan:
    """The plan that holds for all ranks, from what each said: used where any rank has something to add.

    Raises `disagreement`, on every rank alike, where one rank has a parameter that another has not, or has a used one
    in another shape or dtype, or cannot take part. A gradient that is sparse on some ranks and dense on others is
    dense. A parameter that is gone from some ranks is none of the others' business until one of them uses it. Ranks that
    have joined have no say.
    """
    refusals = [f"rank {rank} {text}" for rank, text in said.items() if text.startswith(REFUSED)]
    if refusals:
        raise device.package.errors.make("disagreement", op, device, differences="; ".join(refusals))
    by_rank = {
        rank: {each[0]: _form(each) for each in json.loads(text)} for rank, text in said.items() if text != JOINED
    }
    forms, differences = [], []
    for param_id in sorted({param_id for forms in by_rank.values() for param_id in forms}):
        brought = {rank: of_rank.get(param_id) for rank, of_rank in by_rank.items()}
        known = [form for form in brought.values() if form is not None and form.shape is not None]
        used = [form for form in known if form.used]
        gone = [form for form in brought.values() if form is not None and form.gone and not form.used]
        if gone and all(form.gone for form in used):
            forms.append(Form(param_id, gone=len(gone) == len(said)))
            continue
        if gone or None in brought.values() or (used and len({(form.shape, form.dtype) for form in known}) > 1):
            differences.append(f"parameter {param_id}: {_by_value(brought)}")
            continue
        first = next(iter(used or known), Form(param_id))
        sparse = min((form.sparse for form in used), default=0)
        forms.append(Form(param_id, first.shape, first.dtype, sparse, bool(used)))
    if differences:
        more = [f"and {len(differences) - _SHOWN} parameters more"] if len(differences) > _SHOWN else []
        text = "; ".join(differences[:_SHOWN] + more)
        raise device.package.errors.make("disagreement", op, device, differences=text)
    return Plan(tuple(forms))


def refusal(error: DispatchError) -> str:
    """What a rank says that cannot take part, because of this error."""
    about = "" if error.subject in error.reason else f"{error.subject}: "
    return f"{REFUSED}{about}{error.reason}"


def _form(values: Sequence[Any]) -> Form:
    param_id, shape, *more = values
    return Form(param_id, None if shape is None else tuple(shape), *more)


def _by_value(brought: Mapping[int, Form | None]) -> str:
    """Who has what: `float32 of shape (2,) on rank 0, not registered on ranks 1, 2`."""
    ranks: dict[str, list[int]] = {}
    for rank, form in brought.items():
        if form is None:
            what = "not registered"
        elif form.gone and not form.used:
            what = "deleted with its module"
        elif form.shape is None:
            what = "registered"
        else:
            what = f"{(form.dtype or '').removeprefix('torch.')} of shape {form.shape}"
        ranks.setdefault(what, []).append(rank)
    parts = [f"{what} on rank{'s' if len(at) > 1 else ''} {listing(at)}" for what, at in ranks.items()]
    return ", ".join(parts)


def listing(names: Iterable[object], most: int = 100) -> str:
    """Names in a line, so many at most."""
    listed = list(map(str, names))
    shown = ", ".join(listed[:most])
    return f"{shown} and {len(listed) - most} more" if len(listed) > most else shown
