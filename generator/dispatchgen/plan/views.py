"""What templates see: every name, annotation and literal decided, so that a template only lays it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


def summary_first(doc: str) -> str:
    """The text as a docstring has it: the first sentence, a blank line, the rest."""
    first, stop, rest = doc.strip().partition(". ")
    return f"{first}.\n\n{rest}" if stop else doc.strip()


@dataclass(frozen=True)
class ArgumentView:
    """One argument of an op, as it stands in the public function, in the arm and in the kernel."""

    name: str
    type: str
    doc: str
    public: str
    arm: str
    kernel: str
    passed: str
    """What the kernel is called with; empty where the kernel does not take it."""
    default: str | None
    """The literal of its default value."""
    keyword: bool


@dataclass(frozen=True)
class ArmView:
    """What an op does for one variant: forward where `situation` is None and `value` is None."""

    name: str
    """Of the backend, or of the runtime."""
    module: str
    constant: str
    backend: str
    situation: str | None = None
    value: str | None = None
    """The literal that a question is answered with where the variant lacks the capability."""
    reason: str = ""
    wrapped_only: str | None = None
    """The situation of the plain variant, where only the wrapped one forwards."""
    runtimes: tuple[ArmView, ...] = ()

    @property
    def forwards(self) -> bool:
        """Whether a kernel is behind it."""
        return self.situation is None and self.value is None and not self.runtimes and self.wrapped_only is None


@dataclass(frozen=True)
class RuleView:
    """The gradient for one choice of the forward call: an op, and the arguments it is called with."""

    choice: str | None
    """The expression of the choice; None where the rule holds for every call."""
    op: str
    module: str | None
    """The module that has the op; None where it is the forward one's."""
    call: str
    only: str | None
    """What says whose the gradient is, as the kernel gets it; None where it is everybody's."""
    gives: str
    """The annotation of the gradient."""
    pending: bool
    """Whether the op gives a handle."""


@dataclass(frozen=True)
class MatchView:
    """One match: a kernel method, and its arm for every backend of the build."""

    method: str
    class_name: str
    doc: str
    arm_parameters: str
    arm_returns: str
    kernel_parameters: str
    kernel_returns: str
    arms: tuple[ArmView, ...]

    @property
    def forwards(self) -> bool:
        """Whether any arm has a kernel behind it."""
        return any(inner.forwards or inner.wrapped_only for arm in self.arms for inner in (arm, *arm.runtimes))


@dataclass(frozen=True)
class OpView:
    """One op."""

    name: str
    class_name: str
    doc: str
    route: str
    routed: str
    """The argument that the route looks at."""
    parameters: str
    """Of the public function."""
    args: tuple[ArgumentView, ...]
    returns: str
    result: str
    """An expression that makes the result of the public function from `value`, what the kernel gave."""
    of: str | None
    """For a handle, the expression that finishes `value`, what the handle was waiting for."""
    call: str
    """What the arm is called with, `routed` standing for the routed argument."""
    kernel_call: str
    wrapper: str | None
    question: bool
    """Whether it is answered, never refused, where the capability is missing."""
    native: bool
    """Whether the kernel is differentiable itself."""
    choice: str | None
    """The argument that a gradient rule is chosen by."""
    rules: tuple[RuleView, ...]
    gradient_parameters: str
    """What a gradient rule needs of the forward call, as parameters; empty without rules."""
    gradient_arguments: str
    inputs: tuple[str, ...]
    """The arguments whose types the template set calls tracked."""
    gives: str
    """The annotation of what the op gives in the end, with or without a handle around it."""
    gives_tracked: bool
    """Whether what it gives back would have to be tracked too."""
    answer: str
    """The literal of what a question is answered with where nothing is known."""
    docstring: str
    matches: tuple[MatchView, ...]
    """One, or for an op between two backends the way out and the way in."""
    pair_target: str | None
    direct_call: str
    """What the kernel is called with where no arm stands before it, `routed` standing for the routed argument."""
    exceptions: tuple[tuple[str, str, str], ...]
    keys: Mapping[str, Any]


@dataclass(frozen=True)
class FamilyView:
    """One family of ops."""

    name: str
    module: str
    doc: str
    requires: str | None
    ops: tuple[OpView, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its ops, sorted."""
        return tuple(sorted(op.name for op in self.ops))

    @property
    def kernel_modules(self) -> tuple[str, ...]:
        """The modules of the backends that it forwards to, sorted."""
        inner = [
            arm for op in self.ops for match in op.matches for each in match.arms for arm in (each, *each.runtimes)
        ]
        return tuple(sorted({arm.module for arm in inner if arm.forwards or arm.wrapped_only}))


@dataclass(frozen=True)
class RuntimeView:
    """One runtime of a backend."""

    name: str
    constant: str
    cfg: str
    built: bool
    missing: tuple[str, ...]
    engines: Mapping[str, str | None]


@dataclass(frozen=True)
class BackendView:
    """One backend of the catalog, in the build or not."""

    name: str
    module: str
    constant: str
    id: int
    doc: str
    cfg: str
    built: bool
    missing: tuple[str, ...]
    """The features that would bring it into the build."""
    kernels: str | None
    kernel_module: str | None
    kernel_class: str | None
    forwards: bool
    """Whether any arm of the build forwards to its kernels."""
    engines: Mapping[str, str | None]
    wrappers: tuple[str, ...]
    transfer: str
    priority: int | None
    runtimes: tuple[RuntimeView, ...]
    keys: Mapping[str, Any]


@dataclass(frozen=True)
class WrapperView:
    """One wrapper."""

    name: str
    cfg: str
    built: bool
    missing: tuple[str, ...]


@dataclass(frozen=True)
class ErrorView:
    """One entry of the errors: `base` is the hand-written class, or None where the generated package defines it."""

    code: str
    name: str
    module: str | None
    when: str
    message: str
    reason: str
    help: str
    cause: str
    before: str
    after: str
    guard: str | None

    @property
    def docstring(self) -> str:
        """What the class says about itself."""
        return summary_first(f"{self.code}: {self.cause}")


@dataclass(frozen=True)
class GuardView:
    """One guard, as the template set declares it."""

    name: str
    parameters: str
    returns: str
    value: str
    doc: str
    codes: tuple[str, ...]
    """The errors that it prevents."""

    @property
    def docstring(self) -> str:
        """What the function says about itself."""
        told = f"\n\nPrevents {', '.join(self.codes)}." if self.codes else ""
        return summary_first(self.doc) + told
