"""Rendered text: every planned file through its template, and every Python file compiled before anything is written."""

from __future__ import annotations

import os
import tempfile
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateNotFound, TemplateSyntaxError, Undefined

from dispatchgen._place import place
from dispatchgen.digests import template_sources
from dispatchgen.findings import Finding, Related, error
from dispatchgen.imports import imports
from dispatchgen.literals import comma, comment, docstring, py, wrap

if TYPE_CHECKING:
    from dispatchgen.plan import Plan, PlannedFile
    from dispatchgen.source import Span
    from dispatchgen.template_set import TemplateSet


@dataclass(frozen=True)
class RenderedFile:
    """One file as its template gave it."""

    path: str
    template: str
    digest: str
    """Of the part of the spec that the file depends on."""
    text: str


def render(plan: Plan, template_set: TemplateSet) -> tuple[tuple[RenderedFile, ...], tuple[Finding, ...]]:
    """The text of every planned file whose template renders, and a finding for everything that is wrong.

    A Python file that does not compile, warnings counting as errors, is a finding; its text is kept in a temporary
    file that the finding points to.
    """
    loader = _Loader(template_set.folder)
    environment = _environment(loader)
    files: list[RenderedFile] = []
    findings: dict[Finding, None] = {}
    declared: set[str] = set()
    for planned in plan.files:
        try:
            text = environment.get_template(planned.template).render(planned.context)
            declared.update(template_sources(template_set.folder, planned.template))
        except Exception as cause:  # an expression in a template may raise anything
            findings[_not_rendered(planned, cause, template_set.folder)] = None
            continue
        file = RenderedFile(planned.path, planned.template, planned.digest, text)
        files.append(file)
        if planned.path.endswith(".py"):
            findings.update(dict.fromkeys(_compiled(file, template_set.folder)))
    if not findings:
        findings.update(
            dict.fromkeys(_computed(template_set.folder / name) for name in sorted(loader.loaded - declared))
        )
    return tuple(files), tuple(findings)


def keep(file: RenderedFile) -> Span:
    """The place of a temporary file that now holds the rendered text, for somebody to look into."""
    handle, name = tempfile.mkstemp(prefix="dispatchgen-", suffix="-" + Path(file.path).name)
    with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
        stream.write(file.text)
    return place(name)


class _Loader(FileSystemLoader):
    """Loads templates from a folder, and remembers which."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.loaded: set[str] = set()

    def get_source(self, environment: Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        self.loaded.add(template)
        return super().get_source(environment, template)


def _environment(loader: FileSystemLoader) -> Environment:
    environment = Environment(
        loader=loader,
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
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is a {type(value).__name__}, not text: pass it through a filter such as `py`")
    return value


def _not_rendered(planned: PlannedFile, cause: Exception, folder: Path) -> Finding:
    """A finding at the innermost template line that the error went through."""
    at, line = folder / planned.template, 1
    match cause:
        case TemplateSyntaxError():
            at, line = folder / (cause.name or planned.template), cause.lineno
        case _:
            for frame in traceback.extract_tb(cause.__traceback__):
                if Path(frame.filename).is_relative_to(folder):
                    at, line = Path(frame.filename), frame.lineno or 1
    what = f"there is no template {cause.name}" if isinstance(cause, TemplateNotFound) else str(cause)
    return error(
        "DG701",
        f"the template does not render: {what or type(cause).__name__}",
        place(at, line),
    )


def _compiled(file: RenderedFile, folder: Path) -> tuple[Finding, ...]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compile(file.text, file.path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, Warning, RecursionError, MemoryError) as cause:
        line, column = (cause.lineno or 1, cause.offset or 1) if isinstance(cause, SyntaxError) else (1, 1)
        what = cause.msg if isinstance(cause, SyntaxError) else str(cause) or type(cause).__name__
        finding = error(
            "DG702",
            f"{file.template} renders {file.path} as something that is not Python: line {line}: {what}",
            replace(keep(file), line=line, column=max(column, 1), end_line=line, end_column=max(column, 1)),
            related=(Related(place(folder / file.template), "rendered from this template"),),
        )
        return (finding,)
    return ()


def _computed(template: Path) -> Finding:
    return error(
        "DG701",
        "the template is taken in under a name that is computed, so a change of it would not be noticed",
        place(template),
        fix="write the name as a literal in `include`, `import`, `from` or `extends`",
    )
