"""The replicas of a module: what a device needs to have one, and the values that all begin with."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from dispatch_runtime import contexts
from dispatch_runtime.backward import Backward, changed
from dispatch_runtime.checkpointing import balance, unbalance
from dispatch_runtime.gradient_buckets import packed, unpacked
from dispatch_runtime.gradient_forms import Form, Plan
from dispatch_runtime.module_watch import watch
from dispatch_runtime.synced import unhook
from dispatch_runtime.syncs import sync_of
from dispatch_runtime.values import Checkpointing, ParamId
from torch.nn.parameter import is_lazy
from torch.utils.weak import WeakTensorKeyDictionary

if TYPE_CHECKING:
    from dispatch_runtime.context import DistributedContext
    from dispatch_runtime.devices import Device

_OP = "distribute"

_PARAMETERS = WeakTensorKeyDictionary()
"""Whose a parameter is: the device's that distributed it last."""
_CLAIMS = threading.Lock()


def replicate(module: torch.nn.Module, context: DistributedContext) -> None:
    """Make the module this device's replica; see `distribute`."""
    device = contexts.acting_in(context, _OP, "the module")
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
        spread = tensor.layout is torch.strided and any(
            stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
        )
        if tensor.layout is not torch.strided or spread:
            problem = "several of its elements share memory" if spread else f"it is {str(tensor.layout)[6:]}"
            fix = "register tensor.clone(memory_format=torch.contiguous_format)" if spread else "register it dense"
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
        for name, parameter in module.named_parameters():
            owner = owners[name]
            if owner is not backward:
                unhook(parameter)
            _PARAMETERS[parameter] = weakref.ref(backward)


def _owner(parameter: torch.Tensor) -> Backward | None:
    ref = _PARAMETERS.get(parameter)
    return None if ref is None else ref()
