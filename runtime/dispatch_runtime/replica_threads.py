"""One thread per local device, each with the thread-local settings of the thread that asked."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, TypeVar

import torch
from dispatch_runtime import contexts

if TYPE_CHECKING:
    from dispatch_runtime.agreement import Agreement
    from dispatch_runtime.context import DistributedContext
    from dispatch_runtime.devices import Device

T = TypeVar("T")

GRACE = 1.0
"""Seconds that the other threads get to notice an interrupt of the calling one."""


def run(context: DistributedContext, agreement: Agreement, fn: Callable[[Device], T]) -> list[T]:
    """The results of `fn(device)` by local rank; the first exception of any is raised when all have come to an end.

    A rank that has left by an exception is lost to the others as long as these run: whoever waits for it is told, and
    the group has failed then. Where nobody waits for it, the group goes on.
    """
    results: dict[int, T] = {}
    errors: list[BaseException] = []
    surroundings = _surroundings(context.local_devices[0].torch_device.type)
    stack, callers = contexts.stack(), contexts.callers() | {threading.get_ident()}

    def work(device: Device) -> None:
        rank = device.rank or 0
        try:
            with surroundings(device):
                contexts.enter(stack, callers)
                with contexts.inside(context, device):
                    results[rank] = fn(device)
        except BaseException as error:
            errors.append(error)
            agreement.lose([rank], agreement.peer_failed([rank], error))

    threads = []
    for device in context.local_devices:
        target = contextvars.copy_context().run
        threads.append(threading.Thread(target=target, args=(work, device), name=f"{device} of run", daemon=True))
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException as error:  # an interrupt: the threads have to let go of what they wait for
        agreement.fail(agreement.peer_failed([device.rank or 0 for device in context.local_devices], error))
        end = time.monotonic() + GRACE
        for thread in threads:
            if thread.ident is not None:  # it was interrupted before it started
                thread.join(max(end - time.monotonic(), 0.0))
        raise
    for device in context.local_devices:
        agreement.regain(device.rank or 0)
    if errors:
        raise errors[0]
    return [results[device.rank or 0] for device in context.local_devices]


def _surroundings(kind: str) -> Callable[[Device], AbstractContextManager[None]]:
    """What makes another thread compute as this one does: autograd modes, autocast and default device."""
    grad, inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    casts = [
        (each, torch.get_autocast_dtype(each), torch.is_autocast_cache_enabled())
        for each in dict.fromkeys(["cpu", kind])
        if torch.is_autocast_enabled(each)
    ]
    default = torch.get_default_device()

    @contextmanager
    def surroundings(device: Device) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(torch.inference_mode(inference))
            stack.enter_context(torch.set_grad_enabled(grad))
            for each, dtype, cached in casts:
                stack.enter_context(torch.autocast(each, dtype=dtype, cache_enabled=cached))
            if default != torch.device("cpu"):
                stack.enter_context(default)
            torch_device = device.torch_device
            if torch_device.type != "cpu":
                module = getattr(torch, torch_device.type)
                stack.enter_context(module.device(torch_device.index))
            yield

    return surroundings
