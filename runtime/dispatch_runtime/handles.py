"""What a collective gives back before it is done."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any, Generic, NoReturn, Protocol, TypeVar

from dispatch_runtime.devices import Device

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


class DroppedHandle(RuntimeWarning):
    """A handle was dropped before it was resolved."""


class CollectiveTensor(Generic[T]):
    """The result of a collective that may still be in flight.

    `resolve()` waits and gives the tensor (for some operations a list, or None); it gives the same one each time.
    Anything that reads the handle as if it were the tensor raises `Unresolved`.
    """

    def __init__(self, pending: Pending[Any], finish: Callable[[Any], T], op: str, device: Device) -> None:
        self._pending: Pending[Any] | None = pending
        self._finish: Callable[[Any], T] | None = finish
        self._op = op
        self._device = device
        self._caller = _caller()

    def resolve(self, timeout: float | None = None) -> T:
        """Wait for the result, at most `timeout` seconds, and return it.

        Raises `CollectiveTimeout` when `timeout` runs out, and the handle stays pending; a fault of the operation
        itself is raised by every call.
        """
        if self._pending is not None:
            pending, finish = self._pending, self._finish
            assert finish is not None
            self._read = True
            self._value: T = finish(pending.wait(timeout))
            self._pending = self._finish = None
        return self._value

    def is_completed(self) -> bool:
        """Whether `resolve` would not wait."""
        return self._pending is None or self._pending.done()

    def assume_resolved(self) -> T:
        """The result, if the operation is complete; else `Unresolved`. Never waits."""
        if not self.is_completed():
            self._refuse("assume_resolved()")
        return self.resolve(0.0)

    def _refuse(self, what: str) -> NoReturn:
        raise self._device.package.errors.make("unresolved", self._op, self._device, pending=what)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        self._refuse(f"`.{name}`")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        self._refuse("numpy conversion")

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        handles = [value for value in [*args, *(kwargs or {}).values()] if isinstance(value, CollectiveTensor)]
        for handle in handles:
            handle._refuse(f"`torch.{getattr(func, '__name__', func)}`")
        raise TypeError(f"{func} got an unresolved handle")

    def __repr__(self) -> str:
        state = "resolved" if self._pending is None else "pending"
        return f"CollectiveTensor({self._op} on {self._device}, {state})"

    def __del__(self) -> None:
        if self.__dict__.get("_pending") is not None and "_read" not in self.__dict__ and not sys.is_finalizing():
            filename, line = self._caller
            text = f"the handle of {self._op} on {self._device} was dropped unresolved; call .resolve() on it"
            warnings.warn_explicit(text, DroppedHandle, filename, line)


def _reader(name: str) -> Any:
    def read(self: CollectiveTensor[Any], *args: Any) -> Any:
        self._refuse(f"`{name}`")

    return read


# Python looks special methods up on the class, past __getattr__.
for _name in (
    *("__len__", "__iter__", "__getitem__", "__bool__", "__float__", "__int__", "__index__", "__complex__"),
    *("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__", "__rtruediv__"),
    *("__matmul__", "__rmatmul__", "__pow__", "__rpow__", "__neg__", "__abs__"),
    *("__lt__", "__le__", "__gt__", "__ge__"),
):
    setattr(CollectiveTensor, _name, _reader(_name))


def _caller() -> tuple[str, int]:
    """The first line outside the dispatch layer."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _OWN:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


_OWN = {"dispatch_runtime"}


def own_package(name: str) -> None:
    """Count the modules of a generated package as the dispatch layer's own when a caller's line is looked for."""
    _OWN.add(name)
