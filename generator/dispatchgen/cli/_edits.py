"""Changes of spec files: told, refused where validation would refuse them, and only then written."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from dispatchgen.cli import _inputs
from dispatchgen.cli._problem import Problem
from dispatchgen.cli._report import Piece, Report, counted, tell
from dispatchgen.findings import Finding, has_errors, near

if TYPE_CHECKING:
    from dispatchgen.model.catalog import Catalog

Line = tuple[Piece, ...]

Into = Annotated[Path | None, typer.Option("--into", help="Write to this overlay instead, begun where it is missing.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the change as a diff, and write nothing.")]
Keys = Annotated[
    list[str] | None,
    typer.Option("--key", help="KEY=VALUE, a list as KEY=A,B: a key that the template set declares; again for more."),
]

BEGUN = "version: 1\n"
"""An overlay with nothing in it."""
BOM = "\N{ZERO WIDTH NO-BREAK SPACE}"


@dataclass(frozen=True)
class Edit:
    """One file before and after."""

    path: Path
    old: str | None
    new: str

    @property
    def diff(self) -> Iterator[Line]:
        """The lines of a unified diff."""
        styles = {"+": "green", "-": "red", "@": "cyan"}
        name = self.path.as_posix()
        before = "/dev/null" if self.old is None else f"a/{name}"
        old, new = (self.old or "").splitlines(), self.new.splitlines()
        for line in difflib.unified_diff(old, new, before, f"b/{name}", lineterm=""):
            yield ((line, styles.get(line[0], "")),)


def edited(path: Path, change: Callable[[str], str], *, begin: bool = False) -> Edit:
    """The file after a change of its text. Raises Problem where it cannot be read or the change finds no place in it."""
    from dispatchgen._shape import shown
    from dispatchgen.insert import InsertError
    from dispatchgen.source import read

    if path.exists() and not (path.is_file() or path.is_dir()):  # reading a pipe would wait for it
        raise Problem(f"{path} is no plain file")
    try:
        old = path.read_bytes().decode() if not begin or path.exists() else None
    except (OSError, UnicodeDecodeError) as cause:
        raise Problem(f"{path} cannot be read: {getattr(cause, 'strerror', None) or 'it is not UTF-8'}") from None
    text = BEGUN if old is None else old.removeprefix(BOM)
    _, problems = read(text.encode(), shown(path))
    if has_errors(problems):
        refuse(Report(problems, ((("nothing was changed: mend the file first", "bold"),),)))
    try:
        new = change(text)
    except InsertError as cause:
        raise Problem(f"{path} has a layout that is not changed safely; by hand, {cause}") from None
    return Edit(path, old, BOM + new if old and old.startswith(BOM) else new)


def catalog_file(settings: _inputs.Settings, name: str) -> Path:
    """A file of the catalog. Raises Problem where the catalog is not the user's to change."""
    from dispatchgen._resources import data_root

    if settings.spec == data_root() / "spec":
        raise Problem("the shipped catalog is not changed: write to an overlay with --into FILE")
    return settings.spec / name


def laid_over(settings: _inputs.Settings, into: Path | None) -> _inputs.Settings:
    """The settings with the overlay that is written to, last where it was not named before."""
    if into is None or into in settings.overlays:
        return settings
    return replace(settings, overlays=(*settings.overlays, into))


def readable(settings: _inputs.Settings, into: Path | None) -> tuple[_inputs.Inputs, tuple[Finding, ...]]:
    """The catalog as it is before a change, and what is told about it. Ends the run where there are errors already."""
    if into is not None and not into.exists():  # it is about to be begun
        settings = replace(settings, overlays=tuple(each for each in settings.overlays if each != into))
    inputs, findings = _inputs.read(settings)
    if inputs is None:
        refuse(Report(findings, ((("nothing was changed: mend the catalog first", "bold"),),)))
    return inputs, findings


def accepted(settings: _inputs.Settings, edit: Edit) -> tuple[_inputs.Inputs, tuple[Finding, ...]]:
    """The catalog as it will be, and the warnings about it. Ends the run where validation finds an error."""
    inputs, findings = _inputs.read(settings, edited={edit.path: edit.new.encode()})
    if inputs is None:
        from dispatchgen._shape import shown

        line = f"nothing was changed: the text that would be written has {counted(findings)}"
        refuse(Report(findings, (((line, "bold"),),), texts={shown(edit.path): edit.new.removeprefix(BOM)}))
    return inputs, findings


def refuse(report: Report) -> NoReturn:
    """Tell why a change is not made, and end with exit code 1."""
    tell(report)
    raise typer.Exit(report.exit_code())


