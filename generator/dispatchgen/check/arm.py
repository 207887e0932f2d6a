"""Whether one arm of a match does what its variant has to: as its template set writes it, or by the words in it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from dispatchgen import _names as names
from dispatchgen.check.patterns import expression, unlike
from dispatchgen.check.wanted import Match, Variant, Want

if TYPE_CHECKING:
    from dispatchgen.model.catalog import Catalog
    from dispatchgen.statements import ArmShape
    from dispatchgen.template_set import TemplateSet

_ANSWERS = {"none": None, "false": False}


@dataclass(frozen=True)
class ArmReader:
    """What the arms of one match have to say."""

    catalog: Catalog
    template_set: TemplateSet
    methods: frozenset[str]
    """All that the catalog has."""
    match: Match

    @property
    def shape(self) -> ArmShape | None:
        """How arms are written, where the template set tells."""
        return self.template_set.arms

    @cached_property
    def backends(self) -> Mapping[str, str]:
        """The backends by the constants that stand for them."""
        return {names.constant_name(backend.name): backend.name for backend in self.catalog.backends}

    @cached_property
    def runtimes(self) -> Mapping[str, Mapping[str, str]]:
        """The runtimes of every backend likewise."""
        return {
            backend.name: {names.constant_name(runtime.name): runtime.name for runtime in backend.runtimes}
            for backend in self.catalog.backends
        }

    def text(self, part: str, variant: Variant, want: Want | None = None) -> str:
        """The expression that a part of an arm is for a variant."""
        backend, runtime = variant
        arm = want.arm if want else None
        fields: dict[str, object] = {
            "op": self.match.op.name,
            "method": self.match.method,
            "module": names.module_name(backend) if backend else "",
            "backend": backend,
            "constant": names.constant_name(runtime or backend) if backend else "",
            "runtime": runtime,
            "situation": arm.situation if arm else None,
            "reason": arm.reason if arm else "",
            "value": _ANSWERS.get(self.match.op.otherwise or "none"),
        }
        for inner in ("kernel", "error"):
            fields[inner] = getattr(self.shape, inner).format_map(fields)
        return str(getattr(self.shape, part).format_map(fields))

    def is_case(self, case: ast.match_case, variant: Variant) -> bool:
        """Whether a case is the one of a variant, as the template set writes it."""
        part = "variant" if variant[1] is None else "runtime"
        if self.shape is None or not getattr(self.shape, part):
            return True
        return isinstance(case.pattern, ast.MatchValue) and (
            unlike(expression(self.text(part, variant)), case.pattern.value) is None
        )

    def wrong(self, body: Sequence[ast.stmt], variant: Variant, want: Want) -> tuple[str, ast.stmt] | None:
        """Why an arm is not what its variant has to do and where, or None."""
        part = "wrapped" if want.wrapped else want.arm.kind
        wanted = self.text(part, variant, want) if self.shape is not None else ""
        if wanted and len(body) == 1 and unlike(ast.Return(expression(wanted)), body[0]) is None:
            return None
        problem = self._by_words(body, variant, want) or (f"does not return `{wanted}`" if wanted else "")
        return (problem, body[0]) if problem else None

    def _by_words(self, body: Sequence[ast.stmt], variant: Variant, want: Want) -> str | None:
        words, texts = read(body)
        module = names.module_name(variant[0])
        forwards = self._methods_in(words) == {self.match.method} and self._modules_in(words) == {module}
        tries = bool(self._methods_in(words)) and bool(self._modules_in(words))
        if want.forwards and not forwards:
            return "does not forward to its kernel"
        if not want.forwards and tries:
            return "forwards to a kernel that it does not have"
        if want.arm.kind == "error" and want.arm.situation not in texts:
            return f"does not answer with {want.arm.situation}"
        return None

    def _methods_in(self, words: set[str]) -> set[str]:
        """The methods that the words speak of: of several that a word ends with, the longest."""
        return {method for word in words if (method := _method_at_end(word, self.methods))}

    def _modules_in(self, words: set[str]) -> set[str]:
        return {module for word in words if (module := _module_at_start(word, self._modules))}

    @cached_property
    def _modules(self) -> frozenset[str]:
        return frozenset(names.module_name(backend.name) for backend in self.catalog.backends)


@lru_cache(maxsize=4096)
def _method_at_end(word: str, methods: frozenset[str]) -> str:
    ends = [method for method in methods if word == method or word.endswith(f"_{method}")]
    return max(ends, key=len, default="")


@lru_cache(maxsize=4096)
def _module_at_start(word: str, modules: frozenset[str]) -> str:
    starts = [module for module in modules if word == module or word.startswith(f"{module}_")]
    return max(starts, key=len, default="")


def constant(pattern: ast.pattern) -> str | None:
    """The last name of a pattern such as `module.CONSTANT`."""
    match pattern:
        case ast.MatchValue(value=ast.Attribute(attr=name)):
            return name
    return None


def read(body: Sequence[ast.AST]) -> tuple[set[str], set[str]]:
    """Every name and attribute, and every string."""
    found = [node for each in body for node in ast.walk(each)]
    return set(_words(found)), {
        node.value for node in found if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def _words(found: Sequence[ast.AST]) -> Iterator[str]:
    for node in found:
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
