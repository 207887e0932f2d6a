"""`dispatchgen check`: prove that nothing is stale, edited, missing or unfinished."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from dispatchgen.cli import _inputs
from dispatchgen.cli._options import option
from dispatchgen.cli._problem import Problem
from dispatchgen.cli._report import DenyOption, Format, FormatOption, Piece, Report, counted, tell
from dispatchgen.findings import Finding, in_order

if TYPE_CHECKING:
    from dispatchgen.check.folders import Folders
    from dispatchgen.check.verdicts import FileVerdict

Fast = Annotated[
    bool,
    option("--fast", help="Compare hashes only: what was generated, and from what. Finds no unfinished kernel."),
]
SelfTest = Annotated[
    bool,
    option("--self-test", help="Make every gap that there can be, on a copy, and prove that each would be found."),
]
Verbose = Annotated[bool, option("--verbose", "-v", help="Name the files that are up to date too.")]


def check(
    spec: _inputs.Spec = None,
    templates: _inputs.Templates = None,
    out: _inputs.Out = None,
    package: _inputs.Package = None,
    features: _inputs.Features = None,
    no_default_features: _inputs.NoDefault = False,
    all_features: _inputs.AllFeatures = False,
    overlay: _inputs.Overlays = None,
    fast: Fast = False,
    self_test: SelfTest = False,
    verbose: Verbose = False,
    format: FormatOption = Format.TEXT,
    deny: DenyOption = None,
) -> int:
    """Compare the package with the spec and the templates, and the spec with the kernels. Writes nothing."""
    settings = _inputs.settings(spec, templates, out, package, features, no_default_features, all_features, overlay)
    if fast and self_test:
        raise Problem("--fast compares hashes, and --self-test needs all but those; leave one of them out")
    report = _tested(settings) if self_test else _compared(settings, verbose) if fast else _checked(settings, verbose)
    tell(report, format)
    return report.exit_code(deny)


def _tested(settings: _inputs.Settings) -> Report:
    from dispatchgen.cli._self_test import report

    return report(settings)


def _compared(settings: _inputs.Settings, verbose: bool) -> Report:
    from dispatchgen.cli._fast import verdicts

    expected, found, findings = verdicts(settings)
    if expected is None:
        return _not_checked(findings)
    return _report(settings.out / expected.package, expected.features, found, findings, verbose, " by hashes alone")


def _checked(settings: _inputs.Settings, verbose: bool) -> Report:
    from dispatchgen.cache import user_cache
    from dispatchgen.check.verdicts import Verdict, verdicts
    from dispatchgen.cli._fast import spec_key
    from dispatchgen.cli.generate import make
    from dispatchgen.disk import look
    from dispatchgen.schema_files import FOLDER, stale

    today = date.today()
    key = spec_key(settings)
    inputs, findings = _inputs.read(settings, today=today)
    if inputs is None:
        return _not_checked(findings)
    catalog, template_set, build = inputs.catalog, inputs.template_set, inputs.build
    folder = settings.out / catalog.package
    made, problems = make(inputs)
    files, manifest = made or ((), None)
    disk = look(settings.out, catalog.package, {file.path for file in files})
    found = verdicts(files, manifest, disk) if manifest else ()
    old = {each.path for each in found if each.verdict in (Verdict.SPEC_CHANGED, Verdict.INTERRUPTED)}
    generated = {path: content for path, content in disk.files.items() if path not in old}
    known = key if manifest and key == spec_key(settings) else None  # else it was edited meanwhile
    all_read = f"{known}\n{today}\n{manifest}\n{_overlaid(settings, inputs)}" if known else None
    complete = _complete(settings, inputs, folder, generated, all_read)
    schemas = stale(template_set, settings.spec, user_cache(os.environ)) if (settings.spec / FOLDER).is_dir() else ()
    findings = in_order((*findings, *problems, *disk.findings, *complete, *schemas))
    return _report(folder, build.flags, found, findings, verbose, "" if made else "not compared")


def _overlaid(settings: _inputs.Settings, inputs: _inputs.Inputs) -> list[str]:
    """The folders of templates over the set, and the files that come from there: also where they hold what it holds."""
    if not settings.template_overlays:
        return []
    from dispatchgen.check.overlaid import overlaid

    return [*map(str, settings.template_overlays), *sorted(overlaid(inputs.catalog, inputs.template_set))]


def _complete(
    settings: _inputs.Settings, inputs: _inputs.Inputs, folder: Path, generated: Mapping[str, bytes], spec: str | None
) -> tuple[Finding, ...]:
    """What generated code and kernels lack of the matrix. `spec` stands for the inputs, where they can be remembered."""
    from dispatchgen.cache import NoCache, user_cache
    from dispatchgen.check import remembered

    read = (inputs.catalog, inputs.template_set, inputs.build)
    roots = _inputs.source_roots(settings)
    cache = user_cache(os.environ) if spec else NoCache()

    def code() -> Iterable[Finding]:
        from dispatchgen.check.code import check

        return check(*read, folder, generated)

    def kernels() -> tuple[Iterable[Finding], Folders]:
        from dispatchgen.check.classes import Sources
        from dispatchgen.check.kernels import check

        sources = Sources(roots)
        return [*check(*read, sources)], sources

    return (
        *remembered.in_code(cache, spec or "", folder, generated, code),
        *remembered.in_kernels(cache, spec or "", roots, kernels),
    )


def _not_checked(findings: tuple[Finding, ...]) -> Report:
    return Report(findings, lines=(((f"not checked: {counted(findings)}", "bold"),),))


def _report(
    folder: Path,
    features: Sequence[str],
    found: Sequence[FileVerdict],
    findings: tuple[Finding, ...],
    verbose: bool,
    remark: str,
) -> Report:
    """What is to be told about the files of a package, and what else was found."""
    from dispatchgen.check.verdicts import Verdict, finding

    wrong = tuple(each for verdict in found if (each := finding(folder, verdict)))
    facts = {
        "package": folder.name,
        "features": features,
        "files": [{"path": each.path, "verdict": each.verdict.value, "why": each.why} for each in found],
    }
    shown = [each for each in found if verbose or each.verdict is not Verdict.UP_TO_DATE]
    lines = [*(_line(folder, each) for each in shown)]
    lines += [(("help", "bold green"), (f": {fix}", "")) for fix in dict.fromkeys(each.fix for each in wrong)]
    tally = Counter(each.verdict.value for each in found)
    compared = ", ".join(f"{count} {verdict}" for verdict, count in tally.items()) + remark
    summary = "; ".join(filter(None, [f"{folder}: {compared}", counted(findings)]))
    lines.append(((summary, "bold" if lines or findings else ""),))
    return Report(findings, tuple(lines), facts, wrong)


def _line(folder: Path, each: FileVerdict) -> tuple[Piece, ...]:
    """One file, and what is to be said about it."""
    style = "green" if each.verdict.value == "up to date" else "bold red"
    why = f"  ({each.why})" if each.why else ""
    return (f"{each.verdict.value:<16} ", style), (str(folder / each.path), ""), (why, "dim")
