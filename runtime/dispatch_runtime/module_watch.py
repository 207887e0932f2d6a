"""Parameters that join a module after it was distributed: noticed whichever way they come."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch.nn.modules import module as torch_module

_MODULES: weakref.WeakKeyDictionary[torch.nn.Module, weakref.ref[Watcher]] = weakref.WeakKeyDictionary()


class Watcher(Protocol):
    """Who wants to know."""

    def knows(self, parameter: torch.Tensor) -> bool:
        """Whether this parameter is no news."""
        ...

    def found(self, module: torch.nn.Module, parameter: torch.Tensor) -> None:
        """A parameter that it does not know has accumulated a gradient, and is in this module."""
        ...


def watch(module: torch.nn.Module, watcher: Watcher) -> None:
    """Have the watcher told of gradients of parameters that are put into the module, or below it, from now on.

    Setting an attribute calls torch's registration hooks; what writes into `_parameters` and `_modules` itself, as
    `ModuleList.insert` and some conversions do, calls none, so these dictionaries are watched, too.
    """
    _hook_registrations()
    for each in module.modules():
        _MODULES[each] = weakref.ref(watcher)
        for name in ("_parameters", "_modules"):
            content = each.__dict__.get(name)  # in a traced or scripted module they are no dictionaries, and fixed
            if isinstance(content, dict) and not isinstance(content, _Watched):
                each.__dict__[name] = _Watched(content, weakref.ref(each))


def watcher_of(module: torch.nn.Module) -> Watcher | None:
    """Who watches the module, or None."""
    ref = _MODULES.get(module)
    return None if ref is None else ref()


class _Watched(dict[str, Any]):
    """The parameters or the children of a watched module. Copies and pickles of it are ordinary dictionaries."""

    def __init__(self, content: Mapping[str, Any], module: weakref.ref[torch.nn.Module]) -> None:
        super().__init__(content)
        self._module = module

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        module = self._module()
        if module is not None:
            _joined(module, value)

    def update(self, *args: Any, **kwargs: Any) -> None:
        for name, value in dict(*args, **kwargs).items():
            self[name] = value

    def setdefault(self, name: str, default: Any = None) -> Any:
        if name not in self:
            self[name] = default
        return self[name]

    def __ior__(self, other: Any) -> _Watched:  # type: ignore[override, misc]
        self.update(other)
        return self

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[dict[str, Any]]]:
        return dict, (dict(self),)


def _joined(module: torch.nn.Module, value: Any) -> None:
    """A parameter or a child was put into a watched module."""
    watcher = watcher_of(module)
    if watcher is None:
        return
    if isinstance(value, torch.nn.Module):
        if watcher_of(value) is not watcher:
            watch(value, watcher)
            for each in value.modules():
                for parameter in _parameters(each):
                    _await_gradient(each, parameter, watcher)
    elif isinstance(value, torch.nn.Parameter):
        _await_gradient(module, value, watcher)


def _await_gradient(module: torch.nn.Module, parameter: torch.nn.Parameter, watcher: Watcher) -> None:
    if watcher.knows(parameter) or not (parameter.is_floating_point() or parameter.is_complex()):
        return
    owner, waiting = weakref.ref(module), weakref.ref(watcher)

    def accumulated(parameter: torch.Tensor) -> None:
        module, watcher = owner(), waiting()
        if module is None or watcher is None or watcher_of(module) is not watcher or watcher.knows(parameter):
            return
        if any(each is parameter for each in _parameters(module)):
            watcher.found(module, parameter)

    with tracked(parameter):
        parameter.register_post_accumulate_grad_hook(accumulated)


@contextmanager
def tracked(parameter: torch.Tensor) -> Iterator[None]:
    """Have autograd track the parameter meanwhile: torch hooks no others, and a frozen one may thaw later.

    A lazy one refuses whatever goes through its class.
    """
    frozen = not parameter.requires_grad
    with torch._C.DisableTorchFunctionSubclass():
        parameter.requires_grad_(True)
        try:
            yield
        finally:
            parameter.requires_grad_(not frozen)


def _parameters(module: torch.nn.Module) -> Iterator[torch.nn.Parameter]:
    return (parameter for parameter in module._parameters.values() if parameter is not None)


@functools.cache
def _hook_registrations() -> None:
    torch_module.register_module_parameter_registration_hook(lambda module, name, value: _joined(module, value))
    torch_module.register_module_module_registration_hook(lambda module, name, value: _joined(module, value))
