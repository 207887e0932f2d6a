"""Spec against generated code: every op is there, and its match does for every variant what the matrix says.

Read by `ast`, and derived from the matrix alone, so that neither hashes nor templates have to be trusted.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dispatchgen import _names as names
from dispatchgen._place import place
from dispatchgen.check.classes import Method
from dispatchgen.findings import Finding, Related, error
from dispatchgen.matrix import Cell, cells, sides
from dispatchgen.plan.ops import kernel_signature

if TYPE_CHECKING:
    from dispatchgen.features import Build
    from dispatchgen.model.catalog import Catalog, Family, Op
    from dispatchgen.template_set import TemplateSet

Variant = tuple[str, str | None]
"""A backend, and where it has several the runtime."""
Arms = dict[Variant, list[ast.match_case]]


@dataclass(frozen=True)
class _Reader:
    """The files of one package, and what they are to say."""

    folder: Path
    files: Mapping[str, bytes]
    catalog: Catalog
    template_set: TemplateSet
    build: Build
    matrix: Mapping[str, Sequence[Cell]]
    """By op, what is in the build."""

    def family(self, family: Family) -> Iterator[Finding]:
        """What is wrong with the files of a family."""
        declared = [
            file.path for file in self.template_set.files if file.each == "family" and file.path.endswith(".py")
        ]
        paths = [path.format(module=names.family_module(family.name)) for path in declared]
        functions: dict[str, tuple[Path, ast.FunctionDef]] = {}
        for path in paths:
            if path not in self.files:
                continue  # missing files have a verdict
            try:
                tree = ast.parse(self.files[path])
            except (SyntaxError, ValueError, RecursionError) as cause:
                yield error(
                    "DG821", f"the generated file is no Python: {cause}", place(self.folder / path), fix=_REGENERATE
                )
                return
            functions |= {
                each.name: (self.folder / path, each) for each in tree.body if isinstance(each, ast.FunctionDef)
            }
            yield from self._stubs(self.folder / path, tree)
        if functions or any(path in self.files for path in paths):
            for op in family.ops:
                yield from self._op(family, op, functions, self.folder / paths[0])

    def _stubs(self, path: Path, tree: ast.Module) -> Iterator[Finding]:
        declared = _declared(tree)
        for node in _statements(tree.body):
            if not isinstance(node, ast.FunctionDef) or node in declared:
                continue
            if Method(node.name, node, place(path)).is_stub:
                yield error(
                    "DG822",
                    f"the generated function {node.name} does nothing",
                    place(path, node.lineno),
                    fix=_REGENERATE,
                )

    def _op(
        self, family: Family, op: Op, functions: Mapping[str, tuple[Path, ast.FunctionDef]], path: Path
    ) -> Iterator[Finding]:
        related = [Related(op.span, f"{op.name} is declared here")]
        methods = [method for method, _, _ in kernel_signature(op, self.template_set)]
        public = functions.get(op.name)
        if public is None:
            yield error(
                "DG823", f"the generated code has no function {op.name}", place(path), related=related, fix=_REGENERATE
            )
        else:
            for method in methods:
                if not {method, self._binder(method)} & _words(public[1]):
                    at = place(public[0], public[1].lineno)
                    yield error(
                        "DG823",
                        f"{op.name} does not call what is bound for {method}",
                        at,
                        related=related,
                        fix=_REGENERATE,
                    )
        for side, method in enumerate(methods):
            name = self._binder(method)
            if name not in functions:
                yield error(
                    "DG824", f"the generated code has no function {name}", place(path), related=related, fix=_REGENERATE
                )
            else:
                yield from self._match(method, self._wanted(family, op, side), *functions[name])

    def _binder(self, method: str) -> str:
        """The name of the function with the match."""
        return (self.template_set.binds or "").format(method=method)

    def _wanted(self, family: Family, op: Op, side: int) -> dict[Variant, list[Cell]]:
        """The cells of every variant that the match must name: those in the build, of an op or one end of it."""
        found = self.matrix[op.name]
        if op.pair:  # a match shows one end only, and what that does by itself is in no cell
            ends = sides(self.catalog, self.template_set, self.build, family, op)[side]
            found = [Cell(family.name, op.name, end.backend, end.runtime, None, None, end.arm) for end in ends]
        wanted: dict[Variant, list[Cell]] = {}
        for cell in found:
            wanted.setdefault((cell.backend, cell.runtime), []).append(cell)
        return wanted

    def _match(
        self, method: str, wanted: dict[Variant, list[Cell]], path: Path, function: ast.FunctionDef
    ) -> Iterator[Finding]:
        at = place(path, function.lineno)
        constants = {names.constant_name(backend.name): backend.name for backend in self.catalog.backends}
        runtimes = {
            backend.name: {names.constant_name(runtime.name): runtime.name for runtime in backend.runtimes}
            for backend in self.catalog.backends
        }
        found: Arms = {}
        for case in _cases(function.body):
            backend = constants.get(_constant(case.pattern) or "")
            if backend is None:
                if not _closes(case):
                    yield error(
                        "DG825",
                        f"an arm of {function.name} names no variant of the catalog",
                        place(path, case.body[0].lineno),
                        fix=_REGENERATE,
                    )
                continue
            inner = list(_cases(case.body))
            for each in inner:
                runtime = runtimes[backend].get(_constant(each.pattern) or "")
                if runtime is not None:
                    found.setdefault((backend, runtime), []).append(each)
                elif not _closes(each):
                    yield error(
                        "DG825",
                        f"an arm of {function.name} names no runtime of {backend}",
                        place(path, each.body[0].lineno),
                        fix=_REGENERATE,
                    )
            if not inner:
                for variant in [variant for variant in wanted if variant[0] == backend] or [(backend, None)]:
                    found.setdefault(variant, []).append(case)
        for variant, cells_of in wanted.items():
            arms = found.pop(variant, [])
            if len(arms) != 1:
                how = f"names {_title(variant)} {len(arms)} times" if arms else f"does not name {_title(variant)}"
                yield error("DG825", f"{function.name} {how}", at, fix=_REGENERATE)
            elif problem := _unlike(method, cells_of, arms[0]):
                yield error(
                    "DG826",
                    f"the arm of {_title(variant)} in {function.name} {problem}",
                    place(path, arms[0].body[0].lineno),
                    fix=_REGENERATE,
                )
        for variant, arms in found.items():
            yield error(
                "DG825",
                f"{function.name} names {_title(variant)}, which is not in this build",
                place(path, arms[0].body[0].lineno),
                fix=_REGENERATE,
            )


_REGENERATE = "run `dispatchgen generate`; if that changes nothing, correct the template"


def check(
    catalog: Catalog, template_set: TemplateSet, build: Build, folder: Path, files: Mapping[str, bytes]
) -> Iterator[Finding]:
    """What the generated files of a package, as they are on disk, lack of the matrix or have beyond it.

    Nothing is said about a template set that does not tell how its functions with a match are called.
    """
    if template_set.binds is not None:
        matrix: dict[str, list[Cell]] = {op.name: [] for _, op in catalog.ops}
        for cell in cells(catalog, template_set, build):
            if cell.arm.kind != "absent":
                matrix[cell.op].append(cell)
        reader = _Reader(folder, files, catalog, template_set, build, matrix)
        for family in catalog.families:
            yield from reader.family(family)


def _unlike(method: str, cells_of: list[Cell], arm: ast.match_case) -> str | None:
    """Why an arm is not what its cells say, or None."""
    words, texts = _read([arm])
    module = names.module_name(cells_of[0].backend)
    forwards = any(word == method or word.endswith(f"_{method}") for word in words) and any(
        word == module or word.startswith(f"{module}_") for word in words
    )
    kinds = {cell.arm.kind for cell in cells_of}
    if "kernel" in kinds and not forwards:
        return "does not forward to its kernel"
    if "kernel" not in kinds and forwards:
        return "forwards to a kernel that it does not have"
    situations = {cell.arm.situation for cell in cells_of if cell.wrapper is None and cell.arm.kind == "error"}
    if situations - texts:
        return f"does not answer with {', '.join(sorted(map(str, situations - texts)))}"
    return None


def _title(variant: Variant) -> str:
    backend, runtime = variant
    return f"{backend}[{runtime}]" if runtime else backend


def _cases(body: list[ast.stmt]) -> Iterator[ast.match_case]:
    for statement in body:
        if isinstance(statement, ast.Match):
            yield from statement.cases


def _constant(pattern: ast.pattern) -> str | None:
    """The last name of a pattern such as `module.CONSTANT`."""
    match pattern:
        case ast.MatchValue(value=ast.Attribute(attr=name)):
            return name
    return None


def _closes(case: ast.match_case) -> bool:
    """Whether it is the last case, which the type checker proves unreachable."""
    return isinstance(case.pattern, ast.MatchAs) and "assert_never" in _words(case)


def _declared(tree: ast.Module) -> set[ast.stmt]:
    """The functions that only say what a protocol demands, and so have no body."""
    classes = [each for each in _statements(tree.body) if isinstance(each, ast.ClassDef)]
    return {each for found in classes if "Protocol" in _read(found.bases)[0] for each in found.body}


def _statements(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Every statement, at whatever depth."""
    for node in body:
        yield node
        for inner in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from _statements(getattr(node, inner, None) or ())


def _words(node: ast.AST) -> set[str]:
    return _read([node])[0]


def _read(nodes: Sequence[ast.AST]) -> tuple[set[str], set[str]]:
    """Every name and attribute, and every string."""
    words, texts, left = set(), set(), list(nodes)
    while left:
        node = left.pop()
        match node:
            case ast.Name():
                words.add(node.id)
            case ast.Attribute():
                words.add(node.attr)
                left.append(node.value)
            case ast.Constant():
                if isinstance(node.value, str):
                    texts.add(node.value)
            case _:
                left += ast.iter_child_nodes(node)
    return words, texts
