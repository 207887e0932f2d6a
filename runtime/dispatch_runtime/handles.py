"""What a collective gives back before it is done."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeVar

from dispatch_runtime.devices import Device
from dispatch_runtime.values import LONGEST
from torch.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from dispatch_runtime.package import Package

T = TypeVar("T")
P = TypeVar("P")
P_co = TypeVar("P_co", covariant=True)


class Pending(Protocol[P_co]):
    """An operation in flight, as kernels return it. It owns its buffers."""

    def wait(self, timeout: float | None = None) -> P_co:
        """The result, once it is there.

        Running out of `timeout` (seconds) raises `CollectiveTimeout` and leaves the operation in flight; the
        operation's own fault (deadline, disagreement, lost peer) is raised by every call.
        """
        ...

    def done(self) -> bool:
        """Whether `wait` would return or raise at once."""
        ...


class Done(Generic[P]):
    """A pending operation that was never in flight."""

    def __init__(self, value: P) -> None:
        self._value = value

    def wait(self, timeout: float | None = None) -> P:
        """The value."""
        return self._value

    def done(self) -> bool:
        """True."""
        return True


def as_seconds(package: Package, op: str, timeout: Any) -> float:
    """The timeout itself, a number from 0 to `LONGEST`; raises `BadConfig` for another, a TypeError for what is none."""
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(f"the timeout of {op} is a number of seconds, not {type(timeout).__name__}")
    if not 0 <= timeout <= LONGEST:
        problem = f"timeout={timeout!r}"
        fix = f"a timeout is a number of seconds from 0 to {LONGEST:.0f}; None takes the group's"
        raise package.errors.make("bad_config", op, "the timeout", problem=problem, fix=fix)
    return timeout


class DroppedHandle(RuntimeWarning):
    """A handle was dropped before it was resolved."""


class CollectiveTensor(Generic[T]):
    """The result of a collective that may still be in flight.

    `resolve()` waits and gives the tensor (for some operations a list, or None); it gives the same one each time.
    Anything that reads the handle as if it were the tensor raises `Unresolved`.
    """

    _value: T

    def __init__(self, pending: Pending[Any], finish: Callable[[Any], T], op: str, device: Device) -> None:
        self._flight: tuple[Pending[Any], Callable[[Any], T]] | None = (pending, finish)
        self._op = op
        self._device = device
        self._caller = _caller()

    def resolve(self, timeout: float | None = None) -> T:
        """Wait for the result, at most `timeout` seconds, and return it.

        Raises `CollectiveTimeout` when `timeout` runs out, and the handle stays pending; a fault of the operation
        itself is raised by every call.
        """
        flight = self._flight
        if flight is not None:
            pending, finish = flight
            if timeout is not None:
                as_seconds(self._device.package, "resolve", timeout)
            self._read = True
            self.__dict__.setdefault("_value", finish(pending.wait(timeout)))  # of several threads, the first
            self._flight = None
        return self._value

    def is_completed(self) -> bool:
        """Whether `resolve` would not wait."""
        flight = self._flight
        return flight is None or flight[0].done()

    def assume_resolved(self) -> T:
        """The result, if the operation is complete; else `Unresolved`. Never waits."""
        if not self.is_completed():
            self.refuse("assume_resolved()")
        return self.resolve(0.0)

    def refuse(self, what: str) -> NoReturn:
        """Raise `Unresolved` about what would have read it."""
        if self._flight is None:
            state, fix = "was resolved already, and is what resolve() gave back", "Use that, or call .resolve() again"
        elif self._flight[0].done():
            state, fix = "is still in its handle", "Call .resolve() on the handle, which would not wait"
        else:
            state = "is not there yet"
            fix = "Call .resolve() on the handle first, with timeout= to wait only so long"
        fields = {"pending": what, "state": state, "fix": fix}
        raise self._device.package.errors.make("unresolved", self._op, self._device, **fields)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        self.refuse(f"`.{name}`")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        self.refuse("numpy conversion")

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        handle = next(each for each in tree_leaves((args, kwargs)) if isinstance(each, CollectiveTensor))
        handle.refuse(f"`torch.{getattr(func, '__name__', func)}`")

    def __eq__(self, other: object) -> bool:
        """Whether it is the same handle; a comparison with values is a read."""
        if not isinstance(other, CollectiveTensor):
            self.refuse("`__eq__`")
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        state = "resolved" if self._flight is None else "pending"
        return f"CollectiveTensor({self._op} on {self._device}, {state})"

    def __del__(self) -> None:
        if self.__dict__.get("_flight") is not None and "_read" not in self.__dict__ and not sys.is_finalizing():
            filename, line = self._caller
            text = f"the handle of {self._op} on {self._device} was dropped unresolved; call .resolve() on it"
            warnings.warn_explicit(text, DroppedHandle, filename, line)


def _reader(name: str) -> Any:
    def read(self: CollectiveTensor[Any], *args: Any) -> Any:
        self.refuse(f"`{name}`")

    return read


# Python looks special methods up on the class, past __getattr__.
for _name in (
    *("__len__", "__iter__", "__contains__", "__getitem__", "__setitem__", "__bool__", "__float__", "__int__"),
    *("__index__", "__complex__", "__round__", "__neg__", "__pos__", "__abs__", "__invert__"),
    *("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__", "__rtruediv__"),
    *("__floordiv__", "__rfloordiv__", "__mod__", "__rmod__", "__matmul__", "__rmatmul__", "__pow__", "__rpow__"),
    *("__and__", "__rand__", "__or__", "__ror__", "__xor__", "__rxor__"),
    *("__lt__", "__le__", "__gt__", "__ge__"),
):
    setattr(CollectiveTensor, _name, _reader(_name))


def _caller() -> tuple[str, int]:
    """The first line outside the dispatch layer."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _OWN:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


_OWN = {"dispatch_runtime", "torch"}
"""Packages whose frames are not the caller's: torch's stand between a backward pass and what it calls."""


def own_package(name: str) -> None:
    """Count the modules of a generated package as the dispatch layer's own when a caller's line is looked for."""
    _OWN.add(name)
