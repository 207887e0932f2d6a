"""The parts of the generator that are made wrong, which tests have to notice, and what says nothing when it is changed."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = Path(__file__).parent / "parts.toml"
WORTH_IT = re.compile(
    r"own/.*|core/(AddNot|ExceptionReplacer|NumberReplacer|RemoveDecorator|ZeroIterationForLoop"
    r"|Replace(TrueWithFalse|FalseWithTrue|BreakWithContinue|ContinueWithBreak)"
    r"|ReplaceUnaryOperator_Delete_(Not|USub)"
    r"|ReplaceComparisonOperator_(Eq_NotEq|NotEq_Eq|Is_IsNot|IsNot_Is|Lt_LtE|Lt_GtE|LtE_Lt|LtE_Gt|Gt_GtE|Gt_LtE|GtE_Gt|GtE_Lt)"
    r"|ReplaceBinaryOperator_(Add_Sub|Sub_Add|BitOr_BitAnd|BitAnd_BitOr))"
)
"""The operators that are used: of those that replace one sign by each other one, those that are not seen at once."""


@dataclass(frozen=True)
class Part:
    """Some modules, and the tests that have to fail when one of them is changed, the quickest first."""

    name: str
    modules: tuple[str, ...]
    tests: tuple[str, ...]
    timeout: int
    """Seconds after which a changed module counts as noticed: its tests do not end any more."""
    share: float
    """Of the changes, those that are tried unless somebody asks for more."""

    @property
    def files(self) -> list[Path]:
        """The modules from the root of the checkout."""
        found = {path for pattern in self.modules for path in ROOT.glob(pattern)}
        return sorted(path.relative_to(ROOT) for path in found)


def parts() -> dict[str, Part]:
    """The parts by name."""
    declared = tomllib.loads(PARTS.read_text(encoding="utf-8"))
    return {
        name: Part(name, tuple(each["modules"]), tuple(each["tests"]), each["timeout"], each.get("share", 1.0))
        for name, each in declared.items()
    }


def silent(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where a change says nothing: annotations, what only the type checker reads, what a decorator is told."""
    return [
        ((node.lineno, node.col_offset - before), (node.end_lineno or node.lineno, node.end_col_offset or 0))
        for node, before in _silent(ast.parse(source))
    ]


def _silent(tree: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, int]]:
    """The nodes, and how many characters before each belong to it."""
    for node in ast.walk(tree):
        match node:
            case ast.arg(annotation=ast.expr() as annotation) | ast.AnnAssign(annotation=annotation):
                yield annotation, 0
            case ast.FunctionDef(returns=returns, decorator_list=decorators):
                yield from ((each, 0) for each in decorators)
                if returns is not None:
                    yield returns, 0
            case ast.ClassDef(decorator_list=decorators):
                yield from ((decorator, len("@")) for decorator in decorators)
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield node, 0
