"""The things of a catalog as texts for pieces of code: what a template set's `statements` may put into their gaps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dispatchgen import _names as names
from dispatchgen.check.overlaid import overlaid
from dispatchgen.check.patterns import ANY
from dispatchgen.check.wanted import forwarding, matches
from dispatchgen.features import told_cfg
from dispatchgen.plan.ops import public_signature

if TYPE_CHECKING:
    from dispatchgen.features import Build
    from dispatchgen.model.catalog import Capability, Catalog
    from dispatchgen.template_set import TemplateSet

Thing = Mapping[str, Any]
"""The fields of one thing by name."""


class _Anything:
    """Stands for the value of any field: written into a piece of code, it becomes what matches everything."""

    def __str__(self) -> str:
        return ANY

    def __repr__(self) -> str:
        return repr(ANY)

    def __format__(self, spec: str) -> str:
        return ANY

    def __getitem__(self, key: str) -> _Anything:
        return self


class Anything(dict[str, Any]):
    """A thing that could be any: every field is there, and matches whatever stands in its place."""

    def __missing__(self, key: str) -> _Anything:
        return _Anything()


class Things:
    """The things of one build of a catalog, by kind."""

    def __init__(self, catalog: Catalog, template_set: TemplateSet, build: Build) -> None:
        self._catalog, self._template_set, self._build = catalog, template_set, build
        self.matches = matches(catalog, template_set, build)
        self._forwarding = forwarding(self.matches)
        self.overlaid = overlaid(catalog, template_set)
        self._found: dict[str, tuple[Thing, ...]] = {}

    def of(self, kind: str) -> tuple[Thing, ...]:
        """All things of a kind, in the catalog's order."""
        if kind not in self._found:
            package = {"package": self._catalog.package}
            self._found[kind] = tuple(package | thing for thing in getattr(self, f"_{kind}")())
        return self._found[kind]

    def _package(self) -> Iterator[Thing]:
        yield {"features": self._build.flags}

    def _family(self) -> Iterator[Thing]:
        for family in self._catalog.families:
            yield {"family": names.family_module(family.name), "name": family.name}

    def _op(self) -> Iterator[Thing]:
        for family, op in self._catalog.ops:
            parameters, returns = public_signature(op, self._template_set)
            yield {
                "family": names.family_module(family.name),
                "op": op.name,
                "title": names.class_name(op.name),
                "parameters": parameters,
                "returns": returns,
                "question": op.otherwise in ("none", "false"),
                "excepts": bool(op.exceptions),
            }

    def _exception(self) -> Iterator[Thing]:
        for family, op in self._catalog.ops:
            for each in op.exceptions:
                pair = {"source": each.source, "target": each.target, "reason": each.reason}
                yield {
                    "family": names.family_module(family.name),
                    "op": op.name,
                    "constant": op.name.upper(),
                    **pair,
                }

    def _method(self) -> Iterator[Thing]:
        for match in self.matches:
            yield {
                "family": names.family_module(match.family.name),
                "op": match.op.name,
                "method": match.method,
                "title": names.class_name(match.method),
                "parameters": "".join(f", {each}" for each in [match.parameters] if each),
                "returns": match.returns,
                "forwards": match.forwards,
            }

    def _kernels(self) -> Iterator[Thing]:
        for family in self._catalog.families:
            reached = forwarding(tuple(match for match in self.matches if match.family is family))
            for backend in self._catalog.backends:
                if backend.name in reached:
                    yield {
                        "family": names.family_module(family.name),
                        "module": names.module_name(backend.name),
                        "backend": backend.name,
                    }

    def _backend(self) -> Iterator[Thing]:
        for backend in self._catalog.backends:
            module, _, kernel_class = (backend.kernels or ":").partition(":")
            yield {
                "name": backend.name,
                "module": names.module_name(backend.name),
                "constant": names.constant_name(backend.name),
                "id": backend.id,
                "cfg": str(backend.cfg),
                "built": self._build.holds(backend.cfg),
                "kernels": backend.kernels,
                "kernel_module": module,
                "kernel_class": kernel_class,
                "forwards": backend.name in self._forwarding,
                "engines": self._engines(backend.capabilities),
                "capable": {each.name: each.name in backend.capabilities for each in self._template_set.capabilities},
                "wraps": {each.name: each.name in backend.wrappers for each in self._template_set.wrappers},
                "transfer": backend.transfer,
                "priority": backend.priority,
                "keys": {key.name: backend.keys.get(key.name) for key in self._template_set.backend_keys},
            }

    def _runtime(self) -> Iterator[Thing]:
        pairs = [(backend, runtime) for backend in self._catalog.backends for runtime in backend.runtimes]
        for backend, runtime in pairs:
            cfg = told_cfg(self._build, backend, runtime)
            yield {
                "backend": backend.name,
                "name": runtime.name,
                "constant": names.constant_name(runtime.name),
                "cfg": str(cfg),
                "built": self._build.holds(backend.cfg) and self._build.holds(runtime.cfg),
                "holds": self._build.holds(cfg),
                "engines": self._engines(runtime.capabilities),
                "capable": {each.name: each.name in runtime.capabilities for each in self._template_set.capabilities},
            }

    def _wrapper(self) -> Iterator[Thing]:
        for wrapper in self._catalog.wrappers:
            yield {"name": wrapper.name, "cfg": str(wrapper.cfg), "built": self._build.holds(wrapper.cfg)}

    def _guard(self) -> Iterator[Thing]:
        for guard in self._template_set.guards:
            fields = {"name": guard.name, "parameters": guard.parameters, "returns": guard.returns}
            answer = guard.value if guard.returns == "None" else f"return {guard.value}"
            yield {**fields, "value": guard.value, "answer": answer}

    def _error(self) -> Iterator[Thing]:
        for entry in self._catalog.errors:
            module, _, name = entry.exception.rpartition(":")
            texts = ("code", "when", "message", "reason", "help", "cause", "before", "after", "guard")
            yield {**{text: getattr(entry, text) for text in texts}, "name": name, "module": module, "new": not module}

    def _engines(self, capabilities: Mapping[str, Capability]) -> dict[str, str | None]:
        declared = self._template_set.capabilities
        return {each.name: capabilities[each.name].engine if each.name in capabilities else None for each in declared}
