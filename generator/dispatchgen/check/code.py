"""Spec against generated code: every op, every arm, and everything else that a template set says must be there.

Read by `ast`, and derived from the matrix alone, so that neither hashes nor templates have to be trusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dispatchgen._place import place
from dispatchgen.check import arms, statements, undone
from dispatchgen.check.overlaid import notes
from dispatchgen.check.statements import REGENERATE, parsed
from dispatchgen.check.things import Things
from dispatchgen.findings import Finding, error

if TYPE_CHECKING:
    from dispatchgen.features import Build
    from dispatchgen.model.catalog import Catalog
    from dispatchgen.template_set import TemplateSet


def check(
    catalog: Catalog,
    template_set: TemplateSet,
    build: Build,
    folder: Path,
    files: Mapping[str, bytes],
    things: Things | None = None,
) -> Iterator[Finding]:
    """What the generated files of a package, as they are on disk, lack of the matrix or have beyond it.

    `things` are those of the build, where somebody has them already. Of a template set that does not tell how its code is written, only what it tells is checked.
    """
    try:
        yield from _check(catalog, template_set, build, folder, files, things)
    except RecursionError:
        told = "a generated file is nested too deeply to be read"
        yield error("DG821", told, place(folder), fix=REGENERATE)


def _check(
    catalog: Catalog,
    template_set: TemplateSet,
    build: Build,
    folder: Path,
    files: Mapping[str, bytes],
    things: Things | None,
) -> Iterator[Finding]:
    for path, content in files.items():
        if path.endswith(".py") and isinstance(cause := parsed(content), Exception):
            yield error("DG821", f"the generated file is no Python: {cause}", place(folder / path), fix=REGENERATE)
    things = things or Things(catalog, template_set, build)
    yield from notes(template_set, things.overlaid)
    yield from arms.check(catalog, template_set, things, folder, files)
    spots = statements.spots(template_set, things)
    yield from statements.check(template_set, spots, folder, files)
    yield from undone.check(template_set, things, spots, folder, files)
