"""Families and operations of two catalogs side by side: what callers see, and what kernels are called with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from dispatchgen.diff.backends import keys
from dispatchgen.diff.change import TEXT, Change, Rating, Rule, listed, shown, sides, values
from dispatchgen.plan.ops import argument_view, kernel_signature

if TYPE_CHECKING:
    from dispatchgen.diff.compare import Spec
    from dispatchgen.model.catalog import Argument, Op
    from dispatchgen.plan.views import ArgumentView

_FEWER = "calls that worked are refused, or do something else"
_MORE = "calls that worked do the same"


def _narrower(was: object, now: object) -> Rating:
    """A demand that was made of some callers and is not made any more breaks nobody."""
    return Rating.MINOR if now is None else Rating.MAJOR


FAMILY = {"doc": TEXT, "requires": Rule(_narrower, "it decides which backends do the operations")}
OP = {
    "doc": TEXT,
    "route": Rule(Rating.MAJOR, "the call goes by another argument"),
    "otherwise": Rule(_narrower, "where the capability is missing, callers get something else"),
    "wrapper": Rule(_narrower, "it decides which arguments are accepted"),
}
ELSEWHERE = {"name", "args", "returns", "backward", "pair", "exceptions", "keys"}
"""Keys of an operation that are compared by a function."""


def check(old: Spec, new: Spec) -> Iterator[Change]:
    """What changed in the files of `ops/`, but for what the matrix says."""
    families = sides(old.catalog.families, new.catalog.families)
    yield from listed("family", families, "its module is gone", "nothing is lost")
    for was, now in families.both:
        yield from values(f"family {now.name}", was, now, FAMILY)
    ops = sides(
        (op for _, op in old.catalog.ops),
        (op for _, op in new.catalog.ops),
    )
    yield from listed("op", ops, "calls fail", "nothing calls it yet")
    homes = [{op.name: family for family, op in spec.catalog.ops} for spec in (old, new)]
    for was, now in ops.both:
        subject, places = f"op {now.name}", (now.span, was.span)
        before, after = homes[0][was.name].name, homes[1][now.name].name
        if before != after:
            what = f"moved from {before} to {after}"
            yield Change(Rating.MAJOR, subject, what, "its module is another one", *places)
        yield from values(subject, was, now, OP)
        yield from _arguments(was, now, old, new)
        yield from _returns(was, now, old, new)
        yield from _backward(was, now)
        yield from _exceptions(was, now)
        yield from keys(subject, was, now, {key.name for key in new.template_set.op_keys if key.type == "list"})
        yield from _kernels(was, now, old, new)


def _arguments(old: Op, new: Op, old_spec: Spec, new_spec: Spec) -> Iterator[Change]:
    """What callers write: names, order, kinds, types and defaults."""
    subject = f"op {new.name}"
    found = sides(old.args, new.args)
    was = {each.name: argument_view(each, old, old_spec.template_set) for each in old.args}
    now = {each.name: argument_view(each, new, new_spec.template_set) for each in new.args}
    if renamed := _renamed(old, new, found.gone, found.added):
        for gone, added in renamed:
            what, reason = f"argument {gone.name} renamed to {added.name}", "calls that name it fail"
            yield Change(Rating.MAJOR, subject, what, reason, added.span, gone.span)
        found.gone.clear()
        found.added.clear()
    for each in found.gone:
        reason = "calls that pass it fail"
        yield Change(Rating.MAJOR, subject, f"argument {each.name} removed", reason, new.span, each.span)
    positional = [name for name, view in now.items() if not view.keyword]
    for each in found.added:
        last = now[each.name].keyword or set(positional[positional.index(each.name) :]) <= {
            added.name for added in found.added
        }
        rating, reason, how = Rating.MINOR, "calls need not pass it", "with a default"
        if not each.has_default:
            rating, reason, how = Rating.MAJOR, "calls that do not pass it fail", "without a default"
        elif not last:
            rating, reason = Rating.MAJOR, "what calls pass by position shifts"
        yield Change(rating, subject, f"argument {each.name} added {how}", reason, each.span, old.span)
    yield from _order(new, was, now)
    for before, after in found.both:
        yield from _argument(subject, before, after, was[before.name], now[after.name])


def _renamed(old: Op, new: Op, gone: list[Argument], added: list[Argument]) -> list[tuple[Argument, Argument]]:
    """Arguments that stand in the same place under another name, if that explains all that came and went."""
    if len(old.args) != len(new.args) or len(gone) != len(added):
        return []
    pairs = [(was, now) for was, now in zip(old.args, new.args, strict=True) if was.name != now.name]
    alike = all(was in gone and now in added and was.type == now.type for was, now in pairs)
    return pairs if alike else []


def _order(new: Op, was: dict[str, ArgumentView], now: dict[str, ArgumentView]) -> Iterator[Change]:
    before = [name for name, view in was.items() if name in now and not view.keyword and not now[name].keyword]
    after = [name for name in now if name in before]
    if before != after:
        what = f"arguments in another order: {', '.join(before)} -> {', '.join(after)}"
        yield Change(Rating.MAJOR, f"op {new.name}", what, "calls that pass them by position mix them up", new.span)


def _argument(subject: str, old: Argument, new: Argument, was: ArgumentView, now: ArgumentView) -> Iterator[Change]:
    """What changed about one argument that has kept its name."""
    subject, places = f"{subject}, argument {new.name}", (new.span, old.span)
    yield from values(subject, old, new, {"doc": TEXT})
    if (old.type, was.public) != (new.type, now.public):
        wider = old.type == new.type and now.public == f"{was.public} | None"
        what = f"type {_typed(old, was)} -> {_typed(new, now)}"
        yield Change(Rating.MINOR if wider else Rating.MAJOR, subject, what, _MORE if wider else _FEWER, *places)
    if was.default != now.default:
        added = was.default is None
        what = f"default {shown(was.default)} -> {shown(now.default)}"
        reason = "calls that leave it out do something else"
        if added or now.default is None:
            what = f"has a default now: {now.default}" if added else f"has no default any more: {was.default}"
            reason = _MORE if added else "calls that leave it out fail"
        yield Change(Rating.MINOR if added else Rating.MAJOR, subject, what, reason, *places)
    if was.keyword != now.keyword:
        what = "by keyword only now" if now.keyword else "by position too now"
        yield Change(Rating.MAJOR if now.keyword else Rating.MINOR, subject, what, _FEWER if now.keyword else _MORE)


def _typed(arg: Argument, view: ArgumentView) -> str:
    return f"{arg.type} ({view.public})"


def _returns(old: Op, new: Op, old_spec: Spec, new_spec: Spec) -> Iterator[Change]:
    before, after = (
        [spec.template_set.returned(name).public for name in (op.returns.type, op.returns.of) if name]
        for op, spec in ((old, old_spec), (new, new_spec))
    )
    was, now = old.returns, new.returns
    subject, places = f"op {new.name}", (now.span, was.span)
    if (was.type, was.of, before) != (now.type, now.of, after):
        words = [" of ".join(filter(None, (each.type, each.of))) for each in (was, now)]
        what = f"returns {words[0]} ({' of '.join(before)}) -> {words[1]} ({' of '.join(after)})"
        yield Change(Rating.MAJOR, subject, what, "callers get something else", *places)
    if was.optional != now.optional:
        what = "may return nothing now" if now.optional else "always returns something now"
        rating = Rating.MAJOR if now.optional else Rating.MINOR
        yield Change(rating, subject, what, "callers have to expect it" if now.optional else _MORE, *places)


def _backward(old: Op, new: Op) -> Iterator[Change]:
    """The gradients that calls have."""
    if old.backward == new.backward:
        return
    subject = f"op {new.name}"
    if isinstance(old.backward, str) or isinstance(new.backward, str):
        gained = new.backward == "native" and not old.backward
        words = [
            each if isinstance(each, str) else "by rule" if each else "none" for each in (old.backward, new.backward)
        ]
        what, reason = f"gradient {words[0]} -> {words[1]}", "nothing is lost" if gained else "gradients may differ"
        yield Change(Rating.MINOR if gained else Rating.MAJOR, subject, what, reason, new.where("backward"), old.span)
        return
    found = sides(old.backward, new.backward, lambda rule: rule.choice)
    for each in found.gone:
        what, reason = f"gradient for {each.choice} removed", "calls that track gradients are refused"
        yield Change(Rating.MAJOR, subject, what, reason, new.span, each.span)
    for each in found.added:
        yield Change(Rating.MINOR, subject, f"gradient for {each.choice} added", "nothing is lost", each.span)
    rules = {key: Rule(Rating.MAJOR, "gradients differ") for key in ("op", "with_", "only")}
    for was, now in found.both:
        yield from values(f"{subject}, gradient for {now.choice}", was, now, rules)


def _exceptions(old: Op, new: Op) -> Iterator[Change]:
    """Pairs of backends that are left out: the matrix says what that changes."""
    found = sides(old.exceptions, new.exceptions, lambda each: (each.source, each.target))
    reason = "what it changes is told by the operations"
    came: Iterable[tuple[str, list[object]]] = (("removed", found.gone), ("added", found.added))
    for verb, pairs in came:
        for each in pairs:
            what = f"exception from {each.source} to {each.target} {verb}"  # type: ignore[attr-defined]
            yield Change(Rating.PATCH, f"op {new.name}", what, reason, new.span, old.span)
    for was, now in found.both:
        yield from values(f"op {new.name}, exception from {now.source} to {now.target}", was, now, {"reason": TEXT})


def _kernels(old: Op, new: Op, old_spec: Spec, new_spec: Spec) -> Iterator[Change]:
    """The methods that kernel classes have to have: those of other projects too."""
    was, now = (
        [f"def {name}({', '.join(filter(None, ('self', taken)))}) -> {given}" for name, taken, given in signatures]
        for signatures in (kernel_signature(old, old_spec.template_set), kernel_signature(new, new_spec.template_set))
    )
    for before, after in zip(was, now, strict=False):
        if before != after:
            reason = "kernel classes of other projects have to follow"
            yield Change(Rating.MAJOR, f"kernels of {new.name}", f"{before} -> {after}", reason, new.span, old.span)
    if len(was) != len(now):
        what = f"{'; '.join(was)} -> {'; '.join(now)}"
        reason = "kernel classes of other projects have to follow"
        yield Change(Rating.MAJOR, f"kernels of {new.name}", what, reason, new.span, old.span)
