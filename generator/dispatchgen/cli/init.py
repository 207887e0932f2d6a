"""`dispatchgen init`: a new project."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from dispatchgen.cli import _inputs
from dispatchgen.cli._problem import Problem

Folder = Annotated[Path, typer.Argument(help="The folder of the project: a new one, or an empty one.", metavar="DIR")]
Name = Annotated[str | None, typer.Option("--package", help="The name of the package.  [default: that of the folder]")]
Templates = Annotated[str, typer.Option("--templates", help="A template set: the name of a shipped one, or a folder.")]


def init(folder: Folder, package: Name = None, templates: Templates = _inputs.SHIPPED) -> None:
    """Make a new project: a small catalog, kernels for one backend, settings and a README.

    Example: dispatchgen init my_layer && cd my_layer && dispatchgen generate && dispatchgen check
    """
    from dispatchgen._names import unusable_package
    from dispatchgen.scaffold import new_project
    from dispatchgen.template_set import read_set
    from dispatchgen.write import put

    named, there = folder.resolve().name, folder.resolve()  # `new/..` is a folder too, though `new` is not there
    name = package or re.sub(r"\W+", "_", named).strip("_").lower()
    if there.exists() and not there.is_dir():
        raise Problem(f"{folder} is a file; name a new folder, or an empty one")
    if there.is_dir() and any(there.iterdir()):
        raise Problem(f"{folder} is not empty; name a new folder, or an empty one")
    template_set, findings = read_set(_inputs.template_folder(templates, Path()))
    if template_set is None or findings:
        raise Problem(f"the template set {templates} cannot be read; `dispatchgen check` says why")
    if (package is None and not name.isascii()) or not name:
        raise Problem(f"{named!r} is no name for a package of Python: choose one in ASCII letters with --package")
    if why := unusable_package(name, template_set.taken):
        raise Problem(f"the package cannot be called {name!r}: that {why}; name it with --package")
    if not template_set.starter:
        raise Problem(f"the template set {template_set.name} does not say what a new project begins with")
    try:
        files = new_project(template_set, name)
    except OSError as cause:
        raise Problem(f"{cause.filename} cannot be read: {cause.strerror}") from None
    for path, text in sorted(files.items()):
        put(there / path, text.encode())
        print(f"wrote {folder / path}")
    print(f"next: cd {folder}; dispatchgen generate; dispatchgen check")
