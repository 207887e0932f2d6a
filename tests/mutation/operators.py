"""Ways to make code wrong that cosmic-ray does not have itself, as a provider of operators for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import parso
from cosmic_ray.operators.operator import Example, Operator
from cosmic_ray.plugins import OPERATOR_PROVIDERS
from parso.tree import BaseNode, NodeOrLeaf

Place = tuple[tuple[int, int], tuple[int, int]]


class DropStatement(Operator):
    """Leave out a call, a yield, or an assignment to something that is there already."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[Place]:
        if node.type == "simple_stmt" and _says_something(node.children[0]):
            yield node.children[0].start_pos, node.children[0].end_pos

    def mutate(self, node: BaseNode, index: int) -> BaseNode:
        node.children[0] = _parsed("pass", node.children[0])
        return node

    @classmethod
    def examples(cls) -> Sequence[Example]:
        return (
            Example("f(x)\n", "pass\n"),
            Example("x += 1\n", "pass\n"),
            Example("x[1] = 1\n", "pass\n"),
            Example("x = 1\n", "x = 1\n"),
        )


class SwapIn(Operator):
    """Ask whether something is in a collection where it was asked whether it is not, and the other way round."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[Place]:
        if node.type == "comparison":
            for asked in node.children[1::2]:
                if asked.get_code().split() in (["in"], ["not", "in"]):
                    yield asked.start_pos, asked.end_pos

    def mutate(self, node: BaseNode, index: int) -> BaseNode:
        places = [at for at in range(1, len(node.children), 2) if node.children[at].get_code().split()[-1] == "in"]
        asked = node.children[places[index]]
        node.children[places[index]] = _parsed("in" if "not" in asked.get_code() else "not in", asked)
        return node

    @classmethod
    def examples(cls) -> Sequence[Example]:
        return Example("x in y", "x not in y"), Example("x not in y", "x in y")


class NegateFilter(Operator):
    """Keep what the condition of a comprehension leaves out."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[Place]:
        if node.type == "comp_if":
            yield node.children[1].start_pos, node.children[1].end_pos

    def mutate(self, node: BaseNode, index: int) -> BaseNode:
        node.children[1] = _parsed(f"not ({node.children[1].get_code().strip()})", node.children[1])
        return node

    @classmethod
    def examples(cls) -> Sequence[Example]:
        return (Example("[x for x in y if x or z]", "[x for x in y if not (x or z)]"),)


class DropOperand(Operator):
    """Leave out one part of a condition with `and` or `or`."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[Place]:
        if node.type in ("and_test", "or_test"):
            for operand in node.children[::2]:
                yield operand.start_pos, operand.end_pos

    def mutate(self, node: BaseNode, index: int) -> BaseNode:
        first = node.get_first_leaf()
        prefix = first.prefix
        del node.children[max(2 * index - 1, 0) : max(2 * index - 1, 0) + 2]
        node.get_first_leaf().prefix = prefix
        return node

    @classmethod
    def examples(cls) -> Sequence[Example]:
        return (
            Example("a and b and c", "b and c"),
            Example("a and b and c", "a and c", occurrence=1),
            Example("a or b", "a", occurrence=1),
        )


class Provider:
    """What cosmic-ray asks for operators."""

    operators = {each.__name__: each for each in (DropStatement, SwapIn, NegateFilter, DropOperand)}  # noqa: RUF012

    def __iter__(self) -> Iterator[str]:
        return iter(self.operators)

    def __getitem__(self, name: str) -> type[Operator]:
        return self.operators[name]


def register() -> None:
    """Let cosmic-ray know them in this process, as `own/…`."""
    OPERATOR_PROVIDERS["own"] = Provider()


def _says_something(statement: NodeOrLeaf) -> bool:
    if statement.type == "expr_stmt":
        assigned, sign = statement.children[0], statement.children[1]
        return sign.type == "operator" and (sign.value != "=" or assigned.type in ("atom_expr", "power"))
    return statement.type in ("atom_expr", "power", "yield_expr")


def _parsed(code: str, instead_of: NodeOrLeaf) -> BaseNode:
    return parso.parse(instead_of.get_first_leaf().prefix + code)
