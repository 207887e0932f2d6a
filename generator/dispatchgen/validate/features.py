"""Features, derived cfgs, and the predicates over them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain

from dispatchgen.features import DEFAULT
from dispatchgen.findings import Finding, Related, closest, error, near, warning
from dispatchgen.model.catalog import Backend, Catalog, Cfg, Feature, Runtime, Wrapper
from dispatchgen.predicate import NAME, WORDS, All, Any, Not, Predicate, mentions
from dispatchgen.source import Span
from dispatchgen.template_set import TemplateSet


def check(catalog: Catalog, template_set: TemplateSet) -> Iterator[Finding]:
    """Names, what refers to nothing, circles, and what nothing uses."""
    predicates = list(_predicates(catalog))
    yield from _names(catalog)
    yield from _implied(catalog)
    features = {feature.name: feature for feature in catalog.features}
    cfgs = {cfg.name: cfg for cfg in catalog.cfgs}
    for predicate, span in predicates:
        yield from _references(predicate, span, features, cfgs)
    for circle in _circles({name: feature.implies for name, feature in features.items()}):
        yield _circle("DG206", "features turn each other on in a circle", circle, features)
    for circle in _circles({name: mentions(cfg.predicate).flags for name, cfg in cfgs.items()}):
        yield _circle("DG207", "a cfg is defined by itself", circle, cfgs)
    yield from _unused(catalog, [predicate for predicate, _ in predicates])


def _predicates(catalog: Catalog) -> Iterator[tuple[Predicate, Span]]:
    """Every predicate of the catalog and where it stands."""
    for cfg in catalog.cfgs:
        yield cfg.predicate, cfg.where("predicate")
    runtimes = chain.from_iterable(backend.runtimes for backend in catalog.backends)
    holders: Iterable[Wrapper | Backend | Runtime] = chain(catalog.wrappers, catalog.backends, runtimes)
    for holder in holders:
        yield holder.cfg, holder.where("cfg")


def _names(catalog: Catalog) -> Iterator[Finding]:
    runtimes = chain.from_iterable(backend.runtimes for backend in catalog.backends)
    entries: Iterable[Feature | Cfg | Runtime] = chain(catalog.features, catalog.cfgs, runtimes)
    for entry in entries:
        kind = type(entry).__name__.lower()
        if not NAME.fullmatch(entry.name):
            message = f"`{entry.name}` is no name for a {kind}: ASCII letters, digits and `_ + . -` only"
            yield error("DG211", message, entry.span)
        elif isinstance(entry, Cfg) and entry.name in WORDS:
            yield error("DG211", f"`{entry.name}` is a word of the predicate grammar", entry.span)


def _implied(catalog: Catalog) -> Iterator[Finding]:
    known = [feature.name for feature in catalog.features]
    for feature in catalog.features:
        for index, name in enumerate(feature.implies):
            if name not in known:
                message = f"feature `{feature.name}` turns on `{name}`, which is not declared"
                yield error("DG205", message, feature.where(f"implies[{index}]"), fix=near(name, known))


def _references(
    predicate: Predicate, span: Span, features: Mapping[str, Feature], cfgs: Mapping[str, Cfg]
) -> Iterator[Finding]:
    named = mentions(predicate)
    for name in named.features:
        if name not in features:
            yield error("DG203", f"there is no feature `{name}`", span, fix=near(name, features))
    for name in named.flags:
        if name not in cfgs:
            fix = f'write feature = "{name}"' if name in features else near(name, cfgs)
            yield error("DG204", f"there is no cfg `{name}`", span, fix=fix)
    for word in _empty(predicate):
        constant = "true" if word == "all" else "false"
        fix = f"write {constant} if that is meant"
        yield warning("DG202", f"`{word}()` has nothing in it and is always {constant}", span, fix=fix)


def _empty(predicate: Predicate) -> Iterator[str]:
    """`all` or `any` for each that has no parts."""
    match predicate:
        case All(()):
            yield "all"
        case Any(()):
            yield "any"
        case All(parts) | Any(parts):
            yield from chain.from_iterable(map(_empty, parts))
        case Not(part):
            yield from _empty(part)


def _circles(edges: Mapping[str, tuple[str, ...]]) -> Iterator[list[str]]:
    """The circles of a graph, each once, as the names on it in order."""
    done: set[str] = set()
    for root in edges:
        path: dict[str, Iterator[str]] = {}
        name: str | None = root if root not in done else None
        while name is not None:
            path[name] = iter(edges[name])
            name = None
            while path and name is None:
                top = next(reversed(path))
                for target in path[top]:
                    if target in path:
                        names = list(path)
                        yield names[names.index(target) :]
                    elif target in edges and target not in done:
                        name = target
                        break
                else:
                    done.add(top)
                    del path[top]


def _circle(code: str, what: str, circle: list[str], entries: Mapping[str, Feature] | Mapping[str, Cfg]) -> Finding:
    related = [Related(entries[name].span, f"`{name}` is on it") for name in circle[1:]]
    return error(code, f"{what}: {' -> '.join([*circle, circle[0]])}", entries[circle[0]].span, related=related)


def _meant(name: str, known: Collection[str]) -> str | None:
    """The known name that a predicate names, or most likely wanted to."""
    return name if name in known else closest(name, known)


def _unused(catalog: Catalog, predicates: Iterable[Predicate]) -> Iterator[Finding]:
    """What no predicate names, nor may have meant to name where it cannot be read or names something unknown."""
    meant = {word for text in catalog.unreadable for word in NAME.findall(text)}
    features, flags = set(meant), set(meant)
    known = [each.name for each in catalog.features], [each.name for each in catalog.cfgs]
    for predicate in predicates:
        named = mentions(predicate)
        features.update(found for name in named.features if (found := _meant(name, known[0])))
        flags.update(found for name in named.flags if (found := _meant(name, known[1])))
        features.update(name for name in named.flags if name not in known[1])
    for feature in catalog.features:
        implied = any(feature.name in other.implies for other in catalog.features if other.name != DEFAULT)
        if feature.name not in features and not feature.implies and not implied and feature.name != DEFAULT:
            message = f"nothing uses the feature `{feature.name}`"
            yield warning("DG209", message, feature.span, fix="name it in a cfg, or take it out")
    for cfg in catalog.cfgs:
        if cfg.name not in flags:
            yield warning(
                "DG210", f"nothing uses the cfg `{cfg.name}`", cfg.span, fix="name it in a cfg, or take it out"
            )
