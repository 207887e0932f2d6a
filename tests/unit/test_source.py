from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dispatchgen import source
from dispatchgen.findings import Finding, Severity
from dispatchgen.source import Mapping, Scalar, Sequence, Span, read


def node(text: str) -> Mapping:
    found, findings = read(text.encode(), "f.yaml")
    assert findings == ()
    assert found is not None
    return found


def only(text: str | bytes) -> Finding:
    _, findings = read(text if isinstance(text, bytes) else text.encode(), "f.yaml")
    assert len(findings) == 1, findings
    assert findings[0].severity is Severity.ERROR
    return findings[0]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("true", True),
        ("false", False),
        ("True", "True"),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("null", None),
        ("~", None),
        ("", None),
        ("Null", "Null"),
        ("0", 0),
        ("12", 12),
        ("-3", -3),
        ("010", "010"),
        ("0x10", "0x10"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("1.5", "1.5"),
        ("9" * 5000, "9" * 5000),
        ("2027-06-30", "2027-06-30"),
        ("'true'", "true"),
        ('"12"', "12"),
        ("''", ""),
        ("=", "="),
        ('feature = "x"', 'feature = "x"'),
        ("|\n  a\n  b", "a\nb\n"),
        (">-\n  a\n  b", "a b"),
    ],
)
def test_scalars_mean_what_they_look_like(written: str, value: object) -> None:
    found = node(f"key: {written}\n").value["key"]
    assert found == value
    assert type(found) is type(value)


def test_keys_are_text_whatever_they_look_like() -> None:
    assert list(node("no: 1\n12: 2\ntrue: 3\nnull: 4\n").value) == ["no", "12", "true", "null"]


def test_collections_become_lists_and_mappings() -> None:
    assert node("a: [1, {b: c}]\nd:\n  - e\n  - f: 2\n").value == {"a": [1, {"b": "c"}], "d": ["e", {"f": 2}]}


def test_spans_are_one_based_and_count_characters() -> None:
    found = node("é: 'ü𝄞'   # comment\nlist:\n  - ab cd\n  - {x: y}\n")
    assert found.entries[0].key.span == Span("f.yaml", 1, 1, 1, 2)
    assert found.entries[0].value.span == Span("f.yaml", 1, 4, 1, 8)
    listed = found.get("list")
    assert isinstance(listed, Sequence)
    assert listed.items[0].span == Span("f.yaml", 3, 5, 3, 10)
    assert listed.items[1].span == Span("f.yaml", 4, 5, 4, 11)
    assert listed.span == Span("f.yaml", 3, 3, 4, 11)
    assert str(found.entries[1].key.span) == "f.yaml:2:1"


def test_a_part_of_a_text_has_a_place() -> None:
    plain, quoted, escaped = (entry.value for entry in node("a: abc def\nb: 'abc def'\nc: \"abc\\tdef\"\n").entries)
    assert isinstance(plain, Scalar)
    assert isinstance(quoted, Scalar)
    assert isinstance(escaped, Scalar)
    assert plain.inside(4, 3) == Span("f.yaml", 1, 8, 1, 11)
    assert quoted.inside(4, 3) == Span("f.yaml", 2, 9, 2, 12)
    assert escaped.inside(4, 3) == escaped.span


def test_line_ends_and_byte_order_mark_make_no_difference() -> None:
    text = "a: 1\nb:\n  - x\n  - |\n    long\n    text\n"
    assert node(text) == node(text.replace("\n", "\r\n")) == node("\ufeff" + text)
    windows = node(text.replace("\n", "\r\n")).get("b")
    unix = node(text).get("b")
    assert windows is not None
    assert unix is not None
    assert (windows.span.line, windows.span.column) == (unix.span.line, unix.span.column) == (3, 3)


@pytest.mark.parametrize(
    ("text", "code", "place", "words"),
    [
        (b"a: \xff\n", "DG101", "1:4", "byte 3 of the file (0xff) is not UTF-8"),
        (b"a: b\n\xc3\xa9: \xe9\n", "DG101", "2:4", "byte 9"),
        ("a: b\x00c\n", "DG102", "1:5", "U+0000"),
        ("x: 1\na: b\u200bc\n", "DG102", "2:5", "U+200B (zero width space)"),
        ("a: b\u202ec\n", "DG102", "1:5", "U+202E (right-to-left override)"),
        ("a: b\u0085c\n", "DG102", "1:5", "U+0085"),
        ("a: b\u2028c\n", "DG102", "1:5", "U+2028 (line separator)"),
        ("a: b\rc: d\n", "DG102", "1:5", "a carriage return alone"),
        ('a: "b\\u200b"\n', "DG102", "1:4", "an escape stands for U+200B"),
        ('a: "b\\0"\n', "DG102", "1:4", "U+0000"),
        ("a: !name b\n", "DG104", "1:4", "`!name`"),
        ("a: ! b\n", "DG104", "1:4", "`!`"),
        ("a: !!int 3\n", "DG104", "1:4", "asks for a type"),
        ("a: &x b\n", "DG105", "1:4", "`&x`"),
        ("a: *x\n", "DG105", "1:4", "`*x`"),
        ("<<: {a: b}\n", "DG106", "1:1", "`<<`"),
        ("a: b\n---\nc: d\n", "DG107", "2:1", "a second document"),
        ("", "DG108", "1:1", "the file is empty"),
        ("# only words\n", "DG108", "1:1", "the file is empty"),
        ("- a\n", "DG108", "1:1", "holds a list"),
        ("words\n", "DG108", "1:1", 'holds the text "words"'),
        ("a: 1\nb: 2\na: 3\n", "DG109", "3:1", "the key `a` stands here a second time"),
        ("a: {b: 1, 'b': 2}\n", "DG109", "1:11", "`b`"),
        ("? [a]\n: b\n", "DG110", "1:3", "not a list"),
        ("{{a: b}: c}\n", "DG110", "1:2", "not a mapping"),
        ("a: " + "[" * 5000, "DG111", "1:1003", "nested more than 40 levels deep"),
        ("a: " + "[" * 50 + "]" * 50, "DG111", "1:43", "nested more than 40 levels deep"),
    ],
)
def test_what_surprises_is_refused_with_its_place(text: str | bytes, code: str, place: str, words: str) -> None:
    finding = only(text)
    assert finding.code == code
    assert str(finding.span) == f"f.yaml:{place}"
    assert words in finding.message


