"""Device groups: opened together, used by rank, closed on every way out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import torch
from dispatch_runtime import contexts, replica_threads
from dispatch_runtime.agreement import Agreement
from dispatch_runtime.communicator import Communicator
from dispatch_runtime.device_group import DeviceGroup, refuse_duplicates
from dispatch_runtime.devices import Device, DeviceLike
from dispatch_runtime.engines import Engine
from dispatch_runtime.engines.shared_memory import SharedMemory
from dispatch_runtime.handles import as_seconds
from dispatch_runtime.operation import Channel, Members, Trouble
from dispatch_runtime.rendezvous import Place, place_of
from dispatch_runtime.rounds import Round
from dispatch_runtime.values import DistributedConfig, ReduceOperation

if TYPE_CHECKING:
    from dispatch_runtime.engines.spread_store import SpreadStore
    from dispatch_runtime.joining import DivideBy
    from dispatch_runtime.links import Links

T = TypeVar("T")

_OP = "DistributedContext"


class DistributedContext(DeviceGroup):
    """A device group: the devices of this process and, under a rendezvous, those of the other processes.

    `devices` are all of the group by rank, `local_devices` those of this process; each carries the group and its
    rank. Processes take their ranks in order, and give each of their devices one. Use the group as a `with` block, or
    close it with `close()`.

    Raises `no_devices`, `duplicate_device`, `mixed`, `bad_config`, what a backend without collectives raises, and
    `rendezvous` where the processes do not meet within the timeout.
    """

    def __init__(self, devices: Sequence[DeviceLike], config: DistributedConfig | None = None) -> None:
        errors = self.package.errors
        self.config = DistributedConfig() if config is None else config
        place = place_of(errors, self.config)
        self.process = place.process
        own = self._own_devices(devices)
        self._of_parent = False
        self._lock = threading.Lock()
        self._closed_at: float | None = None
        self._links: Links | None = None
        self._network: Engine | None = None
        self._spread: SpreadStore | None = None
        self._communicators: dict[tuple[int, Channel], Communicator] = {}
        self._states: dict[int, dict[str, Any]] = {}
        self._ordinals: dict[int, int] = {}
        deadline = time.monotonic() + self.config.timeout
        if place.world == 1:
            self._take([own])
            self._open_alone()
        else:
            self._meet(place, own, deadline)
        contexts.opened(self)

    def _own_devices(self, likes: Iterable[DeviceLike]) -> tuple[Device, ...]:
        from dispatch_runtime.placing import as_devices

        devices = as_devices(self.package, _OP, likes)
        for device in devices:
            self.package.ensure_supported(device, "start_communication_server")
            if device.process is not None and (device.context is not None or device.process != self.process):
                missing = f"it is of process {device.process}, and a process opens a group with its own devices"
                fields = {"backend": type(device).__name__, "missing": missing}
                raise self.package.errors.make("unavailable", _OP, f"device {device}", **fields)
        own = tuple(device.replace(process=None, context=None, rank=None) for device in devices)
        refuse_duplicates(self.package, _OP, own)
        return own

    def _take(self, by_process: Sequence[Sequence[Device]]) -> None:
        """Give the devices of all processes their ranks, and the local ones what they agree through."""
        self._seat(by_process)
        everyone = tuple(range(self.size))
        local = [device.rank for device in self.local_devices if device.rank is not None]
        self._agreement = Agreement(
            self.package.errors,
            everyone,
            local,
            self.names,
            self._carry_out,
            self._tell,
            self.config.agreement,
            self._silent,
        )
        self._memory = SharedMemory(self._agreement)

    def _open_alone(self) -> None:
        if self.size > 1 and self.devices[0].torch_device.type != "cpu":
            from dispatch_runtime.engines.c10d import C10d
            from torch._C._distributed_c10d import HashStore

            store = HashStore()
            self._network = C10d(self._agreement, self.devices, lambda: store)

    def _meet(self, place: Place, own: Sequence[Device], deadline: float) -> None:
        from dispatch_runtime.engines.c10d import C10d
        from dispatch_runtime.engines.spread_store import SpreadStore
        from dispatch_runtime.links import Links
        from dispatch_runtime.meeting import Facts, meet

        errors = self.package.errors
        meeting = meet(errors, place, Facts.of(self.package, place, own, self.config), deadline)
        by_process = [[_device(own[0], *each) for each in facts.devices] for facts in meeting.facts]
        self._take(by_process)
        self._links = Links.open(errors, meeting, deadline, self._hear, self._lose)
        if own[0].engine == "gloo":
            everywhere = self._agreement.everyone
            spread = SpreadStore(lambda *item: self._tell(everywhere, ["set", *item]), self._agreement.failed)
            self._spread = spread
            self._network = C10d(self._agreement, self.devices, lambda: spread, meeting.facts[place.process].address)
        else:
            self._network = C10d(self._agreement, self.devices, meeting.store)
        try:
            self._links.listen()
        except BaseException:
            self._links.close()
            raise

    def communicator(self, device: Device, members: Sequence[Device] | None = None, purpose: str = "") -> Communicator:
        """The collectives of a local device on these devices of the group; None means all.

        Made once for each set of members and purpose. Calls that are made for different purposes have no common order.
        """
        if members is None or members is self.devices:
            ranks = self._agreement.everyone
        else:
            ranks = tuple(sorted(each.rank or 0 for each in members))
        assert device.rank is not None
        key = (device.rank, Channel(ranks, purpose))
        found = self._communicators.get(key)
        if found is None:
            if device.process is not None or device.rank not in ranks:
                raise self.stranger("communicator", device, self.local_devices if members is None else members)
            own = self.devices[device.rank]
            found = Communicator(own, key[1], self._agreement, self._engine(ranks), self.config.timeout)
            found = self._communicators.setdefault(key, found)
        return found

    def _engine(self, ranks: Members) -> Engine:
        """Memory where all members are CPU devices of this process or there is only one, else the network."""
        here = all(self.devices[rank].process is None for rank in ranks)
        if self._network is None or len(ranks) == 1 or (here and self.devices[0].torch_device.type == "cpu"):
            return self._memory
        return self._network

    def state(self, device: Device) -> dict[str, Any]:
        """A place where kernels keep what belongs to a local device in this group."""
        assert device.rank is not None
        return self._states.setdefault(device.rank, {})

    def next_module_ordinal(self, device: Device) -> int:
        """How many modules the device distributed in this group before; counts on."""
        assert device.rank is not None
        with self._lock:
            ordinal = self._ordinals.get(device.rank, 0)
            self._ordinals[device.rank] = ordinal + 1
        return ordinal

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Let backward passes accumulate gradients without sync: those of this thread's device, else of all local ones.

        What counts is whether the backward pass runs inside.
        """
        states = [self.state(device) for device in self._own_or_all()]
        for state in states:
            state["no_sync"] = state.get("no_sync", 0) + 1
        try:
            yield
        finally:
            for state in states:
                state["no_sync"] -= 1

    def join(self, divide_by: DivideBy = "size") -> AbstractContextManager[None]:
        """A block for the training loop of ranks with different numbers of batches; it ends on all ranks together.

        A rank that is through takes part in what the others still reduce, with zeros. A mean divides by the size of
        the group as before, or with `divide_by="active"` by the number of ranks that still have batches. At the end
        every replica gets the parameters and buffers of a rank that had batches to the last.

        Raises `bad_config` for another divisor, and inside the block what `distribute` raises.
        """
        from dispatch_runtime.joining import join

        if divide_by not in ("size", "active"):
            problem, fix = f"divide_by={divide_by!r}", "a mean divides by 'size' or by 'active'"
            raise self.package.errors.make("bad_config", "join", "the divisor", problem=problem, fix=fix)
        return join(self, divide_by)

    def syncs(self, device: Device) -> bool:
        """Whether backward passes of the device synchronise now: not inside `no_sync`."""
        return not self.state(device).get("no_sync", 0)

    def run(self, fn: Callable[[Any], T]) -> list[T]:
        """The results of `fn(device)` by local rank, each called on a thread of its own.

        Grad mode, inference mode, autocast, the default device and context variables are those of this thread. The
        first exception is handed on; what waits for its rank is stopped with `peer_failed`.
        """
        self.ready("run", self.local_devices[0])
        return replica_threads.run(self, self._agreement, fn)

    def all_true(self, flag: bool, timeout: float | None = None) -> bool:
        """Whether the flag is true on all ranks: the same answer everywhere.

        Inside `run` each device gives its own flag; elsewhere this process gives one for all its devices.
        """
        flights = [
            self.communicator(device).all_reduce(
                torch.tensor(bool(flag), device=device.torch_device), ReduceOperation.MIN, timeout, label="all_true"
            )
            for device in self._own_or_all()
        ]
        answers = [bool(flight.wait()) for flight in flights]
        return all(answers)

    def _own_or_all(self) -> Sequence[Device]:
        """The device that this thread works for in this group, else all local ones."""
        device = contexts.own_device(self)
        return self.local_devices if device is None else (device,)

    def wait_for_all(self, device: Device, timeout: float | None = None) -> None:
        """Wait for all that is in flight on a local device; raises what nobody has been told of yet."""
        self.ready("sync_collective", device)
        assert device.rank is not None
        self._agreement.wait_for_all(device.rank, timeout)

    def ready(self, op: str, device: Device) -> None:
        """Raise `after_fork`, `closed`, or `failed` with the first cause, where the group cannot be used any more."""
        if self._of_parent:
            raise self.package.errors.make("after_fork", op, device)
        if self._closed_at is not None:
            raise self.package.errors.make("closed", op, device, since=contexts.when(self._closed_at))
        if self._agreement.failure is not None:
            self._agreement.ready(op, device.rank or 0)

    def is_of_this_process(self) -> bool:
        """Whether this process opened it, not one that it was forked from."""
        return not self._of_parent

    def forget_connections(self) -> None:
        """In a forked child: hold nothing open that would hide the parent's end from the other processes."""
        self._of_parent = True
        if self._links is not None:
            self._links.forget()

    def __enter__(self) -> Self:
        self.ready("with", self.local_devices[0])
        self._inside = contexts.inside(self)
        self._inside.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._inside.__exit__(kind, error, trace)
        if error is not None and not (isinstance(error, SystemExit) and not error.code) and self.is_of_this_process():
            local = [device.rank for device in self.local_devices if device.rank is not None]
            self._agreement.fail(self._agreement.peer_failed(local, error))
        self.close()

    def close(self, timeout: float | None = None) -> None:
        """Leave the group. Closing twice is fine.

        Waits at most `timeout` seconds (None: the group's) for operations that other processes can still bring to an
        end; the handles of all others raise `closed` from now on.
        """
        if not self.is_of_this_process():
            return
        seconds = self.config.timeout if timeout is None else as_seconds(self.package, "close", timeout)
        with self._lock:
            if self._closed_at is not None:
                return
            self._closed_at = time.time()
        deadline = time.monotonic() + seconds
        with ExitStack() as parting:  # what interrupts one step leaves out none of the next
            parting.callback(self._states.clear)
            parting.callback(self._communicators.clear)
            if self._network is not None:
                parting.callback(self._network.close, deadline)
            if self._links is not None:
                parting.callback(self._links.close)
            parting.callback(contexts.closed, self)
            self._agreement.close(Trouble("closed", {}, "the group was closed"), deadline)

    def _carry_out(self, round_: Round) -> None:
        self._engine(round_.members).carry_out(round_)

    def _tell(self, ranks: Iterable[int], message: list[Any]) -> None:
        if self._links is not None:
            processes = {self.devices[rank].process for rank in ranks} - {None}
            self._links.tell(sorted(each for each in processes if each is not None), message)

    def _silent(self, ranks: Iterable[int]) -> list[int]:
        """The ranks among these whose processes do not answer."""
        asked = list(ranks)
        processes = {self.devices[rank].process for rank in asked} - {None}
        silent = set() if self._links is None else self._links.silent(each for each in processes if each is not None)
        return [rank for rank in asked if self.devices[rank].process in silent]

    def _hear(self, process: int, message: list[Any]) -> None:
        if message[0] == "set" and self._spread is not None:
            self._spread.heard(*message[1:])
        else:
            self._agreement.hear(self.ranks_of(process), message)

    def _lose(self, process: int, cause: str) -> None:
        ranks = self.ranks_of(process)
        fields = {"peer": self.names(ranks), "cause": cause}
        trouble = Trouble("peer_failed", fields, f"{fields['peer']} failed: {cause}")
        self._agreement.lose(ranks, trouble)
        self._agreement.fail(trouble)


def _device(like: Device, index: int, host: str | None, runtime: str | None) -> Device:
    return like.replace(index=index, host=host, runtime=runtime)
