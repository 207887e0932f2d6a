"""Spec against what generated files say: each statement of the template set stands there once for each thing."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from dispatchgen._place import place
from dispatchgen.check.live import bound
from dispatchgen.check.patterns import ANY, unlike
from dispatchgen.check.places import Place, label, place_in
from dispatchgen.check.things import Anything, Thing, Things
from dispatchgen.findings import Finding, error

if TYPE_CHECKING:
    from dispatchgen.node import Span
    from dispatchgen.statements import Statement
    from dispatchgen.template_set import TemplateSet

REGENERATE = "run `dispatchgen generate`; if that changes nothing, correct the template"


@dataclass(frozen=True)
class Spot:
    """One place of one file, and the pieces of code that are to stand in it."""

    file: str
    path: str
    """The names that lead to the place; empty for the file itself."""
    demands: tuple[Demand, ...]


@dataclass(frozen=True)
class Demand:
    """One statement, the things of which it is to stand in a place, and those that the build leaves out."""

    statement: Statement
    things: tuple[Thing, ...]
    left_out: tuple[Thing, ...] = ()

    @property
    def codes(self) -> tuple[str, ...]:
        """The piece of code of each thing."""
        return tuple(map(self.code, self.things))

    @property
    def form(self) -> str:
        """The piece of code that stands for any thing."""
        return self.code(Anything())

    def code(self, thing: Thing) -> str:
        """The piece of code that stands for a thing."""
        return self.statement.code.format_map(thing).strip()


def spots(template_set: TemplateSet, things: Things) -> tuple[Spot, ...]:
    """Every place that the statements of the template set speak of, in their order."""
    found: dict[tuple[str, str], list[Demand]] = {}
    for statement in template_set.statements:
        demanded: dict[tuple[str, str], list[Thing]] = {}
        if "{" not in statement.file + statement.in_:
            demanded[statement.file, statement.in_] = []
        for thing in things.of(statement.each):
            at = statement.file.format_map(thing), statement.in_.format_map(thing)
            if not statement.where or thing[statement.where]:
                demanded.setdefault(at, []).append(thing)
            elif "{" not in statement.in_:
                demanded.setdefault(at, [])
        left_out = tuple(each for each in things.of(statement.each) if statement.where and not each[statement.where])
        for at, those in demanded.items():
            found.setdefault(at, []).append(Demand(statement, tuple(those), left_out))
    return tuple(
        Spot(file, path, tuple(demands)) for (file, path), demands in found.items() if file not in things.overlaid
    )


def check(
    template_set: TemplateSet, wanted: Sequence[Spot], folder: Path, files: Mapping[str, bytes]
) -> Iterator[Finding]:
    """What the files of a package, as they are on disk, do not say or say beyond what the template set demands."""
    for spot in wanted:
        if spot.file not in files:
            continue  # missing files have a verdict
        tree = parsed(files[spot.file])
        if isinstance(tree, Exception):
            continue
        try:
            yield from _spot(spot, tree, folder / spot.file)
        except SyntaxError as cause:
            what = f"a statement for {spot.path or spot.file} cannot be read: {cause.msg}: {(cause.text or '').strip()}"
            yield error("DG604", what, place(template_set.folder / "set.yaml"))


@lru_cache(maxsize=256)
def parsed(content: bytes) -> ast.Module | Exception:
    """The tree of a file, or why it has none. Nobody may change it."""
    try:
        return ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as cause:
        return cause


def _spot(spot: Spot, tree: ast.Module, path: Path) -> Iterator[Finding]:
    there = place_in(tree, spot.path)
    if there is None:
        if any(demand.things for demand in spot.demands):
            told = f"{spot.path} is not here, not once, or not written out"
            yield error("DG827", told, place(path, _nearest(tree, spot.path)), fix=REGENERATE)
        return
    wanted = [(there.read(code), code) for demand in spot.demands for code in demand.codes]
    by_label: dict[str, list[ast.AST]] = {}
    for each in there.elements:
        by_label.setdefault(label(each), []).append(each)
    matched: dict[ast.AST, str] = {}
    lacking: dict[str, tuple[ast.AST, str]] = {}
    for pattern, code in wanted:
        same = (each for each in by_label.get(label(pattern), ()) if each not in matched)
        exact = next((each for each in same if unlike(pattern, each) is None), None)
        if exact is None:
            lacking[label(pattern)] = pattern, code
        else:
            matched[exact] = label(pattern)
    known = {label(pattern) for pattern, _ in wanted}
    forms = []
    for demand in spot.demands:
        form = there.read(demand.form)
        imported = _is_any_import(form)  # of which a file may have more than the catalog has things
        forms += [there.read(demand.code(thing)) for thing in demand.left_out] if imported else [form]
    for each in there.elements:
        if each not in matched and (found := _stray(each, forms, there, lacking, known)) is not None:
            code, message, at = found
            yield error(code, message, _at(path, at, each), fix=REGENERATE)
            for first in [first for first, name in matched.items() if name == label(each) and code == "DG829"]:
                told = f"{label(each)} stands here, and again in line {_at(path, each, each).line}"
                yield error(code, told, _at(path, first, first), fix=REGENERATE)  # nobody knows which one is the right
    for _, code in lacking.values():
        where = spot.path or "the file"
        yield error("DG827", f"{where} does not say `{_short(code)}`", _at(path, there.node, tree), fix=REGENERATE)


def _stray(
    each: ast.AST, forms: list[ast.AST], there: Place, lacking: dict[str, tuple[ast.AST, str]], known: set[str]
) -> tuple[str, str, ast.AST] | None:
    """What is wrong with an element that nothing demands: code, message and place; None where it may stand there."""
    name = label(each)
    if name in lacking:
        pattern, code = lacking.pop(name)
        return "DG828", f"this is not `{_short(code)}`", unlike(pattern, each) or each
    named = set(bound(each)) if isinstance(each, ast.stmt) else {name}
    if named & known:
        return "DG829", f"{', '.join(sorted(named & known))} stands here again", each
    private = name.startswith("_") and not any(label(form).replace(ANY, "any").startswith("_") for form in forms)
    if there.only or (not private and any(unlike(form, each) is None for form in forms)):
        return "DG829", f"nothing in the catalog stands for `{_short(name)}`", each
    return None


def _is_any_import(form: ast.AST) -> bool:
    """Whether it stands for every import there could be."""
    return isinstance(form, ast.Import | ast.ImportFrom) and label(form) == ANY


def _nearest(tree: ast.Module, path: str) -> int:
    """The last line that gives a value to the name with which a path begins; 1 where none does."""
    first = path.partition(".")[0]
    return max((each.lineno for each in tree.body if first in bound(each)), default=1)


def _short(code: str) -> str:
    first, *more = code.split("\n")
    return first if len(first) <= 100 and not more else f"{first[:100]}..."


def _at(path: Path, node: ast.AST, otherwise: ast.AST) -> Span:
    return place(path, getattr(node, "lineno", getattr(otherwise, "lineno", 1)))
