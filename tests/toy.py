"""The small catalog of things that move, as a tree that tests change, and what the checks say about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from dispatchgen.cache import NoCache
from dispatchgen.check import code as generated
from dispatchgen.check import fast, kernels
from dispatchgen.check.classes import Sources
from dispatchgen.check.folders import default_roots
from dispatchgen.features import Build, Selection, resolve
from dispatchgen.findings import Finding
from dispatchgen.format import format_files
from dispatchgen.model.build import read_catalog
from dispatchgen.model.catalog import Catalog
from dispatchgen.plan import plan
from dispatchgen.render import render
from dispatchgen.template_set import TemplateSet, read_set

SHAPES = """
arms:
  match: place.backend
  variant: k.{constant}
  kernel: "{module}_kernels.{method}"
  error: refuse({situation!r})
  value: "lambda *_: {value!r}"
statements:
  - {file: 'ops/{family}.py', each: op, code: 'def {op}({parameters}) -> {returns}: ...'}
  - {file: 'ops/{family}.py', each: method, code: 'def bind_{method}(place): ...'}
  - {file: __init__.py, in: BACKENDS, each: backend, where: built, code: '{name!r}'}
"""
"""What the templates of the catalog write, for its `set.yaml`."""


@dataclass
class Toy:
    """The catalog of things that move, as a tree that tests change."""

    root: Path
    features: tuple[str, ...] = ()

    def write(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(dedent(text).lstrip("\n"))

    def tell_shapes(self) -> None:
        """Let the template set say how its code is written."""
        path = self.root / "templates" / "set.yaml"
        path.write_text(path.read_text() + SHAPES)

    def read(self) -> tuple[Catalog, TemplateSet, Build]:
        template_set, findings = read_set(self.root / "templates")
        assert template_set is not None, findings
        catalog, findings = read_catalog(self.root / "spec", template_set)
        assert catalog is not None, findings
        build, findings = resolve(catalog, Selection(self.features))
        assert build is not None, findings
        return catalog, template_set, build

    def kernels(self) -> list[Finding]:
        return list(kernels.check(*self.read(), Sources(default_roots(self.root))))

    def code(self) -> dict[str, bytes]:
        catalog, template_set, build = self.read()
        rendered, _ = render(plan(catalog, template_set, build), template_set)
        formatted, _ = format_files(rendered, NoCache())
        return {file.path: file.text.encode() for file in formatted}

    def arms(self, code: dict[str, bytes]) -> list[str]:
        return [f"{each.code} {each.message}" for each in generated.check(*self.read(), Path("out"), code)]


def swap(path: Path | str, old: str, new: str) -> None:
    """Replace a text that stands in a file exactly once."""
    text = Path(path).read_text()
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {path}"
    Path(path).write_text(text.replace(old, new))


def edited_after_its_key(monkeypatch: pytest.MonkeyPatch, edit: Callable[[], object]) -> None:
    """From now on, edit the spec as soon as somebody has a key for it, once."""
    real, edits = fast.spec_key, iter([edit])

    def spec_key(*arguments: Any) -> str | None:
        key = real(*arguments)
        for each in edits:
            each()
        return key

    monkeypatch.setattr(fast, "spec_key", spec_key)


def swapped(code: dict[str, bytes], path: str, old: str, new: str) -> dict[str, bytes]:
    text = code[path].decode()
    assert text.count(old) >= 1, f"{old!r} is not in {path}"
    return {**code, path: text.replace(old, new, 1).encode()}
