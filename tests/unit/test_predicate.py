from __future__ import annotations

import pytest

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
    mentions,
    parse,
    simplify,
)
from dispatchgen.source import Span

A, B, C = Feature("a"), Feature("b"), Feature("c")


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ('feature = "a"', A),
        ('feature="a"', A),
        ('  feature\n = "a" ', A),
        ("accelerator", Flag("accelerator")),
        ("true", Const(True)),
        ("false", Const(False)),
        ('all(feature = "a", feature = "b")', All((A, B))),
        ('any(feature = "a", x,)', Any((A, Flag("x")))),
        ('not(feature = "a")', Not(A)),
        ("not(x,)", Not(Flag("x"))),
        ("all()", All(())),
        ("any ( )", Any(())),
        (
            'any(all(x, not(any(true))), feature = "c++.1-2")',
            Any((All((Flag("x"), Not(Any((Const(True),))))), Feature("c++.1-2"))),
        ),
        ("not_x", Flag("not_x")),
    ],
)
def test_parse(text: str, predicate: Predicate) -> None:
    assert parse(text) == predicate
    assert parse(str(predicate)) == predicate


@pytest.mark.parametrize(
    ("text", "offset", "message", "fix"),
    [
        ("", 0, "the predicate is empty", "write for example"),
        ("feature = a", 10, "the name `a` needs quotes", 'write feature = "a"'),
        ("feature = 'a'", 10, "the name stands in '", 'write feature = "name"'),
        ("feature = \u201ca\u201d", 10, "the name stands in \u201c", 'write feature = "name"'),
        ("feature", 0, "`feature` needs a name", 'write feature = "name"'),
        ("feature =", 0 + 9, "`feature` needs a name", 'write feature = "name"'),
        ('feature = ""', 10, "`feature` needs a name", 'write feature = "name"'),
        ('feature == "a"', 8, "one `=` is enough", 'write feature = "name"'),
        ('feature = "a', 10, 'a `"` that is never closed', 'close it: feature = "name"'),
        ('"a', 0, 'a `"` that is never closed', 'close it: feature = "name"'),
        ('"a"', 0, '"a" alone says nothing', 'write feature = "a"'),
        ('target = "a"', 0, "`target` takes no value", 'write feature = "target", or the bare name'),
        ("a && b", 2, "`&&` after the end of the predicate", "write all(…, …) instead of `… && …`"),
        ("a || b", 2, "`||` after the end of the predicate", "write any(…, …) instead of `… || …`"),
        ("any(a or b)", 6, "`or` where a comma belongs", "write any(…, …) instead of `… or …`"),
        ("!a", 0, "a predicate cannot begin with `!`", "write not(…) instead of `!…`"),
        ("a, b", 1, "a list outside of all(…) and any(…)", "write all(…, …) or any(…, …)"),
        ("a)", 1, "a `)` that closes nothing", "take it out"),
        ("any(a", 3, "the `(` of `any(` is never closed", "add a `)`"),
        ("any(a, not(b)", 3, "the `(` of `any(` is never closed", "add a `)`"),
        ("any(a,", 3, "the `(` of `any(` is never closed", "add a `)`"),
        ("any(,)", 4, "a comma with nothing before it", "take it out"),
        ("any(a,,b)", 6, "a comma with nothing before it", "take it out"),
        ("any(a b)", 6, "`b` where a comma belongs", "add a comma"),
        ("not()", 0, "`not` takes exactly one predicate and has 0", "write not(…) around a predicate"),
        ("not(a, b)", 0, "`not` takes exactly one predicate and has 2", "write not(any(…)) or not(all(…))"),
        ("all", 0, "`all` needs parentheses", "write all(…)"),
        ("xor(a, b)", 0, "`xor(…)` is not known", "there are all(…), any(…) and not(…)"),
        ('cfg(feature = "a")', 0, "the predicate stands in `cfg(…)`", "leave `cfg(` and its `)` out"),
        (
            "not(" * 60 + "a" + ")" * 60,
            200,
            "nested more than 50 levels deep",
            "give a part of it a name under `cfgs:`",
        ),
        ("(" * 5000, 0, "a predicate cannot begin with `(`", "write for example"),
        ("ü", 0, "a predicate cannot begin with `ü`", "write for example"),
    ],
)
def test_errors_point_into_the_text_and_say_what_to_write(text: str, offset: int, message: str, fix: str) -> None:
    with pytest.raises(PredicateError) as caught:
        parse(text)
    assert (caught.value.offset, caught.value.message, str(caught.value)) == (offset, message, message)
    assert (caught.value.fix or "").startswith(fix)


