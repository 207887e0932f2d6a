"""The questions behind the generated guards."""

from __future__ import annotations

from storage_kernels import placing
from storage_kernels.errors import StorageError
from storage_kernels.package import Package
from storage_kernels.store import Store


def is_built(package: Package, backend: str) -> bool:
    """Whether the backend of that name is in this build."""
    return any(each.name == backend for each in package.built)


def is_listed(package: Package, like: object) -> bool:
    """Whether it is a store of this build, or a text that names one."""
    if isinstance(like, Store):
        return like.package is package
    try:
        return bool(placing.named(package, "is_listed", like)[1])
    except (StorageError, TypeError):
        return False


def can_copy(source: Store, target: Store) -> bool:
    """Whether objects are copied from the one to the other."""
    return source.support.transfer in ("both", "out") and target.support.transfer in ("both", "into")


def can_cache(store: Store) -> bool:
    """Whether there can be a cache around the store in this build."""
    return store.support.cacheable and store.package.cache.built
