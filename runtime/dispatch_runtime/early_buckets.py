"""Overlap: gradients that travel while the backward pass still computes others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from dispatch_runtime.accumulated import AccumulatedGradient
from dispatch_runtime.gradient_forms import Form, Plan
from dispatch_runtime.values import ParamId, ReduceOperation

if TYPE_CHECKING:
    from dispatch_runtime.communicator import Communicator
    from dispatch_runtime.handles import Pending

FULL = 4 << 20
"""A bucket that has so many bytes takes no more gradients."""


class EarlyBuckets:
    """The buckets of one backward pass, each sent as soon as all its gradients are there and those before it are sent.

    Every rank sends every bucket, in the same order: what is not there when the pass ends counts as zero. Gradients
    are copied into the buckets, so that whatever goes wrong on the way leaves them as they were.
    """

    def __init__(
        self, gradients: Mapping[ParamId, AccumulatedGradient], communicator: Communicator, op: ReduceOperation
    ) -> None:
        self._gradients = gradients
        self._communicator = communicator
        self._op = op
        self._buckets = _in_buckets(gradients)
        self._bucket_of = {param_id: at for at, bucket in enumerate(self._buckets) for param_id in bucket}
        self._missing = [set(bucket) for bucket in self._buckets]
        self._flights: list[Pending[torch.Tensor]] = []
        forms = [Form.of(each, ref.base.shape, ref.base.dtype) for each, ref in gradients.items()]
        self._opening: Pending[dict[int, str]] | None = communicator.exchange(Plan(tuple(forms)).digest)

    def again(self) -> EarlyBuckets:
        """The same once more, from the start."""
        return EarlyBuckets(self._gradients, self._communicator, self._op)

    @property
    def ids(self) -> frozenset[ParamId]:
        """The parameters whose gradients travel this way."""
        return frozenset(self._bucket_of)

    def ready(self, param_id: ParamId) -> None:
        """The gradient is there: send its bucket if that was the last of it."""
        at = self._bucket_of.get(param_id)
        if at is None:
            return
        self._missing[at].discard(param_id)
        if self._opening is not None and self._opening.done():
            self._open(None)
        if self._opening is None:
            while len(self._flights) < len(self._buckets) and not self._missing[len(self._flights)]:
                self._launch()

    def finish(self, timeout: float | None) -> None:
        """Send what was not sent yet."""
        if self._opening is not None:
            self._open(timeout)
        while len(self._flights) < len(self._buckets):
            self._launch()

    def _open(self, timeout: float | None) -> None:
        """Where all ranks have the same buckets they may be sent; else none is, and the sync at the end does it all."""
        assert self._opening is not None
        said, self._opening = self._opening.wait(timeout), None
        if len(set(said.values())) > 1:
            self._buckets, self._bucket_of = [], {}

    def results(self, timeout: float | None) -> dict[ParamId, torch.Tensor]:
        """The reduced gradients."""
        found = {}
        for bucket, flight in zip(self._buckets, self._flights, strict=True):
            parts = torch.split(flight.wait(timeout), [self._gradients[each].base.numel() for each in bucket])
            for param_id, part in zip(bucket, parts, strict=True):
                found[param_id] = part.view(self._gradients[param_id].base.shape)
        return found

    def _launch(self) -> None:
        brought, place = [], self._communicator.device.torch_device
        with torch.no_grad():
            for param_id in self._buckets[len(self._flights)]:
                ref = self._gradients[param_id]
                value = ref.get()
                if value is None or value.device != place:  # the sync at the end says what is wrong with it
                    value = torch.zeros(ref.base.shape, dtype=ref.base.dtype, device=place)
                brought.append(value.to_dense() if value.is_sparse else value.detach())
            buffer = torch.cat([each.reshape(-1) for each in brought])
        label = f"submit_sync_collective, early bucket {len(self._flights)}"
        flight = self._communicator.all_reduce(buffer, self._op, in_place=True, label=label)
        self._flights.append(flight)


def _in_buckets(gradients: Mapping[ParamId, AccumulatedGradient]) -> list[list[ParamId]]:
    """The parameters in the order in which their gradients are likely to come, cut where a bucket is full."""
    buckets: list[list[ParamId]] = []
    dtype, room = None, 0
    for param_id, ref in reversed(list(gradients.items())):
        parameter = ref.base
        if room <= 0 or parameter.dtype is not dtype:
            buckets.append([])
            dtype, room = parameter.dtype, FULL
        buckets[-1].append(param_id)
        room -= parameter.nbytes
    return buckets