def test_errors_carry_the_span_that_was_given() -> None:
    span = Span("f.yaml", 1, 2, 1, 3)
    with pytest.raises(PredicateError) as caught:
        parse("a b", span)
    assert caught.value.span is span


CFGS: dict[str, Predicate] = {
    "tool": Any((A, B)),
    "both": All((Flag("tool"), C)),
    "round": Not(Flag("trip")),
    "trip": Flag("round"),
}


@pytest.mark.parametrize(
    ("text", "features", "holds"),
    [
        ('feature = "a"', "a", True),
        ('feature = "a"', "b", False),
        ("tool", "b", True),
        ("tool", "c", False),
        ("both", "ac", True),
        ("both", "a", False),
        ("not(both)", "a", True),
        ("nobody", "abc", False),
        ("all()", "", True),
        ("any()", "abc", False),
    ],
)
def test_evaluate(text: str, features: str, holds: bool) -> None:
    assert evaluate(parse(text), frozenset(features), CFGS) is holds


def test_a_circle_of_cfgs_ends() -> None:
    assert evaluate(Flag("trip"), frozenset(), CFGS) in (True, False)
    explained, texts = explain(Flag("trip"), frozenset(), CFGS), ["trip"]
    while explained.parts:
        (explained,) = explained.parts
        texts.append(explained.text)
    assert texts == ["trip", "round", "not(trip)", "trip"]


def test_a_long_chain_of_cfgs_is_no_recursion() -> None:
    chain: dict[str, Predicate] = {f"c{number}": Flag(f"c{number + 1}") for number in range(5000)}
    chain["c5000"] = A
    assert evaluate(Flag("c0"), frozenset("a"), chain)
    assert not evaluate(Flag("c0"), frozenset("b"), chain)
    explained, unfolded = explain(Flag("c0"), frozenset("a"), chain), 0
    assert explained.holds
    while explained.parts:
        (explained,), unfolded = explained.parts, unfolded + 1
    assert (explained, unfolded) == (Explained("c10", True), 10)


def test_explain_shows_each_part_and_the_definition_of_a_cfg() -> None:
    assert explain(Not(Flag("tool")), frozenset("b"), CFGS) == Explained(
        "not(tool)",
        False,
        (
            Explained(
                "tool",
                True,
                (
                    Explained(
                        'any(feature = "a", feature = "b")',
                        True,
                        (Explained('feature = "a"', False), Explained('feature = "b"', True)),
                    ),
                ),
            ),
        ),
    )


@pytest.mark.parametrize(
    ("text", "simple"),
    [
        ("all(x)", "x"),
        ("any(x, any(y, x))", "any(x, y)"),
        ("not(not(x))", "x"),
        ("not(true)", "false"),
        ("all(x, true)", "x"),
        ("all(x, false)", "false"),
        ("any(x, all())", "true"),
        ("any()", "false"),
        ("any(x, not(x))", "true"),
        ("all(y, not(x), x)", "false"),
        ("all(x, all(y, not(all(z))))", "all(x, y, not(z))"),
    ],
)
def test_simplify(text: str, simple: str) -> None:
    assert str(simplify(parse(text))) == simple


def test_mentions_each_name_once_in_order() -> None:
    found = mentions(parse('any(feature = "b", x, not(all(feature = "a", feature = "b", y, x)))'))
    assert found.features == ("b", "a")
    assert found.flags == ("x", "y")
