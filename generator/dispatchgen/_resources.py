"""Where the shipped catalog and template sets lie."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def data_root(package: Path = _PACKAGE) -> Path:
    """The folder that holds `spec/` and `templates/`: beside an installed package, else the root of the checkout.

    Raises FileNotFoundError where neither has them.
    """
    installed, checkout = package / "_data", package.parent.parent
    for root in (installed, checkout):
        if (root / "spec").is_dir():
            return root
    raise FileNotFoundError(
        f"neither {installed} nor {checkout} holds a folder `spec`: dispatchgen is not installed whole"
    )
