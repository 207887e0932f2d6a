"""What holds for every predicate."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import combinations, product

from hypothesis import given
from hypothesis import strategies as st

from dispatchgen.features import Build, missing
from dispatchgen.predicate import (
    All,
    Any,
    Const,
    Explained,
    Feature,
    Flag,
    Not,
    Predicate,
    PredicateError,
    evaluate,
    explain,
    parse,
    simplify,
)

NAMES = "abcd"
WORDS = st.from_regex(r"[A-Za-z0-9_+.-]+", fullmatch=True)


def predicates(features: st.SearchStrategy[str], flags: st.SearchStrategy[str]) -> st.SearchStrategy[Predicate]:
    leaves = features.map(Feature) | flags.map(Flag) | st.booleans().map(Const)

    def grown(inner: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
        lists = st.lists(inner, max_size=4).map(tuple)
        return lists.map(All) | lists.map(Any) | inner.map(Not)

    return st.recursive(leaves, grown, max_leaves=12)


reserved = {"all", "any", "not", "true", "false", "feature", "cfg"}
written = predicates(WORDS, WORDS.filter(lambda word: word not in reserved))
judged = predicates(st.sampled_from(NAMES), st.sampled_from("xyz"))
builds = st.frozensets(st.sampled_from(NAMES))
cfgs = st.dictionaries(st.sampled_from("xyz"), predicates(st.sampled_from(NAMES), st.nothing()))


@given(written)
def test_what_is_printed_is_read_back(predicate: Predicate) -> None:
    assert parse(str(predicate)) == predicate


@given(written)
def test_white_space_and_trailing_commas_mean_nothing(predicate: Predicate) -> None:
    spread = str(predicate).replace("(", " (\n").replace(", ", "\t,  ").replace(")", " )\n")
    assert parse(spread) == predicate
    assert parse(f"all({predicate},)") == All((predicate,))


@given(judged, builds, cfgs)
def test_simplify_keeps_the_truth_and_is_done_at_once(
    predicate: Predicate, build: frozenset[str], defined: dict[str, Predicate]
) -> None:
    simple = simplify(predicate)
    assert evaluate(simple, build, defined) == evaluate(predicate, build, defined)
    assert simplify(simple) == simple
    assert len(str(simple)) <= max(len(str(predicate)), len("false"))


def truth(text: str, build: frozenset[str], defined: dict[str, bool]) -> bool:
    """What a predicate's text says, found by Python: each name as its value, each list as `all` or `any`."""
    python = re.sub(r'feature = "(\w)"', lambda match: str(match[1] in build), text)
    python = re.sub(r"\b[xyz]\b", lambda match: str(defined.get(match[0], False)), python)
    python = python.replace("true", "True").replace("false", "False")
    names = {"all": lambda *parts: all(parts), "any": lambda *parts: any(parts), "not_": lambda part: not part}
    return bool(eval(python.replace("not(", "not_("), {"__builtins__": {}}, names))


EVERY_BUILD = [
    (frozenset(name for name, on in zip(NAMES, row, strict=False) if on), dict(zip("xyz", row[4:], strict=True)))
    for row in product((False, True), repeat=7)
]


@given(judged)
def test_the_truth_table(predicate: Predicate) -> None:
    """For every build and every value of the cfgs: as written, simplified, denied, and simplified after that."""
    simple, denied = simplify(predicate), simplify(Not(predicate))
    for build, flags in EVERY_BUILD:
        defined: dict[str, Predicate] = {name: Const(value) for name, value in flags.items()}
        wanted = truth(str(predicate), build, flags)
        assert evaluate(predicate, build, defined) is wanted
        assert truth(str(simple), build, flags) is wanted
        assert truth(str(denied), build, flags) is not wanted


@given(st.lists(judged, max_size=4).map(tuple))
def test_de_morgan_holds_after_simplifying(parts: tuple[Predicate, ...]) -> None:
    denied = tuple(map(Not, parts))
    for one, other in ((Not(All(parts)), Any(denied)), (Not(Any(parts)), All(denied))):
        left, right = str(simplify(one)), str(simplify(other))
        for build, flags in EVERY_BUILD:
            assert truth(left, build, flags) is truth(right, build, flags)


@given(judged, builds)
def test_the_missing_features_are_what_is_missing(predicate: Predicate, build: frozenset[str]) -> None:
    """With them the predicate holds, with fewer it does not; where none are named, no more of them would help."""
    here = Build(build, dict.fromkeys(NAMES, ()), {})
    found = missing(here, predicate)

    def holds_with(more: Iterable[str]) -> bool:
        return evaluate(predicate, build | frozenset(more), {})

    if found:
        assert holds_with(found)
        assert not any(holds_with(fewer) for fewer in combinations(found, len(found) - 1))
    else:
        others = sorted(set(NAMES) - build)
        more = [added for size in range(1, len(others) + 1) for added in combinations(others, size)]
        assert holds_with(()) or not any(map(holds_with, more))


@given(st.lists(judged, max_size=4).map(tuple), builds, cfgs)
def test_de_morgan(parts: tuple[Predicate, ...], build: frozenset[str], defined: dict[str, Predicate]) -> None:
    denied = tuple(map(Not, parts))
    assert evaluate(Not(All(parts)), build, defined) == evaluate(Any(denied), build, defined)
    assert evaluate(Not(Any(parts)), build, defined) == evaluate(All(denied), build, defined)


@given(judged, builds, cfgs)
def test_a_cfg_means_its_definition(predicate: Predicate, build: frozenset[str], defined: dict[str, Predicate]) -> None:
    assert evaluate(Flag("new"), build, {**defined, "new": predicate}) == evaluate(predicate, build, defined)


@given(judged, builds, cfgs)
def test_an_explanation_agrees_with_the_evaluation_in_every_part(
    predicate: Predicate, build: frozenset[str], defined: dict[str, Predicate]
) -> None:
    def agrees(explained: Explained) -> bool:
        return explained.holds == evaluate(parse(explained.text), build, defined) and all(map(agrees, explained.parts))

    assert agrees(explain(predicate, build, defined))


@given(st.text(max_size=30) | st.text(alphabet='allnyotfeur=",() x&|!', max_size=30))
def test_no_text_gives_anything_but_a_predicate_or_its_error(text: str) -> None:
    try:
        predicate = parse(text)
    except PredicateError as problem:
        offset = problem.offset
    else:
        assert parse(str(predicate)) == predicate
        return
    assert 0 <= offset <= len(text)
