"""A second, smaller reader of catalogs than the generator's: what a catalog means for one set of features."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

Variant = tuple[str, str | None]
"""A backend, and one of its runtimes where it stands for several."""


@cache
def read(path: Path) -> Any:
    """The YAML of a file."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


class Spec:
    """The catalog as plain YAML, and what it means for one set of features.

    With `kernels`, every backend counts as one that names kernels.
    """

    def __init__(self, folder: Path, features: tuple[str, ...], *, kernels: bool = False) -> None:
        self.folder = folder
        self.catalog = read(folder / "backends.yaml")
        self.backends = {each["name"]: each for each in self.catalog["backends"]}
        self.families = [read(path) for path in sorted((folder / "ops").glob("*.yaml"))]
        self.classes = {
            each["when"]: each["class"].rpartition(":")[2] for each in read(folder / "errors.yaml")["errors"]
        }
        exemptions = folder / "exemptions.yaml"
        self.exemptions = read(exemptions)["exemptions"] if exemptions.exists() else []
        self.all_kernels = kernels
        self.on = set(features)
        while True:
            more = {name for each in self.on for name in self.catalog["features"][each]} - self.on
            if not more:
                break
            self.on |= more

    def holds(self, cfg: str | None) -> bool:
        """Whether a predicate holds, by turning it into Python."""
        if cfg is None:
            return True
        quoted = re.findall(r'feature\s*=\s*"([^"]+)"', cfg)
        text = re.sub(r'feature\s*=\s*"[^"]+"', "F()", cfg)
        text = re.sub(r"\b(all|any|not)\(", r"\1_(", text)
        text = re.sub(r"\b([A-Za-z_]\w*)\b(?!\s*\()", r"C('\1')", text)
        left = iter(quoted)
        cfgs = {**self.catalog.get("cfgs", {}), "true": "all()", "false": "any()"}
        names = {
            "F": lambda: next(left) in self.on,
            "C": lambda name: self.holds(cfgs[name]),
            "all_": lambda *parts: all(parts),
            "any_": lambda *parts: any(parts),
            "not_": lambda part: not part,
        }
        return bool(eval(text, {"__builtins__": {}}, names))

    def built(self, backend: str, runtime: str | None = None) -> bool:
        """Whether a variant is compiled in."""
        entry = self.backends[backend]
        if not self.holds(entry["cfg"]):
            return False
        found = next((each for each in entry.get("runtimes", ()) if each["name"] == runtime), {})
        return self.holds(found.get("cfg"))

    @property
    def wrapped(self) -> bool:
        """Whether the wrapper is compiled in."""
        wrappers = self.catalog.get("wrappers", [])
        return bool(wrappers) and self.holds(wrappers[0]["cfg"])

    def wraps(self, backend: str) -> bool:
        """Whether the catalog lets the wrapper around a backend."""
        return bool(self.catalog.get("wrappers")) and bool(self.backends[backend].get("autodiff", True))

    def variants(self) -> Iterator[Variant]:
        """Every variant of the catalog, compiled in or not."""
        for name, entry in self.backends.items():
            for runtime in [each["name"] for each in entry.get("runtimes", ())] or [None]:
                yield name, runtime

    def capable(self, backend: str, runtime: str | None) -> bool:
        """Whether a variant runs collectives."""
        entry = self.backends[backend]
        found = next((each for each in entry.get("runtimes", ()) if each["name"] == runtime), entry)
        return "distributed" in found

    def excused(self, backend: str, op: str) -> str | None:
        """The situation that an exemption puts in the place of a kernel, or None."""
        for entry in self.exemptions:
            if entry.get("backend", backend) == backend and entry.get("op", op) == op:
                return str(entry.get("answer", "no_kernel"))
        return None

    def refusal(
        self, family: Mapping[str, Any], op: Mapping[str, Any], backend: str, runtime: str | None
    ) -> str | None:
        """The situation that the catalog alone refuses with, or None where a kernel is asked."""
        if "requires" in family and not self.capable(backend, runtime):
            return "not_capable"
        named = self.all_kernels or "kernels" in self.backends[backend]
        return self.excused(backend, op["name"]) or (None if named else "no_kernel")

    def ops(self) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """Every operation with its family."""
        for family in self.families:
            for op in family["ops"]:
                yield family, op

    def arm(
        self, family: Mapping[str, Any], op: Mapping[str, Any], variant: Variant, wrapped: bool, target: str | None
    ) -> tuple[str, str, str]:
        """What an operation does on a variant of this build, and the backend that decides it.

        That is `kernel` with the methods, `error` with the situation, `value` with the answer, or `absent` where the
        target is not in the build.
        """
        backend, runtime = variant
        if target is not None:
            return self._between(family, op, variant, target)
        refused = self.refusal(family, op, backend, runtime)
        if op.get("otherwise") in ("none", "false") and refused is not None:
            return "value", op["otherwise"], backend
        if refused is None and op.get("wrapper") and not wrapped:
            refused = "not_built" if self.wraps(backend) and not self.wrapped else "plain_tensor"
        return ("error", refused, backend) if refused else ("kernel", f"{backend}.{op['name']}", backend)

    def _between(
        self, family: Mapping[str, Any], op: Mapping[str, Any], variant: Variant, target: str
    ) -> tuple[str, str, str]:
        if not any(self.built(*each) for each in self.variants() if each[0] == target):
            return "absent", "not_built", target
        for rule in op.get("exceptions", ()):
            if (rule["source"], rule["target"]) == (variant[0], target):
                return "error", "no_transfer", variant[0]
        ways = [self.backends[name].get("transfer", "both") for name in (variant[0], target)]
        out = "no_transfer" if ways[0] in ("into", "none") else self.refusal(family, op, *variant)
        into = "no_transfer" if ways[1] in ("out", "none") else self.refusal({}, op, target, None)
        if out or into:
            return ("error", out, variant[0]) if out else ("error", str(into), target)
        return "kernel", f"{variant[0]}.{op['pair']['out']} {target}.{op['pair']['into']}", target

    def with_features(self, features: Iterable[str]) -> Spec:
        """The same catalog for other features."""
        return Spec(self.folder, tuple(features), kernels=self.all_kernels)
