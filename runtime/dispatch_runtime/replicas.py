"""The replicas of a module: what a device needs to have one, and the values that all begin with."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import torch
from dispatch_runtime import contexts
from dispatch_runtime.backward import Backward, changed
from dispatch_runtime.checkpointing import balance, unbalance
from dispatch_runtime.context import DistributedContext
from dispatch_runtime.gradient_buckets import packed, unpacked
from dispatch_runtime.gradient_forms import Form, Plan
from dispatch_runtime.memory import stands_for_others
from dispatch_runtime.module_watch import watch
from dispatch_runtime.synced import unhook
from dispatch_runtime.syncs import sync_of
from dispatch_runtime.values import Checkpointing, ParamId, expect
from torch.nn.parameter import is_lazy
from torch.utils.weak import WeakTensorKeyDictionary

if TYPE_CHECKING:
    from dispatch_runtime.devices import Device

_OP = "distribute"

_PARAMETERS = WeakTensorKeyDictionary()
"""Whose a parameter is: the device's that distributed it last."""
_CLAIMS = threading.Lock()


def replicate(module: torch.nn.Module, context: DistributedContext) -> None:
    """Make the module this device's replica; see `distribute`."""
    expect(_OP, module, torch.nn.Module)
    device = contexts.acting_in(expect(_OP, context, DistributedContext), _OP, "the module")
    backward = backward_of(device)
    _claim(module, backward)
    ordinal = context.next_module_ordinal(device)
    backward.parameters.modules[ordinal] = weakref.ref(module)
    try:
        give_values(device, backward.parameters.state(context.config.broadcast_buffers, ordinal), root=0)
    except BaseException:
        del backward.parameters.modules[ordinal]
        raise
    backward.add(module, ordinal)
    watch(module, backward)
    if device.checkpointing is Checkpointing.BALANCED:
        balance(module)
    else:
        unbalance(module)


def backward_of(device: Device) -> Backward:
    """The backward passes of the device of a group."""
    assert device.context is not None
    found: Backward = device.context.state(device).setdefault("backward", Backward(device))
    return found


def give_values(device: Device, tensors: Mapping[ParamId, torch.Tensor], root: int) -> None:
    """Copy the values of the root's tensors into those of every rank, once all ranks agree on what there is.

    They travel beside the gradients, and not among the calls of the program.
    """
    sync = sync_of(device)
    plan = Plan(tuple(Form.of(each, tensors[each].shape, tensors[each].dtype) for each in sorted(tensors)))
    sync.agree(plan, _OP)
    with torch.no_grad():
        packs = []
        for bucket in plan.buckets:
            parts = [tensors[plan.forms[at].param_id].detach() for at in bucket]
            packs.append((parts, packed(parts)))
        flights = [sync.communicator.broadcast(pack, root) for _, pack in packs]
        for (parts, _), flight in zip(packs, flights, strict=True):
            for own, part in zip(parts, unpacked(flight.wait(), parts), strict=True):
                if device.rank != root:
                    own.copy_(part)


def _claim(module: torch.nn.Module, backward: Backward) -> None:
    """Have the module's parameters belong to the device; raises where they may not."""
    device = backward.device
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if is_lazy(tensor):
            raise changed(
                device, name, "It has no shape yet, because it is lazy", "run one forward pass before distribute()"
            )
        if tensor.device != device.torch_device:
            fix = f"module.to({str(device.torch_device)!r}) before distribute()"
            raise device.package.errors.make(
                "wrong_place", _OP, f"parameter {name}", torch_device=tensor.device, fix=fix
            )
        unfit = _why_unfit(tensor)
        if unfit is not None:
            problem, fix = unfit
            raise device.package.errors.make("unsupported_tensor", _OP, name, problem=problem, fix=fix)
    with _CLAIMS:
        if any(ref() is module for ref in list(backward.parameters.modules.values())):
            name = next((name for name, _ in module.named_parameters()), "(none)")
            problem = "It is distributed by this context already"
            raise changed(device, name, problem, "call distribute() once per module")
        owners = {name: _owner(parameter) for name, parameter in module.named_parameters()}
        for name, owner in owners.items():
            if owner is not None and owner is not backward and owner.is_open:
                problem = f"It is distributed on {owner.device} already"
                raise changed(device, name, problem, "give each replica its own module, with copy.deepcopy()")
        for name, owner in _neighbours(module, backward):
            problem = f"It lies in the memory of a parameter of {owner.device}, so that both would step it"
            raise changed(device, name, problem, "give each replica its own module, with copy.deepcopy()")
        for name, parameter in module.named_parameters():
            owner = owners[name]
            if owner is not backward:
                unhook(parameter)
            _PARAMETERS[parameter] = weakref.ref(backward)


def _why_unfit(tensor: torch.Tensor) -> tuple[str, str] | None:
    """What is wrong with a parameter or buffer that no values can be given to, and what to do; or None."""
    if stands_for_others(tensor):
        return f"it is a {type(tensor).__name__}, which stands for other tensors", "distribute an ordinary module"
    if tensor.layout is not torch.strided:
        return f"it is {str(tensor.layout)[6:]}", "register it dense"
    if any(stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True)):
        fix = "register tensor.clone(memory_format=torch.contiguous_format)"
        return "several of its elements share memory", fix
    if tensor.is_inference():
        return "it was made in inference mode, where it stays as it is", "make the module outside of inference mode"
    return None


def _neighbours(module: torch.nn.Module, backward: Backward) -> Iterator[tuple[str, Backward]]:
    """The names of parameters that begin where one of another replica does, and whose that is."""
    places = {(each.device, each.data_ptr()): name for name, each in module.named_parameters() if each.numel()}
    for other, ref in list(_PARAMETERS.items()):
        owner = ref()
        if owner is None or owner is backward or stands_for_others(other):
            continue
        name = places.get((other.device, other.data_ptr()))
        if name is not None and owner.is_open:
            yield name, owner


def _owner(parameter: torch.Tensor) -> Backward | None:
    ref = _PARAMETERS.get(parameter)
    return None if ref is None else ref()
