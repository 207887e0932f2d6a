"""A copy of what a project has on disk: the generated package, signed anew after every change, and the kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from dispatchgen.check import code, kernels
from dispatchgen.check.classes import Class, Sources, UnreadableError
from dispatchgen.check.things import Things
from dispatchgen.digests import sha256
from dispatchgen.disk import look
from dispatchgen.features import Build
from dispatchgen.findings import Finding
from dispatchgen.manifest import NAME, Manifest
from dispatchgen.model.catalog import Catalog
from dispatchgen.selftest import of_arms, of_kernels, of_statements
from dispatchgen.selftest.mutation import Mutation
from dispatchgen.selftest.text import Text, edited
from dispatchgen.template_set import TemplateSet


@dataclass
class Project:
    """One build of a package in a folder of its own, and its kernels beside it. Nothing else is touched."""

    catalog: Catalog
    template_set: TemplateSet
    build: Build
    root: Path
    files: Mapping[str, bytes]
    """The generated files."""
    manifest: Manifest
    modules: Mapping[str, tuple[Path, bytes]] = field(default_factory=dict)
    """The modules of the kernels: where each lies in its folder, and its content."""
    roots: tuple[Path, ...] = ()
    """Where everything else is looked for that kernels import."""

    def __post_init__(self) -> None:
        self.things = Things(self.catalog, self.template_set, self.build)

    @property
    def out(self) -> Path:
        """The folder of the package's copy."""
        return self.root / "out"

    @property
    def folder(self) -> Path:
        """The package's copy."""
        return self.out / self.catalog.package

    @property
    def sources(self) -> Path:
        """The folder of the kernels' copy."""
        return self.root / "kernels"

    def write(self) -> None:
        """Put the copy where it belongs."""
        for path, content in self.files.items():
            _put(self.folder / path, content)
        for module, content in self.modules.values():
            _put(self.sources / module, content)
        self._sign({})

    def _sign(self, changed: Mapping[str, bytes]) -> None:
        """Write a manifest that says of every file that it is what was generated."""
        records = {
            path: replace(record, sha256=sha256(changed.get(path, self.files[path])))
            for path, record in self.manifest.files.items()
        }
        (self.folder / NAME).write_text(str(replace(self.manifest, files=records)), encoding="utf-8")

    def mutations(self, *, left_out: bool = False) -> Iterator[Mutation]:
        """Every gap that can be made; or only those that say of what the build leaves out that it is there."""
        texts = {self.folder / path: Text(content) for path, content in self.files.items() if path.endswith(".py")}
        yield from of_arms.mutations(self.catalog, self.template_set, self.things, texts, left_out=left_out)
        yield from of_statements.mutations(self.template_set, self.things, self.folder, texts, left_out=left_out)
        modules = {self.sources / path: Text(content) for path, content in self.modules.values()}
        if modules and not left_out:
            sources = self._read()
            yield from of_kernels.mutations(
                self.catalog, self.template_set, self.build, sources, modules, self._class_with
            )

    def findings(self) -> tuple[Finding, ...]:
        """What is wrong with the copy as it is, before anything was changed."""
        generated = code.check(self.catalog, self.template_set, self.build, self.folder, self.files, self.things)
        return (*generated, *self._of_kernels()) if self.modules else tuple(generated)

    def survives(self, mutation: Mutation) -> str | None:
        """What was found instead where a mutation is not found as it has to be; None where it is."""
        old = mutation.file.read_bytes()
        new = edited(old, mutation.edits)
        try:
            mutation.file.write_bytes(new)
            found = self._found(mutation.file, new)
        finally:
            mutation.file.write_bytes(old)
        if new != old and all(each.is_met(found) for each in mutation.expected):
            return None
        return "; ".join(f"{each.code} in line {each.span.line if each.span else 0}: {each.message}" for each in found)

    def _found(self, file: Path, content: bytes) -> tuple[Finding, ...]:
        if not file.is_relative_to(self.folder):
            return self._of_kernels()
        path = file.relative_to(self.folder).as_posix()
        self._sign({path: content})
        disk = look(self.out, self.catalog.package, {})
        self._sign({})
        changed = {path: disk.files[path]}  # what is found in a file depends on no other
        return tuple(code.check(self.catalog, self.template_set, self.build, self.folder, changed, self.things))

    def _read(self) -> Sources:
        return Sources((self.sources, *self.roots))

    def _of_kernels(self) -> tuple[Finding, ...]:
        return tuple(kernels.check(self.catalog, self.template_set, self.build, self._read()))

    def _class_with(self, file: Path, content: bytes, reference: str) -> Class | None:
        """The kernel class of that reference as it is where one file has another content."""
        old = file.read_bytes()
        try:
            file.write_bytes(content)
            return self._read().find(reference)
        except UnreadableError:
            return None
        finally:
            file.write_bytes(old)


def _put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
