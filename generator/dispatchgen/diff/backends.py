"""Features, cfgs, wrappers and backends of two catalogs side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dispatchgen.diff.change import TEXT, Change, Rating, Rule, listed, set_of, shown, sides, values

if TYPE_CHECKING:
    from dispatchgen.model.catalog import Backend, Catalog, Entry, Runtime
    from dispatchgen.template_set import TemplateSet

_WAYS = {"both": {"in", "out"}, "into": {"in"}, "out": {"out"}, "none": set[str]()}

BACKEND = {
    "id": Rule(Rating.MAJOR, "what was stored or sent under the old id belongs to something else"),
    "doc": TEXT,
    "kernels": Rule(Rating.PATCH, "another class does the same"),
    "wrappers": Rule(
        lambda was, now: set_of(was, now, Rating.MAJOR, Rating.MINOR), "what may stand around it is part of its name"
    ),
    "transfer": Rule(
        lambda was, now: set_of(_WAYS[was], _WAYS[now], Rating.MAJOR, Rating.MINOR), "transfers come or go"
    ),
}
"""How keys of a backend are rated; the others have a function of their own."""
ELSEWHERE = {"name", "cfg", "capabilities", "priority", "runtimes", "keys"}
"""Keys of a backend that are compared by a function."""


def check(old: Catalog, new: Catalog, template_set: TemplateSet) -> Iterator[Change]:
    """What changed in `backends.yaml`, but for the builds that have something."""
    if old.package != new.package:
        what, reason = f"renamed {old.package} -> {new.package}", "every import of it fails"
        yield Change(Rating.MAJOR, "package", what, reason, new.at.get("package"), old.at.get("package"))
    yield from _features(old, new)
    cfgs = sides(old.cfgs, new.cfgs)
    yield from listed("cfg", cfgs, "predicates of overlays that name it are refused", "nothing names it yet")
    for was, now in cfgs.both:
        reason = "what it changes is told by the backends that depend on it"
        yield from values(f"cfg {now.name}", was, now, {"predicate": Rule(Rating.PATCH, reason)})
    wrappers = sides(old.wrappers, new.wrappers)
    yield from listed("wrapper", wrappers, "code that wraps with it fails", "nothing wraps with it yet")
    for was, now in wrappers.both:
        yield from values(f"wrapper {now.name}", was, now, {"doc": TEXT})
    backends = sides(old.backends, new.backends)
    yield from listed("backend", backends, "code that names it fails", "nothing names it yet")
    for was, now in backends.both:
        yield from _backend(was, now, template_set)
    yield from _order(old, new)


def _features(old: Catalog, new: Catalog) -> Iterator[Change]:
    features = sides(old.features, new.features)
    yield from listed("feature", features, "builds that ask for it fail", "nobody asks for it yet")
    for was, now in features.both:
        subject, places = f"feature {now.name}", (now.span, was.span)
        lost = [name for name in dict.fromkeys(was.implies) if name not in now.implies]
        more = [name for name in dict.fromkeys(now.implies) if name not in was.implies]
        if lost:
            reason = "builds that counted on it lose it"
            yield Change(Rating.MAJOR, subject, f"does not turn on {', '.join(lost)} any more", reason, *places)
        if more:
            reason = "builds have more than before"
            yield Change(Rating.MINOR, subject, f"turns on {', '.join(more)} too", reason, *places)


def _backend(old: Backend, new: Backend, template_set: TemplateSet) -> Iterator[Change]:
    subject = f"backend {new.name}"
    yield from values(subject, old, new, BACKEND)
    yield from _capabilities(subject, old, new)
    yield from keys(subject, old, new, {key.name for key in template_set.backend_keys if key.type == "list"})
    runtimes = sides(old.runtimes, new.runtimes)
    if bool(old.runtimes) != bool(new.runtimes):
        what = "stands for several runtimes now" if new.runtimes else "stands for one thing only now"
        yield Change(Rating.MAJOR, subject, what, "its devices are made in another way", new.span, old.span)
        return
    yield from listed("runtime", runtimes, "code that names it fails", "nothing names it yet", f" of {new.name}")
    for was, now in runtimes.both:
        yield from _capabilities(f"runtime {now.name} of {new.name}", was, now)


def _capabilities(subject: str, old: Backend | Runtime, new: Backend | Runtime) -> Iterator[Change]:
    found = sides(old.capabilities.values(), new.capabilities.values())
    for each in found.gone:
        reason = "operations that ask for it are refused"
        yield Change(Rating.MAJOR, subject, f"capability {each.name} lost", reason, new.span, each.span)
    for each in found.added:
        yield Change(Rating.MINOR, subject, f"capability {each.name} gained", "nothing is lost", each.span, old.span)
    for was, now in found.both:
        reason = "the two do not meet, and do not support the same"
        yield from values(f"{subject}, {now.name}", was, now, {"engine": Rule(Rating.MAJOR, reason)})


def keys(subject: str, old: Entry, new: Entry, lists: set[str]) -> Iterator[Change]:
    """Changes of the extra keys that a template set declares: only it knows what they mean, so each counts.

    A list that has only more in it is the exception. One that was left out may mean all or none.
    """
    before, after = getattr(old, "keys"), getattr(new, "keys")  # noqa: B009 (entries of two kinds have them)
    for name in dict.fromkeys((*before, *after)):
        was, now = before.get(name), after.get(name)
        if was == now:
            continue
        rating, reason = Rating.MAJOR, "only the template set knows what it means, so it counts as a break"
        if name in lists and was is not None and now is not None:
            rating, reason = set_of(was, now, Rating.MAJOR, Rating.MINOR), "fewer than before is a break"
        what = f"{name} {shown(was)} -> {shown(now)}"
        yield Change(rating, subject, what, reason, new.where(name), old.where(name))


def _order(old: Catalog, new: Catalog) -> Iterator[Change]:
    """Priorities choose among backends: the order counts, and numbers that keep it do not."""
    both = sides(old.backends, new.backends).both
    ranked = [(was.priority, now.priority) for was, now in both]
    before = sorted((was for was, _ in both if was.priority is not None), key=lambda each: each.priority)
    after = sorted((now for _, now in both if now.priority is not None), key=lambda each: each.priority)
    for (was, now), (earlier, later) in zip(both, ranked, strict=True):
        if earlier == later:
            continue
        same = [each.name for each in before] == [each.name for each in after]
        rating = Rating.PATCH if same else Rating.MAJOR
        reason = "the order is the same" if same else "another backend may come first"
        yield Change(
            rating,
            f"backend {now.name}",
            f"priority {shown(earlier)} -> {shown(later)}",
            reason,
            now.where("priority"),
            was.where("priority"),
        )
