"""The backward passes of one device: each that reaches a distributed parameter ends with a gradient sync.

The hooks belong to parameters and to their device, never to a thread or to the module's forward: autograd may call
them from any thread, and a loss may use parameters without a forward.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any

import torch
from dispatch_runtime.errors import DispatchError
from dispatch_runtime.module_watch import tracked
from dispatch_runtime.ownership import is_of_autograd
from dispatch_runtime.synced import Hooked, Synced, SyncedParameters
from dispatch_runtime.syncs import sync_of
from dispatch_runtime.values import ReduceOperation

if TYPE_CHECKING:
    from dispatch_runtime.context import DistributedContext
    from dispatch_runtime.devices import Device
    from dispatch_runtime.package import GradientOps

_OP = "distribute"
_graph_task = torch._C._current_graph_task_id


class _Current:
    """Which pass is under way: what the hooks have to know at each gradient, and all they know of the device's passes.

    `last` is whose gradient came last: other hooks may still change it, until the next one comes.
    """

    __slots__ = ("graph", "last")

    def __init__(self) -> None:
        self.graph: int | None = None
        self.last: weakref.ref[Synced] | None = None


class _End:
    """What autograd calls at the end of a pass; it is gone once the pass is, whichever way that came to its end."""

    def __init__(self, backward: Backward) -> None:
        self._backward = backward
        self.thread = _caller()

    def __call__(self) -> None:
        if self._backward.running() is self:
            self._backward.end()


class Backward:
    """The distributed modules of one device, whose parameters are synchronised together."""

    def __init__(self, device: Device) -> None:
        assert device.context is not None
        self.device = device
        self.context: DistributedContext = device.context
        self.parameters = SyncedParameters(device)
        self._current = _Current()
        self._running: weakref.ref[_End] | None = None
        self._strange: DispatchError | None = None
        config, on_cpu = self.context.config, device.torch_device.type == "cpu"
        self._overlaps = config.overlap == "on" or (config.overlap == "auto" and not on_cpu)
        self._prepares = self._overlaps or config.shared_gradients or config.all_reduce_op is ReduceOperation.SUM

    @property
    def is_open(self) -> bool:
        """Whether its device group can still synchronise."""
        try:
            self.context.ready(_OP, self.device)
        except DispatchError:
            return False
        return True

    @property
    def _ops(self) -> GradientOps:
        return self.device.package.ops

    def running(self) -> _End | None:
        """What will be called at the end of the pass that is under way, or None."""
        return None if self._running is None else self._running()

    def add(self, module: torch.nn.Module, ordinal: int) -> None:
        """Take the gradients of the module's parameters as long as it lives."""
        self.parameters.add(module, ordinal, self._hook)

    def _hook(self, parameter: torch.nn.Parameter, hooked: Hooked) -> None:
        owner, current = weakref.ref(self), self._current
        context, device, overlaps = self.context, self.device, self._overlaps

        def accumulated(parameter: torch.Tensor) -> None:
            synced = hooked.synced() or used()
            synced.gradient.fresh = True
            if _graph_task() != current.graph:
                backward().begin(synced)
            if overlaps:
                before, current.last = current.last, weakref.ref(synced)
                last = None if before is None else before()
                if last is not None and last.mark is not None:
                    device.package.ops.submit_gradient_sync(last.gradient, last.mark)

        def accumulates(_: torch.Tensor) -> None:
            synced = hooked.synced() or used()
            if overlaps and current.graph is not None and _graph_task() != current.graph:
                backward()._leave()  # what is on its way must not change: an inner pass is about to add to it
            synced.gradient.accumulates()

        def backward() -> Backward:
            found = owner()
            if found is None:
                context.ready(_OP, device)  # raises: only a closed group forgets its passes
            assert found is not None
            return found

        def used() -> Synced:
            """Of a parameter that left with its module."""
            running, synced = backward(), hooked.used()
            if running.running() is not None and _graph_task() == current.graph:
                device.package.ops.register_sync_parameters(device, [running.parameters.mark(synced)])
            return synced

        with tracked(parameter):
            hooked.hooks.append(parameter.register_post_accumulate_grad_hook(accumulated))
            if self._prepares or sync_of(device).partial:
                hooked.hooks.append(parameter.register_hook(accumulates))
            else:
                hooked.before = accumulates

    def begin(self, first: Synced | None = None) -> None:
        """Have the running pass, of which this is the first gradient, end with a sync, unless inside `no_sync`.

        Raises `concurrent_use` where a pass of another thread is under way: both add to the same gradients.
        """
        self._alone()
        self._leave()
        self._current.graph = _graph_task()
        if not self.context.syncs(self.device):
            return
        self._ops.register_sync_parameters(self.device, self.parameters.marks())
        for synced in self.parameters.dropped():
            synced.gradient.fresh = synced is first  # what was dropped before the pass is no news
        end = _End(self)
        self._running = weakref.ref(end)
        torch.autograd.Variable._execution_engine.queue_callback(end)
        sync = sync_of(self.device)
        if self._overlaps and sync.joining is None:
            known = list(self.parameters.synced.values())
            registered = {each.param_id: each.gradient for each in known if each.parameter.requires_grad}
            sync.overlap(registered)

    def _alone(self) -> None:
        running, mine = self.running(), _caller()
        if running is not None and mine and running.thread and running.thread is not mine:
            names = {"thread": mine.name, "other": running.thread.name}
            raise self.device.package.errors.make("concurrent_use", "backward", self.device, **names)

    def _leave(self) -> None:
        """Another pass begins: one inside the last, which then syncs what it has sent; or one after the last broke off."""
        self._current.graph = self._current.last = None
        if self.running() is None:
            self.context.ready(_OP, self.device)
            sync_of(self.device).abandon()
        elif sync_of(self.device).round.early is not None:
            self.end()

    def end(self) -> None:
        """The running pass is over: sync. It runs until that is done."""
        self._current.graph = self._current.last = None
        strange, self._strange = self._strange or self._taken(), None
        try:
            if strange is None:
                self._ops.submit_sync_collective(self.device)
                return
            sync_of(self.device).refuse(strange)
            raise strange
        finally:
            self._running = None

    def _taken(self) -> DispatchError | None:
        """The error for a gradient of this pass that a hook took away, and maybe used, before it was that of all."""
        synced = next(iter(self.parameters.dropped()), None)
        if synced is None:
            return None
        problem = "A hook took its gradient away in the backward pass, when it was this rank's alone"
        return changed(self.device, synced.param_id, problem, "step, and drop gradients, after backward()")

    def knows(self, parameter: torch.Tensor) -> bool:
        """Whether the gradients of the parameter are synchronised."""
        return id(parameter) in self.parameters.synced

    def found(self, module: torch.nn.Module, parameter: torch.Tensor) -> None:
        """A parameter that joined a module later has a gradient: the pass ends with an error."""
        named = (found for root in self.parameters.living() for found in root.named_parameters())
        name = next((name for name, each in named if each is parameter), None)
        if name is None:  # it is not below a distributed module any more
            return
        problem = "It was replaced or added after the module was distributed"
        self._strange = changed(self.device, name, problem)
        if _graph_task() != self._current.graph:
            self.begin()


def _caller() -> threading.Thread | None:
    """The thread that called `backward()`, where that can be told: hooks for accelerators run in autograd's own."""
    thread = threading.current_thread()
    return None if is_of_autograd(thread) else thread


def changed(
    device: Device, name: str, problem: str, fix: str = "distribute a module after its last change"
) -> DispatchError:
    """The error for a module whose parameters are not as they have to be."""
    fields: dict[str, Any] = {"param": name, "problem": problem, "fix": fix}
    return device.package.errors.make("parameters_changed", _OP, f"parameter {name}", **fields)
