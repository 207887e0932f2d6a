"""Text -> predicate, with an error that says what to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from dispatchgen.predicate.tree import All, Any, Const, Feature, Flag, Not, Predicate

if TYPE_CHECKING:
    from dispatchgen.source import Span

MAX_DEPTH = 50
NAME = re.compile(r"[A-Za-z0-9_+.-]+")
"""The name of a feature, of a derived cfg, of a runtime."""
WORDS = frozenset({"all", "any", "not", "true", "false", "feature", "cfg"})
"""The words of the grammar: no derived cfg can be called like one of them."""


class PredicateError(ValueError):
    """The text is no predicate: what is wrong at which character of it, and what to write instead."""

    def __init__(self, message: str, offset: int, fix: str | None = None, span: Span | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset
        self.fix = fix
        self.span = span


def parse(text: str, span: Span | None = None) -> Predicate:
    """The predicate that the text says. `span` is where the text stands, and is handed on to the error.

    Raises PredicateError.
    """
    return _Parser(text, span).parse()


class _Token(NamedTuple):
    kind: str
    text: str
    offset: int


_TOKEN = re.compile(
    r"""(?P<space>\s+)|(?P<word>[A-Za-z0-9_+.-]+)|(?P<text>"[^"\\\n]*")|(?P<mark>[(),]|==?|&&?|\|\|?|!|.)"""
)
_INSTEAD = {
    "&&": "write all(…, …) instead of `… && …`",
    "&": "write all(…, …) instead of `… & …`",
    "||": "write any(…, …) instead of `… || …`",
    "|": "write any(…, …) instead of `… | …`",
    "!": "write not(…) instead of `!…`",
    "and": "write all(…, …) instead of `… and …`",
    "or": "write any(…, …) instead of `… or …`",
}


class _Parser:
    def __init__(self, text: str, span: Span | None) -> None:
        self.source = text
        self.span = span
        self.tokens = list(self._tokens())
        self.next = 0

    def parse(self) -> Predicate:
        predicate = self._predicate(1)
        token = self.tokens[self.next]
        if token.kind != "end":
            if token.text == ")":
                self._fail("a `)` that closes nothing", token, "take it out")
            if token.text == ",":
                self._fail("a list outside of all(…) and any(…)", token, "write all(…, …) or any(…, …)")
            self._fail(f"`{token.text}` after the end of the predicate", token, _INSTEAD.get(token.text))
        return predicate

    def _tokens(self) -> Iterator[_Token]:
        for match in _TOKEN.finditer(self.source):
            kind = match.lastgroup or "mark"
            if kind != "space":
                yield _Token(kind, match[0], match.start())
        yield _Token("end", "", len(self.source))

    def _fail(self, message: str, token: _Token, fix: str | None = None) -> NoReturn:
        raise PredicateError(message, token.offset, fix, self.span)

    def _take(self) -> _Token:
        token = self.tokens[self.next]
        self.next += token.kind != "end"
        return token

    def _follows(self, text: str) -> bool:
        """Whether the next token is this mark; it is taken then."""
        token = self.tokens[self.next]
        found = token.text == text
        self.next += found
        return found

    def _predicate(self, depth: int) -> Predicate:
        token = self._take()
        if depth > MAX_DEPTH:
            self._fail(f"nested more than {MAX_DEPTH} levels deep", token, "give a part of it a name under `cfgs:`")
        if token.kind == "end":
            self._fail("the predicate is empty" if depth == 1 else "the predicate ends too early", token, _EXAMPLE)
        if token.kind == "text":
            self._fail(f"{token.text} alone says nothing", token, f"write feature = {token.text}")
        if token.text == '"':
            self._fail('a `"` that is never closed', token, 'close it: feature = "name"')
        if token.kind != "word":
            self._fail(f"a predicate cannot begin with `{token.text}`", token, _INSTEAD.get(token.text, _EXAMPLE))
        if self.tokens[self.next].text == "(":
            return self._call(token, depth)
        if token.text == "feature":
            return self._feature(token)
        if self.tokens[self.next].text in ("=", "=="):
            self._fail(f"`{token.text}` takes no value", token, f'write feature = "{token.text}", or the bare name')
        if token.text in ("true", "false"):
            return Const(token.text == "true")
        if token.text in WORDS:
            self._fail(f"`{token.text}` needs parentheses", token, f"write {token.text}(…)")
        return Flag(token.text)

    def _feature(self, word: _Token) -> Feature:
        equals, value = self._take(), self._take()
        if equals.text == "==":
            self._fail("one `=` is enough", equals, 'write feature = "name"')
        if equals.text != "=":
            self._fail("`feature` needs a name", word, 'write feature = "name"')
        if value.text in ("'", "\u2018", "\u2019", "\u201c", "\u201d"):
            self._fail(f"the name stands in {value.text}", value, 'write feature = "name"')
        if value.kind == "word":
            self._fail(f"the name `{value.text}` needs quotes", value, f'write feature = "{value.text}"')
        if value.text == '"':
            self._fail('a `"` that is never closed', value, 'close it: feature = "name"')
        if value.kind != "text" or value.text == '""':
            self._fail("`feature` needs a name", value, 'write feature = "name"')
        return Feature(value.text[1:-1])

    def _call(self, word: _Token, depth: int) -> Predicate:
        if word.text == "cfg":
            self._fail("the predicate stands in `cfg(…)`", word, "leave `cfg(` and its `)` out")
        if word.text not in ("all", "any", "not"):
            self._fail(f"`{word.text}(…)` is not known", word, "there are all(…), any(…) and not(…)")
        opening = self._take()
        parts: list[Predicate] = []
        while not self._follows(")"):
            if self.tokens[self.next].kind == "end":
                self._fail(f"the `(` of `{word.text}(` is never closed", opening, "add a `)`")
            if self.tokens[self.next].text == ",":
                self._fail("a comma with nothing before it", self.tokens[self.next], "take it out")
            parts.append(self._predicate(depth + 1))
            if not self._follows(",") and self.tokens[self.next].text != ")":
                token = self.tokens[self.next]
                if token.kind == "end":
                    self._fail(f"the `(` of `{word.text}(` is never closed", opening, "add a `)`")
                self._fail(f"`{token.text}` where a comma belongs", token, _INSTEAD.get(token.text, "add a comma"))
        if word.text != "not":
            return All(tuple(parts)) if word.text == "all" else Any(tuple(parts))
        if len(parts) != 1:
            fix = "write not(any(…)) or not(all(…))" if parts else "write not(…) around a predicate"
            self._fail(f"`not` takes exactly one predicate and has {len(parts)}", word, fix)
        return Not(parts[0])


_EXAMPLE = 'write for example feature = "name", or any(…, …)'
