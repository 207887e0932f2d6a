"""Stores to meet in: opened where the rendezvous says, and nowhere else."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from dispatch_runtime.rendezvous import Place
from torch._C._distributed_c10d import FileStore, Store, TCPStore

Refuse = Callable[..., Exception]

_PATIENCE = 2.0
"""Seconds that one attempt to reach a store may take."""

_lock = threading.Lock()
_hosted: dict[tuple[int, str, int], TCPStore] = {}


def store_at(place: Place, deadline: float, refuse: Refuse) -> Store:
    """A client of its own of the store at the place, which process 0 opens unless it is open already.

    Once opened, a store stays for the life of the process: other groups meet there later.
    """
    if place.path is not None:
        return FileStore(place.path, -1)
    assert place.host is not None
    if place.process == 0 and not place.open:
        _host(place, refuse)
    problem: Exception | None = None
    while time.monotonic() < deadline or problem is None:
        left = max(deadline - time.monotonic(), 0.1)
        try:
            _reach(place, min(left, _PATIENCE))
        except OSError as error:
            problem = error
            time.sleep(0.05)
            continue
        try:
            return _client(place, min(left, 10.0))
        except (RuntimeError, OSError) as error:
            if _listens(place):
                raise refuse(f"what listens at {place} is no store: {_first_line(error)}") from error
            problem = error  # it was one, and is gone
    who = "the store" if place.open else "process 0, which opens it,"
    raise refuse(f"{who} was not there in time: {problem}") from problem


def is_host(place: Place) -> bool:
    """Whether the store of the place lives in this process, and ends with it."""
    return (os.getpid(), place.host, place.port) in _hosted


def _host(place: Place, refuse: Refuse) -> None:
    assert place.host is not None
    key = (os.getpid(), place.host, place.port)
    with _lock:
        if key in _hosted:
            return
        try:
            listening = _bound(_bind_address(place.host), place.port)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and _speaks(place):
                return  # the store of another process: the meeting finds out which of the two is one too many
            if error.errno == errno.EADDRINUSE:
                raise refuse(
                    f"port {place.port} of {place.host} is in use by another program", "name a free port"
                ) from error
            raise refuse(f"{place.host} port {place.port} cannot be listened on: {error}") from error
        # The store takes the socket over, so that it listens on the address that was asked for and no other.
        port = listening.getsockname()[1]
        _hosted[key] = TCPStore(
            place.host, port, is_master=True, wait_for_workers=False, master_listen_fd=listening.detach()
        )


def _reach(place: Place, seconds: float) -> None:
    socket.create_connection((str(place.host), place.port), timeout=seconds).close()


def _listens(place: Place) -> bool:
    try:
        _reach(place, _PATIENCE)
    except OSError:
        return False
    return True


def _speaks(place: Place) -> bool:
    """Whether a store answers there."""
    try:
        _client(place, _PATIENCE)
    except (RuntimeError, OSError):
        return False
    return True


def _client(place: Place, seconds: float) -> TCPStore:
    """A connection to the store, or the error. On a thread: torch waits without end for what does not answer."""
    found: list[TCPStore | Exception] = []

    def connect() -> None:
        assert place.host is not None
        wait = timedelta(seconds=seconds)
        try:
            found.append(TCPStore(place.host, place.port, is_master=False, wait_for_workers=False, timeout=wait))
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=connect, name="connection to a store", daemon=True)
    thread.start()
    thread.join(seconds)
    if not found:
        raise TimeoutError(f"it does not answer within {seconds:.1f} s")
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]


def _bind_address(host: str) -> str:
    """An address is bound as it is; a name means every interface, since at home it may stand for the loopback."""
    if host == "localhost":
        return "127.0.0.1"
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return ""


def _bound(address: str, port: int) -> socket.socket:
    if address:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return socket.create_server((address, port), family=family, backlog=1024)
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)
    return socket.create_server(("", port), backlog=1024)


def address_of(place: Place) -> str:
    """The address under which the other processes reach this one: that of the way to the store."""
    if place.host is not None:
        with suppress(OSError):
            family, kind, _, _, where = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind) as way:
                way.connect(where)
                address: str = way.getsockname()[0]
            if not ipaddress.ip_address(address).is_loopback or _bind_address(place.host):
                return address
    with suppress(OSError):
        return socket.gethostbyname(socket.gethostname())
    return "127.0.0.1"


def listening_socket(address: str, refuse: Refuse) -> socket.socket:
    """A socket at the address, on a port of the system's choice."""
    try:
        return _bound(address, 0)
    except OSError as error:
        raise refuse(f"cannot listen on {address}: {error}") from error


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
