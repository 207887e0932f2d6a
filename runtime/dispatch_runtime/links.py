"""What the processes of a group say to each other beside the data: one connection for each pair.

Messages are JSON, one a line. They are small, and their order between two processes is kept. A connection that ends
without a good-bye means that the process at its other end is gone.
"""

from __future__ import annotations

import hmac
import json
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from typing import Any, Self

from dispatch_runtime.errors import ErrorTable
from dispatch_runtime.meeting import Facts, Meeting

SEND_TIMEOUT = 10.0
"""Seconds after which a process that does not read counts as gone."""

ANSWER = 0.5
"""Seconds that a process has to answer when it is asked whether it is there."""


class Links:
    """The connections of this process, and the thread that listens to them."""

    def __init__(
        self,
        connections: dict[int, socket.socket],
        facts: tuple[Facts, ...],
        hear: Callable[[int, list[Any]], None],
        lose: Callable[[int, str], None],
    ) -> None:
        self._connections = connections
        self._facts = facts
        self._hear = hear
        self._lose = lose
        self._locks = {process: threading.Lock() for process in connections}
        self._over: set[int] = set()
        self._heard = dict.fromkeys(connections, 0.0)
        self._closing = False
        self._selector = selectors.DefaultSelector()
        self._waker, self._wake = socket.socketpair()
        self._thread = threading.Thread(target=self._listen, name="links of a device group", daemon=True)

    @classmethod
    def open(
        cls,
        errors: ErrorTable,
        meeting: Meeting,
        deadline: float,
        hear: Callable[[int, list[Any]], None],
        lose: Callable[[int, str], None],
    ) -> Self:
        """Connections to all: this process calls those before it and is called by those after it."""
        connections: dict[int, socket.socket] = {}
        greeting = json.dumps([meeting.secret, meeting.process]).encode() + b"\n"
        try:
            for facts in meeting.facts[: meeting.process]:
                connection = socket.create_connection((facts.address, facts.port), timeout=_left(deadline))
                connections[facts.process] = connection
                connection.sendall(greeting)
            while len(connections) < len(meeting.facts) - 1:
                meeting.listener.settimeout(min(_left(deadline), 0.5))
                with suppress(TimeoutError):
                    connection, _ = meeting.listener.accept()
                    caller = _caller(connection, meeting.secret, deadline)
                    if caller is None:
                        connection.close()
                    else:
                        connections[caller] = connection
                if time.monotonic() >= deadline and len(connections) < len(meeting.facts) - 1:
                    raise TimeoutError("timed out")
        except OSError as error:
            for connection in connections.values():
                connection.close()
            absent = [facts for facts in meeting.facts if facts.process not in {*connections, meeting.process}]
            who = ", ".join(f"process {each.process} ({each}, at {each.address} port {each.port})" for each in absent)
            fix = "check that the processes reach each other at these addresses"
            raise errors.make(
                "rendezvous", "DistributedContext", who, problem=f"no connection to {who}: {error}", fix=fix
            ) from error
        finally:
            meeting.listener.close()
        for connection in connections.values():
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connection.settimeout(SEND_TIMEOUT)
        return cls(connections, meeting.facts, hear, lose)

    def listen(self) -> None:
        """Begin to hear the others."""
        self._thread.start()

    def tell(self, processes: Iterable[int], message: list[Any]) -> None:
        """Send a message to these processes; one that cannot be reached is lost."""
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        for process in processes:
            if process in self._over or self._closing:
                continue
            try:
                with self._locks[process]:
                    self._connections[process].sendall(line)
            except OSError as error:
                self._end(process, f"it does not take messages: {error}")

    def silent(self, processes: Iterable[int]) -> set[int]:
        """Which of these do not answer: stopped, or beyond a network that loses what is sent."""
        asked, silent = time.monotonic(), set(processes)
        self.tell(sorted(silent), ["there?"])
        while silent and time.monotonic() < asked + ANSWER:
            time.sleep(0.01)
            silent = {process for process in silent if self._heard[process] < asked}
        return silent

    def close(self) -> None:
        """Say good-bye and end all connections."""
        with ExitStack() as parting:  # what interrupts one step leaves out none of the next
            parting.callback(self._waker.close)
            parting.callback(self._wake.close)
            for connection in self._connections.values():
                parting.callback(_end_of, connection)
            parting.callback(self._stop)
            self.tell(sorted(self._connections), ["closed"])

    def _stop(self) -> None:
        """End the thread that hears."""
        self._closing = True
        self._wake.send(b"x")  # it may be open in a forked child, too, so that closing it here tells nobody
        if self._thread is not threading.current_thread() and self._thread.ident is not None:
            self._thread.join(1.0)

    def forget(self) -> None:
        """Close this process's copies of all connections, unseen by the others."""
        self._closing = True
        self._selector.close()
        for each in (*self._connections.values(), self._wake, self._waker):
            each.close()

    def _listen(self) -> None:
        with self._selector as selector:
            selector.register(self._waker, selectors.EVENT_READ, None)
            unread = {}
            for process, connection in self._connections.items():
                selector.register(connection, selectors.EVENT_READ, process)
                unread[process] = b""
            while not self._closing:
                for key, _ in selector.select():
                    process = key.data
                    if process is None or self._closing:
                        return
                    try:
                        data = self._connections[process].recv(1 << 16)
                    except OSError:
                        data = b""
                    self._heard[process] = time.monotonic()
                    *lines, unread[process] = (unread[process] + data).split(b"\n")
                    for line in lines:
                        self._take(process, json.loads(line))
                    if not data:
                        selector.unregister(self._connections[process])
                        self._end(process, "the process ended, or its machine cannot be reached")

    def _take(self, process: int, message: list[Any]) -> None:
        if message == ["there?"]:
            self.tell([process], ["here"])
        elif message != ["here"]:
            if message == ["closed"]:
                self._over.add(process)
            self._hear(process, message)

    def _end(self, process: int, cause: str) -> None:
        if process not in self._over and not self._closing:
            self._over.add(process)
            self._lose(process, f"{cause} ({self._facts[process]})")


def _left(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0.01)


def _caller(connection: socket.socket, secret: str, deadline: float) -> int | None:
    """Which process is calling, or None for a stranger."""
    connection.settimeout(min(_left(deadline), 5.0))
    line = b""
    with suppress(OSError, ValueError):
        while not line.endswith(b"\n"):
            data = connection.recv(1)
            if not data or len(line) > 200:
                return None
            line += data
        said, process = json.loads(line)
        if hmac.compare_digest(str(said), secret):
            return int(process)
    return None


def _end_of(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
    connection.close()