def pairs(said: Iterable[str], what: str) -> dict[str, str]:
    """The KEY=VALUE texts of an option. Raises Problem."""
    found = {}
    for text in said:
        key, sign, value = text.partition("=")
        if not sign or not key.strip():
            raise Problem(f"{what} takes KEY=VALUE, not {text!r}")
        found[key.strip()] = value.strip()
    return found


def quoted(text: str) -> str:
    """The text as a YAML scalar. Raises Problem."""
    from dispatchgen.insert import InsertError, scalar

    try:
        return scalar(text)
    except InsertError as cause:
        raise Problem(str(cause)) from None


def extra_keys(said: Iterable[str], types: Mapping[str, str]) -> dict[str, str]:
    """The extra keys that `--key` sets, with their values in YAML. Raises Problem for a key that is not declared."""
    written = {}
    for key, value in pairs(said, "--key").items():
        if key not in types:
            raise Problem(f"the template set declares no key {key!r}; {near(key, types) or 'it declares none'}")
        if types[key] == "list":
            written[key] = f"[{', '.join(quoted(each.strip()) for each in value.split(',') if each.strip())}]"
        else:
            written[key] = quoted(value) if types[key] == "text" else value
    return written


def module_edits(module: str, text: str, roots: tuple[Path, ...]) -> list[Edit]:
    """A new module and the packages around it, beside others of its package, else in the first folder of sources."""
    *packages, name = module.split(".")
    root = next((root for root in roots if packages and (root / packages[0]).is_dir()), roots[0])
    inits = [root.joinpath(*packages[: depth + 1], "__init__.py") for depth in range(len(packages))]
    begun = [Edit(path, None, '"""Hand-written kernels."""\n') for path in inits if not path.exists()]
    return [*begun, Edit(root.joinpath(*packages, f"{name}.py"), None, text)]


def made(edits: Iterable[Edit], dry_run: bool) -> list[Line]:
    """The lines that tell of the edits, after writing them or, in a dry run, as diffs.

    Raises Problem, and writes nothing, where a file is not any more as it was read.
    """
    from dispatchgen.write import put

    edits = [*edits]
    if dry_run:
        return [line for edit in edits for line in edit.diff]
    with _alone(edits[0].path.parent):
        for edit in edits:
            if _now(edit.path) not in (edit.old, edit.new):
                raise Problem(f"{edit.path} was changed meanwhile, and nothing was written: run it again")
        for edit in edits:
            put(edit.path, edit.new.encode())
    return [((f"{'wrote  ' if edit.old is None else 'changed'} {edit.path}", ""),) for edit in edits]


def _now(path: Path) -> str | None:
    try:
        return path.read_bytes().decode(errors="replace")
    except FileNotFoundError:
        return None


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """No other run changes files of the folder meanwhile, where the system can say so without a file for it."""
    try:
        from fcntl import LOCK_EX, flock

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        yield
        return
    try:
        with suppress(OSError):
            flock(handle, LOCK_EX)
        yield
    finally:
        os.close(handle)


def fresh(before: Iterable[Finding], after: Iterable[Finding]) -> tuple[Finding, ...]:
    """What is told after a change and was not before, wherever it stands now."""
    known = {(finding.code, finding.message) for finding in before}
    return tuple(finding for finding in after if (finding.code, finding.message) not in known)


def still_missing(settings: _inputs.Settings, inputs: _inputs.Inputs, part: Catalog) -> list[Line]:
    """What is still to be written for a part of the catalog: each missing kernel method, with its line and place.

    Exemptions count; that some excuse nothing in this part does not.
    """
    from dispatchgen.check import kernels
    from dispatchgen.check.classes import Sources

    sources = Sources(_inputs.source_roots(settings))
    found = kernels.check(part, inputs.template_set, inputs.build, sources)
    wanted = [
        (finding.fix or finding.message).partition(kernels.ALONE)[0] for finding in found if finding.code in _TO_WRITE
    ]
    return [(("to do", "bold yellow"), (f": {text}", "")) for text in dict.fromkeys(wanted)]


_TO_WRITE = ("DG801", "DG802", "DG803", "DG804", "DG806")


def next_steps(
    settings: _inputs.Settings, spec: str | Path | None, overlays: list[Path] | None, into: Path | None
) -> Line:
    """What a person does then, with the catalog and the overlays that no settings file names."""
    named = [*(overlays or ()), *([into] if into is not None and into not in settings.overlays else [])]
    option = "".join([f" --spec {spec}" if spec else "", *(f" --overlay {path}" for path in named)])
    return ((f"next: dispatchgen generate{option}; dispatchgen check{option}", "bold"),)