def test_a_file_full_of_one_character_is_one_finding() -> None:
    finding = only("a: b\r" * 3000)
    assert finding.message == "a carriage return alone ends no line, and 2999 more in this file"
    assert finding.fix == "save the file with LF or CRLF line ends"
    _, findings = read("a: \u200bb\u202ec\u200b\n".encode(), "f.yaml")
    assert [(each.span.column if each.span else 0, "more" in each.message) for each in findings] == [
        (4, True),
        (6, False),
    ]


def test_a_value_in_double_braces_is_told_to_be_quoted() -> None:
    assert "quote the whole value" in (only("a: {{ x }}\n").fix or "")


def test_a_repeated_key_shows_the_first_and_keeps_it() -> None:
    found, findings = read(b"a: 1\nb: 2\na: 3\n", "f.yaml")
    assert found is not None
    assert found.value == {"a": 1, "b": 2}
    assert [str(related.span) for related in findings[0].related] == ["f.yaml:1:1"]


@pytest.mark.parametrize(
    ("text", "place", "words", "fix"),
    [
        ("a: @x\n", "1:4", "cannot start any token", "quote the value: plain text cannot start with `@`"),
        ("a: `x`\n", "1:4", "cannot start any token", "quote the value: plain text cannot start with ``"),
        ("a: %x\n", "1:4", "cannot start any token", "quote the value: plain text cannot start with `%`"),
        ("a: | x\n", "1:6", "block scalar", "quote the value: plain text cannot start with `|`"),
        ("a: * x\n", "1:5", "alias", "quote the value: plain text cannot start with `*`"),
        ("a: & x\n", "1:5", "anchor", "quote the value: plain text cannot start with `&`"),
        ("a: {b} c\n", "1:8", "did not find expected key", "close the bracket, or quote the value"),
        ("a: {b: c[d]}\n", "1:9", "flow mapping", "quote the value: between brackets, plain text cannot hold `[`"),
        ("a: b: c\n", "1:5", "mapping values are not allowed", "quote the value: text with `: ` in it needs quotes"),
        ("a: [b\n", "2:1", "flow sequence", "close the bracket, or quote the value if it is text that starts with `[`"),
        ("a: - b\n", "1:4", "not allowed in this context", "quote the value: plain text cannot start with `- `"),
        ("a: b\n...\nmore\n", "3:1", "<document start>", "a file holds one mapping"),
        ("\ta: b\n", "1:1", "found a tab where YAML takes spaces only", None),
        ("a: 'x\n", "2:1", "that begins at line 1, column 4", None),
    ],
)
def test_syntax_errors_keep_their_place_and_say_what_helps(text: str, place: str, words: str, fix: str | None) -> None:
    finding = only(text)
    assert finding.code == "DG103"
    assert str(finding.span) == f"f.yaml:{place}"
    assert words in finding.message
    assert (finding.fix or "").startswith(fix or "")
    assert (finding.fix is None) == (fix is None)


def test_all_that_is_wrong_comes_at_once_in_order() -> None:
    _, findings = read(b"b: !x 1\na: &y 2\na: 3\nc: *y\n", "f.yaml")
    assert [(finding.code, finding.span.line) for finding in findings if finding.span] == [
        ("DG104", 1),
        ("DG105", 2),
        ("DG109", 3),
        ("DG105", 4),
    ]


def test_the_pure_python_parser_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    import yaml

    text = "a: [1, {b: 'c'}]\nd:\n  - é x   # words\n  - |\n    e\n"
    fast = node(text)
    monkeypatch.setattr(source, "_LOADER", yaml.SafeLoader)
    assert node(text) == fast
    pairs = zip(fast.entries, node(text).entries, strict=True)
    assert all(one.value.span == other.value.span for one, other in pairs)
    assert only("a: @x\n").code == "DG103"
    assert only("a: *x\n").code == "DG105"


@given(
    st.binary(max_size=60) | st.text(alphabet="ab:-[]{}&*!|>'\"%@`\\,#? \n\t\r<=~\u0085", max_size=40).map(str.encode)
)
@example(b"[" * 5000)
@example(b"a: " + b"{a: " * 3000)
@example(b"- " * 3000)
@example(b"? " * 3000)
@example(b'a: "\\ud800"')
def test_no_input_gives_a_traceback(data: bytes) -> None:
    found, findings = read(data, "f.yaml")
    assert found is not None or findings
