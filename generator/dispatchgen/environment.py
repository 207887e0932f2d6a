"""The environment in which templates are rendered: strict, sandboxed, with the filters that quote."""

from __future__ import annotations

from typing import Any

from jinja2 import BaseLoader, BytecodeCache, Environment, StrictUndefined, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from dispatchgen.imports import imports
from dispatchgen.literals import comma, comment, docstring, py, wrap


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, which decides by type and name alone: so each pair is decided once."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._safe: dict[tuple[type, str], bool] = {}

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Whether a template may read an attribute."""
        if isinstance(obj, type):
            return super().is_safe_attribute(obj, attr, value)
        key = (type(obj), attr)
        if key not in self._safe:
            self._safe[key] = super().is_safe_attribute(obj, attr, value)
        return self._safe[key]


def environment_for(
    loader: BaseLoader, kind: type[Environment] = Sandbox, compiled: BytecodeCache | None = None
) -> Environment:
    """The environment in which every template is rendered: strict, unescaped, with the filters that quote.

    Sandboxed, because a template may come from anywhere: it reads values and makes text, and reaches nothing else.
    """
    environment = kind(
        loader=loader,
        bytecode_cache=compiled,
        undefined=StrictUndefined,
        finalize=_only_text,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
    )
    environment.filters.update(py=py, docstring=docstring, comment=comment, comma=comma, wrap=wrap, imports=imports)
    return environment


def _only_text(value: Any) -> str:
    if isinstance(value, Undefined):
        return str(value)  # which raises, and says what is undefined
    if callable(value):
        name = getattr(value, "__name__", type(value).__name__)
        raise TypeError(f"`{name}` is a {type(value).__name__}, not text: write `{name}()` for what it gives")
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is a {type(value).__name__}, not text: pass it through a filter such as `py`")
    return value
