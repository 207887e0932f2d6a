"""Data-parallel modules: the gradients that a backward pass leaves behind are those of all replicas together.

The hooks belong to parameters and to their device, never to a thread or to the module's forward: autograd may call
them from any thread, and a loss may use parameters without a forward.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from dispatch_runtime import contexts, gradient_sync
from dispatch_runtime.errors import DispatchError
from dispatch_runtime.gradient_forms import Form, agree
from dispatch_runtime.tensors import Tensor, mark_of, wrap
from dispatch_runtime.values import DistributedParams, ParamId
from torch.nn.modules import module as torch_module
from torch.nn.parameter import is_lazy
from torch.utils.weak import WeakTensorKeyDictionary

if TYPE_CHECKING:
    from dispatch_runtime.context import DistributedContext
    from dispatch_runtime.devices import Device
    from dispatch_runtime.package import GradientOps

ModuleT = TypeVar("ModuleT", bound=torch.nn.Module)

_OP = "distribute"


def distribute(module: ModuleT, context: DistributedContext) -> ModuleT:
    """The module itself, as this device's replica of one module that all devices of the group train.

    Every replica gets rank 0's parameters and, unless the config says otherwise, buffers. From then on each
    `backward()` leaves in `.grad` the reduction (`config.all_reduce_op`) of what the replicas accumulated since the
    last sync, outside of `context.no_sync()`. Parameters that a replica did not use count as zero; one that no replica
    used keeps its gradient. `torch.autograd.grad` stays local.

    All devices call it, once per replica and in the same order of modules; inside `context.run` where a process has
    several devices. Raises `disagreement` on every rank where the modules differ, `parameters_changed` for a module
    that an open context has distributed already, `unplaced` where the device cannot be known.
    """
    device = _acting(context)
    backward = _claim(module, device)
    try:
        ordinal = context.next_module_ordinal(device)
        parameters = {f"{ordinal}:{name}": each for name, each in module.named_parameters()}
        buffers = {f"{ordinal}:{name}": each for name, each in module.named_buffers()}
        _give_first_values(device, {**parameters, **(buffers if context.config.broadcast_buffers else {})})
    except BaseException:
        backward.modules.pop()
        raise
    backward.add(parameters)
    return module


def _acting(context: DistributedContext) -> Device:
    """The local device that this call is for."""
    if len(context.local_devices) == 1:
        return context.local_devices[0]
    device = contexts.acting_or_none(context.package, _OP)
    if device is None or device.context is not context:
        candidates = ", ".join(map(str, context.local_devices))
        raise context.package.errors.make("unplaced", _OP, "the module", candidates=candidates)
    return device


def _give_first_values(device: Device, tensors: dict[ParamId, torch.Tensor]) -> None:
    """Copy rank 0's values into the tensors of every rank, once all ranks agree on what there is."""
    context = device.context
    assert context is not None
    forms = [Form(each, tuple(tensors[each].shape), str(tensors[each].dtype), True) for each in sorted(tensors)]
    agree(device, context.communicator(device, context.devices), forms, _OP, None)
    root, ops = context.devices[0], context.package.ops
    with torch.no_grad():
        plan = [[forms[place] for place in bucket] for bucket in gradient_sync.buckets(forms)]
        packs = [gradient_sync.packed([tensors[form.param_id].detach() for form in bucket]) for bucket in plan]
        handles = [ops.broadcast(wrap(pack, device), root) for pack in packs]
        values: list[Tensor] = [handle.resolve() for handle in handles]
        for bucket, value in zip(plan, values, strict=True):
            for form, part in zip(bucket, gradient_sync.unpacked(value.primitive, bucket), strict=True):
                if device.rank != root.rank:
                    tensors[form.param_id].copy_(part)


@dataclass
class _Synced:
    """One parameter of a distributed module; it gets its mark once it requires a gradient."""

    param_id: ParamId
    module: weakref.ref[torch.nn.Module]
    gradient: gradient_sync.AccumulatedGradient
    mark: DistributedParams | None = None


