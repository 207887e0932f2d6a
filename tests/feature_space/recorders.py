"""Kernel classes for any backend that only say that they were reached: `from … import Cuda` makes one."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

WAYS_OUT = {"export_tensor"}
"""Methods that give back what they were given, because another kernel's method comes next."""


class Reached(Exception):
    """A kernel's method was called, or one and then another: `Backend.method`, each with its device."""

    def __init__(self, steps: tuple[tuple[str, Any], ...]) -> None:
        super().__init__(" ".join(step for step, _ in steps))
        self.steps = steps


_taken: list[tuple[str, Any]] = []


class Recorder:
    """The kernels of one device."""

    def __init__(self, device: Any) -> None:
        self.device = device

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def record(*values: Any, **named: Any) -> Any:
            _taken.append((f"{type(self).__name__}.{method}", self.device))
            if method in WAYS_OUT:
                return values[0]
            steps = tuple(_taken)
            _taken.clear()
            raise Reached(steps)

        return record

    @staticmethod
    def count(runtime: str | None = None) -> int:
        """Two devices of each kind."""
        return 2

    @staticmethod
    def why_unavailable(index: int, runtime: str | None = None) -> None:
        """Every device can be had."""


def forget() -> None:
    """Begin a new call."""
    _taken.clear()


@cache
def kernel_class(name: str) -> type[Recorder]:
    return type(name, (Recorder,), {})


def __getattr__(name: str) -> type[Recorder]:
    if name.startswith("_"):
        raise AttributeError(name)
    return kernel_class(name)
