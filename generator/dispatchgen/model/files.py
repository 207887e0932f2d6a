"""The files of a spec folder and of the overlays over it, read and merged, before anything is made of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from dispatchgen import source
from dispatchgen._shape import VERSION, load_node, shape_file, shown, wrong_version
from dispatchgen.findings import Finding, error, warning
from dispatchgen.overlay import merge
from dispatchgen.source import Span

Record = TypeVar("Record")


@dataclass
class SpecFiles:
    """The files of a spec folder and of overlays as nodes, and what was found out while reading them."""

    folder: Path
    edited: Mapping[Path, bytes]
    findings: list[Finding] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    nodes: dict[str, source.Mapping] = field(default_factory=dict)
    misshapen: bool = False
    closed: bool = False
    """Whether there is a folder that cannot be looked into."""

    def read(self, name: str, *, needed: bool = True) -> None:
        """Read one file of the folder."""
        path = self.folder / name
        if not path.exists() and not path.is_symlink():
            if needed:
                message = f"the spec has no {name}"
                self.findings.append(error("DG112", message, Span(shown(path), 1, 1, 1, 1)))
            return
        node = self._node(path, name)
        if node is not None:
            self.nodes[name] = node

    def ops(self) -> list[str]:
        """The names of the files of operations, in their order; an editor's files are none."""
        names = [name for name in self._names("ops") if name.endswith(".yaml") and not name.startswith(".")]
        return sorted(names, key=str.encode)

    def _names(self, folder: str) -> list[str]:
        """What lies in a folder of the spec; one that cannot be looked into is a finding."""
        path = self.folder / folder
        try:
            return os.listdir(path)
        except FileNotFoundError:
            return []
        except OSError as problem:
            self.misshapen = self.closed = True
            message = f"{shown(path)} cannot be read: {problem.strerror}"
            found = error("DG112", message, Span(shown(path), 1, 1, 1, 1))
            self.findings += [found] if found not in self.findings else []
            return []

    def tell_of_unread(self) -> None:
        """Warn of files that were meant to be read, going by where they are, and of a folder without operations."""
        paths = [self.folder / folder / name for folder in ("", "ops") for name in self._names(folder)]
        below = [path for path in self.folder.glob("ops/[!.]*/[!.]*") if path.suffix.lower() in (".yaml", ".yml")]
        for path in sorted(path for path in paths if not path.name.startswith(".")):
            if path.suffix.lower() in (".yaml", ".yml") and path.suffix != ".yaml":
                message = f"nothing reads {shown(path)}: the files of a catalog end in .yaml"
                self.findings.append(warning("DG119", message, Span(shown(path), 1, 1, 1, 1), fix="rename it"))
        for path in sorted(below):
            message = f"nothing reads {shown(path)}: the files of operations lie in {shown(self.folder / 'ops')} itself"
            self.findings.append(warning("DG119", message, Span(shown(path), 1, 1, 1, 1), fix="move it there"))
        if not self.closed and not any(name.startswith("ops/") for name in (*self.found, *self.nodes)):
            message = "the spec has no operations: there is no file ops/*.yaml"
            self.findings.append(warning("DG119", message, Span(shown(self.folder / "ops"), 1, 1, 1, 1)))

    def lay(self, path: Path) -> None:
        """Read an overlay and merge it into what was read before."""
        node = self._node(path, path.name)
        if node is None:
            return
        self.nodes, problems = merge(self.nodes, node)
        head = error("DG114", "the key `version` is missing", node.span, fix=f"write version: {VERSION}")
        wrong = head if node.get("version") is None else wrong_version(node)
        problems = (*problems, wrong) if wrong else problems
        self.findings.extend(problems)
        self.misshapen |= bool(problems)

    def shaped(self, name: str, record: type[Record]) -> tuple[Record, source.Mapping] | None:
        """The record that a file holds, with its node."""
        node = self.nodes.get(name)
        if node is None:
            return None
        value, problems = shape_file(node, record)
        self.findings.extend(problems)
        self.misshapen |= value is None
        return None if value is None else (value, node)

    def _node(self, path: Path, name: str) -> source.Mapping | None:
        self.found.append(name)
        node, problems = load_node(path, shown(path), self.edited.get(path))
        self.findings.extend(problems)
        self.misshapen |= node is None
        return node
