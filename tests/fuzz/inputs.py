"""Hostile input: noise, and files that are right with something done to them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from hypothesis import strategies as st

from tests.shipped import ROOT

TOY = ROOT / "tests" / "cases" / "_base"
TOKENS = [
    *("no", "on", "yes", "y", "true", "True", "null", "~", "1_000", "0o7", "0x1F", "1:20", "1e3", ".inf", ".nan", "-0"),
    *(
        "2024-01-01",
        "2024-13-01",
        "<<: *a",
        "&a",
        "*a",
        "&a [*a]",
        "!!python/object/apply:os.system [x]",
        "!x",
        "!!set",
    ),
    *(
        "? ",
        ": ",
        "- ",
        "-",
        "{",
        "}",
        "[",
        "]",
        "[]",
        "{}",
        "{{ x }}",
        "{% x %}",
        "|",
        ">",
        "|9",
        ">-",
        "#",
        "@",
        "%",
        "`",
    ),
    *(
        "%YAML 1.1\n",
        "%TAG ! tag:x,2000:\n",
        "---\n",
        "...\n",
        "--- x\n",
        "\t",
        "\n\t- x",
        "  ",
        "\n",
        "\r",
        "\r\n",
        "\x85",
    ),
    *("\u2028", "\u200b", "\u202e", "\ufeff", "\0", "\x1b[31m", "\ud7ff", "\U0001f680", "\uff21", "\u0441", "\ufb01"),
    *('"', "'", '"""', "\\", '"\\x00"', '"\\ud800"', '"\\N"', "'''", "name: name", "name: Iron", "id: 0", "id: -1"),
    *(
        "id: 99999999999999999999",
        "class",
        "None",
        "import",
        "../../x",
        "/etc/x",
        "a\\b",
        "C:x",
        "__init__",
        "con",
        "self",
    ),
    *('feature = "', "any(", "all()", "not(not(", ")", 'feature = "iron"', "true", "cfg(x)", "&&", "x" * 300, "[" * 60),
    *("backends:", "features:", "version: 2", "version: '1'", "default: [default]", "{name: X, id: 3, cfg: 'true'}"),
    *("{op}", "{subject!r:>{x}}", "{0}", "{subject.__class__}", "transfer: into", "otherwise: none", "route: nowhere"),
]
SIGNS = "ab:-[]{}&*!|>'\"%@`\\,#? \n\t\r<=~\x85"

Edit = tuple[str, float, float, str]


def edits() -> st.SearchStrategy[Edit]:
    """One thing done to a file: what, where and up to where (as shares of its length), and a token."""
    kinds = ["insert", "replace", "delete", "repeat", "swap", "cut", "line", "indent"]
    share = st.floats(0, 1, allow_nan=False)
    return st.tuples(st.sampled_from(kinds), share, share, st.sampled_from(TOKENS))


def edited(data: bytes, edit: Edit) -> bytes:
    """The file with that done to it."""
    kind, start, end, token = edit
    text = token.encode("utf-8", "surrogatepass")
    begin = int(start * len(data))
    stop = min(len(data), begin + 1 + int(end * 40))
    lines = data.split(b"\n")
    line = min(len(lines) - 1, int(start * len(lines)))
    other = min(len(lines) - 1, int(end * len(lines)))
    match kind:
        case "insert":
            return data[:begin] + text + data[begin:]
        case "replace":
            return data[:begin] + text + data[stop:]
        case "delete":
            return data[:begin] + data[stop:]
        case "repeat":
            return data[:stop] + data[begin:]
        case "cut":
            return data[:begin]
        case "swap":
            lines[line], lines[other] = lines[other], lines[line]
        case "line":
            head, colon, _ = lines[line].partition(b": ")
            lines[line] = head + colon + text
        case _:
            lines[line] = b" " * (1 + int(end * 4)) + lines[line]
    return b"\n".join(lines)


def recoded(data: bytes, way: str) -> bytes:
    """The file in another encoding, or with other line ends."""
    if way in ("utf-16", "utf-32", "utf-8-sig", "latin-1"):
        return data.decode("utf-8", "replace").encode(way, "replace")
    return data.replace(b"\n", {"crlf": b"\r\n", "cr": b"\r"}.get(way, b"\n"))


WAYS = st.sampled_from(["as it is"] * 12 + ["utf-16", "utf-32", "utf-8-sig", "latin-1", "crlf", "cr"])


def damaged(data: bytes) -> st.SearchStrategy[bytes]:
    """A file with a few things done to it."""

    def apply(done: list[Edit], way: str) -> bytes:
        changed = data
        for edit in done:
            changed = edited(changed, edit)
        return recoded(changed[:200_000], way)

    return st.builds(apply, st.lists(edits(), min_size=1, max_size=5), WAYS)


@cache
def seeds() -> tuple[bytes, ...]:
    """Files to begin with: the small project's and the shipped ones."""
    found = [*sorted((TOY / "spec").rglob("*.yaml")), TOY / "templates" / "set.yaml"]
    return tuple(
        path.read_bytes() for path in (*found, ROOT / "spec" / "backends.yaml", ROOT / "spec" / "exemptions.yaml")
    )


def files() -> st.SearchStrategy[bytes]:
    """What may be found in a YAML file."""
    noise = st.binary(max_size=200) | st.text(SIGNS, max_size=80).map(str.encode)
    tokens = st.lists(st.sampled_from(TOKENS), max_size=12).map(
        lambda made: "\n".join(made).encode("utf-8", "surrogatepass")
    )
    return noise | tokens | st.sampled_from(seeds()).flatmap(damaged)


def predicates() -> st.SearchStrategy[bytes]:
    """What may be written for a predicate."""
    words = [
        "all",
        "any",
        "not",
        "(",
        ")",
        ",",
        "feature",
        "=",
        '"a"',
        '"b"',
        "x",
        "y",
        "true",
        "false",
        " ",
        "cfg",
        "!",
        "&&",
    ]
    written = st.lists(st.sampled_from(words), max_size=40).map("".join)
    return (st.text(max_size=60) | st.text('allnyotfeur=",() x&|!', max_size=60) | written).map(
        lambda text: text.encode("utf-8", "surrogatepass")
    )


PROJECT_FILES = [
    *(path.relative_to(TOY).as_posix() for path in sorted((TOY / "spec").rglob("*.yaml"))),
    "templates/set.yaml",
    "pyproject.toml",
]


def projects() -> st.SearchStrategy[bytes]:
    """A file of the small project, damaged: its name, a line end, what it holds."""
    return st.sampled_from(PROJECT_FILES).flatmap(
        lambda name: damaged(Path(TOY, name).read_bytes()).map(lambda data: name.encode() + b"\n" + data)
    )