class _Backward:
    """The backward passes of one device: its distributed modules, which are synchronised together."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.modules: list[weakref.ref[torch.nn.Module]] = []
        self.synced: dict[int, _Synced] = {}
        self._graph: int | None = None
        self._touched: list[weakref.ref[torch.nn.Module]] = []

    @property
    def is_open(self) -> bool:
        """Whether its device group can still synchronise."""
        try:
            self._context.ready(_OP, self.device)
        except DispatchError:
            return False
        return True

    def add(self, parameters: Mapping[ParamId, torch.nn.Parameter]) -> None:
        """Take the gradients of these parameters from now on; those that another module brought stay as they are."""
        op = self._context.config.all_reduce_op
        for param_id, parameter in parameters.items():
            if id(parameter) not in self.synced and (parameter.is_floating_point() or parameter.is_complex()):
                gradient = gradient_sync.AccumulatedGradient(parameter, self.device, op)
                synced = self.synced[id(parameter)] = _Synced(param_id, self.modules[-1], gradient)
                self._hook(parameter, synced)
        self._mark()
        _watch_registrations()

    def _hook(self, parameter: torch.nn.Parameter, synced: _Synced) -> None:
        place = self.device.torch_device

        def accumulated(parameter: torch.Tensor) -> None:
            if self.synced.get(id(parameter)) is not synced:  # a later context has taken it over
                return
            synced.gradient.fresh = True
            if self.begin(synced.module) and synced.mark is not None and parameter.device == place:
                self._ops.submit_gradient_sync(synced.gradient, synced.mark)

        frozen = not parameter.requires_grad
        parameter.requires_grad_(True)  # torch takes hooks of tracked tensors only, and a frozen one may thaw
        parameter.register_post_accumulate_grad_hook(accumulated)
        if synced.gradient.sums:
            parameter.register_hook(lambda gradient: synced.gradient.accumulates())
        parameter.requires_grad_(not frozen)

    @property
    def _context(self) -> DistributedContext:
        assert self.device.context is not None
        return self.device.context

    @property
    def _ops(self) -> GradientOps:
        return self.device.package.ops

    def _mark(self) -> list[DistributedParams]:
        """The marks of all parameters that require a gradient, made where one is missing."""
        marks = []
        for synced in self.synced.values():
            parameter = synced.gradient.base
            if not parameter.requires_grad:
                continue
            if synced.mark is None:
                with torch.no_grad():  # the mark is no step of a graph
                    self._ops.set_distributed_params(wrap(parameter, self.device), synced.param_id)
                synced.mark = mark_of(parameter)
                assert synced.mark is not None
            marks.append(synced.mark)
        return marks

    def begin(self, *touched: weakref.ref[torch.nn.Module]) -> bool:
        """Make sure that the running backward pass, which touched these modules, ends with a sync.

        False inside `no_sync`, where it does not.
        """
        graph = torch._C._current_graph_task_id()
        if graph != self._graph:
            if not self._context.syncs(self.device):
                return False
            gradient_sync.abandon(self.device)
            self._touched.clear()
            self._ops.register_sync_parameters(self.device, self._mark())
            torch.autograd.Variable._execution_engine.queue_callback(self._end)
            self._graph = graph
        self._touched += [each for each in touched if each not in self._touched]
        return True

    def _end(self) -> None:
        """The running backward pass is over: hand over what no hook did, and sync."""
        if self._graph is None:
            return
        self._graph = None
        changed = next((found for found in map(self._find_change, self._touched) if found is not None), None)
        if changed is None:
            submitted = gradient_sync.round_of(self.device).submitted
            for synced in self.synced.values():
                mark, parameter = synced.mark, synced.gradient.base
                if mark is not None and mark.param_id not in submitted and parameter.requires_grad:
                    self._ops.submit_gradient_sync(synced.gradient, mark)
            self._ops.submit_sync_collective(self.device)
            return
        try:  # the other ranks must learn of it, too
            told = DistributedParams(f"{changed.fields['param']} ({changed.reason})")
            self._ops.register_sync_parameters(self.device, [told])
            self._ops.submit_sync_collective(self.device)
        except DispatchError as error:
            raise changed from error
        raise changed

    def _find_change(self, ref: weakref.ref[torch.nn.Module]) -> DispatchError | None:
        """The error for a parameter of the module that autograd tracks and no hook of this device watches, or None."""
        module, place = ref(), self.device.torch_device
        if module is None:
            return None
        for parameter in _parameters(module):
            known = id(parameter) in self.synced
            if parameter.requires_grad and not (known and parameter.device == place):
                name = next(name for name, each in module.named_parameters() if each is parameter)
                problem = f"moved to {parameter.device}" if known else "replaced or added"
                return _changed(self.device, name, f"It was {problem} after the module was distributed")
        return None


_PARAMETERS = WeakTensorKeyDictionary()
"""Whose a parameter is: the device's that distributed it last."""
_MODULES: weakref.WeakKeyDictionary[torch.nn.Module, weakref.ref[_Backward]] = weakref.WeakKeyDictionary()
_CLAIMS = threading.Lock()


