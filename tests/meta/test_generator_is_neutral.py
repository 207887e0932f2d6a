"""The generator knows kinds of things (backends, ops, situations) and none by name: no name of the shipped catalog or
template set, nor of what they are about, stands in its source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
GENERATOR = ROOT / "generator" / "dispatchgen"

SUBJECT = {
    "torch",
    "pytorch",
    "torchdispatch",
    "distributed",
    "autodiff",
    "autograd",
    "tensor",
    "tensors",
    "collective",
}
SUBJECT |= {"collectives", "cuda", "gpu", "numpy", "burn", "dispatch_runtime", "rank", "ranks", "nccl", "gloo"}
"""What the shipped template set is about, beyond the names that it and the catalog declare."""

OWN = {"backend", "backends", "arm", "arms", "kinds", "dispatch", "target", "context", "default", "config"}
"""Declared names that are words of a generator of dispatch layers, whatever it generates."""

COMMON = {"none", "bool", "list", "param", "params", "peer", "closed", "failed", "mixed", "nested", "timeout", "reduce"}
COMMON |= {"sum", "min", "max", "mean", "handle", "device", "devices", "capture", "disagreement", "unlisted", "send"}
"""Declared names that are words of every program, or of plain English."""

ALLOWED = {
    ("cli/_settings.py", "torch"): "the name of the template set that is taken where nobody names another",
    ("selftest/run.py", "cpu"): "Python's word for how many processors there are",
}
"""By file and word: why it may stand there."""


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def declared() -> Iterator[str]:
    """Every name that the shipped catalog and template set declare."""
    catalog, torch = read(ROOT / "spec" / "backends.yaml"), read(ROOT / "templates" / "torch" / "set.yaml")
    yield catalog["package"]
    yield from catalog["features"]
    yield from (each["name"] for each in catalog["wrappers"])
    for backend in catalog["backends"]:
        yield backend["name"]
        yield from (each["name"] for each in backend.get("runtimes", ()))
        yield from re.split(r"[.:]", backend.get("kernels", ""))
    for path in (ROOT / "spec" / "ops").glob("*.yaml"):
        family = read(path)
        yield family["family"]
        for op in family["ops"]:
            yield op["name"]
            yield from (op["pair"][end] for end in ("out", "into") if "pair" in op)
    for error in read(ROOT / "spec" / "errors.yaml")["errors"]:
        yield error["code"]
        yield error["when"]
        yield error["class"].rpartition(":")[2]
    for capability in torch["capabilities"]:
        yield capability["name"]
        yield from capability["engines"]
    for section in ("wrappers", "backend_keys", "op_keys", "routes", "arguments", "returns", "situations", "guards"):
        yield from (each["name"] for each in torch[section])
    for argument in torch["arguments"]:
        yield from argument.get("choices", ())
    yield from torch["reserved"]


def words_of(text: str) -> Iterator[str]:
    """The words of a text: whole identifiers, and what they are made of."""
    for word in re.findall(r"[A-Za-z0-9_]+", text):
        yield word
        yield from word.split("_")


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every name and every string of a module, docstrings included, with its line."""
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.alias(name=name):
                yield line, name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.keyword(arg=str(name)):
                yield line, name
            case ast.Constant(value=str(value)):
                yield line, value


DECISIONS = set(read(ROOT / "templates" / "torch" / "set.yaml")["decisions"])
"""What the generator itself decides; a set says what each is called there, and this one takes the same names."""

FORBIDDEN = {name.lower() for name in {*declared(), *SUBJECT} if name} - OWN - COMMON - DECISIONS


def hits() -> dict[tuple[str, str], int]:
    """The forbidden words that the generator has, by file, with the first line of each."""
    found: dict[tuple[str, str], int] = {}
    for path in sorted(GENERATOR.rglob("*.py")):
        for line, text in texts(ast.parse(path.read_text(encoding="utf-8"))):
            for word in words_of(text):
                if word.lower() in FORBIDDEN:
                    found.setdefault((path.relative_to(GENERATOR).as_posix(), word), line)
    return found


def test_the_list_is_of_what_is_shipped() -> None:
    assert {
        "cpu",
        "ndarray",
        "all_reduce",
        "to_device",
        "td101",
        "notbuilt",
        "untracked",
        "nccl",
        "distributed",
        "torch_device",
    } <= FORBIDDEN
    assert {name.lower() for name in declared()} >= COMMON, "an exception that nothing needs"


@pytest.mark.parametrize("text", ["cpu", "_torch_device", "TD101", "is_distributed", "why NotBuilt"])
def test_the_search_finds(text: str) -> None:
    assert any(word.lower() in FORBIDDEN for word in words_of(text))


def test_generator_names_nothing_of_the_shipped_catalog() -> None:
    found = hits()
    assert set(ALLOWED) <= set(found), "an exception that nothing needs"
    wrong = [f"{file}:{line}: {word}" for (file, word), line in found.items() if (file, word) not in ALLOWED]
    assert not wrong, "\n".join(wrong)
