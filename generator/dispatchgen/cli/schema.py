"""`dispatchgen schema`: JSON Schema of the spec files, for editors."""

from __future__ import annotations

from typing import Annotated

import typer

from dispatchgen.cli import _inputs
from dispatchgen.cli._problem import Problem
from dispatchgen.cli._report import Format, FormatOption, Report, counted, tell

Check = Annotated[bool, typer.Option("--check", help="Write nothing; fail where a schema is missing or stale.")]


def schema(
    spec: _inputs.Spec = None,
    templates: _inputs.Templates = None,
    check: Check = False,
    format: FormatOption = Format.TEXT,
) -> None:
    """Write JSON Schema (2020-12) for the spec files and for set.yaml to the folder `schema` of the spec.

    An editor with a YAML language server completes and checks a file that begins with
    `# yaml-language-server: $schema=schema/backends.json`.

    Example: dispatchgen schema --check
    """
    from dispatchgen.schema import schemas
    from dispatchgen.schema_files import FOLDER, outdated, stale
    from dispatchgen.template_set import read_set
    from dispatchgen.write import put

    settings = _inputs.settings(spec, templates)
    if not settings.spec.is_dir():
        raise Problem(f"there is no folder {settings.spec}; name the folder of the catalog with --spec")
    template_set, findings = read_set(settings.templates)
    folder = settings.spec / FOLDER
    written: tuple[str, ...] = ()
    if template_set is not None and check:
        findings += stale(template_set, settings.spec)
    elif template_set is not None:
        written, texts = outdated(template_set, settings.spec), schemas(template_set)
        for name in written:
            put(folder / name, texts[name].encode())
    done = f"wrote {', '.join(written)}" if written else "up to date"
    report = Report(findings, ((((f"{folder}: {counted(findings) or done}"), "bold"),),), {"written": written})
    tell(report, format)
    raise typer.Exit(report.exit_code())