def _owner(owners: Mapping[Any, weakref.ref[_Backward]], key: object) -> _Backward | None:
    ref = owners.get(key)
    return None if ref is None else ref()


def _claim(module: torch.nn.Module, device: Device) -> _Backward:
    """The backward passes of the device, which the module joins; raises where it may not."""
    errors, context = device.package.errors, device.context
    assert context is not None
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if is_lazy(tensor):
            raise _changed(
                device, name, "It has no shape yet, because it is lazy", "run one forward pass before distribute()"
            )
        if tensor.device != device.torch_device:
            fix = f"module.to({str(device.torch_device)!r}) before distribute()"
            raise errors.make("wrong_place", _OP, f"parameter {name}", torch_device=tensor.device, fix=fix)
    with _CLAIMS:
        backward: _Backward = context.state(device).setdefault("backward", _Backward(device))
        if any(ref() is module for ref in backward.modules):
            name = next((name for name, _ in module.named_parameters()), "(none)")
            raise _changed(
                device, name, "It is distributed by this context already", "call distribute() once per module"
            )
        for name, parameter in module.named_parameters():
            owner = _owner(_PARAMETERS, parameter)
            if owner is not None and owner is not backward and owner.is_open:
                problem = f"It is distributed on {owner.device} already"
                raise _changed(device, name, problem, "give each replica its own module, with copy.deepcopy()")
        for parameter in module.parameters():
            owner = _owner(_PARAMETERS, parameter)
            if owner is not None and owner is not backward:
                owner.synced.pop(id(parameter), None)
            _PARAMETERS[parameter] = weakref.ref(backward)
        for each in module.modules():
            _MODULES[each] = weakref.ref(backward)
        backward.modules.append(weakref.ref(module))
    return backward


def _changed(
    device: Device, name: str, problem: str, fix: str = "distribute a module after its last change"
) -> DispatchError:
    errors = device.package.errors
    return errors.make("parameters_changed", _OP, f"parameter {name}", param=name, problem=problem, fix=fix)


def _parameters(module: torch.nn.Module) -> Iterator[torch.nn.Parameter]:
    """Every parameter of the module, shared ones as often as they are there; faster than `module.parameters()`."""
    stack: list[torch.nn.Module | None] = [module]
    while stack:
        current = stack.pop()
        if current is not None:
            yield from (parameter for parameter in current._parameters.values() if parameter is not None)
            stack.extend(current._modules.values())


@functools.cache
def _watch_registrations() -> None:
    """Have every parameter that joins a distributed module later start a sync, which then finds the change."""

    def watch(module: torch.nn.Module, parameters: Iterable[torch.nn.Parameter]) -> None:
        backward = _owner(_MODULES, module)
        if backward is None:
            return

        def found(parameter: torch.Tensor) -> None:
            if _owner(_MODULES, module) is backward:
                backward.begin(*backward.modules)

        for parameter in parameters:
            if parameter.requires_grad and _owner(_PARAMETERS, parameter) is None:
                parameter.register_post_accumulate_grad_hook(found)

    torch_module.register_module_parameter_registration_hook(
        lambda module, name, parameter: watch(module, () if parameter is None else (parameter,))
    )
    torch_module.register_module_module_registration_hook(
        lambda module, name, child: watch(module, () if child is None else child.parameters())
    )
