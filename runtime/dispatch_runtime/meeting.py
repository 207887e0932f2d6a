"""How the processes of a group find each other in a store, and what they tell each other first.

A store sees many groups in its life. Each takes a *round* of its own: a process claims its place in the current one,
and the round has one outcome, `met` or why not, which the first to see it writes down and all read. So a process that
gave up, a duplicate or a mismatch is the same news to everybody, and the next attempt starts a fresh round.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from dispatch_runtime.errors import DispatchError, ErrorTable
from dispatch_runtime.rendezvous import Place
from dispatch_runtime.stores import address_of, is_host, listening_socket, store_at
from dispatch_runtime.values import DistributedConfig
from torch._C._distributed_c10d import PrefixStore, Store

if TYPE_CHECKING:
    from dispatch_runtime.devices import Device
    from dispatch_runtime.package import Package

_POLL = 0.01
_LINGER = 1.0
_FIX = "start every process with the same address and world_size, and ranks 0 to world_size - 1, each once"


@dataclass(frozen=True)
class Facts:
    """What a process says about itself."""

    process: int
    world: int
    pid: int
    machine: str
    variant: str
    engine: str | None
    settings: dict[str, str]
    devices: list[list[Any]]
    address: str = ""
    port: int = 0

    @classmethod
    def of(cls, package: Package, place: Place, own: Sequence[Device], config: DistributedConfig) -> Self:
        """The facts of this process."""
        variant = f"{package.name}.{type(own[0]).__name__}"
        devices = [[device.index, device.host, device.runtime] for device in own]
        settings = {
            "reduction": config.all_reduce_op.name,
            **{name: str(getattr(config, name)) for name in ("agreement", "overlap", "broadcast_buffers")},
        }
        return cls(place.process, place.world, os.getpid(), _machine(), variant, own[0].engine, settings, devices)

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.machine.partition('/')[0]}"

    def is_gone(self) -> bool:
        """Whether it was a process of this machine that has ended."""
        if self.machine != _machine():
            return False
        try:
            os.kill(self.pid, 0)
            with open(f"/proc/{self.pid}/stat") as file:
                return file.read().rpartition(")")[2].split()[0] == "Z"
        except ProcessLookupError:
            return True
        except OSError:
            return False


@dataclass(frozen=True)
class Meeting:
    """All processes, by rank, and a store for what only they share. `listener` takes connections from the others."""

    process: int
    facts: tuple[Facts, ...]
    secret: str
    store: Callable[[], Store]
    listener: socket.socket


def meet(errors: ErrorTable, place: Place, facts: Facts, deadline: float) -> Meeting:
    """The meeting of all processes. Raises `rendezvous` where they do not come together before the deadline."""

    def refuse(problem: str, fix: str = _FIX) -> DispatchError:
        return errors.make("rendezvous", "DistributedContext", str(place), problem=problem, fix=fix)

    started = time.monotonic()
    store = store_at(place, deadline, refuse)
    address = address_of(place)
    listener = listening_socket(address, refuse)
    facts = replace(facts, address=address, port=listener.getsockname()[1])
    prefixed = PrefixStore(place.prefix, store)
    try:
        while True:
            number = _current(prefixed)
            found = _attempt(PrefixStore(str(number), prefixed), place, facts, deadline, started)
            prefixed.compare_set("round", str(number), str(number + 1))
            if isinstance(found, tuple):
                break
            if found is not None:
                _linger(PrefixStore(str(number), prefixed), place)
                raise refuse(found)
    except RuntimeError as error:
        listener.close()
        if isinstance(error, DispatchError):
            raise
        raise refuse(f"the store went away: {str(error).partition(chr(10))[0]}") from error
    except BaseException:
        listener.close()
        raise
    everyone, secret = found

    def own_store() -> Store:
        client = store_at(place, time.monotonic() + 30.0, refuse)
        return PrefixStore(f"{place.prefix}/{number}/data", client)

    return Meeting(place.process, everyone, secret, own_store, listener)


def _current(store: Store) -> int:
    return int(store.compare_set("round", "", "1"))


def _attempt(
    store: Store, place: Place, facts: Facts, deadline: float, started: float
) -> tuple[tuple[Facts, ...], str] | str | None:
    """Everybody's facts and a common secret, or why the round failed, or None where it belongs to an earlier group."""
    own = json.dumps(asdict(facts))
    store.add("waiting", 1)
    holder = store.compare_set(f"process/{place.process}", "", own).decode()
    if holder != own:
        return _taken(store, place, facts, Facts(**json.loads(holder)))
    world = store.compare_set("world", "", f"{place.world} of process {place.process}").decode()
    if int(world.split()[0]) != place.world:
        problem = (
            f"process {place.process} has world_size {place.world}, process {world.split()[-1]} has {world.split()[0]}"
        )
        return _outcome(store, problem)
    secret = store.compare_set("secret", "", secrets.token_hex(16)).decode()
    try:
        found = _settled(store, place, deadline, started)
    except KeyboardInterrupt:
        _outcome(store, f"process {place.process} was interrupted")
        raise
    return found if isinstance(found, str) else (found, secret)


