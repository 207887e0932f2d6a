"""`dispatchgen check`: prove that nothing is stale, edited, missing or unfinished."""

from __future__ import annotations

from collections import Counter
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dispatchgen.cli import _inputs
from dispatchgen.cli._report import DenyOption, Format, FormatOption, Piece, Report, counted, tell
from dispatchgen.cli.generate import make
from dispatchgen.findings import Finding, in_order

if TYPE_CHECKING:
    from dispatchgen.check.verdicts import FileVerdict

Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Name the files that are up to date too.")]


def check(
    spec: _inputs.Spec = None,
    templates: _inputs.Templates = None,
    out: _inputs.Out = None,
    package: _inputs.Package = None,
    features: _inputs.Features = None,
    no_default_features: _inputs.NoDefault = False,
    all_features: _inputs.AllFeatures = False,
    overlay: _inputs.Overlays = None,
    verbose: Verbose = False,
    format: FormatOption = Format.TEXT,
    deny: DenyOption = None,
) -> None:
    """Compare the package with the spec and the templates, and the spec with the kernels. Writes nothing."""
    settings = _inputs.settings(spec, templates, out, package, features, no_default_features, all_features, overlay)
    inputs, findings = _inputs.read(settings, today=date.today())
    if inputs is None:
        report = Report(findings, lines=(((f"not checked: {counted(findings)}", "bold"),),))
    else:
        report = _checked(settings, inputs, findings, verbose)
    tell(report, format)
    raise typer.Exit(report.exit_code(deny))


def _checked(
    settings: _inputs.Settings, inputs: _inputs.Inputs, findings: tuple[Finding, ...], verbose: bool
) -> Report:
    from dispatchgen.check import arms, kernels
    from dispatchgen.check.classes import Sources, default_roots
    from dispatchgen.check.verdicts import Verdict, finding, verdicts
    from dispatchgen.disk import look

    catalog, template_set, build = inputs.catalog, inputs.template_set, inputs.build
    folder = settings.out / catalog.package
    made, problems = make(inputs)
    files, manifest = made or ((), None)
    disk = look(settings.out, catalog.package, {file.path for file in files})
    found = verdicts(files, manifest, disk) if manifest else ()
    old = {each.path for each in found if each.verdict in (Verdict.SPEC_CHANGED, Verdict.INTERRUPTED)}
    code = {path: content for path, content in disk.files.items() if path not in old}
    sources = Sources(tuple(dict.fromkeys((*settings.sources, *default_roots(Path())))))
    in_code = arms.check(catalog, template_set, build, folder, code)
    in_kernels = kernels.check(catalog, template_set, build, sources)
    findings = in_order((*findings, *problems, *disk.findings, *in_code, *in_kernels))
    wrong = tuple(each for verdict in found if (each := finding(folder, verdict)))
    facts = {
        "package": catalog.package,
        "features": build.flags,
        "files": [{"path": each.path, "verdict": each.verdict.value, "why": each.why} for each in found],
    }
    shown = [each for each in found if verbose or each.verdict is not Verdict.UP_TO_DATE]
    lines = [*(_line(folder, each) for each in shown)]
    lines += [(("help", "bold green"), (f": {fix}", "")) for fix in dict.fromkeys(each.fix for each in wrong)]
    tally = Counter(each.verdict.value for each in found)
    compared = ", ".join(f"{count} {verdict}" for verdict, count in tally.items()) if made else "not compared"
    lines.append((("; ".join(filter(None, [f"{folder}: {compared}", counted(findings)])), "bold"),))
    return Report(findings, tuple(lines), facts, wrong)


def _line(folder: Path, each: FileVerdict) -> tuple[Piece, ...]:
    """One file, and what is to be said about it."""
    style = "green" if each.verdict.value == "up to date" else "bold red"
    why = f"  ({each.why})" if each.why else ""
    return (f"{each.verdict.value:<16} ", style), (str(folder / each.path), ""), (why, "dim")
