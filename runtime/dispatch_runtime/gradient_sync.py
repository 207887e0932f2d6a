"""Gradient sync: what a backward pass of each rank registers, hands over, and gets back reduced.

Gradients are matched by the id of their parameter. Those of a dtype travel together, but where there is much of it large
ones are reduced where they are. What one rank did not hand over counts as zero, and a parameter that no rank used stays as it
is, so that an optimizer still sees `None`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from dispatch_runtime.accumulated import AccumulatedGradient
from dispatch_runtime.early_buckets import EarlyBuckets
from dispatch_runtime.errors import DispatchError
from dispatch_runtime.gradient_buckets import Bucket, Line
from dispatch_runtime.gradient_forms import JOINED, VOID, Form, Plan, listing, merged, refusal
from dispatch_runtime.gradient_parts import Cargo, Part, check, standing, submitted
from dispatch_runtime.gradient_routine import Routine
from dispatch_runtime.memory import separate
from dispatch_runtime.tensors import TensorRef
from dispatch_runtime.values import DistributedParams, ParamId, ReduceOperation

if TYPE_CHECKING:
    from dispatch_runtime.communicator import Communicator
    from dispatch_runtime.devices import Device

ROUTINES = 16
"""How many kinds of sync are remembered: by which gradients have something new."""

_OP = "submit_sync_collective"


@dataclass
class Round:
    """What one device has registered and handed over since its last sync."""

    registered: set[ParamId] = field(default_factory=set)
    submitted: dict[ParamId, list[TensorRef]] = field(default_factory=dict)
    early: EarlyBuckets | None = None


class GradientSync:
    """The gradient sync of one device in its group: the open round, what stands from round to round, the last plan."""

    def __init__(self, device: Device) -> None:
        assert device.context is not None
        self.device = device
        self.context = device.context
        self.communicator: Communicator = self.context.communicator(device, purpose="gradients")
        self.round = Round()
        self.standing: dict[ParamId, AccumulatedGradient] = {}
        self.gone: set[ParamId] = set()
        """What went with its module and is still there on other ranks, as far as this one knows."""
        self.orphans: set[ParamId] = set()
        """What lost its module with a gradient that was not synced yet."""
        self.active = self.communicator.members
        """The ranks that had a backward pass of their own in the last sync."""
        self.joining: str | None = None
        """Inside `context.join`, what a mean divides by: `size` or `active`."""
        self._op = self.context.config.all_reduce_op
        self._shares = self.context.config.shared_gradients and self._op is ReduceOperation.MEAN
        self._place = device.torch_device
        self._routines: dict[tuple[bool, ...], Routine] = {}
        self._sparse: set[ParamId] = set()

    @property
    def partial(self) -> bool:
        """Whether a rank contributes only what it has accumulated since the last sync."""
        return self._op is ReduceOperation.SUM or self.joining is not None

    @contextmanager
    def joined(self, divide_by: str) -> Iterator[None]:
        """Within, ranks that are through may only keep the others company; `divide_by` as for `context.join`."""
        outer, self.joining = self.joining, divide_by
        self.active = self.communicator.members
        self._routines.clear()
        try:
            yield
        finally:
            self.joining = outer

    def register(self, params: Iterable[DistributedParams]) -> None:
        """Add parameters to the round. Registering one twice is the same as once."""
        self.round.registered.update([each.param_id for each in params])

    def submit(self, ref: TensorRef, params: DistributedParams) -> None:
        """Add one gradient to the round; several of one parameter add up, the same one counts once.

        One that accumulates stands: it counts in all rounds to come. Raises `not_registered`, and `wrong_place` or
        `unsupported_tensor` for a gradient that cannot be sent from here or that no result can be written back to.
        """
        param_id = params.param_id
        if isinstance(ref, AccumulatedGradient):
            self.standing[param_id] = ref
            self.gone.discard(param_id)
            if self.round.early is not None:
                self.round.early.ready(param_id)
            return
        if param_id not in self.round.registered:
            known = {"param": param_id, "registered": listing(sorted(self.round.registered), 5) or "none"}
            raise self.device.package.errors.make("not_registered", "submit_gradient_sync", self.device, **known)
        check(self.device, ref, param_id)
        refs = self.round.submitted.setdefault(param_id, [])
        if not any(type(known) is type(ref) and known.base is ref.base for known in refs):
            refs.append(ref)

    def forget(self, param_id: ParamId) -> None:
        """The parameter is gone with its module; any thread may say so at any time."""
        self.standing.pop(param_id, None)
        self.orphans.discard(param_id)
        self.gone.add(param_id)
        self._routines.clear()

    def overlap(self, gradients: Mapping[ParamId, AccumulatedGradient]) -> None:
        """From now on, in this round, send these gradients as they come; those that were sparse before wait."""
        dense = {param_id: ref for param_id, ref in gradients.items() if param_id not in self._sparse}
        self.round.early = EarlyBuckets(dense, self.communicator, self._op)

    def abandon(self) -> None:
        """Forget what was registered and handed over by a backward pass that did not come to its end."""
        early, self.round = self.round.early, Round()
        if early is not None:  # the others wait for the rest of it, and begin again with this rank's next pass
            early.finish(None)
            self._tell(VOID, None)

    def refuse(self, error: DispatchError) -> None:
        """Instead of a sync, have the others raise `disagreement` about the error that this rank raises."""
        early, self.round = self.round.early, Round()
        if early is not None:
            early.finish(None)
        self._tell(refusal(error), None)

    def synchronise(self, timeout: float | None) -> None:
        """Reduce all that is registered over the group and write the results back; the round is over, whatever happens.

        Raises `disagreement`, on every rank, where the ranks registered different parameters or the shapes or dtypes
        of one differ: no gradient has changed then.
        """
        current, self.round = self.round, Round()
        self.active = self.communicator.members
        with torch.no_grad():
            separate(list(self.standing.values()))
            while not self._synchronise(current, timeout):
                if current.early is not None:
                    current.early = current.early.again()
        for ref in list(self.standing.values()):
            ref.shared, ref.fresh = None, False

    def _synchronise(self, current: Round, timeout: float | None) -> bool:
        """Sync what is in the round; False where another rank's backward pass broke off, so that its next one counts."""
        if current.early is not None:
            current.early.finish(timeout)
        usual = not (current.submitted or current.early is not None or self.gone or self.orphans)
        key = tuple([ref.fresh for ref in list(self.standing.values())])
        routine = self._routines.get(key) if usual else None
        cargo = None if routine is None else routine.cargo(current.registered)
        if routine is not None and cargo is not None:
            plan = routine.plan
        else:
            plan, parts = self._afresh(current, timeout)
            cargo = Cargo.of(parts, plan, self._place)
            if usual:
                self._remember(key, plan)
        if self._reduce(plan, cargo, current.early, timeout):
            return True
        said = self.communicator.exchange(plan.text, timeout).wait()
        if VOID in said.values():
            return False
        agreed = self._merged(said)
        known = {form.param_id: self._part(form.param_id, current.submitted.get(form.param_id)) for form in plan.forms}
        parts = [known.get(form.param_id, Part()) for form in agreed.forms]
        return self._reduce(agreed, Cargo.of(parts, agreed, self._place), current.early, timeout)

    def _afresh(self, current: Round, timeout: float | None) -> tuple[Plan, list[Part]]:
        """The plan and parts of any sync; what cannot take part is raised here, and the other ranks are told."""
        gone = self.gone.difference(current.submitted)
        ids = sorted(current.registered | gone)
        try:
            parts = [self._part(param_id, current.submitted.get(param_id)) for param_id in ids]
        except DispatchError as error:
            self._tell(refusal(error), timeout)
            raise
        forms = [
            Form(param_id, gone=True) if param_id in gone else Form.of(param_id, *part.facts, param_id in self.orphans)
            for param_id, part in zip(ids, parts, strict=True)
        ]
        return Plan(tuple(forms)), parts

    def _remember(self, key: tuple[bool, ...], plan: Plan) -> None:
        """Let the next sync of the same gradients be a routine."""
        refs = [ref for form in plan.forms if (ref := self.standing.get(form.param_id)) is not None]
        if len(refs) == len(plan.forms):
            routine = Routine.of((form.param_id for form in plan.forms), refs, plan, self._place)
            if routine is not None:
                if len(self._routines) == ROUTINES:
                    self._routines.clear()
                self._routines[key] = routine

    def keep_company(self, timeout: float | None = None) -> bool:
        """Take part in one sync of the others with nothing of one's own; False once all ranks do only this."""
        with torch.no_grad():
            if isinstance(self.communicator.reduce_together([], self._op, timeout, facts=JOINED), list):
                return False
            plan = self._merged(self.communicator.exchange(JOINED, timeout).wait())
            self._reduce(plan, Cargo.of([Part()] * len(plan.forms), plan, self._place), None, timeout)
        return True

    def agree(self, plan: Plan, op: str) -> None:
        """Raise `disagreement`, on every rank alike, where the forms of the ranks differ."""
        if len(set(self.communicator.exchange(plan.digest, label=op).wait().values())) > 1:
            merged(self.device, op, self.communicator.exchange(plan.text, label=op).wait())

    def _merged(self, said: Mapping[int, str]) -> Plan:
        """The plan that holds for all ranks."""
        self.active = tuple(rank for rank, text in said.items() if text != JOINED)
        return merged(self.device, _OP, said)

    def _tell(self, what: str, timeout: float | None) -> None:
        """Say this where the others sync, so that they do not wait."""
        with suppress(DispatchError):
            self.communicator.reduce_together([], self._op, timeout, facts=what)
            self.communicator.exchange(what, timeout).wait()

    def _part(self, param_id: ParamId, refs: Sequence[TensorRef] | None) -> Part:
        ref = self.standing.get(param_id) if refs is None else None
        if ref is None:
            return submitted(refs or ())
        check(self.device, ref, param_id)
        return standing(ref)

    def _reduce(self, plan: Plan, cargo: Cargo, early: EarlyBuckets | None, timeout: float | None) -> bool:
        """Reduce what is used and put the results where they belong; False where the ranks have different plans."""
        in_memory = self.communicator.in_memory
        if in_memory and early is None and self.joining is None and cargo.brought is cargo.targets:
            return self._reduce_in_place(plan, cargo, timeout)
        gone = frozenset[ParamId]() if early is None else early.ids
        buckets = []
        for planned in plan.singles if in_memory else plan.buckets:
            places = [at for at in planned if plan.forms[at].param_id not in gone] if gone else planned
            if places:
                brought = [found for at in places if (found := cargo.brought[at]) is not None]
                buckets.append(Bucket.of(places, brought, self._line(cargo, planned, brought)))
        results = self.communicator.reduce_together(
            [bucket.buffer for bucket in buckets], self._op, timeout, facts=plan.digest, shared=self._shares
        )
        if isinstance(results, dict):
            return False
        by_active = self.joining == "active" and self._op is ReduceOperation.MEAN
        scale = len(self.communicator.members) / len(self.active) if by_active else 1.0
        for bucket, result in zip(buckets, results, strict=True):
            bucket.put(result if scale == 1.0 else result * scale, cargo, self._shares)
        self._sparse |= plan.sparse
        if self.gone:
            self.gone.difference_update([form.param_id for form in plan.forms if form.gone])
        if early is not None:
            sent = early.results(timeout)
            for at, form in enumerate(plan.forms):
                if form.used and form.param_id in sent:
                    cargo.take(at, sent[form.param_id])
        return True

    def _line(self, cargo: Cargo, planned: Sequence[int], brought: Sequence[torch.Tensor]) -> Line | None:
        """What a bucket of a routine is packed into."""
        if cargo.lines is None or len(brought) == 1:
            return None
        line = cargo.lines.get(planned[0])
        if line is None:
            line = cargo.lines[planned[0]] = Line(brought)
        return line

    def _reduce_in_place(self, plan: Plan, cargo: Cargo, timeout: float | None) -> bool:
        """The same for gradients that are all where their results belong."""
        gradients = [each for each in cargo.brought if each is not None]
        results = self.communicator.reduce_together(
            gradients, self._op, timeout, facts=plan.digest, shared=self._shares
        )
        if isinstance(results, dict):
            return False
        for (at,), own, result in zip(plan.singles, gradients, results, strict=True):
            if result is not own:
                cargo.lend(at, result) if self._shares else cargo.give(at, result)
        return True
