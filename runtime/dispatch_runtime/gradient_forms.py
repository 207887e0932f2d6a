"""What the ranks say about their gradients before any of them moves."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from dispatch_runtime.values import ParamId

if TYPE_CHECKING:
    from dispatch_runtime.communicator import Communicator
    from dispatch_runtime.devices import Device

_SHOWN = 5


@dataclass(frozen=True)
class Form:
    """One registered parameter: what its gradient looks like, and whether this rank has one to add.

    Shape and dtype are None where the rank registered the id and never handed anything over.
    """

    param_id: ParamId
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    used: bool = False

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
        """The size in bytes."""
        return self.numel * self.torch_dtype.itemsize


def agree(
    device: Device, communicator: Communicator, forms: Sequence[Form], op: str, timeout: float | None
) -> list[Form]:
    """The forms that hold for all ranks, in the order of `forms`: used where any rank has something to add.

    The ranks compare digests, and only where these differ the forms themselves. Raises `disagreement`, on every rank
    alike, where one rank has a parameter that another has not, or has a used one in another shape or dtype.
    """
    facts = [(form.param_id, form.shape, form.dtype, form.used) for form in forms]
    digest = hashlib.blake2b(repr(facts).encode(), digest_size=32).digest()
    if all(each == digest for each in _exchange(device, communicator, digest, timeout)):
        return list(forms)
    text = json.dumps(facts).encode()
    lengths = _exchange(device, communicator, len(text).to_bytes(8, "little"), timeout)
    longest = max(int.from_bytes(each, "little") for each in lengths)
    texts = _exchange(device, communicator, text.ljust(longest), timeout)
    by_rank = [{each[0]: _form(each) for each in json.loads(brought)} for brought in texts]
    return _merge(device, by_rank, op)


def _form(values: Sequence[object]) -> Form:
    param_id, shape, dtype, used = values
    assert isinstance(shape, list | None)
    assert isinstance(dtype, str | None)
    return Form(str(param_id), None if shape is None else tuple(shape), dtype, bool(used))


def _exchange(device: Device, communicator: Communicator, own: bytes, timeout: float | None) -> list[bytes]:
    """What every rank brought, by rank; all bring the same number of bytes."""
    tensor = torch.frombuffer(bytearray(own), dtype=torch.uint8).to(device.torch_device)
    return [bytes(each.tolist()) for each in communicator.all_gather(tensor, timeout).wait()]


def _merge(device: Device, by_rank: Sequence[Mapping[ParamId, Form]], op: str) -> list[Form]:
    """One form for each parameter; what none of the ranks uses may look different from rank to rank."""
    merged, differences = [], []
    for param_id in sorted({param_id for forms in by_rank for param_id in forms}):
        forms = [brought.get(param_id) for brought in by_rank]
        known = {(form.shape, form.dtype) for form in forms if form is not None and form.shape is not None}
        used = any(form.used for form in forms if form is not None)
        if None in forms or (used and len(known) > 1):
            differences.append(f"parameter {param_id}: {_by_value(forms)}")
            continue
        shape, dtype = next(iter(known), (None, None))
        merged.append(Form(param_id, shape, dtype, used))
    if differences:
        more = [f"and {len(differences) - _SHOWN} parameters more"] if len(differences) > _SHOWN else []
        text = "; ".join(differences[:_SHOWN] + more)
        raise device.package.errors.make("disagreement", op, device, differences=text)
    return merged


def _by_value(forms: Sequence[Form | None]) -> str:
    """Who has what: `rank 0 has float32 of shape (2,), ranks 1, 2 do not have it`."""
    ranks: dict[str, list[int]] = {}
    for rank, form in enumerate(forms):
        if form is None:
            what = "not registered"
        elif form.shape is None:
            what = "registered"
        else:
            what = f"{(form.dtype or '').removeprefix('torch.')} of shape {form.shape}"
        ranks.setdefault(what, []).append(rank)
    parts = [f"{what} on rank{'s' if len(at) > 1 else ''} {', '.join(map(str, at))}" for what, at in ranks.items()]
    return ", ".join(parts)
