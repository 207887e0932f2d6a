"""One rank's part in one collective, from its call to its result."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import torch
from dispatch_runtime.contexts import when
from dispatch_runtime.memory import copy_of, empty_like

if TYPE_CHECKING:
    from dispatch_runtime.agreement import Agreement
    from dispatch_runtime.rounds import Round

T = TypeVar("T")

Members = tuple[int, ...]
"""The ranks of a group or subgroup, ascending."""

Shape = tuple[int, ...]


class Channel(NamedTuple):
    """Where calls are counted: those of one channel have one order on all members, those of two have none.

    `purpose` keeps apart what the same members do: nothing for what programs call, `gradients`, and `0>1` for what
    rank 0 sends rank 1.
    """

    members: Members
    purpose: str = ""


FIRST_LOOK, LOOK_AGAIN = 0.1, 0.5
"""Seconds of waiting after which a rank looks for what it could be waiting for in vain, and until it looks again."""


class Call(NamedTuple):
    """What a rank brings to a collective.

    `shapes` are those of a list of tensors, one for each member. `root` is the rank that gives or gets; of a transfer,
    the one that sends. `tracked` says that autograd will want the gradient. `facts` may differ: then nothing is moved,
    and all ranks get the facts of all.
    """

    op: str
    reduction: str | None = None
    dtype: str | None = None
    shape: Shape | None = None
    shapes: tuple[Shape, ...] | None = None
    root: int | None = None
    label: str | None = None
    tracked: bool = False
    facts: str | None = None

    @property
    def agreed(self) -> tuple[object, ...]:
        """What has to be the same on all members."""
        match self.op:
            case "scatter":  # only the root has tensors
                return self.op, self.root, self.label
            case "all_to_all":  # what goes from one to another has any shape
                return self.op, self.dtype, self.tracked
            case "send" | "recv":
                return self.dtype, self.shape
            case "exchange":  # what it is for is among the facts
                return (self.op,)
            case _:
                return self[:-1]

    @property
    def name(self) -> str:
        """The op that the program called: a label says which one this is a part of."""
        return self.op if self.label is None else self.label.partition(",")[0]

    def brings(self, rank: int) -> bool:
        """Whether the tensor of the rank is read."""
        return self.op not in ("broadcast", "recv") or self.root == rank

    def __str__(self) -> str:
        """`all_reduce(SUM) of float32[2, 3]`, as errors show it."""
        text = self.op if self.reduction is None else f"{self.op}({self.reduction})"
        if self.shape is not None:
            text += f" of {self.dtype}{_brackets(self.shape)}"
        if self.shapes is not None:
            text += f" of {self.dtype} {', '.join(map(_brackets, self.shapes))}"
        if self.root is not None and self.op not in ("send", "recv"):
            text += f" {'to' if self.op in ('reduce', 'gather') else 'from'} rank {self.root}"
        if self.tracked:
            text += ", tracked by autograd"
        return text if self.label is None else f"{text} for {self.label}"


def _brackets(shape: Shape) -> str:
    return f"[{', '.join(map(str, shape))}]"


@dataclass(frozen=True)
class Trouble:
    """Why an operation, or a whole group, came to nothing: a situation of the catalog with its fields.

    `text` is the same in one line. `place` is the round that it happened in, where it was one.
    """

    situation: str
    fields: Mapping[str, Any]
    text: str
    place: tuple[Channel, int] | None = None
    cause: BaseException | None = None
    at: float = field(default_factory=time.time)


class Gate:
    """Opens once, for any number of threads that wait, on a single raw lock."""

    __slots__ = ("_lock", "opened")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self.opened = False

    def open(self) -> None:
        """Let everybody through from now on; called once."""
        self.opened = True
        self._lock.release()

    def wait(self, seconds: float) -> bool:
        """Wait until it is open, at most so long, and say whether it is. A signal gets through."""
        if not self.opened and self._lock.acquire(timeout=max(seconds, 0.0)):
            self._lock.release()
        return self.opened


class Operation(Generic[T]):
    """What a communicator gives back: in flight until it is settled, with a value or with trouble.

    `input` is the caller's tensor, `buffer` memory of the operation's own that will be the result; in place they are
    one. `buffers` are the tensors of a call that has several: memory of its own, unless they are reduced in place.
    `owner` is the thread that called.
    """

    __slots__ = (
        *(
            "__weakref__",
            "agreement",
            "buffer",
            "buffers",
            "call",
            "channel",
            "deadline",
            "gate",
            "in_place",
            "input",
            "ready",
        ),
        *("owner", "rank", "round", "started", "trouble", "value"),
    )

    def __init__(
        self,
        agreement: Agreement,
        rank: int,
        channel: Channel,
        call: Call,
        tensor: torch.Tensor | None,
        timeout: float,
        in_place: bool = False,
    ) -> None:
        self.agreement = agreement
        self.rank = rank
        self.channel = channel
        self.call = call
        self.input = tensor
        self.in_place = in_place
        self.buffer = tensor if in_place else None
        self.buffers: Sequence[torch.Tensor] = ()
        self.started = time.monotonic()
        self.deadline = self.started + timeout
        self.owner = threading.current_thread()
        self.gate = Gate()
        self.round: Round | None = None
        self.ready: torch.Event | None = None
        self.value: T | None = None
        self.trouble: Trouble | None = None

    def done(self) -> bool:
        """Whether `wait` would return or raise at once."""
        if not self.gate.opened and time.monotonic() >= self.deadline:
            self.agreement.expire(self)
        return self.gate.opened

    def wait(self, timeout: float | None = None) -> T:
        """The result. Running out of `timeout` (seconds) leaves the operation in flight; its deadline ends the group."""
        if not self.gate.opened:
            self._block(timeout)
        if self.trouble is not None:
            raise self.error(self.trouble)
        return self.value  # type: ignore[return-value]

    def _block(self, timeout: float | None) -> None:
        soft = None if timeout is None else time.monotonic() + timeout
        pause = FIRST_LOOK
        with self.agreement.waiting(self, forever=soft is None):
            while True:
                now = time.monotonic()
                end = self.deadline if soft is None else min(soft, self.deadline)
                if self.gate.wait(min(pause, end - now)):
                    return
                if now >= self.deadline:
                    self.agreement.expire(self)
                elif soft is not None and now >= soft:
                    raise self.error(self.agreement.late(self))
                elif soft is None:
                    self.agreement.look(self)
                    pause = LOOK_AGAIN

    def error(self, trouble: Trouble) -> Exception:
        """The exception for this rank: with how long it has waited, and from which line."""
        agreement = self.agreement
        agreement.said(self)
        waited = f"{time.monotonic() - self.started:.1f}"
        more = {"waited": waited, "where": _line(), "since": when(trouble.at), **trouble.fields}
        error = agreement.errors.make(trouble.situation, self.call.name, agreement.names([self.rank]), **more)
        error.__cause__ = trouble.cause
        return error

    def snapshot(self) -> None:
        """Copy the input to memory of its own, so that the caller may overwrite it; there the result will be."""
        if self.buffer is None and self.input is not None:
            self.buffer = copy_of(self.input)

    def note_stream(self, tensor: torch.Tensor) -> None:
        """On an accelerator, note what has to be computed before the tensor may be read."""
        if tensor.device.type != "cpu":
            self.ready = torch.Event(device=tensor.device)
            self.ready.record()

    @property
    def contribution(self) -> torch.Tensor:
        """What this rank brings."""
        tensor = self.input if self.buffer is None else self.buffer
        assert tensor is not None
        return tensor

    def filled(self, value: torch.Tensor) -> torch.Tensor:
        """The memory of the result, with the strides of the input and this value: another's, or the line of its own."""
        buffer = self.memory()
        return buffer if value.data_ptr() == buffer.data_ptr() else buffer.copy_(value)

    def memory(self) -> torch.Tensor:
        """The memory of the result, with the strides of the input."""
        if self.buffer is None:
            assert self.input is not None
            self.buffer = empty_like(self.input)
        return self.buffer

    def adopted(self, value: torch.Tensor) -> torch.Tensor:
        """The same for a value that nobody else has, or reads later: without a copy where that can be."""
        assert self.input is not None
        if self.buffer is None and value.is_contiguous() and self.input.is_contiguous():
            self.buffer = value
            return value
        return self.filled(value)


def unrecorded() -> AbstractContextManager[object]:
    """Compute outside of any graph, into ordinary tensors even where the caller is in inference mode."""
    if not torch.is_inference_mode_enabled():
        return torch.no_grad()
    both = ExitStack()
    both.enter_context(torch.inference_mode(mode=False))
    both.enter_context(torch.no_grad())
    return both


def _line() -> str:
    """The line outside the dispatch layer that waits."""
    from dispatch_runtime.handles import _caller

    filename, line = _caller()
    return f"{filename}:{line}" if filename else sys.executable
