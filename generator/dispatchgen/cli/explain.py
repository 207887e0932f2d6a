"""`dispatchgen explain`: the long text about a code, of an error or of a finding."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from dispatchgen.cli import _inputs
from dispatchgen.cli._problem import Problem
from dispatchgen.findings import CODES, near

if TYPE_CHECKING:
    from dispatchgen.model.catalog import ErrorEntry

Code = Annotated[str, typer.Argument(help="The code of a finding or of an error, as it stands in the message.")]


def explain(code: Code, spec: _inputs.Spec = None, templates: _inputs.Templates = None) -> None:
    """Say what a code means, what causes it and what to do."""
    wanted = code.strip().strip("[]").upper()
    if wanted in CODES:
        print(f"{wanted}\n\n{textwrap.fill(CODES[wanted], 100)}")
        return
    errors = _errors(spec, templates)
    if wanted not in errors:
        raise Problem(f"there is no code {code!r}; {near(wanted, [*errors, *CODES])}")
    print("\n".join(_told(errors[wanted])))


def _errors(spec: _inputs.Spec, templates: _inputs.Templates) -> dict[str, ErrorEntry]:
    """The errors of the catalog, or of the shipped one where no catalog is here."""
    from dispatchgen._resources import data_root
    from dispatchgen.model.build import read_catalog
    from dispatchgen.template_set import read_set

    settings = _inputs.settings(spec, templates)
    folder = settings.spec if spec or settings.spec.is_dir() else data_root() / "spec"
    template_set, _ = read_set(settings.templates)
    catalog = read_catalog(folder, template_set)[0] if template_set else None
    if catalog is None:
        raise Problem(f"the catalog in {folder} cannot be read; `dispatchgen check` says why")
    return {error.code: error for error in catalog.errors}


def _told(error: ErrorEntry) -> Iterator[str]:
    yield f"{error.code}: {error.exception.rpartition(':')[2]}"
    yield ""
    yield from _filled(_fields(error.message))
    for title, text in (("Why", _fields(error.reason)), ("Cause", error.cause), ("What to do", _fields(error.help))):
        yield from ("", title, *_filled(text, "  "))
    for title, text in (("Before", error.before), ("After", error.after)):
        yield from ("", title, *textwrap.indent(text.rstrip("\n"), "  ").split("\n"))
    if error.guard:
        yield from ("", "Ask before", f"  {error.guard}")


def _fields(template: str) -> str:
    """The template with its fields as a reader would write them."""
    named = re.sub(r"(?<!\{)\{(\w+)[^{}]*\}(?!\})", r"<\1>", template)
    return named.replace("{{", "{").replace("}}", "}")


def _filled(text: str, indent: str = "") -> list[str]:
    paragraphs = (
        textwrap.wrap(line, 100, initial_indent=indent, subsequent_indent=indent) for line in text.strip().split("\n")
    )
    return [line for paragraph in paragraphs for line in paragraph or [""]]
