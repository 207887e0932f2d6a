"""The parameters whose gradients one device synchronises: there as long as a module that it distributed has them.

What autograd keeps hooks of is out of the collector's sight, so a hook holds no parameter, and nothing that holds one.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from dispatch_runtime.accumulated import AccumulatedGradient
from dispatch_runtime.module_watch import tracked
from dispatch_runtime.syncs import sync_of
from dispatch_runtime.tensors import mark_of, wrap
from dispatch_runtime.values import DistributedParams, ParamId
from torch.utils.weak import TensorWeakRef, WeakTensorKeyDictionary

if TYPE_CHECKING:
    from dispatch_runtime.devices import Device
    from dispatch_runtime.package import GradientOps
    from torch.utils.hooks import RemovableHandle

_HOOKED = WeakTensorKeyDictionary()
_NO_MODULE = -1
"""The ordinal of whoever uses a parameter without its module."""


@dataclass(eq=False)
class Synced:
    """One parameter that takes part in the sync; it gets its mark once it requires a gradient.

    `modules` are the ordinals of the living ones that have it.
    """

    param_id: ParamId
    parameter: torch.nn.Parameter
    gradient: AccumulatedGradient
    modules: set[int] = field(default_factory=set)
    mark: DistributedParams | None = None


@dataclass(eq=False)
class Hooked:
    """What stays with a parameter when it leaves the sync, so that it can come back with its next gradient."""

    owner: weakref.ref[SyncedParameters]
    parameter: TensorWeakRef
    param_id: ParamId
    synced: Callable[[], Synced | None] = field(default_factory=lambda: _nothing)
    """What takes part; None where it has left, or is about to."""
    mark: DistributedParams | None = None
    fresh: bool = False
    borrowed: bool = False
    shared: torch.Tensor | None = None
    hooks: list[RemovableHandle] = field(default_factory=list)
    before: Callable[[torch.Tensor], None] | None = None
    """The hook that looks at the gradient before something is added to it; None where it is there already."""

    def used(self) -> Synced:
        """What takes part in the sync again, now that its gradient is used."""
        owner = self.owner()
        assert owner is not None
        synced = owner.back(self)
        synced.modules.add(_NO_MODULE)
        sync_of(owner.device).orphans.discard(self.param_id)
        return synced


def unhook(parameter: torch.Tensor) -> None:
    """Have the parameter leave for good, so that another device may have it."""
    hooked: Hooked | None = _HOOKED.pop(parameter, None)
    if hooked is None:
        return
    for hook in hooked.hooks:
        hook.remove()
    owner = hooked.owner()
    if owner is not None:
        owner.synced.pop(id(parameter), None)


class SyncedParameters:
    """The distributed modules of one device, and their parameters."""

    def __init__(self, device: Device) -> None:
        assert device.context is not None
        self.device = device
        self.context = device.context
        self.modules: dict[int, weakref.ref[torch.nn.Module]] = {}
        """By ordinal."""
        self.synced: dict[int, Synced] = {}
        """By identity of the parameter."""
        self._orphans = False

    @property
    def _ops(self) -> GradientOps:
        return self.device.package.ops

    def add(self, module: torch.nn.Module, ordinal: int, hook: Callable[[torch.nn.Parameter, Hooked], None]) -> None:
        """Take the module's parameters as long as it lives, each with `hook`; those of other modules keep their ids."""
        weakref.finalize(module, _deleted, weakref.ref(self), ordinal).atexit = False
        for name, parameter in module.named_parameters():
            if not (parameter.is_floating_point() or parameter.is_complex()):
                continue
            hooked: Hooked | None = _HOOKED.get(parameter)
            if hooked is None:
                hooked = Hooked(weakref.ref(self), TensorWeakRef(parameter), f"{ordinal}:{name}")
                _HOOKED[parameter] = hooked
                synced = self._take(hooked, parameter)
                hook(parameter, hooked)
            else:
                synced = hooked.synced() or self.back(hooked)
            synced.modules.add(ordinal)
        self.marks()

    def _take(self, hooked: Hooked, parameter: torch.nn.Parameter) -> Synced:
        gradient = AccumulatedGradient(parameter, self.device, sync_of(self.device).partial)
        gradient.fresh, gradient.borrowed, gradient.shared = hooked.fresh, hooked.borrowed, hooked.shared
        self.synced[id(parameter)] = synced = Synced(hooked.param_id, parameter, gradient, mark=hooked.mark)
        hooked.synced = weakref.ref(synced)
        return synced

    def back(self, hooked: Hooked) -> Synced:
        """A parameter that had left, or was about to, takes part again."""
        parameter = hooked.parameter()
        synced = self.synced.get(id(parameter))
        if synced is not None:
            hooked.synced = weakref.ref(synced)
            return synced
        synced = self._take(hooked, parameter)
        if synced.mark is not None:
            self._ops.submit_gradient_sync(synced.gradient, synced.mark)
        return synced

    def deleted(self, ordinal: int) -> None:
        """A module is no more, and neither are the parameters that nothing else is known to use.

        Called by whatever thread lets the last reference go, in the middle of anything: it changes dictionaries in single
        steps, and those who look at several entries look at a copy.
        """
        self.modules.pop(ordinal, None)
        for synced in list(self.synced.values()):
            synced.modules.discard(ordinal)
            if not synced.modules and synced.gradient.fresh:
                self._orphans = True  # a pass may be about to sync it
                _HOOKED[synced.parameter].synced = _nothing
            elif not synced.modules:
                self._let_go(synced)

    def _sift_orphans(self) -> None:
        """Let parameters leave that no module has, but for those that somebody has who waits for their gradient."""
        orphans = [synced for synced in list(self.synced.values()) if not synced.modules]
        waiting = [_HOOKED[synced.parameter] for synced in orphans if synced.gradient.fresh]
        for synced in orphans:
            self._let_go(synced)
        del orphans, synced
        wanted = [hooked for hooked in waiting if hooked.parameter() is not None]
        for hooked in wanted:
            self.back(hooked)
            hooked.synced = _nothing  # so that its next gradient says that it is in use
            sync_of(self.device).orphans.add(hooked.param_id)
        self._orphans = bool(wanted)

    def _let_go(self, synced: Synced) -> None:
        hooked: Hooked = _HOOKED[synced.parameter]
        gradient, hooked.mark = synced.gradient, synced.mark
        hooked.fresh, hooked.borrowed, hooked.shared = gradient.fresh, gradient.borrowed, gradient.shared
        self.synced.pop(id(synced.parameter), None)
        sync = self.context.state(self.device).get("gradient_sync")
        if synced.mark is not None and sync is not None:
            sync.forget(synced.param_id)

    def marks(self) -> list[DistributedParams]:
        """The marks of all parameters that require a gradient, or have one since the last sync.

        A parameter without its mark gets it here, and hands its gradient over for good.
        """
        if self._orphans:
            self._sift_orphans()
        marks = []
        for synced in list(self.synced.values()):
            if synced.parameter.requires_grad or synced.gradient.fresh:
                marks.append(synced.mark or self.mark(synced))
        return marks

    def dropped(self) -> list[Synced]:
        """Those that accumulated something since the last sync and have no gradient any more."""
        known = list(self.synced.values())
        return [synced for synced in known if synced.gradient.fresh and synced.parameter.grad is None]

    def mark(self, synced: Synced) -> DistributedParams:
        """The mark of a parameter, made now unless it has one."""
        if synced.mark is None:
            with torch.no_grad():  # the mark is no step of a graph
                self._ops.set_distributed_params(wrap(synced.parameter, self.device), synced.param_id)
            synced.mark = mark_of(synced.parameter)
            assert synced.mark is not None
            self._ops.submit_gradient_sync(synced.gradient, synced.mark)
        return synced.mark

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Within, what came since the last sync is told apart from what the ranks have in common."""
        sync, added = sync_of(self.device), []
        for synced in list(self.synced.values()):
            synced.gradient.partial = True
            before = _HOOKED[synced.parameter].before
            if before is not None:
                with tracked(synced.parameter):
                    added.append(synced.parameter.register_hook(before))
        try:
            yield
        finally:
            for hook in added:
                hook.remove()
            for synced in list(self.synced.values()):
                synced.gradient.partial = sync.partial

    def state(self, buffers: bool, ordinal: int | None = None) -> dict[str, torch.Tensor]:
        """The parameters, and buffers if asked for, of the modules, or of one, by id."""
        found: dict[str, torch.Tensor] = {}
        for number, ref in list(self.modules.items()):
            module = ref()
            if module is not None and ordinal in (None, number):
                found.update({f"{number}:{name}": each for name, each in module.named_parameters()})
                found.update({f"{number}:{name}": each for name, each in module.named_buffers() if buffers})
        return found

    def living(self) -> list[torch.nn.Module]:
        """The modules that there are still."""
        return [module for module in [ref() for ref in list(self.modules.values())] if module is not None]


def _nothing() -> None:
    """What a weak reference to nothing gives."""


def _deleted(parameters: weakref.ref[SyncedParameters], ordinal: int) -> None:
    found = parameters()
    if found is not None:
        found.deleted(ordinal)
