"""`dispatchgen where`: from a generated line to what it was made from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dispatchgen.cli import _inputs
from dispatchgen.cli._problem import Problem
from dispatchgen.cli._report import Piece, Report, tell
from dispatchgen.cli.explain import ExplainFormat
from dispatchgen.findings import near

if TYPE_CHECKING:
    from dispatchgen.plan import PlannedFile
    from dispatchgen.source import Span
    from dispatchgen.where import Answer

Line = Annotated[str, typer.Argument(metavar="FILE:LINE", help="A line of a generated file.")]
FormatOption = Annotated[ExplainFormat, typer.Option("--format", help="How the answer is told.")]


def where(
    line: Line,
    spec: _inputs.Spec = None,
    templates: _inputs.Templates = None,
    out: _inputs.Out = None,
    package: _inputs.Package = None,
    features: _inputs.Features = None,
    no_default_features: _inputs.NoDefault = False,
    all_features: _inputs.AllFeatures = False,
    overlay: _inputs.Overlays = None,
    format: FormatOption = ExplainFormat.TEXT,
) -> None:
    """Say which template lines and which lines of the spec are behind a line of a generated file.

    Example: dispatchgen where generated/toy/ops/lift.py:12
    """
    from dispatchgen.cli.generate import make
    from dispatchgen.plan import plan
    from dispatchgen.where import trace

    settings = _inputs.settings(spec, templates, out, package, features, no_default_features, all_features, overlay)
    inputs, findings = _inputs.read(settings)
    if inputs is None:
        tell(Report(findings))
        raise typer.Exit(1)
    catalog, template_set = inputs.catalog, inputs.template_set
    folder = settings.out / catalog.package
    planned = {file.path: file for file in plan(catalog, template_set, inputs.build).files}
    file, number = _asked(line, folder, planned)
    path = folder / file.path
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as cause:
        raise Problem(f"{path} cannot be read: {cause.strerror}; `dispatchgen generate` writes it") from None
    lines = text.splitlines()
    if not 1 <= number <= len(lines):
        raise Problem(f"{path} has {len(lines)} lines, and {number} is none of them")
    answer = trace(file, template_set).behind(number, text, catalog)
    made, problems = make(inputs)
    if made is None:
        tell(Report(problems))
        raise typer.Exit(1)
    fresh = any(each.path == file.path and each.text == text for each in made[0])
    if format is ExplainFormat.JSON:
        print(json.dumps(_as_json(path, number, answer, fresh), indent=2, ensure_ascii=False))
    else:
        tell(Report((), tuple(_told(path, number, lines[number - 1], answer, fresh))))


def _asked(line: str, folder: Path, planned: dict[str, PlannedFile]) -> tuple[PlannedFile, int]:
    """The file and the line that are asked for: the path as seen from here, or in the package."""
    name, sign, number = line.rpartition(":")
    if not sign or not number.isdecimal():
        raise Problem(f"write FILE:LINE, such as {folder}/__init__.py:1, not {line!r}")
    path = Path(name)
    inside = path.absolute()
    home = folder.absolute()
    key = inside.relative_to(home).as_posix() if inside.is_relative_to(home) else path.as_posix()
    if key not in planned:
        known = near(key, planned)
        raise Problem(f"{name} is no file that is generated into {folder}; {known}")
    return planned[key], int(number)


def _told(path: Path, number: int, text: str, answer: Answer, fresh: bool) -> Iterator[tuple[Piece, ...]]:
    yield (f"{path}:{number}", "bold"), (f"  {text.strip()}".rstrip(), "")
    places = [str(span) for span in answer.templates] + [str(origin.span) for origin in answer.origins]
    width = max(map(len, places), default=0)
    for index, span in enumerate(answer.templates):
        head = "template" if index == 0 else ""
        yield (f"  {head:<9} ", "cyan"), (f"{_line_of(span):<{width}}", ""), (f"  {_source(span)}", "dim")
    for index, origin in enumerate(answer.origins):
        head = "spec" if index == 0 else ""
        yield (f"  {head:<9} ", "cyan"), (f"{origin.span!s:<{width}}", ""), (f"  {origin.what}", "dim")
    if not text.strip():
        yield (("  the line is blank: ask for one with something on it", "yellow"),)
    elif not answer.templates:
        yield (("  nothing that is generated now becomes this line", "yellow"),)
    elif not answer.origins:
        yield (("  spec      nothing: the template says it by itself", "dim"),)
    if not fresh:
        yield (("  the file is not what would be generated now: `dispatchgen check` says why", "yellow"),)


def _line_of(span: Span) -> str:
    return f"{span.file}:{span.line}"


def _source(span: Span) -> str:
    try:
        return Path(span.file).read_text(encoding="utf-8", errors="replace").split("\n")[span.line - 1].strip()
    except (OSError, IndexError):
        return ""


def _as_json(path: Path, number: int, answer: Answer, fresh: bool) -> dict[str, Any]:
    return {
        "version": 1,
        "file": path.as_posix(),
        "line": number,
        "up_to_date": fresh,
        "templates": [{"file": span.file, "line": span.line} for span in answer.templates],
        "spec": [
            {"what": each.what, "file": each.span.file, "line": each.span.line, "column": each.span.column}
            for each in answer.origins
        ],
    }
