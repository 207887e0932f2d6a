"""Rendered text: every planned file through its template, and every Python file compiled before anything is written."""

from __future__ import annotations

import base64
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
from jinja2 import BytecodeCache, Environment, FileSystemLoader, TemplateNotFound, TemplateSyntaxError
from jinja2.bccache import Bucket

from dispatchgen._place import place
from dispatchgen.cache import Cache, NoCache
from dispatchgen.digests import sha256, template_path, template_sources
from dispatchgen.environment import environment_for
from dispatchgen.findings import Finding, Related, error, warning
from dispatchgen.nameless import nameless
from dispatchgen.tools import fingerprint

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


def render(
    plan: Plan, template_set: TemplateSet, cache: Cache | None = None
) -> tuple[tuple[RenderedFile, ...], tuple[Finding, ...]]:
    """The text of every planned file whose template renders, and a finding for everything that is wrong.

    A Python file that does not compile, warnings counting as errors, is a finding; its text is kept in a temporary
    file that the finding points to. The cache, if any, remembers what templates compile to, and that a text compiles.
    """
    cache = cache or NoCache()
    folders = template_set.folders
    loader = _Loader(folders)
    environment = environment_for(loader, compiled=_Compiled(cache))
    files: list[RenderedFile] = []
    findings: dict[Finding, None] = {}
    declared: set[str] = set()
    for planned in plan.files:
        try:
            text = environment.get_template(planned.template).render(planned.context)
            declared.update(template_sources(folders, planned.template))
        except Exception as cause:  # an expression in a template may raise anything
            findings[_not_rendered(planned, cause, folders)] = None
            continue
        file = RenderedFile(planned.path, planned.template, planned.digest, text)
        files.append(file)
        findings.update(dict.fromkeys(nameless(file.path, text, planned, folders)))
        if planned.path.endswith(".py"):
            findings.update(dict.fromkeys(_compiled(file, folders, cache)))
    if not findings:
        findings.update(
            dict.fromkeys(_computed(template_path(folders, name)) for name in sorted(loader.loaded - declared))
        )
    findings.update(dict.fromkeys(_idle(template_set, loader.loaded)))
    return tuple(files), tuple(findings)


def keep(file: RenderedFile) -> Span:
    """The place of a temporary file that now holds the rendered text, for somebody to look into."""
    handle, name = tempfile.mkstemp(prefix="dispatchgen-", suffix="-" + Path(file.path).name)
    with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
        stream.write(file.text)
    return place(name)


class _Loader(FileSystemLoader):
    """Loads templates from the first of the folders that has them, and remembers which."""

    def __init__(self, folders: Sequence[Path]) -> None:
        super().__init__(folders)
        self.loaded: set[str] = set()

    def get_source(self, environment: Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        self.loaded.add(template)
        return super().get_source(environment, template)


class _Compiled(BytecodeCache):
    """What templates compile to, remembered under all that it depends on: filters of constants are applied early."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.made_by = f"{fingerprint()}\n{jinja2.__version__}\n{sys.version}"

    def load_bytecode(self, bucket: Bucket) -> None:
        if (known := self.cache.get(self._key(bucket))) is not None:
            bucket.bytecode_from_string(base64.b64decode(known))

    def dump_bytecode(self, bucket: Bucket) -> None:
        self.cache.put(self._key(bucket), base64.b64encode(bucket.bytecode_to_string()).decode())

    def _key(self, bucket: Bucket) -> str:
        kind = type(bucket.environment).__qualname__
        return sha256(f"template\n{self.made_by}\n{kind}\n{bucket.key}\n{bucket.checksum}")


def _not_rendered(planned: PlannedFile, cause: Exception, folders: Sequence[Path]) -> Finding:
    """A finding at the innermost template line that the error went through."""
    at, line = template_path(folders, planned.template), 1
    match cause:
        case TemplateSyntaxError():
            at, line = template_path(folders, cause.name or planned.template), cause.lineno
        case _:
            for frame in traceback.extract_tb(cause.__traceback__):
                if any(Path(frame.filename).is_relative_to(folder) for folder in folders):
                    at, line = Path(frame.filename), frame.lineno or 1
    what = f"there is no template {cause.name}" if isinstance(cause, TemplateNotFound) else str(cause)
    return error(
        "DG701",
        f"the template does not render: {what or type(cause).__name__}",
        place(at, line),
    )


def _compiled(file: RenderedFile, folders: Sequence[Path], cache: Cache) -> tuple[Finding, ...]:
    key = sha256(f"compiles\n{sys.version}\n{file.text}")
    if cache.get(key) is not None:
        return ()
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
            related=(Related(place(template_path(folders, file.template)), "rendered from this template"),),
        )
        return (finding,)
    cache.put(key, "")
    return ()


def _idle(template_set: TemplateSet, loaded: set[str]) -> Iterator[Finding]:
    """A warning for each template of an overlay that takes the place of none, and that none takes in."""
    for overlay in template_set.overlays:
        for path in sorted(overlay.rglob("*.jinja")):
            name = path.relative_to(overlay).as_posix()
            if name not in loaded and not (template_set.folder / name).is_file():
                message = (
                    f"the template {name} takes the place of none in {template_set.folder}, and no template takes it in"
                )
                yield warning(
                    "DG719", message, place(path), fix="give it the name of the template that it is to replace"
                )


def _computed(template: Path) -> Finding:
    return error(
        "DG701",
        "the template is taken in under a name that is computed, so a change of it would not be noticed",
        place(template),
        fix="write the name as a literal in `include`, `import`, `from` or `extends`",
    )
