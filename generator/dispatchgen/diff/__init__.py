"""What a new catalog changes for those who rely on the old one. Pure: two catalogs in, rated changes out."""

from __future__ import annotations

from dispatchgen.diff.change import Change, Rating
from dispatchgen.diff.compare import Comparison, Spec, compare

__all__ = ["Change", "Comparison", "Rating", "Spec", "compare"]
