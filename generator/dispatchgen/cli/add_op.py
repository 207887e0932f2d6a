"""`dispatchgen add-op`: an operation in a family of the catalog, and the methods that kernels then need."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dispatchgen.cli import _edits, _inputs
from dispatchgen.cli._problem import Problem
from dispatchgen.cli._report import Report, tell
from dispatchgen.findings import near

if TYPE_CHECKING:
    from dispatchgen.model.catalog import Catalog, Family

FamilyName = Annotated[str, typer.Argument(metavar="FAMILY", help="The family, by its name or that of its module.")]
Name = Annotated[str, typer.Argument(help="The name of the operation.")]
Route = Annotated[str, typer.Option("--route", help="How the device is found: a route of the template set.")]
Args = Annotated[
    list[str] | None,
    typer.Option("--arg", help="NAME:TYPE, NAME:TYPE? where None may be passed, NAME:TYPE=DEFAULT; again for more."),
]
Returns = Annotated[str, typer.Option("--returns", help="TYPE or TYPE:OF, with a `?` behind it where None may come.")]
Otherwise = Annotated[
    str | None,
    typer.Option("--otherwise", help="Where the capability is missing: error, none or false.  [default: error]"),
]
Wrapper = Annotated[str | None, typer.Option("--wrapper", help="The wrapper that it insists on.")]
Native = Annotated[bool, typer.Option("--native", help="The kernel is differentiable itself.")]
Doc = Annotated[str | None, typer.Option("--doc", help="What it does, in a sentence.")]

_ARGUMENT = re.compile(r"(?P<name>\w+):(?P<type>[^?=\s]+)(?P<optional>\?)?(?:=(?P<default>.*))?", re.ASCII)
_RETURNS = re.compile(r"(?P<type>[^:?\s]+)(?::(?P<of>[^?\s]+))?(?P<optional>\?)?")


def add_op(
    family: FamilyName,
    name: Name,
    route: Route,
    returns: Returns,
    arg: Args = None,
    otherwise: Otherwise = None,
    wrapper: Wrapper = None,
    native: Native = False,
    key: _edits.Keys = None,
    doc: Doc = None,
    into: _edits.Into = None,
    dry_run: _edits.DryRun = False,
    spec: _inputs.Spec = None,
    templates: _inputs.Templates = None,
    overlay: _inputs.Overlays = None,
) -> None:
    """Add an operation to a family, and say which kernel methods it takes.

    Comments and layout of the file stay. What validation would refuse is not written.

    Example: dispatchgen add-op WorkOps lift --route value --arg value:value --returns value --doc "Lift it."
    """
    from dispatchgen.insert import add_item, flow

    settings = _inputs.settings(spec, templates, overlays=overlay)
    before, told = _edits.readable(settings, into)
    found = _family(family, before.catalog)
    entry: dict[str, str | list[str]] = {
        "name": _edits.quoted(name),
        "doc": _edits.quoted(doc or name.replace("_", " ").strip().capitalize() + "."),
        "route": _edits.quoted(route),
    }
    entry |= _edits.extra_keys(key or (), {each.name: each.type for each in before.template_set.op_keys})
    entry["args"] = [flow(_argument(text)) for text in arg or ()] or "[]"
    entry["returns"] = flow(_returned(returns))
    if wrapper:
        entry["wrapper"] = _edits.quoted(wrapper)
    if native:
        entry["backward"] = "native"
    if otherwise or found.requires is not None:
        entry["otherwise"] = otherwise or "error"
    path, keys = _place(settings, found) if into is None else (into, ("ops", found.name))
    edit = _edits.edited(path, lambda text: add_item(text, keys, entry), begin=into is not None)
    after, findings = _edits.accepted(_edits.laid_over(settings, into), edit)
    lines = _edits.made([edit], dry_run)
    op = next(op for _, op in after.catalog.ops if op.name == name)
    home = next(each for each in after.catalog.families if each.name == found.name)
    part = replace(after.catalog, families=(replace(home, ops=(op,)),))
    lines += _edits.still_missing(settings, after, part)
    if not dry_run:
        lines.append(_edits.next_steps(settings, spec, overlay, into))
    tell(Report(_edits.fresh(told, findings), tuple(lines)))


def _family(name: str, catalog: Catalog) -> Family:
    from dispatchgen._names import family_module

    for family in catalog.families:
        if name in (family.name, family_module(family.name)):
            return family
    raise Problem(f"there is no family {name!r}; {near(name, [family.name for family in catalog.families])}")


def _argument(text: str) -> dict[str, str]:
    """The entry of an argument. Raises Problem."""
    found = _ARGUMENT.fullmatch(text)
    if found is None:
        raise Problem(f"--arg takes NAME:TYPE, NAME:TYPE? or NAME:TYPE=DEFAULT, not {text!r}")
    entry = {"name": _edits.quoted(found["name"]), "type": _edits.quoted(found["type"])}
    if found["optional"]:
        entry["optional"] = "true"
    if found["default"] is not None:
        default = found["default"]
        plain = default in ("null", "true", "false") or default.removeprefix("-").isdecimal()
        entry["default"] = default if plain else "null" if default == "None" else _edits.quoted(default)
    return entry


def _returned(text: str) -> dict[str, str]:
    """The entry of what is given back. Raises Problem."""
    found = _RETURNS.fullmatch(text)
    if found is None:
        raise Problem(f"--returns takes TYPE or TYPE:OF, not {text!r}")
    entry = {"type": _edits.quoted(found["type"])}
    if found["of"]:
        entry["of"] = _edits.quoted(found["of"])
    if found["optional"]:
        entry["optional"] = "true"
    return entry


def _place(settings: _inputs.Settings, family: Family) -> tuple[Path, tuple[str, ...]]:
    """The file that a family is in, and where its operations are in there."""
    file = Path(family.span.file)
    mine = _edits.catalog_file(settings, f"ops/{file.name}")
    if mine.resolve() != file.resolve():
        raise Problem(f"the family {family.name} stands in the overlay {file}; add the operation there by hand")
    return mine, ("ops",)
