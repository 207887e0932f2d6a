"""`dispatchgen add-backend`: an entry in the catalog, and the module of its kernel class."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dispatchgen.cli import _edits, _inputs
from dispatchgen.cli._problem import Problem
from dispatchgen.cli._report import Report, tell

if TYPE_CHECKING:
    from dispatchgen.model.catalog import Backend, Catalog
    from dispatchgen.template_set import TemplateSet

Name = Annotated[str, typer.Argument(help="The name of the backend, which becomes a class.")]
Id = Annotated[int | None, typer.Option("--id", help="Its id for good.  [default: one more than the greatest]")]
Feature = Annotated[
    str | None, typer.Option("--feature", help="The feature that brings it in.  [default: its name in lower case]")
]
NotDefault = Annotated[bool, typer.Option("--not-default", help="Leave the feature out of the default ones.")]
Cfg = Annotated[str | None, typer.Option("--cfg", help='When a build has it.  [default: feature = "FEATURE"]')]
Kernels = Annotated[str | None, typer.Option("--kernels", help="module:Class of its kernels, begun where missing.")]
Capability = Annotated[
    list[str] | None,
    typer.Option("--capability", help="ENGINE, or CAPABILITY=ENGINE where the template set knows several."),
]
Source = Annotated[
    Path | None,
    typer.Option("--source", help="The folder for a new kernel module.  [default: the first of the sources]"),
]
Doc = Annotated[str | None, typer.Option("--doc", help="What it is, in a sentence.")]
Transfer = Annotated[str | None, typer.Option("--transfer", help="Which ways things move: both, into, out or none.")]
Priority = Annotated[int | None, typer.Option("--priority", help="Its place in the order of the default device.")]


def add_backend(
    name: Name,
    id: Id = None,
    feature: Feature = None,
    not_default: NotDefault = False,
    cfg: Cfg = None,
    kernels: Kernels = None,
    capability: Capability = None,
    key: _edits.Keys = None,
    transfer: Transfer = None,
    priority: Priority = None,
    doc: Doc = None,
    into: _edits.Into = None,
    source: Source = None,
    dry_run: _edits.DryRun = False,
    spec: _inputs.Spec = None,
    templates: _inputs.Templates = None,
    overlay: _inputs.Overlays = None,
) -> None:
    """Add a backend to the catalog, its feature too, and begin its kernel class.

    Comments and layout of the file stay. What validation would refuse is not written.

    Example: dispatchgen add-backend Fast --kernels fast_kernels.fast:Fast --doc "The fast one."
    """
    from dispatchgen.insert import add_entry, add_item, add_text

    settings = _inputs.settings(spec, templates, overlays=overlay)
    before, told = _edits.readable(settings, into)
    catalog, template_set = before.catalog, before.template_set
    flag = feature or (name.lower() if cfg is None else None)
    entry = {"name": _edits.quoted(name), "id": str(_next_id(catalog) if id is None else id)}
    entry["cfg"] = _edits.quoted(cfg or f'feature = "{flag}"')
    if doc:
        entry["doc"] = _edits.quoted(doc)
    types = {each.name: each.type for each in template_set.backend_keys}
    types |= dict.fromkeys((each.key for each in template_set.wrappers), "flag")
    entry |= _edits.extra_keys(key or (), types)
    if kernels:
        entry["kernels"] = _edits.quoted(kernels)
    for text in capability or ():
        kind, engine = _capability(text, template_set)
        entry[kind] = f"{{engine: {_edits.quoted(engine)}}}"
    if transfer:
        entry["transfer"] = _edits.quoted(transfer)
    if priority is not None:
        entry["priority"] = str(priority)
    declared = flag is None or any(each.name == flag for each in catalog.features)

    def change(text: str) -> str:
        if flag is not None and not declared:
            text = add_entry(text, ("features",), flag, "[]")
            text = text if not_default else add_text(text, ("features", "default"), _edits.quoted(flag))
        return add_item(text, ("backends",), entry)

    edit = _edits.edited(into or _edits.catalog_file(settings, "backends.yaml"), change, begin=into is not None)
    features = (*settings.selection.features, *([flag] if flag else []))
    asked = replace(_edits.laid_over(settings, into), selection=replace(settings.selection, features=features))
    after, findings = _edits.accepted(asked, edit)
    backend = next(each for each in after.catalog.backends if each.name == name)
    edits = [edit, *_begun(settings, after, backend, source)]
    lines = _edits.made(edits, dry_run)
    if backend.kernels is None:
        lines.append((("to do", "bold yellow"), (": name its kernels with `kernels: module:Class`", "")))
    elif not dry_run:
        part = replace(after.catalog, backends=(backend,))
        lines += _edits.still_missing(settings, after, part)
    if not dry_run:
        lines.append(_edits.next_steps(settings, spec, overlay, into))
    tell(Report(_edits.fresh(told, findings), tuple(lines)))


def _next_id(catalog: Catalog) -> int:
    """One more than the greatest id, because a gap may be that of a backend that is gone; else the first gap."""
    from dispatchgen.validate.backends import LARGEST_ID

    taken = {backend.id for backend in catalog.backends}
    after = max(taken, default=-1) + 1
    if after <= LARGEST_ID:
        return after
    return next(number for number in range(len(taken) + 1) if number not in taken)


def _capability(text: str, template_set: TemplateSet) -> tuple[str, str]:
    """The capability and the engine that a text names."""
    known = [kind.name for kind in template_set.capabilities]
    kind, sign, engine = text.partition("=")
    if not sign and len(known) == 1:
        return known[0], text
    if kind not in known:
        raise Problem(f"--capability takes CAPABILITY=ENGINE with one of: {', '.join(known) or 'none is declared'}")
    return kind, engine


def _begun(
    settings: _inputs.Settings, inputs: _inputs.Inputs, backend: Backend, source: Path | None
) -> list[_edits.Edit]:
    """The module of the kernel class, where it is not there yet."""
    from dispatchgen.check.folders import Folders
    from dispatchgen.scaffold import kernel_module

    module, _, class_name = (backend.kernels or "").partition(":")
    roots = _inputs.source_roots(settings)
    if not module or Folders(roots).locate(module) is not None:
        return []
    text = kernel_module(inputs.template_set, backend, class_name)
    return [] if text is None else _edits.module_edits(module, text, (source,) if source else roots)
