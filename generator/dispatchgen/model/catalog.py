"""The catalog as values: what the rest of the generator works on, frozen, with the place in the YAML of every fact.

Places (`span`, `at`) take no part in equality: two catalogs that say the same are equal, wherever the words stand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from dispatchgen.predicate import Predicate
from dispatchgen.source import Span

NO_KEYS: Mapping[str, Any] = MappingProxyType({})
NOWHERE: Mapping[str, Span] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Anything that a YAML mapping stands for."""

    span: Span = field(compare=False)
    """Where the entry stands: its name, or its first key."""
    at: Mapping[str, Span] = field(default_factory=lambda: NOWHERE, compare=False, repr=False)
    """Where the value of each of its keys stands."""

    def where(self, key: str) -> Span:
        """The place of a key's value, or of the entry where the key was left out."""
        return self.at.get(key, self.span)


@dataclass(frozen=True, kw_only=True)
class Feature(Entry):
    """A flag that a build is made with, and the flags that it turns on."""

    name: str
    implies: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Cfg(Entry):
    """A derived flag: a name for a predicate."""

    name: str
    predicate: Predicate


@dataclass(frozen=True, kw_only=True)
class Wrapper(Entry):
    """Something that may stand around a backend, in builds where its predicate holds."""

    name: str
    cfg: Predicate
    doc: str = ""


@dataclass(frozen=True, kw_only=True)
class Capability(Entry):
    """What a backend, or one runtime of it, can do beyond the plain operations, and with which engine."""

    name: str
    engine: str


@dataclass(frozen=True, kw_only=True)
class Runtime(Entry):
    """One of several things that a single backend stands for; capability is asked of it."""

    name: str
    cfg: Predicate
    capabilities: Mapping[str, Capability] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Backend(Entry):
    """One entry of `backends:`."""

    name: str
    id: int
    cfg: Predicate
    doc: str = ""
    kernels: str | None = None
    """`module:Class` of the hand-written kernels."""
    capabilities: Mapping[str, Capability] = field(default_factory=dict)
    wrappers: tuple[str, ...] = ()
    """The wrappers that may stand around it, by name, in the catalog's order."""
    transfer: str = "both"
    """`both`, `into`, `out` or `none`."""
    priority: int | None = None
    runtimes: tuple[Runtime, ...] = ()
    keys: Mapping[str, Any] = field(default_factory=lambda: NO_KEYS)
    """The extra keys that the template set declares."""


@dataclass(frozen=True, kw_only=True)
class Argument(Entry):
    """One argument of an operation. `default` counts only where `has_default` does."""

    name: str
    type: str
    doc: str = ""
    optional: bool = False
    has_default: bool = False
    default: Any = None


@dataclass(frozen=True, kw_only=True)
class Returns(Entry):
    """What an operation gives back: `type`, for a handle `of` what, and whether None may come instead."""

    type: str
    of: str | None = None
    optional: bool = False


@dataclass(frozen=True, kw_only=True)
class BackwardRule(Entry):
    """The operation of the gradient where the forward one was called with the choice `choice`.

    `only` names the argument of the forward one that says whose the gradient is, where it is not everybody's.
    """

    choice: str
    op: str
    with_: str | None = None
    only: str | None = None


@dataclass(frozen=True, kw_only=True)
class Pair(Entry):
    """An operation between two backends: the argument that names the target, and the two kernel methods.

    `carries` is the return type of what goes from the one to the other. Left out, it is what the operation gives back,
    and stands for the argument that the route looks at.
    """

    argument: str
    out: str
    into: str
    carries: str | None = None


@dataclass(frozen=True, kw_only=True)
class PairException(Entry):
    """A pair of backends that the rule allows and a fact forbids."""

    source: str
    target: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Op(Entry):
    """One operation. `backward` is `"native"` where the kernel is differentiable itself."""

    name: str
    doc: str
    route: str
    args: tuple[Argument, ...]
    returns: Returns
    otherwise: str | None = None
    """What a variant without the capability does: `error`, `none` or `false`."""
    backward: tuple[BackwardRule, ...] | str = ()
    wrapper: str | None = None
    """The wrapper that the operation insists on."""
    pair: Pair | None = None
    exceptions: tuple[PairException, ...] = ()
    keys: Mapping[str, Any] = field(default_factory=lambda: NO_KEYS)


@dataclass(frozen=True, kw_only=True)
class Family(Entry):
    """One file of `ops/`: operations that share a class, and the capability that gates them."""

    name: str
    doc: str
    ops: tuple[Op, ...]
    requires: str | None = None


@dataclass(frozen=True, kw_only=True)
class ErrorEntry(Entry):
    """One entry of `errors.yaml`: what is said when a situation arises."""

    code: str
    exception: str
    """A class name, or `module:Class` where the class is written by hand."""
    when: str
    message: str
    reason: str
    help: str
    cause: str
    before: str
    after: str
    guard: str | None = None


@dataclass(frozen=True, kw_only=True)
class Exemption(Entry):
    """A kernel that is knowingly not there: all of a backend, one op everywhere, or one op of one backend."""

    reason: str
    until: str
    """The last day on which it excuses, `YYYY-MM-DD`."""
    backend: str | None = None
    op: str | None = None
    answer: str
    """The situation that the arm raises."""


@dataclass(frozen=True, kw_only=True)
class Catalog:
    """All of a spec folder."""

    package: str
    features: tuple[Feature, ...]
    cfgs: tuple[Cfg, ...] = ()
    wrappers: tuple[Wrapper, ...] = ()
    backends: tuple[Backend, ...] = ()
    families: tuple[Family, ...] = ()
    errors: tuple[ErrorEntry, ...] = ()
    exemptions: tuple[Exemption, ...] = ()
    unreadable: tuple[str, ...] = ()
    """The texts of predicates that are none, and count as false."""
    files: tuple[str, ...] = ()
    """The spec files that it was read from, relative to the spec folder, sorted."""
    at: Mapping[str, Span] = field(default_factory=lambda: NOWHERE, compare=False, repr=False)
    """Where the value of each key of `backends.yaml` stands."""

    @property
    def ops(self) -> tuple[tuple[Family, Op], ...]:
        """Every operation with its family, in the catalog's order."""
        return tuple((family, op) for family in self.families for op in family.ops)
