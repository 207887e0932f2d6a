"""What a generated package knows about itself: its backends, its features, its error texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from storage_kernels.errors import ErrorTable, StorageError


@dataclass(frozen=True)
class Part:
    """Something that a build has or leaves out; `missing` are the features that would bring it in."""

    name: str
    cfg: str
    built: bool
    missing: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class BackendSupport(Part):
    """What the catalog says about one backend."""

    id: int
    doc: str
    scheme: str
    """What stands before the colon in the name of a store."""
    path: bool
    """Whether a place in the file system stands behind it."""
    writable: bool
    cacheable: bool
    transfer: str
    """`both`, `into`, `out` or `none`."""


@dataclass(frozen=True)
class Package:
    """A generated package."""

    name: str
    features: tuple[str, ...]
    backends: Mapping[str, BackendSupport]
    cache: Part
    errors: ErrorTable

    @property
    def built(self) -> tuple[BackendSupport, ...]:
        """The backends of this build."""
        return tuple(backend for backend in self.backends.values() if backend.built)

    def not_built(self, op: str, part: Part) -> StorageError:
        """The error about something that this build leaves out."""
        wanted = ",".join(sorted({*self.features, *part.missing}))
        command = f"dispatchgen generate --no-default-features --features {wanted}"
        features = ", ".join(self.features) or "none"
        return self.errors.make(
            "not_built", op, part.name, what=part.name, cfg=part.cfg, features=features, command=command
        )
