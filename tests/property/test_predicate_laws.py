"""What holds for every predicate."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

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
