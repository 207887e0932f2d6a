"""Gaps in what files say: every statement of a template set dropped, doubled, and changed in each of its fields."""

from __future__ import annotations

import ast
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dispatchgen.check.patterns import unlike
from dispatchgen.check.places import Place, label, place_in
from dispatchgen.check.statements import Demand, Spot, spots
from dispatchgen.check.things import Thing, Things
from dispatchgen.selftest.graft import graft
from dispatchgen.selftest.mutation import Expected, Mutation
from dispatchgen.selftest.text import Edit, Text
from dispatchgen.template_set import TemplateSet

_LACKING, _STRAY, _WRONG = frozenset({"DG827"}), frozenset({"DG829"}), frozenset({"DG828", "DG829"})
_NAMES = {"op", "method", "name", "module", "constant", "family", "code", "when", "source", "title"}
"""Fields that tell one thing from the others of its kind."""


def mutations(
    template_set: TemplateSet, things: Things, folder: Path, files: Mapping[Path, Text], *, left_out: bool
) -> Iterator[Mutation]:
    """Every gap in what the files of a package say; or what a build leaves out, said there."""
    for spot in spots(template_set, things):
        text = files.get(folder / spot.file)
        there = place_in(text.tree, spot.path) if text else None
        if text is None or there is None:
            continue
        for demand in spot.demands:
            said = _Said(folder / spot.file, text, spot, there, demand, things.of(demand.statement.each))
            yield from said.left_out() if left_out else said.all()


