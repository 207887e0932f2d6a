"""What a run works on: options over settings over defaults, then the catalog, the template set and the build.

Imports little, so that comparing hashes stays cheap.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatchgen.cli._problem import Problem
from dispatchgen.findings import Finding, has_errors, in_order, near
from dispatchgen.selection import Selection

if TYPE_CHECKING:
    from datetime import date

    from dispatchgen.features import Build
    from dispatchgen.model.catalog import Catalog
    from dispatchgen.template_set import TemplateSet

SHIPPED = "torch"
"""The template set that is taken unless somebody names another."""


BROUGHT_ALONG = "shipped"
"""The name of the catalog that comes with dispatchgen, for overlays over it."""


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
    template_overlays: tuple[Path, ...] = ()
    """Folders whose templates take the place of the set's, the last one's first."""
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
    templates: list[str] | None = None,
    out: Path | None = None,
    package: str | None = None,
    features: list[str] | None = None,
    no_default_features: bool = False,
    all_features: bool = False,
    overlays: list[Path] | None = None,
    folder: Path | None = None,
) -> Settings:
    """The settings of a run: what the command line says, else `[tool.dispatchgen]`, else the defaults.

    The table is that of the project in `folder`, or of the nearest one from here on upwards. Raises Problem where a
    setting makes no sense.
    """
    home, table = table_of(folder)
    asked = ",".join(features if features is not None else table.get("features", []))
    named = tuple(dict.fromkeys(name for name in re.split(r"[,\s]+", asked) if name))
    template_set, template_overlays = _template_folders(templates or [], table.get("templates", SHIPPED), home)
    return Settings(
        spec=_spec(spec or Path(table.get("spec", "spec")), Path() if spec else home),
        templates=template_set,
        out=out or home / table.get("out", "generated"),
        package=package or table.get("package"),
        selection=Selection(named, not no_default_features and table.get("default-features", True), all_features),
        sources=tuple(home / folder for folder in table.get("sources", [])),
        overlays=tuple(dict.fromkeys([*(home / file for file in table.get("overlays", [])), *(overlays or ())])),
        template_overlays=template_overlays,
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
    template_set, findings = read_set(settings.templates, settings.template_overlays)
    if template_set is None:
        return None, in_order(findings)
    catalog, more = read_catalog(settings.spec, template_set, settings.overlays, edited or {})
    findings += more
    if catalog is None:
        return None, in_order(findings)
    if settings.package is not None:
        if why := unusable_package(settings.package, template_set.taken):
            raise Problem(f"the package cannot be called {settings.package!r}: that {why}")
        catalog = replace(catalog, package=settings.package)
    build, more = resolve(catalog, settings.selection)
    findings += (*more, *validate(catalog, template_set, build=build))
    late = tuple(exemptions.check(catalog, template_set, today))  # an excuse that has ended is no reason to stop
    if build is None or has_errors(findings):
        return None, in_order((*findings, *late))
    return Inputs(catalog, template_set, build, settings.selection), in_order((*findings, *late))


def _spec(named: Path, home: Path) -> Path:
    """The folder of a catalog; the one that dispatchgen brings along is `shipped`, where no folder is called so."""
    from dispatchgen._resources import data_root

    folder = home / named
    return data_root() / "spec" if str(named) == BROUGHT_ALONG and not folder.exists() else folder


def spec_key(settings: Settings) -> str | None:
    """What stands for all of the spec that a run of the generator reads, or None where a part cannot be read."""
    from dispatchgen.check import fast

    return fast.spec_key(settings.spec, settings.templates, settings.overlays, settings.package, settings.selection)


def source_roots(settings: Settings) -> tuple[Path, ...]:
    """The folders in which kernels are looked for, those of the settings first."""
    from dispatchgen.check.folders import default_roots

    return tuple(dict.fromkeys((*settings.sources, *default_roots(settings.home))))


def _template_folders(asked: list[str], usual: str | list[str], home: Path) -> tuple[Path, tuple[Path, ...]]:
    """The folder of the template set, and those of the overlays over it.

    What is asked for goes over the usual ones, or instead of them where it names a set.
    """
    folders = [template_folder(named, Path()) for named in asked]
    if not any(map(_is_set, folders)):
        usual = [usual] if isinstance(usual, str) else usual
        folders = [*(template_folder(named, home) for named in usual), *folders]
    sets = list(filter(_is_set, folders)) or [template_folder(SHIPPED, Path())]
    overlays = [folder for folder in folders if not _is_set(folder)]
    if len(sets) > 1:
        raise Problem(f"{sets[0]} and {sets[1]} are both template sets; name one, and folders of templates over it")
    for overlay in overlays:
        if not any((sets[0] / path.relative_to(overlay)).is_file() for path in overlay.rglob("*") if path.is_file()):
            raise Problem(f"{overlay} has no set.yaml, and no template of {sets[0]} that it would take the place of")
    return sets[0], tuple(dict.fromkeys(overlays))


def _is_set(folder: Path) -> bool:
    return (folder / "set.yaml").is_file()


def template_folder(named: str, home: Path) -> Path:
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


_TYPES: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "spec": (str, "text"),
    "templates": ((str, list), "text or a list of texts"),
    "out": (str, "text"),
    "package": (str, "text"),
    "features": (list, "a list of texts"),
    "default-features": (bool, "true or false"),
    "sources": (list, "a list of texts"),
    "overlays": (list, "a list of texts"),
}


def table_of(project: Path | None = None) -> tuple[Path, Mapping[str, Any]]:
    """A project's folder and its `[tool.dispatchgen]`: by default those of the nearest pyproject.toml, as seen from here.

    Raises Problem where the file cannot be read, or has a setting that is none.
    """
    here = Path.cwd()
    for folder in (here, *here.parents) if project is None else (project,):
        path = folder / "pyproject.toml"
        if _is_there(path):
            home = Path() if folder == here else folder
            table = _tools(path).get("dispatchgen", {})
            _checked(table, path)
            return home, table
    return project or Path(), {}


def _is_there(path: Path) -> bool:
    """Whether something has that name, whatever it is. Raises OSError where nobody may ask."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _tools(path: Path) -> Mapping[str, Any]:
    """The table `tool` of a file that is there, whatever it is."""
    import tomllib

    if not path.is_file():  # a pipe would be waited for
        raise Problem(f"{path} cannot be read: it is no file, or a link to none")
    try:
        content = path.read_bytes()
        if content.startswith(codecs.BOM_UTF8):
            raise ValueError("it begins with a byte order mark, which TOML does not know (at line 1, column 1)")
        tools = tomllib.loads(content.decode()).get("tool", {})
    except (OSError, ValueError, RecursionError) as cause:
        raise Problem(f"{path} cannot be read: {cause}") from cause
    if not isinstance(tools, dict):
        raise Problem(f"{path}: `tool` is not a table")
    return tools


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
        texts = [value] if isinstance(value, str) else value if isinstance(value, list) else []
        if any("\0" in text for text in texts):
            raise Problem(f"{path}: {key} in [tool.dispatchgen] holds a NUL, which no path or name can")
        if key != "features" and not all(texts):
            raise Problem(f"{path}: {key} in [tool.dispatchgen] is empty, and names nothing")
