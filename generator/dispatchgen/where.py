"""From a generated line to the template lines and the YAML lines behind it.

The plan is rendered once more, by templates that drop a mark before every piece of text and every expression: the
template line, and the entries of the catalog that are in scope there. The formatter keeps tokens in order, so that a
line of the file on disk is found again among the pieces token by token.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from jinja2 import FileSystemLoader, nodes
from jinja2.visitor import NodeTransformer

from dispatchgen._place import place
from dispatchgen._shape import shown
from dispatchgen.digests import template_path
from dispatchgen.environment import Sandbox, environment_for
from dispatchgen.origins import Origin, Read, Scope, origins, sharpest

if TYPE_CHECKING:
    from dispatchgen.model.catalog import Catalog
    from dispatchgen.plan import PlannedFile
    from dispatchgen.source import Span
    from dispatchgen.template_set import TemplateSet

_OPEN, _CLOSE = "\ue000", "\ue001"
"""Private characters around the number of a mark. Text from the spec reaches Python only escaped, so never has them."""
_MARK = re.compile(f"{_OPEN}(\\d+){_CLOSE}")
_CALL, _PLAIN = "__mark", "__plain"


@dataclass(frozen=True, eq=False)
class Piece:
    """Where a stretch of rendered text comes from."""

    template: str
    line: int
    scope: Scope


@dataclass(frozen=True)
class Answer:
    """What is behind one line of a generated file."""

    templates: tuple[Span, ...]
    """The template lines, in the order in which they stand in the line."""
    origins: tuple[Origin, ...]
    """The entries of the spec that decided what it says."""


@dataclass(frozen=True)
class Trace:
    """One file as it is rendered, with what every piece of it comes from."""

    planned: PlannedFile
    template_set: TemplateSet
    text: str
    pieces: tuple[tuple[int, Piece], ...]
    """By the offset at which each begins."""

    def behind(self, line: int, text: str, catalog: Catalog) -> Answer:
        """What is behind a line of the file, whose content on disk is `text`."""
        wanted = _stretches(text, line, self.text, self.planned.path.endswith(".py"))
        found = dict.fromkeys(piece for start, end in wanted for piece in _between(self.pieces, start, end))
        folders = self.template_set.folders
        spans = dict.fromkeys(place(shown(template_path(folders, each.template)), each.line) for each in found)
        entries = sharpest(
            origin for each in found for origin in origins(each.scope, self.planned.context, catalog, self.template_set)
        )
        return Answer(tuple(spans), entries)


def trace(planned: PlannedFile, template_set: TemplateSet) -> Trace:
    """The file, rendered by templates that leave marks.

    Templates whose text depends on the text of others in a way that marks disturb are told of as a whole.
    """
    loader, marks = FileSystemLoader(template_set.folders), _Marks()
    usual = environment_for(loader).get_template(planned.template).render(planned.context)
    environment = environment_for(loader, _MarkingEnvironment)
    environment.globals.update({_CALL: marks.mark, _PLAIN: _without_marks})
    for name, filter_ in list(environment.filters.items()):
        environment.filters[name] = _unmarked(filter_)
    marked = environment.get_template(planned.template).render(planned.context)
    pieces, plain, at = [], [], 0
    for index, part in enumerate(_MARK.split(marked)):
        if index % 2:
            pieces.append((at, marks.pieces[int(part)]))
        else:
            plain.append(part)
            at += len(part)
    if "".join(plain) != usual:
        pieces = [(0, Piece(planned.template, 1, Scope((), ())))]
    return Trace(planned, template_set, usual, tuple(pieces))


@dataclass
class _Marks:
    """The pieces by the number of their mark."""

    pieces: list[Piece] = field(default_factory=list)

    def mark(self, template: str, line: int, values: Sequence[Any], reads: Sequence[tuple[str, Any, str]]) -> str:
        self.pieces.append(Piece(template, line, Scope(tuple(values), tuple(Read(*each) for each in reads))))
        return f"{_OPEN}{len(self.pieces) - 1}{_CLOSE}"


class _MarkingEnvironment(Sandbox):
    """Compiles every template with a mark before each line of its text and each of its expressions."""

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        parsed = super()._parse(source, name, filename)
        _Marker(name or "").template(parsed)
        parsed.set_environment(self)
        return parsed


class _Marker:
    """Rewrites one template."""

    def __init__(self, name: str) -> None:
        self.name = name

    def template(self, node: nodes.Node, scope: tuple[str, ...] = ()) -> None:
        """Put marks into all output below a node; `scope` has the loop variables and macro parameters there."""
        match node:
            case nodes.Output():
                for choice in node.find_all(nodes.CondExpr):
                    choice.test = _plain(choice.test)
                node.nodes = [marked for child in node.nodes for marked in self._marked(child, scope)]
                return
            case nodes.For():
                inner = tuple(each.name for each in node.target.find_all(nodes.Name)) or (
                    (node.target.name,) if isinstance(node.target, nodes.Name) else ()
                )
                scope = tuple(dict.fromkeys((*scope, *inner)))
                node.iter = _plain(node.iter)
                node.test = node.test and _plain(node.test)
            case nodes.If():
                node.test = _plain(node.test)
            case nodes.Assign():
                node.node = _plain(node.node)
            case nodes.CondExpr():
                node.test = _plain(node.test)
            case nodes.Macro():
                scope = tuple(each.name for each in node.args)
        for child in node.iter_child_nodes():
            self.template(child, scope)

    def _marked(self, node: nodes.Expr, scope: tuple[str, ...]) -> Iterator[nodes.Expr]:
        if not isinstance(node, nodes.TemplateData):
            yield self._mark(node.lineno, scope, tuple(_attributes(node)))
            yield node
            return
        for offset, part in enumerate(node.data.splitlines(keepends=True)):
            yield self._mark(node.lineno + offset, scope, ())
            yield nodes.TemplateData(part, lineno=node.lineno + offset)

    def _mark(self, line: int, scope: tuple[str, ...], attributes: tuple[tuple[str, str], ...]) -> nodes.Expr:
        values: list[nodes.Expr] = [nodes.Name(name, "load") for name in scope]
        pairs: list[nodes.Expr] = [
            nodes.Tuple([nodes.Const(root), nodes.Name(root, "load"), nodes.Const(attribute)], "load")
            for root, attribute in attributes
        ]
        arguments: list[nodes.Expr] = [
            nodes.Const(self.name),
            nodes.Const(line),
            nodes.Tuple(values, "load"),
            nodes.Tuple(pairs, "load"),
        ]
        return _called(_CALL, arguments, line)


class _Stripping(NodeTransformer):
    """Takes the marks out of what is called, such as a macro that answers a question."""

    def visit_Call(self, node: nodes.Call) -> nodes.Expr:  # noqa: N802 (the visitor looks for this name)
        self.generic_visit(node)
        return _called(_PLAIN, [node], node.lineno)


def _plain(node: nodes.Node) -> nodes.Expr:
    """An expression that is looked at and not printed: without marks, so that it is as true or false as ever."""
    return _called(_PLAIN, [_Stripping().visit(node)], node.lineno)


def _called(name: str, arguments: list[nodes.Expr], line: int) -> nodes.Expr:
    call = nodes.Call(nodes.Name(name, "load"), arguments, [], None, None)
    for each in (call, *call.find_all(nodes.Node)):
        each.lineno = each.lineno or line
    return call


def _without_marks(value: Any) -> Any:
    return _MARK.sub("", value) if isinstance(value, str) else value


def _attributes(node: nodes.Expr) -> Iterator[tuple[str, str]]:
    """What an expression reads: `name.attribute` as a pair, a bare name with an empty attribute."""
    inside: set[int] = set()
    for found in (node, *node.find_all((nodes.Getattr, nodes.Name))):
        match found:
            case nodes.Getattr(node=nodes.Name(name=root) as name, attr=attribute):
                inside.add(id(name))
                yield root, attribute
            case nodes.Name(name=root, ctx="load") if id(found) not in inside:
                yield root, ""


def _unmarked(filter_: Callable[..., Any]) -> Callable[..., Any]:
    """The filter, which sees text without marks: what it makes of it must be what it makes of it otherwise."""
    if getattr(filter_, "jinja_pass_arg", None) is not None:
        return filter_  # it gets the context or environment first, and works on sequences

    def without(value: Any, *arguments: Any, **named: Any) -> Any:
        return filter_(_without_marks(value), *arguments, **named)

    return without


def _between(pieces: Sequence[tuple[int, Piece]], start: int, end: int) -> Iterator[Piece]:
    """The pieces of the stretch from one offset to another."""
    for index, (at, piece) in enumerate(pieces):
        following = pieces[index + 1][0] if index + 1 < len(pieces) else end + 1
        if at < end and following > start and following > at:
            yield piece


def _stretches(text: str, line: int, rendered: str, is_python: bool) -> list[tuple[int, int]]:
    """The stretches of the rendered text that became a line of the formatted one."""
    if is_python:
        try:
            return _by_tokens(_tokens(text), line, _tokens(rendered), rendered)
        except (tokenize.TokenError, SyntaxError):  # somebody edited the file into something else
            pass
    mine, theirs = text.splitlines(keepends=True), rendered.splitlines(keepends=True)
    starts = _starts(rendered)
    for block in SequenceMatcher(None, mine, theirs, autojunk=False).get_matching_blocks():
        if block.a <= line - 1 < block.a + block.size:
            found = block.b + line - 1 - block.a
            return [(starts[found], starts[found] + len(theirs[found]))]
    return []


_LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.ENCODING}
_ADDED = {"(", ")", ","}
"""What the formatter adds and takes away."""


def _tokens(text: str) -> list[tokenize.TokenInfo]:
    found = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token for token in found if token.type not in _LAYOUT]


def _by_tokens(
    mine: list[tokenize.TokenInfo], line: int, theirs: list[tokenize.TokenInfo], rendered: str
) -> list[tuple[int, int]]:
    starts = _starts(rendered)
    found = []
    for token, other in _paired(mine, theirs):
        if not token.start[0] <= line <= token.end[0]:
            continue
        first, last = other.start[0], other.end[0]
        if token.start[0] == token.end[0] or first == last:
            start, end = starts[first - 1] + other.start[1], starts[last - 1] + other.end[1]
        else:  # a line inside of a text over several lines: the formatter keeps their number
            inner = min(first + line - token.start[0], last)
            start = starts[inner - 1] + (other.start[1] if inner == first else 0)
            end = starts[inner - 1] + other.end[1] if inner == last else starts[inner]
        found.append((start, max(end, start + 1)))
    return found


def _paired(
    mine: list[tokenize.TokenInfo], theirs: list[tokenize.TokenInfo]
) -> Iterator[tuple[tokenize.TokenInfo, tokenize.TokenInfo]]:
    """The tokens of two texts that differ by layout, quotes, and by brackets and commas that came or went."""
    blocks = None
    left = right = 0
    while left < len(mine) and right < len(theirs):
        one, other = mine[left], theirs[right]
        if one.string == other.string or (one.type == other.type == tokenize.STRING):
            yield one, other
            left, right = left + 1, right + 1
        elif one.string in _ADDED:
            left += 1
        elif other.string in _ADDED:
            right += 1
        else:  # the texts differ in more than layout: take up where they agree again
            blocks = (
                blocks
                or SequenceMatcher(
                    None, [token.string for token in mine], [token.string for token in theirs], autojunk=False
                ).get_matching_blocks()
            )
            following = next(block for block in blocks if block.a + block.size > left and block.b + block.size > right)
            skipped = max(left - following.a, right - following.b, 0)
            if following.size == 0 or (following.a + skipped, following.b + skipped) == (left, right):
                left, right = left + 1, right + 1
            else:
                left, right = following.a + skipped, following.b + skipped


def _starts(text: str) -> list[int]:
    """The offset at which each line begins, and that of the end."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts
