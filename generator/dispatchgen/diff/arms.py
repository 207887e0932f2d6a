"""The matrix of two catalogs cell by cell: which operations do something else on what both have in the same build."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dispatchgen.diff.builds import Pair
from dispatchgen.diff.change import Change, Rating, told
from dispatchgen.matrix import Arm, Cell, cells

if TYPE_CHECKING:
    from dispatchgen.diff.compare import Spec

Place = tuple[str, str]
"""An operation, and the variant that it is asked of, in words."""
Answer = tuple[str, str | None]
"""The kind of an arm, and the situation that it raises."""
Turn = tuple[Answer, Answer]


@dataclass(frozen=True)
class Compared:
    """What came of comparing, and over how many cells."""

    changes: tuple[Change, ...]
    cells: int


def arms(old: Spec, new: Spec, pairs: Iterable[Pair]) -> Compared:
    """The operations that do something else now. What only one of two builds has is not for here."""
    seen: Counter[Place] = Counter()
    turns: dict[Turn, dict[Place, list[str]]] = defaultdict(lambda: defaultdict(list))
    count = 0
    for pair in pairs:
        was = {_place(cell): cell.arm for cell in cells(old.catalog, old.template_set, pair.old)}
        now = {_place(cell): cell.arm for cell in cells(new.catalog, new.template_set, pair.new)}
        count += len(was.keys() | now.keys())
        for place in (each for each in now if each in was):
            before, after = _answer(was[place]), _answer(now[place])
            if "absent" not in (before[0], after[0]):
                seen[place] += 1
                if before != after:
                    turns[before, after][place].append(pair.label)
    found = [change for turn, at in turns.items() for change in _changes(turn, at, seen, old, new)]
    return Compared(tuple(found), count)


def _place(cell: Cell) -> Place:
    inner = f"{cell.backend}[{cell.runtime}]" if cell.runtime else cell.backend
    variant = f"{cell.wrapper}({inner})" if cell.wrapper else inner
    return cell.op, f"{variant} to {cell.target}" if cell.target else variant


def _answer(arm: Arm) -> Answer:
    return arm.kind, arm.situation if arm.kind == "error" else None


def _changes(
    turn: Turn, at: Mapping[Place, list[str]], seen: Mapping[Place, int], old: Spec, new: Spec
) -> Iterator[Change]:
    """One change for all operations that take the turn on the same variants in the same builds."""
    ops_on: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (op, variant), labels in at.items():
        ops_on[variant, () if len(labels) == seen[op, variant] else tuple(labels)].append(op)
    together: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = defaultdict(list)
    for (variant, only), ops in ops_on.items():
        together[tuple(sorted(ops)), only].append(variant)
    spans = {op.name: op.span for _, op in new.catalog.ops}
    rating, reason = _rated(turn, new)
    words = f"{_named(turn[0], old)} -> {_named(turn[1], new)}"
    for (names, only), variants in together.items():
        yield Change(
            rating,
            f"{'op' if len(names) == 1 else f'{len(names)} ops'} {told(names)} on {told(sorted(variants))}",
            words + (f", with {told(only)}" if only else ""),
            reason,
            now=spans[names[0]],
            builds=only,
            cells=sum(len(at[op, variant]) for op in names for variant in variants),
        )


def _named(answer: Answer, spec: Spec) -> str:
    kind, situation = answer
    if kind != "error":
        return {"kernel": "kernel", "value": "answer without a kernel"}[kind]
    entry = next((each for each in spec.catalog.errors if each.when == situation), None)
    return f"error {entry.code} {entry.exception.rpartition(':')[2]}" if entry else f"error {situation}"


def _rated(turn: Turn, spec: Spec) -> tuple[Rating, str]:
    (was, earlier), (now, later) = turn
    if now == "kernel":
        return Rating.MINOR, "calls that did not work do"
    if was == "kernel":
        return Rating.MAJOR, "calls that worked do not"
    if now == "value":
        return Rating.MAJOR, "calls that raised answer in silence"
    if was == "value":
        return Rating.MAJOR, "calls that answered raise"
    if _stage(later, spec) > _stage(earlier, spec):
        return Rating.MINOR, "refused as before, for what is still missing then"
    return Rating.MAJOR, "whoever handles the old error does not handle the new one"


def _stage(situation: str | None, spec: Spec) -> int:
    """How far a call gets before it is refused: what the matrix asks for, in that order."""
    decisions = spec.template_set.decisions
    stages = {decisions.no_transfer: 0, decisions.not_capable: 1, decisions.wrong_wrapper: 3, decisions.not_built: 3}
    return stages.get(situation or "", 2)
