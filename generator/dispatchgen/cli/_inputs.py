"""What a run works on: options over settings over defaults, then the catalog, the template set and the build."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dispatchgen.cli._problem import Problem
from dispatchgen.findings import Finding, has_errors, in_order, near

if TYPE_CHECKING:
    from dispatchgen.features import Build, Selection
    from dispatchgen.model.catalog import Catalog
    from dispatchgen.template_set import TemplateSet

SHIPPED = "torch"
"""The template set that is taken unless somebody names another."""

Spec = Annotated[Path | None, typer.Option("--spec", help="The folder of the catalog.  [default: spec]")]
Templates = Annotated[
    str | None, typer.Option("--templates", help="A template set: the name of a shipped one, or a folder.")
]
Out = Annotated[Path | None, typer.Option("--out", help="The folder that holds the package.  [default: generated]")]
Package = Annotated[str | None, typer.Option("--package", help="The name of the package, instead of the catalog's.")]
Overlays = Annotated[
    list[Path] | None,
    typer.Option("--overlay", help="A file that adds to the catalog, or changes it; the option again for more."),
]
Features = Annotated[
    list[str] | None,
    typer.Option("--features", help="Features to turn on: several behind commas, or the option again."),
]
NoDefault = Annotated[bool, typer.Option("--no-default-features", help="Leave the default features off.")]
AllFeatures = Annotated[bool, typer.Option("--all-features", help="Turn every feature on.")]


@dataclass(frozen=True)
class Settings:
    """Where things are and what is asked for, all of it decided."""

    spec: Path
    templates: Path
    out: Path
    package: str | None
    selection: Selection
    sources: tuple[Path, ...]
    """Folders in which kernels are looked for first."""
    overlays: tuple[Path, ...] = ()
    """Files that are laid over the catalog, in this order."""
    home: Path = Path()
    """The folder of the settings file, as it is seen from here."""


@dataclass(frozen=True)
class Inputs:
    """What a command starts from."""

    catalog: Catalog
    template_set: TemplateSet
    build: Build
    selection: Selection


def settings(
    spec: Path | None = None,
    templates: str | None = None,
    out: Path | None = None,
    package: str | None = None,
    features: list[str] | None = None,
    no_default_features: bool = False,
    all_features: bool = False,
    overlays: list[Path] | None = None,
) -> Settings:
    """The settings of a run: what the command line says, else `[tool.dispatchgen]`, else the defaults.

    Raises Problem where one of them makes no sense.
    """
    from dispatchgen.features import Selection

    home, table = _table()
    asked = ",".join(features if features is not None else table.get("features", []))
    named = tuple(dict.fromkeys(name for name in re.split(r"[,\s]+", asked) if name))
    return Settings(
        spec=spec or home / table.get("spec", "spec"),
        templates=_templates(templates, Path()) if templates else _templates(table.get("templates", SHIPPED), home),
        out=out or home / table.get("out", "generated"),
        package=package or table.get("package"),
        selection=Selection(named, not no_default_features and table.get("default-features", True), all_features),
        sources=tuple(home / folder for folder in table.get("sources", [])),
        overlays=tuple(dict.fromkeys([*(home / file for file in table.get("overlays", [])), *(overlays or ())])),
        home=home,
    )


def read(
    settings: Settings, *, today: date | None = None, edited: Mapping[Path, bytes] | None = None
) -> tuple[Inputs | None, tuple[Finding, ...]]:
    """The catalog, the template set and the build, or None where errors among the findings forbid to go on.

    Given the day, exemptions that have expired are findings too. `edited` has the content that some files are about to
    get. Raises Problem where a folder is not there.
    """
    from dispatchgen._names import unusable_package
    from dispatchgen.features import resolve
    from dispatchgen.model.build import read_catalog
    from dispatchgen.template_set import read_set
    from dispatchgen.validate import exemptions, validate

    if not settings.spec.is_dir():
        raise Problem(f"there is no folder {settings.spec}; name the folder of the catalog with --spec")
    for overlay in settings.overlays:
        if not overlay.is_file() and overlay not in (edited or {}):
            raise Problem(f"there is no overlay {overlay}")
    template_set, findings = read_set(settings.templates)
    if template_set is None:
        return None, in_order(findings)
    catalog, more = read_catalog(settings.spec, template_set, settings.overlays, edited or {})
    findings += more
    if catalog is None:
        return None, in_order(findings)
    if settings.package is not None:
        if why := unusable_package(settings.package, frozenset(template_set.reserved)):
            raise Problem(f"the package cannot be called {settings.package!r}: that {why}")
        catalog = replace(catalog, package=settings.package)
    build, more = resolve(catalog, settings.selection)
    findings += (*more, *validate(catalog, template_set, build=build))
    late = tuple(exemptions.check(catalog, template_set, today))  # an excuse that has ended is no reason to stop
    if build is None or has_errors(findings):
        return None, in_order((*findings, *late))
    return Inputs(catalog, template_set, build, settings.selection), in_order((*findings, *late))


def _templates(named: str, home: Path) -> Path:
    """The folder of a template set that is named by its folder or, for a shipped one, by its name."""
    from dispatchgen._resources import data_root

    folder = home / named
    if folder.is_dir():
        return folder
    shipped = data_root() / "templates"
    if (shipped / named / "set.yaml").is_file() and "/" not in named:
        return shipped / named
    known = ", ".join(sorted(path.parent.name for path in shipped.glob("*/set.yaml")))
    raise Problem(f"{named!r} is neither a folder nor a shipped template set ({known})")


_TYPES: Mapping[str, tuple[type, str]] = {
    "spec": (str, "text"),
    "templates": (str, "text"),
    "out": (str, "text"),
    "package": (str, "text"),
    "features": (list, "a list of texts"),
    "default-features": (bool, "true or false"),
    "sources": (list, "a list of texts"),
    "overlays": (list, "a list of texts"),
}


def _table() -> tuple[Path, Mapping[str, Any]]:
    """The folder of the nearest pyproject.toml, as it is seen from here, and its `[tool.dispatchgen]`."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        path = folder / "pyproject.toml"
        if path.is_file():
            home = Path() if folder == here else folder
            try:
                table = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("dispatchgen", {})
            except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, AttributeError) as cause:
                raise Problem(f"{path} cannot be read: {cause}") from cause
            _checked(table, path)
            return home, table
    return Path(), {}


def _checked(table: Any, path: Path) -> None:
    if not isinstance(table, dict):
        raise Problem(f"{path}: [tool.dispatchgen] is not a table")
    for key, value in table.items():
        if key not in _TYPES:
            raise Problem(f"{path}: [tool.dispatchgen] has no setting {key!r}; {near(key, _TYPES)}")
        kind, words = _TYPES[key]
        if not isinstance(value, kind) or (
            isinstance(value, list) and not all(isinstance(item, str) for item in value)
        ):
            raise Problem(f"{path}: {key} in [tool.dispatchgen] must be {words}")
