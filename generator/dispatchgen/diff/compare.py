"""Two specs laid side by side: every difference, rated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dispatchgen.diff import arms, backends, declared, errors, ops
from dispatchgen.diff.builds import builds, presence
from dispatchgen.diff.change import Change, Rating
from dispatchgen.diff.renames import renamed
from dispatchgen.selection import Selection

if TYPE_CHECKING:
    from dispatchgen.model.catalog import Catalog
    from dispatchgen.template_set import TemplateSet


@dataclass(frozen=True)
class Spec:
    """A catalog without errors, the template set that it is written for, and the features that its project chooses."""

    catalog: Catalog
    template_set: TemplateSet
    selection: Selection = Selection()  # noqa: RUF009 (a frozen value)


@dataclass(frozen=True)
class Comparison:
    """What changed, the worst first, and what was looked at for it."""

    changes: tuple[Change, ...]
    builds: int
    cells: int

    @property
    def rating(self) -> Rating | None:
        """That of the worst change; None where nothing changed."""
        return self.changes[0].rating if self.changes else None


def compare(old: Spec, new: Spec) -> Comparison:
    """Every difference between two specs that people or programs can see.

    Entries are compared by name, arms cell by cell in every build of `builds`. The order of entries, comments, and the
    files that entries stand in make no difference.
    """
    catalog, names = renamed(old.catalog, new.catalog)
    old = replace(old, catalog=catalog)
    pairs = builds(old, new)
    compared = arms.arms(old, new, pairs)
    found = [
        *names,
        *backends.check(old.catalog, new.catalog, new.template_set),
        *presence(old.catalog, new.catalog, pairs),
        *ops.check(old, new),
        *compared.changes,
        *errors.check(old.catalog, new.catalog),
        *declared.check(old.template_set, new.template_set),
    ]
    return Comparison(tuple(sorted(found, key=lambda each: each.rating.order)), len(pairs), compared.cells)
