"""Which device groups are open, and which one a bare device means here."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dispatch_runtime.context import DistributedContext
    from dispatch_runtime.devices import Device
    from dispatch_runtime.package import Package
    from dispatch_runtime.values import DistributedConfig

EXIT_TIMEOUT = 2.0
"""How many seconds all groups that are still open get at the end of the process."""


@dataclass
class _Server:
    """A group that is found by its devices; without a context as long as it is being opened."""

    since: float
    context: DistributedContext | None = None


class _Thread(threading.local):
    """The groups that this thread is inside of, innermost last, each with the device it acts for there."""

    def __init__(self) -> None:
        self.stack: list[tuple[DistributedContext, Device | None]] = []
        self.callers: frozenset[int] = frozenset()


_lock = threading.Lock()
_open: list[DistributedContext] = []
any_yet = False
"""Whether a group was ever opened: until then, nobody has to be asked where a plain tensor belongs."""
_servers: dict[Device, _Server] = {}
_thread = _Thread()


def opened(context: DistributedContext) -> None:
    """Count the group as open."""
    global any_yet
    with _lock:
        any_yet = True
        _open.append(context)


def closed(context: DistributedContext) -> None:
    """Count the group as closed."""
    with _lock:
        if context in _open:
            _open.remove(context)
        for server in [server for server in _servers.values() if server.context is context]:
            _drop(server)


def _drop(server: _Server) -> None:
    for device in [device for device, found in _servers.items() if found is server]:
        del _servers[device]


@contextmanager
def inside(context: DistributedContext, device: Device | None = None) -> Iterator[None]:
    """Make the group the innermost of this thread, which acts for `device` where one is given."""
    entry, stack = (context, device), _thread.stack
    stack.append(entry)
    try:
        yield
    finally:
        stack.remove(entry)  # in a forked child, that of the parent's thread


def stack() -> list[tuple[DistributedContext, Device | None]]:
    """The groups that this thread is inside of, to hand on to a thread that works for it."""
    return list(_thread.stack)


def callers() -> frozenset[int]:
    """The threads that this one works for: they wait until it ends."""
    return _thread.callers


def enter(entries: Sequence[tuple[DistributedContext, Device | None]], callers: frozenset[int]) -> None:
    """Put this thread, a new one that works for `callers`, inside of these groups."""
    _thread.stack = list(entries)
    _thread.callers = callers


def current(package: Package, op: str, device: Device) -> Device:
    """The device of a group that `device` means here, which carries its group and rank.

    One that carries a group already is that one. Else the innermost group of this thread that has it, else the only
    open one that has it. Raises `no_context`, `ambiguous_context`, and for a group that cannot be used any more
    `closed`, `failed` or `after_fork`.
    """
    if device.context is not None:
        device.context.ready(op, device)
        return device
    for inner, _ in reversed(_thread.stack):
        found = inner.find(device)
        if found is not None:
            inner.ready(op, found)
            return found
    having = [found for found in (context.find(device) for context in _candidates(package)) if found is not None]
    if not having:
        raise package.errors.make("no_context", op, device)
    if len(having) > 1:
        names = "; ".join(str(found.context) for found in having)
        raise package.errors.make("ambiguous_context", op, device, contexts=names)
    context = having[0].context
    assert context is not None
    context.ready(op, having[0])
    return having[0]


def acting(package: Package, op: str) -> Device:
    """The local device that this thread works for: that of its `run`, else the only local one of its group.

    Raises `no_context`, `ambiguous_context`, or `unplaced` where the group has several.
    """
    context, device = _innermost(package)
    if context is None:
        candidates = _candidates(package)
        if not candidates:
            raise package.errors.make("no_context", op, "the call")
        names = "; ".join(str(each) for each in candidates)
        raise package.errors.make("ambiguous_context", op, "the call", contexts=names)
    if device is None:
        return acting_in(context, op)
    context.ready(op, device)
    return device


def acting_in(context: DistributedContext, op: str, subject: str = "the call") -> Device:
    """The local device of a group that this thread works for on `subject`: that of its `run`, else the only one there is.

    Raises `unplaced` where there are several, and what `ready` raises of a group that cannot be used any more.
    """
    device = own_device(context)
    context.ready(op, device or context.local_devices[0])
    if device is None:
        candidates = ", ".join(str(each) for each in context.local_devices)
        raise context.package.errors.make("unplaced", op, subject, candidates=candidates)
    return device


def own_device(context: DistributedContext) -> Device | None:
    """The local device of a group that this thread works for: that of its `run`, else the only one; None of several."""
    device = next((own for group, own in reversed(_thread.stack) if group is context and own is not None), None)
    return context.local_devices[0] if device is None and len(context.local_devices) == 1 else device


def placeable(package: Package) -> list[Device]:
    """The local devices that work may be meant for here: that of this thread, else all of its group, else of all groups."""
    entries = [entry for entry in _thread.stack if entry[0].package is package][-1:]
    if entries and entries[0][1] is not None:
        return [entries[0][1]]
    groups = [entries[0][0]] if entries else _candidates(package)
    return [device for group in groups for device in group.local_devices]


def _innermost(package: Package) -> tuple[DistributedContext | None, Device | None]:
    entries = [entry for entry in _thread.stack if entry[0].package is package][-1:]
    entries = entries or [(context, None) for context in _candidates(package)]
    if len(entries) != 1:
        return None, None
    context, device = entries[0]
    if device is None and len(context.local_devices) == 1:
        device = context.local_devices[0]
    return context, device


def _candidates(package: Package) -> list[DistributedContext]:
    """The open groups of a package; those of a parent process only where this one has none."""
    with _lock:
        found = [context for context in _open if context.package is package]
    return [context for context in found if context.is_of_this_process()] or found


def open_server(package: Package, devices: Sequence[Device], config: DistributedConfig | None) -> None:
    """Open a group that stays open until `close_server` names one of its devices.

    Raises `already_open` where one of the devices was opened this way before.
    """
    bare = [_bare(device) for device in devices]
    opening = _Server(time.time())
    with _lock:
        for device in bare:
            server = _servers.get(device)
            if server is not None and (server.context is None or server.context.is_of_this_process()):
                raise package.errors.make(
                    "already_open", "start_communication_server", device, since=when(server.since)
                )
        _servers.update(dict.fromkeys(bare, opening))
    try:
        opening.context = package.context_class(devices, config)
    finally:
        if opening.context is None:
            with _lock:
                _drop(opening)


def close_server(device: Device) -> None:
    """Close the group that `open_server` opened for the device; nothing where there is none, or none yet."""
    with _lock:
        server = _servers.get(_bare(device))
    if server is not None and server.context is not None:
        server.context.close()


def _bare(device: Device) -> Device:
    return device.replace(process=None, context=None, rank=None)


def when(at: float) -> str:
    """A moment as people read it: the time of day, and how long ago that is."""
    return f"{time.strftime('%H:%M:%S', time.localtime(at))}, {time.time() - at:.1f} s ago"


@atexit.register
def _close_all() -> None:
    deadline = time.monotonic() + EXIT_TIMEOUT
    with _lock:
        left = list(_open)
    for context in reversed(left):
        with suppress(Exception):
            context.close(timeout=max(deadline - time.monotonic(), 0.0))


def _in_forked_child() -> None:
    """Drop what a child cannot use: a lock that another thread may have held, connections that belong to the parent.

    What the parent's thread was inside of, or was opening, means nothing to the child.
    """
    global _lock
    _lock = threading.Lock()
    _thread.stack, _thread.callers = [], frozenset()
    for server in [server for server in _servers.values() if server.context is None]:
        _drop(server)
    for context in _open:
        context.forget_connections()


os.register_at_fork(after_in_child=_in_forked_child)
