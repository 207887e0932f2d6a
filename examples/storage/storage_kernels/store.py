"""Stores as values: a backend, a place, and whether there is a cache around it."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from storage_kernels.package import BackendSupport, Package

CACHED = "cached+"
"""Stands before the scheme of a store with a cache around it."""

KernelT = TypeVar("KernelT")

_kernels: dict[tuple[Any, Store], Any] = {}


@dataclass(frozen=True, init=False, repr=False)
class Store:
    """A place that keeps objects. Equal stores are one: what one has put or remembered, the other has too.

    A path is made absolute at once, so that a change of the working directory moves no store. Raises `UnknownStore`
    for an empty place, `NotBuilt` or `NotCacheable` for a cache that cannot be.
    """

    package: ClassVar[Package]
    backend: ClassVar[enum.Enum]

    location: str
    cached: bool

    def __init__(self, location: str | os.PathLike[str], *, cached: bool = False) -> None:
        place = os.fspath(location)
        if not place or "\0" in place:
            raise unknown(self.package, "open_store", f"{self.support.scheme}:{place!r}", "a store has a place")
        object.__setattr__(self, "location", os.path.abspath(place) if self.support.path else place)
        object.__setattr__(self, "cached", False)
        if cached and not self.support.cacheable:
            raise self.package.errors.make("not_cacheable", "cached", self, backend=self.support.name)
        if cached and not self.package.cache.built:
            raise self.package.not_built("cached", self.package.cache)
        object.__setattr__(self, "cached", cached)

    @property
    def support(self) -> BackendSupport:
        """What the catalog says about the backend."""
        return self.package.backends[type(self).__name__]

    def kernel(self, make: Callable[[Store], KernelT]) -> KernelT:
        """The kernel of the store, made at the first call: one for all equal stores."""
        found: KernelT | None = _kernels.get((make, self))
        return _kernels.setdefault((make, self), make(self)) if found is None else found  # threads may race to here

    def __str__(self) -> str:
        return f"{CACHED if self.cached else ''}{self.support.scheme}:{self.location}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.location!r}{', cached=True' if self.cached else ''})"


def unknown(package: Package, op: str, subject: object, problem: str) -> Exception:
    """The error about something that names no store."""
    known = ", ".join(f"{backend.scheme}:" for backend in package.built) or "none, for this build has no backend"
    return package.errors.make("unknown_store", op, subject, problem=problem, known=known)