def _settled(store: Store, place: Place, deadline: float, started: float) -> tuple[Facts, ...] | str:
    """Everybody's facts once all are there, or why that did not come about."""
    keys = [f"process/{process}" for process in range(place.world)]
    pause = _POLL
    while True:
        if store.check(["outcome"]):
            outcome = store.get("outcome").decode()
            if outcome != "met":
                return outcome
        if store.check(keys):
            everyone = tuple(Facts(**json.loads(store.get(key))) for key in keys)
            outcome = _outcome(store, _difference(everyone) or "met")
            return everyone if outcome == "met" else outcome
        if time.monotonic() >= deadline:
            missing = [process for process, key in enumerate(keys) if not store.check([key])]
            waited = time.monotonic() - started
            names = f"process{'es' if len(missing) > 1 else ''} {', '.join(map(str, missing))} of {place.world}"
            return _outcome(store, f"{names} did not come within {waited:.1f} s")
        time.sleep(pause)
        pause = min(pause * 1.2, 0.1)


def _outcome(store: Store, outcome: str) -> str:
    """What became of the round: this, unless it was settled before."""
    return store.compare_set("outcome", "", outcome).decode()


def _linger(store: Store, place: Place) -> None:
    """Give the others the time to read why the round failed, before the store goes down with the process that has it."""
    end = time.monotonic() + _LINGER
    with suppress(RuntimeError):
        waiting = store.add("waiting", -1)
        while is_host(place) and waiting > 0 and time.monotonic() < end:
            time.sleep(_POLL)
            waiting = store.add("waiting", 0)


def _taken(store: Store, place: Place, facts: Facts, holder: Facts) -> str | None:
    """Why this process cannot have its place in the round, or None where the round is an earlier group's."""
    if store.check(["outcome"]):
        return None
    if holder.is_gone():
        _outcome(store, f"process {place.process} ({holder}) ended before the group was complete")
        return None
    if (holder.pid, holder.machine) == (facts.pid, facts.machine):
        _outcome(store, f"process {place.process} opens a second group while it waits for the first")
        return None
    return _outcome(store, f"process {place.process} is there twice: {holder}, and {facts}")


def _difference(everyone: Sequence[Facts]) -> str | None:
    """How the processes do not fit together, or None."""
    for facts in everyone:
        if facts.is_gone():
            return f"process {facts.process} ({facts}) ended before the group was complete"
    for what in ("variant", "engine", *everyone[0].settings):
        said = [facts.settings[what] if what in facts.settings else getattr(facts, what) for facts in everyone]
        values = {value: facts.process for value, facts in zip(said, everyone, strict=True)}
        if len(values) > 1:
            brought = ", ".join(f"process {process} has {value}" for value, process in values.items())
            return f"the processes differ in their {what}: {brought}"
    return None


def _machine() -> str:
    """This machine, and on it the space in which process ids count."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return f"{socket.gethostname()}/{space}"
