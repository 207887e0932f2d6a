"""The backward passes of one device: each that reaches a distributed parameter ends with a gradient sync.

The hooks belong to parameters and to their device, never to a thread or to the module's forward: autograd may call
them from any thread, and a loss may use parameters without a forward.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from dispatch_runtime.accumulated import AccumulatedGradient
from dispatch_runtime.errors import DispatchError
from dispatch_runtime.gradient_sync import sync_of
from dispatch_runtime.module_watch import tracked
from dispatch_runtime.tensors import mark_of, wrap
from dispatch_runtime.values import DistributedParams, ParamId, ReduceOperation

if TYPE_CHECKING:
    from dispatch_runtime.context import DistributedContext
    from dispatch_runtime.devices import Device
    from dispatch_runtime.package import GradientOps
    from torch.utils.hooks import RemovableHandle

_OP = "distribute"
_graph_task = torch._C._current_graph_task_id


@dataclass(eq=False)
class Synced:
    """One parameter of a distributed module; it gets its mark once it requires a gradient."""

    param_id: ParamId
    parameter: torch.nn.Parameter
    gradient: AccumulatedGradient
    mark: DistributedParams | None = None
    hooks: list[RemovableHandle] = field(default_factory=list)


class _End:
    """What autograd calls at the end of a pass; it is gone once the pass is, whichever way that came to its end."""

    def __init__(self, backward: Backward) -> None:
        self._backward = backward

    def __call__(self) -> None:
        if self._backward.running() is self:
            self._backward.end()


class Backward:
    """The distributed modules of one device, whose parameters are synchronised together."""

    def __init__(self, device: Device) -> None:
        assert device.context is not None
        self.device = device
        self.context: DistributedContext = device.context
        self.modules: dict[int, weakref.ref[torch.nn.Module]] = {}
        """By ordinal."""
        self.synced: dict[int, Synced] = {}
        """By identity of the parameter."""
        self._graph: int | None = None
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

    def add(self, parameters: Mapping[ParamId, torch.nn.Parameter]) -> None:
        """Take the gradients of these parameters from now on; those that another module brought stay as they are."""
        for param_id, parameter in parameters.items():
            if not self.knows(parameter) and (parameter.is_floating_point() or parameter.is_complex()):
                gradient = AccumulatedGradient(parameter, self.device, self.context.config.all_reduce_op)
                self.synced[id(parameter)] = synced = Synced(param_id, parameter, gradient)
                self._hook(parameter, synced)
        self._marks()

    def state(self, buffers: bool, ordinal: int | None = None) -> dict[str, torch.Tensor]:
        """The parameters, and buffers if asked for, of the modules, or of one, by id."""
        found: dict[str, torch.Tensor] = {}
        for number, ref in self.modules.items():
            module = ref()
            if module is not None and ordinal in (None, number):
                found.update({f"{number}:{name}": each for name, each in module.named_parameters()})
                found.update({f"{number}:{name}": each for name, each in module.named_buffers() if buffers})
        return found

    def retire(self, parameter: torch.Tensor) -> None:
        """Let a later device group have the parameter."""
        synced = self.synced.pop(id(parameter), None)
        if synced is not None:
            for hook in synced.hooks:
                hook.remove()

    def _hook(self, parameter: torch.nn.Parameter, synced: Synced) -> None:
        gradient, overlaps = synced.gradient, self._overlaps

        def accumulated(parameter: torch.Tensor) -> None:
            gradient.fresh = True
            if _graph_task() != self._graph:
                self.begin()
            if overlaps and synced.mark is not None:
                self._ops.submit_gradient_sync(gradient, synced.mark)

        def accumulates(_: torch.Tensor) -> None:
            if overlaps and self._graph is not None and _graph_task() != self._graph:
                self._leave()  # what is on its way must not change: an inner pass is about to add to it
            gradient.accumulates()

        with tracked(parameter):
            synced.hooks.append(parameter.register_post_accumulate_grad_hook(accumulated))
            if self._prepares:
                synced.hooks.append(parameter.register_hook(accumulates))

    def _marks(self) -> list[DistributedParams]:
        """The marks of all parameters that require a gradient, or have one since the last sync.

        A parameter without its mark gets it here, and hands its gradient over for good.
        """
        marks = []
        for synced in self.synced.values():
            if synced.parameter.requires_grad or synced.gradient.fresh:
                if synced.mark is None:
                    self._mark(synced)
                marks.append(synced.mark)
        return marks  # type: ignore[return-value]

    def _mark(self, synced: Synced) -> None:
        with torch.no_grad():  # the mark is no step of a graph
            self._ops.set_distributed_params(wrap(synced.parameter, self.device), synced.param_id)
        synced.mark = mark_of(synced.parameter)
        assert synced.mark is not None
        self._ops.submit_gradient_sync(synced.gradient, synced.mark)

    def begin(self) -> None:
        """Have the running pass, of which this is the first gradient, end with a sync, unless inside `no_sync`."""
        self._leave()
        self._graph = _graph_task()
        if not self.context.syncs(self.device):
            return
        self._ops.register_sync_parameters(self.device, self._marks())
        end = _End(self)
        self._running = weakref.ref(end)
        torch.autograd.Variable._execution_engine.queue_callback(end)
        sync = sync_of(self.device)
        if self._overlaps and sync.joining is None:
            registered = {each.param_id: each.gradient for each in self.synced.values() if each.parameter.requires_grad}
            sync.overlap(registered)

    def _leave(self) -> None:
        """Another pass begins: one inside the last, which then syncs what it has sent; or one after the last broke off."""
        self._graph = None
        if self.running() is None:
            self.context.ready(_OP, self.device)
            sync_of(self.device).abandon()
        elif sync_of(self.device).round.early is not None:
            self.end()

    def end(self) -> None:
        """The running pass is over: sync."""
        self._graph = self._running = None
        strange, self._strange = self._strange, None
        if strange is None:
            self._ops.submit_sync_collective(self.device)
            return
        sync_of(self.device).refuse(strange)
        raise strange

    def knows(self, parameter: torch.Tensor) -> bool:
        """Whether the gradients of the parameter are synchronised."""
        return id(parameter) in self.synced

    def found(self, module: torch.nn.Module, parameter: torch.Tensor) -> None:
        """A parameter that joined a module later has a gradient: the pass ends with an error."""
        roots = [root for root in (ref() for ref in self.modules.values()) if root is not None]
        named = (found for root in roots for found in root.named_parameters())
        name = next((name for name, each in named if each is parameter), None)
        if name is None:  # it is not below a distributed module any more
            return
        problem = "It was replaced or added after the module was distributed"
        self._strange = changed(self.device, name, problem)
        if _graph_task() != self._graph:
            self.begin()


def changed(
    device: Device, name: str, problem: str, fix: str = "distribute a module after its last change"
) -> DispatchError:
    """The error for a module whose parameters are not as they have to be."""
    fields: dict[str, Any] = {"param": name, "problem": problem, "fix": fix}
    return device.package.errors.make("parameters_changed", _OP, f"parameter {name}", **fields)
