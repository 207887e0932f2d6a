"""What in the catalog a template was looking at: views, which know no places, back to the entries, which do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from dispatchgen.plan import views

if TYPE_CHECKING:
    from dispatchgen.model.catalog import Catalog, Entry, Op
    from dispatchgen.source import Span
    from dispatchgen.template_set import TemplateSet


class Read(NamedTuple):
    """One name that an expression of a template reads, the value of it, and the attribute that it asks for, if any."""

    name: str
    value: Any
    attribute: str


@dataclass(frozen=True, eq=False)
class Scope:
    """What is in scope in a place of a template: loop variables and macro parameters, and what an expression reads."""

    values: tuple[Any, ...]
    reads: tuple[Read, ...]


@dataclass(frozen=True)
class Origin:
    """An entry of the catalog, or one value of it."""

    what: str
    span: Span


def origins(
    scope: Scope, context: Mapping[str, Any], catalog: Catalog, template_set: TemplateSet
) -> tuple[Origin, ...]:
    """The entries behind a piece of text: what the expression reads first, then what is in scope, else the whole file."""
    finder = _Finder(
        catalog, template_set, next((each for each in scope.values if isinstance(each, views.OpView)), None)
    )
    found = [origin for read in scope.reads for origin in finder.read(read)]
    found += [origin for value in reversed(scope.values) for origin in finder.entry(value)]
    if not found:
        found = [origin for value in context.values() for origin in finder.entry(value)]
    if not found:
        found = [origin for read in scope.reads for origin in finder.section(read.name)]
    return tuple(found)


def sharpest(found: Iterable[Origin]) -> tuple[Origin, ...]:
    """The origins, each once, without entries of which a single value is among them."""
    once = tuple(dict.fromkeys(found))
    precise = {origin.what.partition(":")[0] for origin in once if ":" in origin.what}
    return tuple(origin for origin in once if origin.what not in precise)


_KEYS = {
    "docstring": "doc",
    "docs": "doc",
    "kernel_module": "kernels",
    "kernel_class": "kernels",
    "before": "example",
    "after": "example",
    "parameters": "args",
    "call": "args",
    "kernel_call": "args",
    "arm_parameters": "args",
    "kernel_parameters": "args",
    "inputs": "args",
    "result": "returns",
    "of": "returns",
    "gives_tracked": "returns",
    "arm_returns": "returns",
    "kernel_returns": "returns",
    "routed": "route",
    "answer": "otherwise",
    "question": "otherwise",
    "rules": "backward",
    "native": "backward",
    "gradient_parameters": "backward",
    "gradient_arguments": "backward",
    "pair_target": "pair",
    "direct_call": "args",
}
"""Attributes of views whose value comes from a key of another name."""

_SECTIONS = {"built": "backends", "error_names": "errors", "methods": "families", "questions": "families"}
"""Names in the context that stand for a whole section of another name."""


class _Finder:
    """Looks entries up. Inside of an operation, its arguments, rules and exemptions are meant."""

    def __init__(self, catalog: Catalog, template_set: TemplateSet, op: views.OpView | None) -> None:
        self.catalog = catalog
        self.template_set = template_set
        self.op = None if op is None else next((each for _, each in catalog.ops if each.name == op.name), None)

    def read(self, read: Read) -> Iterator[Origin]:
        """The value that an expression reads, where the entry has it under a key of its own; else the entry."""
        if isinstance(read.value, views.GuardView):
            yield self._guard(read.value, "doc" if read.attribute == "docstring" else read.attribute)
        for what, entry in self._entries(read.value):
            key = _KEYS.get(read.attribute, read.attribute)
            if "class" in entry.at:  # an error
                key = {"name": "class", "doc": "cause"}.get(key, key)
            yield (
                Origin(f"{what}: {key}", entry.at[key])
                if key in entry.at and key != "name"
                else Origin(what, entry.span)
            )

    def entry(self, value: Any) -> Iterator[Origin]:
        """The entries that a view was made from."""
        if isinstance(value, views.GuardView):
            yield self._guard(value, "name")
        for what, entry in self._entries(value):
            yield Origin(what, entry.span)

    def _guard(self, guard: views.GuardView, key: str) -> Origin:
        """A question that the template set declares, or one key of it."""
        what = f"guard {guard.name}" + ("" if key == "name" else f": {key}")
        return Origin(what, self.template_set.place("guards", guard.name, key))

    def section(self, name: str) -> Iterator[Origin]:
        """The section of the catalog that a name in the context stands for."""
        section = _SECTIONS.get(name, name)
        entries = {"errors": self.catalog.errors, "families": self.catalog.families}.get(section, ())
        if section in self.catalog.at:
            yield Origin(f"all of {section}" if section != "package" else section, self.catalog.at[section])
        elif entries:
            yield Origin(f"all of {section}", entries[0].span)

    def _entries(self, value: Any) -> Iterator[tuple[str, Entry]]:
        catalog = self.catalog
        match value:
            case views.FamilyView(name=name):
                yield from ((f"family {name}", each) for each in catalog.families if each.name == name)
            case views.OpView(name=name):
                yield from ((f"op {name}", each) for _, each in catalog.ops if each.name == name)
            case views.MatchView(method=method):
                yield from ((f"op {each.name}", each) for _, each in catalog.ops if method in _methods(each))
            case views.ArmView():
                yield from self._arm(value)
            case views.ArgumentView(name=name) if self.op is not None:
                yield from ((f"argument {name}", each) for each in self.op.args if each.name == name)
            case views.RuleView() if self.op is not None:
                yield f"op {self.op.name}", self.op
            case views.BackendView(name=name):
                yield from ((f"backend {name}", each) for each in catalog.backends if each.name == name)
            case views.RuntimeView(name=name):
                inner = (each for backend in catalog.backends for each in backend.runtimes)
                yield from ((f"runtime {name}", each) for each in inner if each.name == name)
            case views.WrapperView(name=name):
                yield from ((f"wrapper {name}", each) for each in catalog.wrappers if each.name == name)
            case views.ErrorView(code=code):
                yield from ((f"error {code}", each) for each in catalog.errors if each.code == code)

    def _arm(self, arm: views.ArmView) -> Iterator[tuple[str, Entry]]:
        backend = next(each for each in self.catalog.backends if each.name == arm.backend)
        runtime = next((each for each in backend.runtimes if each.name == arm.name), None)
        yield (f"runtime {arm.name}", runtime) if runtime else (f"backend {arm.name}", backend)
        if arm.situation is not None and self.op is not None:
            for each in self.catalog.exemptions:
                if each.backend in (None, backend.name) and each.op in (None, self.op.name):
                    yield f"exemption until {each.until}", each


def _methods(op: Op) -> tuple[str, ...]:
    return (op.pair.out, op.pair.into) if op.pair else (op.name,)
