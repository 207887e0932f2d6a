"""Which files are made by templates that somebody laid over a set: what its `set.yaml` tells of their code is not theirs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dispatchgen import _names as names
from dispatchgen._place import place
from dispatchgen.digests import template_sources
from dispatchgen.findings import Finding, note

if TYPE_CHECKING:
    from dispatchgen.model.catalog import Catalog
    from dispatchgen.template_set import OutputFile, TemplateSet


def overlaid(catalog: Catalog, template_set: TemplateSet) -> frozenset[str]:
    """The files that a template of an overlay makes, or has a part in."""
    return frozenset(
        path
        for file in template_set.files
        if template_set.overlays and _is_overlaid(file, template_set)
        for path in _paths(file, catalog)
    )


def _is_overlaid(file: OutputFile, template_set: TemplateSet) -> bool:
    try:
        parts = template_sources(template_set.folders, file.template)
    except OSError:
        return False  # rendering says what is wrong
    return any((overlay / part).is_file() for overlay in template_set.overlays for part in parts)


def _paths(file: OutputFile, catalog: Catalog) -> list[str]:
    match file.each:
        case "family":
            return [file.path.format(module=names.family_module(each.name)) for each in catalog.families]
        case "backend":
            return [file.path.format(module=names.module_name(each.name)) for each in catalog.backends]
    return [file.path]


def notes(template_set: TemplateSet, files: frozenset[str]) -> Iterator[Finding]:
    """That less is checked of these files, where there is something that would be."""
    if files and (template_set.arms or template_set.statements):
        several = f" and {len(files) - 1} more" if len(files) > 1 else ""
        told = f"{min(files)}{several} come from templates of an overlay, and what set.yaml tells of their code is not checked"
        fix = "copy the template set and its set.yaml to have all of it checked"
        yield note("DG833", told, place(template_set.overlays[-1]), fix=fix)
