"""What the generated arms are made of: how they are bound, and how they answer without a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from storage_kernels.store import Store

T = TypeVar("T")
ArmT = TypeVar("ArmT")
StoreT = TypeVar("StoreT", bound=Store)

_bound: dict[tuple[Any, Store], Any] = {}


def bound(bind: Callable[[StoreT], ArmT], store: StoreT) -> ArmT:
    """The arm that `bind` picks for the store: picked at the first call, looked up from then on."""
    arm: ArmT | None = _bound.get((bind, store))
    return _bound.setdefault((bind, store), bind(store)) if arm is None else arm


@dataclass(frozen=True)
class Refusal:
    """The arm that raises: the error of a situation, about one store."""

    op: str
    store: Store
    situation: str
    why: str

    def __call__(self, *values: object, **named: object) -> NoReturn:
        """Raise the error."""
        package, support = self.store.package, self.store.support
        if self.situation == "not_built":  # the store is there, so the cache around it is what is left out
            raise package.not_built(self.op, package.cache)
        writable = ", ".join(backend.name for backend in package.built if backend.writable) or "none"
        raise package.errors.make(
            self.situation, self.op, self.store, why=self.why, backend=support.name, writable=writable
        )


def refuse(op: str, store: Store, situation: str, why: str = "") -> Refusal:
    """The arm of a variant that cannot do it."""
    return Refusal(op, store, situation, why)


def willing(arm: ArmT) -> ArmT:
    """The arm itself; one that refuses does so now, before anything is read for it."""
    if isinstance(arm, Refusal):
        arm()
    return arm


def answer(value: T) -> Callable[..., T]:
    """The arm of a question on a backend without the capability: always this value."""
    return lambda *values: value


def refuse_pair(op: str, source: Store, target: Store, exceptions: Iterable[tuple[str, str, str]]) -> None:
    """Raise where one of the exceptions, each a source, a target and a reason, is about this pair of backends."""
    for first, second, why in exceptions:
        if (source.support.name, target.support.name) == (first, second):
            raise source.package.errors.make("no_way", op, f"{source} to {target}", why=why)
