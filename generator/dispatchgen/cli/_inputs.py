"""The options that commands share, and what a run works on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from dispatchgen.cli._options import option
from dispatchgen.cli._settings import SHIPPED, Inputs, Settings, read, settings, source_roots, spec_key, template_folder

__all__ = [
    "SHIPPED",
    "AllFeatures",
    "Features",
    "Inputs",
    "NoDefault",
    "Out",
    "Overlays",
    "Package",
    "Settings",
    "Spec",
    "Templates",
    "read",
    "settings",
    "source_roots",
    "spec_key",
    "template_folder",
]

Spec = Annotated[Path | None, option("--spec", help="The folder of the catalog, or `shipped`.  [default: spec]")]
Templates = Annotated[
    list[str] | None,
    option(
        "--templates",
        help="A template set: the name of a shipped one, or a folder. A folder without set.yaml has templates that take "
        "the place of the set's; the option again for more.",
    ),
]
Out = Annotated[Path | None, option("--out", help="The folder that holds the package.  [default: generated]")]
Package = Annotated[str | None, option("--package", help="The name of the package, instead of the catalog's.")]
Overlays = Annotated[
    list[Path] | None,
    option("--overlay", help="A file that adds to the catalog, or changes it; the option again for more."),
]
Features = Annotated[
    list[str] | None,
    option("--features", help="Features to turn on: several behind commas, or the option again."),
]
NoDefault = Annotated[bool, option("--no-default-features", help="Leave the default features off.")]
AllFeatures = Annotated[bool, option("--all-features", help="Turn every feature on.")]