@dataclass(frozen=True)
class _Said:
    """One statement in one place."""

    file: Path
    text: Text
    spot: Spot
    place: Place
    demand: Demand
    kind: Sequence[Thing]
    """All things of the kind that it is about, in the build or not."""

    def all(self) -> Iterator[Mutation]:
        """Every gap here."""
        for thing in self.demand.things:
            element = self._element(thing)
            if element is not None:
                yield from self._dropped(thing, element)
                yield from self._added(thing, element)
                for field in self._fields:
                    yield from self._changed(thing, element, field)
        yield from self._widened()

    def left_out(self) -> Iterator[Mutation]:
        """What the build does not have, said or said to be there."""
        if self.demand.statement.where == "built":
            yield from self._widened()
        for thing in self.demand.things:
            for field in {"built", "holds"} & set(self._fields):
                if not thing[field] and (element := self._element(thing)) is not None:
                    yield from self._changed(thing, element, field)

    @property
    def _fields(self) -> tuple[str, ...]:
        parsed = string.Formatter().parse(self.demand.statement.code)
        return tuple(dict.fromkeys(name for _, name, _, _ in parsed if name is not None and name != "package"))

    def _element(self, thing: Thing) -> ast.AST | None:
        pattern = self.place.read(self.demand.code(thing))
        whole = (each for each in self.place.elements if each not in self.place.parts)
        return next((each for each in whole if unlike(pattern, each) is None), None)

    def _dropped(self, thing: Thing, element: ast.AST) -> Iterator[Mutation]:
        if isinstance(element, ast.stmt):
            edit = self.text.delete(element, instead="" if len(self.place.elements) > 1 else "pass")
        else:
            edit = self._without(element)
        line = getattr(self.place.node, "lineno", 1)
        yield self._mutation("drop", thing, element, edit, _LACKING, line, line)

    def _without(self, element: ast.AST) -> Edit:
        """The element of a literal or call gone, and the comma behind it."""
        end = self.text.end(element)
        rest = self.text.content[end:]
        comma = len(rest) - len(rest.lstrip())
        return Edit(self.text.start(element), end + (comma + 1 if rest[comma : comma + 1] == b"," else 0), b"")

    def _added(self, thing: Thing, element: ast.AST) -> Iterator[Mutation]:
        if not isinstance(element, ast.keyword):  # Python does not take a keyword twice
            yield self._more("double", thing, element, _code(element), _STRAY)
        if isinstance(element, ast.Import | ast.ImportFrom) or (
            not self.place.only and isinstance(element, ast.keyword)
        ):
            return  # a file imports more than the catalog has, and a call is given more
        strange = {**thing, **{name: f"{thing[name]}Orphan" for name in _NAMES if isinstance(thing.get(name), str)}}
        strange |= {"id": 99999} if "id" in thing else {}
        pattern = self.place.read(self.demand.code(strange))
        orphan = graft(self.place.read(self.demand.code(thing)), pattern, element)
        if label(orphan) != label(element):
            yield self._more("add an orphan:", thing, element, _code(orphan), _STRAY)

    def _more(self, kind: str, thing: Thing, element: ast.AST, code: str, codes: frozenset[str]) -> Mutation:
        """Something more behind an element, on lines of its own."""
        end, first = self.text.end(element), (element.end_lineno or 0) + 1  # type: ignore[attr-defined]
        stands_alone = isinstance(element, ast.stmt)
        edit = self.text.append(element, code) if stands_alone else Edit(end, end, f",\n{code}".encode())
        return self._mutation(kind, thing, element, edit, codes, first, first + code.count("\n"))

    def _changed(self, thing: Thing, element: ast.AST, field: str) -> Iterator[Mutation]:
        old = self.place.read(self.demand.code(thing))
        other = _other(thing, field, self.kind)
        new = self.place.read(self.demand.code(_with_field(thing, field, other)))
        if ast.dump(old) == ast.dump(new):
            return
        code = _code(graft(old, new, element))
        first = element.lineno  # type: ignore[attr-defined]
        last = element.end_lineno  # type: ignore[attr-defined]
        edit = self.text.replace(element, code)
        wide = other is True or (_value(thing, field) is None and other is not None)
        kind = f"{'widen' if wide else 'change'} {field} of"
        mutation = self._mutation(kind, thing, element, edit, _WRONG, first, max(last, first + code.count("\n")))
        if isinstance(element, ast.Import | ast.ImportFrom):  # as far as can be told, another import is no wrong one
            line = getattr(self.place.node, "lineno", 1)
            lacking = Expected(_LACKING | _WRONG, self.file, line, max(last, line))
            mutation = Mutation(mutation.kind, mutation.what, self.file, first, (edit,), (lacking,))
        yield mutation

    def _widened(self) -> Iterator[Mutation]:
        """What is not in the build, said to be."""
        where = self.demand.statement.where
        if not where or "{" in self.demand.statement.file or not self.place.elements:
            return
        for thing in self.kind:
            if not thing[where] and self.demand.statement.in_.format_map(thing) == self.spot.path:
                last = self.place.elements[-1]
                yield self._more(
                    f"widen: say in spite of not being {where}:", thing, last, self.demand.code(thing), _WRONG
                )

    def _mutation(
        self, kind: str, thing: Thing, element: ast.AST, edit: Edit, codes: frozenset[str], first: int, last: int
    ) -> Mutation:
        each = self.demand.statement.each
        what = f"{label(element)[:60]} in {self.spot.path or 'the file'}"
        line = element.lineno  # type: ignore[attr-defined]
        return Mutation(f"{kind} {each}", what, self.file, line, (edit,), (Expected(codes, self.file, first, last),))


def _code(node: ast.AST) -> str:
    code = ast.unparse(ast.fix_missing_locations(node))
    return code[1:-1] if isinstance(node, ast.Dict) else code


def _value(thing: Thing, field: str) -> Any:
    name, bracket, key = field.partition("[")
    return thing[name][key.rstrip("]")] if bracket else thing[name]


def _with_field(thing: Thing, field: str, value: Any) -> Thing:
    name, bracket, key = field.partition("[")
    return {**thing, name: {**thing[name], key.rstrip("]"): value} if bracket else value}


def _other(thing: Thing, field: str, kind: Sequence[Thing]) -> Any:
    """Another value for a field: that of another thing where one has another, else one that nothing has."""
    own = _value(thing, field)
    for each in kind:
        if (theirs := _value(each, field)) != own and theirs not in (None, "", ()):
            return theirs
    match own:
        case bool():
            return not own
        case None:
            return "something"
        case int():
            return own + 1
        case tuple():
            return own[:-1] or ("something",)
    return f"{own}_other" if own.isidentifier() else f"{own} # other"
