"""`dispatchgen check --self-test`: prove that the check finds every gap that can be made."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from dispatchgen._place import place
from dispatchgen.cli import _inputs
from dispatchgen.cli._report import Piece, Report, counted
from dispatchgen.findings import Finding, error, has_errors, in_order, warning

if TYPE_CHECKING:
    from collections.abc import Callable

    from dispatchgen.selftest.project import Project
    from dispatchgen.selftest.run import Result, Survivor


@dataclass(frozen=True)
class _Copy:
    """A copy to be worked on, and where the originals of its files are."""

    project: Project
    title: str
    originals: dict[Path, Path]


def report(settings: _inputs.Settings) -> Report:
    """What came of the self-test."""
    from dispatchgen.selftest.run import Task, run, sampled

    inputs, findings = _inputs.read(settings)
    if inputs is None:
        return Report(findings, lines=(((f"not tested: {counted(findings)}", "bold"),),))
    with TemporaryDirectory(prefix="dispatchgen-self-test-") as folder:
        copies, problems = copies_of(settings, inputs, Path(folder))
        if problems:
            line = f"not tested: what is there is not complete; see `dispatchgen check`: {counted(problems)}"
            return Report(in_order(problems), lines=(((line, "bold"),),))
        for copy in copies:
            copy.project.write()
        tasks = [Task(copies[0].project, tuple(copies[0].project.mutations()))]
        tasks += [Task(copy.project, tuple(copy.project.mutations(left_out=True))) for copy in copies[1:]]
        made = sum(len(task.mutations) for task in tasks)
        tasks = sampled(tasks)
        with _progress(sum(len(task.mutations) for task in tasks)) as progress:
            result = run(tasks, made, progress)
        return _told(result, copies)


def _told(result: Result, copies: Sequence[_Copy]) -> Report:
    survived: dict[str, int] = {}
    for survivor in result.survivors:
        survived[survivor.mutation.kind] = survived.get(survivor.mutation.kind, 0) + 1
    kinds = {kind: {"killed": total - survived.get(kind, 0), "total": total} for kind, total in result.kinds.items()}
    killed = result.total - len(result.survivors)
    width = max(map(len, kinds), default=0)
    lines: list[tuple[Piece, ...]] = [
        (
            (f"{kind:<{width}}  ", ""),
            (f"{count['killed']:>5} / {count['total']}", "green" if count["killed"] == count["total"] else "bold red"),
        )
        for kind, count in kinds.items()
    ]
    drawn = f"; drawn from {result.made}" if result.made != result.total else ""
    builds = f"in {len(copies)} builds" if len(copies) > 1 else "in one build"
    lines.append(((f"{killed} / {result.total} gaps were found {builds}{drawn}", "bold"),))
    findings = [_survived(survivor, copies[survivor.project]) for survivor in result.survivors]
    if not result.total:
        findings.append(
            warning("DG832", "there is nothing to be tested: neither kernels, nor `binds` and `statements` in set.yaml")
        )
    facts = {"killed": killed, "total": result.total, "possible": result.made, "kinds": kinds}
    return Report(tuple(findings), tuple(lines), {"self_test": facts})


def _survived(survivor: Survivor, copy: _Copy) -> Finding:
    mutation = survivor.mutation
    told = f"nobody finds it where somebody does this: {mutation.kind}: {mutation.what}{copy.title}"
    instead = f"found was only: {survivor.instead}" if survivor.instead else "nothing was found at all"
    fix = "report it: a check that misses a gap is a fault of dispatchgen, or of what the template set tells it"
    return error("DG831", f"{told}; {instead}", place(copy.originals[mutation.file], mutation.line), fix=fix)


def copies_of(
    settings: _inputs.Settings, inputs: _inputs.Inputs, root: Path
) -> tuple[list[_Copy], tuple[Finding, ...]]:
    """The project as it is on disk, then as the builds would be that leave something out; and what is wrong with it."""
    from dispatchgen.cli.generate import make
    from dispatchgen.disk import look
    from dispatchgen.selftest.project import Project

    package = inputs.catalog.package
    made, problems = make(inputs)
    if made is None:
        return [], problems
    disk = look(settings.out, package, {file.path for file in made[0]})
    missing = [file.path for file in made[0] if file.path not in disk.files]
    if disk.manifest is None or missing:
        what = missing[0] if missing else "its manifest"
        fix = "run `dispatchgen generate`"
        return [], (error("DG715", f"{what} is missing", place(settings.out / package / what), fix=fix),)
    files = {path: content for path, content in disk.files.items() if path in made[1].files}
    modules, originals = _modules(settings, inputs)
    project = Project(
        inputs.catalog,
        inputs.template_set,
        inputs.build,
        root / "own",
        files,
        made[1],
        modules,
        _inputs.source_roots(settings),
    )
    copies = [_Copy(project, "", {project.sources / path: original for path, original in originals.items()})]
    for number, (left_out, other) in enumerate(_builds(inputs)):
        made, problems = make(other)
        if made is None:
            return [], problems
        texts = {file.path: file.text.encode() for file in made[0]}
        reduced = Project(other.catalog, other.template_set, other.build, root / f"build{number}", texts, made[1])
        copies.append(_Copy(reduced, f", in a build without {left_out}", {}))
    for copy in copies:
        folder = copy.project.folder
        copy.originals.update({folder / path: settings.out / package / path for path in copy.project.files})
        wrong = tuple(each for each in copy.project.findings() if has_errors([each]))
        if wrong:
            return [], tuple(_at_home(each, copy) for each in wrong)
    return copies, ()


def _at_home(finding: Finding, copy: _Copy) -> Finding:
    """The finding at the original of the file that it is about."""
    span = finding.span
    if span is None or Path(span.file) not in copy.originals:
        return finding
    return replace(finding, span=replace(span, file=str(copy.originals[Path(span.file)])))


def _modules(
    settings: _inputs.Settings, inputs: _inputs.Inputs
) -> tuple[dict[str, tuple[Path, bytes]], dict[Path, Path]]:
    """Every module that has something to do with a kernel class: by name, and the original of each copy."""
    from dispatchgen.check import kernels
    from dispatchgen.check.classes import Sources

    sources = Sources(_inputs.source_roots(settings))
    for _ in kernels.check(inputs.catalog, inputs.template_set, inputs.build, sources):
        pass
    modules, originals = {}, {}
    for name, path in sources.read.items():
        relative = (
            Path(*name.split("."), "__init__.py")
            if path.name == "__init__.py"
            else Path(*name.split(".")).with_suffix(".py")
        )
        modules[name] = (relative, path.read_bytes())
        originals[relative] = path
    return modules, originals


def _builds(inputs: _inputs.Inputs) -> Iterator[tuple[str, _inputs.Inputs]]:
    """The builds that leave out one feature of this one each, and the one without any; each with what it leaves out."""
    from dispatchgen.features import resolve
    from dispatchgen.selection import Selection

    flags = inputs.build.flags
    seen = {inputs.build.flags}
    for left_out in ("", *flags):
        selection = Selection(tuple(flag for flag in flags if left_out and flag != left_out), default=False)
        build, _ = resolve(inputs.catalog, selection)
        if build is not None and build.flags not in seen:
            seen.add(build.flags)
            yield left_out or "any feature", replace(inputs, build=build, selection=selection)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """A bar on standard error where that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("self-test", total=total)
        yield lambda count: bar.advance(task, count)
