"""The import lines that a piece of generated Python needs, found from the names that it uses."""

from __future__ import annotations

import symtable
import sys
from collections.abc import Iterable, Iterator, Mapping


def imports(body: str, sources: Mapping[str, Iterable[str]], own: str) -> str:
    """The import lines for the global names that `body` uses and does not make, sorted as isort sorts them.

    `sources` tells which names a module gives (`name` or `name as alias`); a module without names is imported itself.
    `own` is the package that the body belongs to: its modules come last. Text that is not Python gets no imports:
    whoever compiles it will say what is wrong.
    """
    try:
        top = symtable.symtable(body, "<body>", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    used = set(_globals(top)) - {symbol.get_name() for symbol in top.get_symbols() if symbol.is_assigned()}
    groups: dict[int, list[tuple[bool, str, str]]] = {0: [], 1: [], 2: []}
    for module, names in sources.items():
        line = _line(module, list(names), used)
        if line is not None:
            groups[_group(module, own)].append((line.startswith("from "), module.lower(), line))
    return "\n\n".join("\n".join(line for *_, line in sorted(lines)) for lines in groups.values() if lines)


def _globals(scope: symtable.SymbolTable) -> Iterator[str]:
    """The names that are looked up in the module, from it or from any scope inside."""
    for symbol in scope.get_symbols():
        if symbol.is_referenced() and (scope.get_type() == "module" or symbol.is_global()):
            yield symbol.get_name()
    for inner in scope.get_children():
        yield from _globals(inner)


def _line(module: str, names: list[str], used: set[str]) -> str | None:
    if not names:
        return f"import {module}" if module.partition(".")[0] in used else None
    wanted = [name for name in names if name.split(" as ")[-1] in used]
    return f"from {module} import {', '.join(sorted(wanted, key=_isort_key))}" if wanted else None


def _isort_key(name: str) -> tuple[int, str]:
    """Constants, then classes, then the rest: how isort orders the names of one module."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    return kind, name.lower()


def _group(module: str, own: str) -> int:
    root = module.partition(".")[0]
    return 0 if root in sys.stdlib_module_names else 2 if root == own else 1
