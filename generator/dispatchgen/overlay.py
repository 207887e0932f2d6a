"""Overlays: files that add entries to somebody else's catalog, or change some of them.

They are merged into the nodes of the spec files before anything is made of these, so that every place still points
into the file in which the words stand, and shape and meaning are checked once, on the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dispatchgen import source
from dispatchgen.findings import Finding, Related, error, near
from dispatchgen.source import Entry, Node, Scalar, Sequence, describe

OVERRIDE = "override"
_ADDITIVE = "default"
"""The feature to which an overlay may add without a word: what it turns on is a list of everybody's."""
_IDENTITY = {"wrappers": ("name",), "backends": ("name",), "errors": ("code",), "exemptions": ("backend", "op")}
"""What tells the entries of a list apart."""
_HOME = {
    "features": "backends.yaml",
    "cfgs": "backends.yaml",
    "wrappers": "backends.yaml",
    "backends": "backends.yaml",
    "errors": "errors.yaml",
    "exemptions": "exemptions.yaml",
}
_VALUE = {"features": "implies", "cfgs": "cfg"}
"""The key under which a feature or cfg that is overridden says its value, beside `override`."""
SECTIONS = ("version", *_HOME, "families", "ops")


def merge(
    files: Mapping[str, source.Mapping], overlay: source.Mapping
) -> tuple[dict[str, source.Mapping], tuple[Finding, ...]]:
    """The nodes of the spec files, by name, with an overlay's entries among them, and what is wrong with the overlay.

    An entry that is there already is changed key by key, and only where it says `override: true`. A file that the
    overlay would add to and that is not among `files` is begun.
    """
    merging = _Merging(dict(files))
    for entry in overlay.entries:
        name, value = entry.key.text, entry.value
        if name not in SECTIONS:
            merging.findings.append(
                error("DG113", f"an overlay has no section `{name}`", entry.key.span, fix=near(name, SECTIONS))
            )
        elif name in _VALUE:
            merging.pairs(name, value, entry)
        elif name in _IDENTITY:
            home = merging.home(_HOME[name], entry)
            merged = merging.items(home.get(name), value, name, _IDENTITY[name])
            merging.files[_HOME[name]] = _with(home, entry.key, merged)
        elif name == "families":
            merging.families(value)
        elif name == "ops":
            merging.ops(value)
    return merging.files, tuple(merging.findings)


@dataclass
class _Merging:
    """The files so far, and what was found out on the way."""

    files: dict[str, source.Mapping]
    findings: list[Finding] = field(default_factory=list)

    def home(self, name: str, entry: Entry) -> source.Mapping:
        """The file that a section belongs to, begun where it is not there."""
        version = Entry(Scalar("version", True, entry.key.span), Scalar("1", True, entry.key.span))
        return self.files.get(name) or source.Mapping((version,), entry.key.span)

    def pairs(self, section: str, value: Node, entry: Entry) -> None:
        """Merge `features` or `cfgs`: names with a value each."""
        if not isinstance(value, source.Mapping):
            self._misfit(section, "a mapping", value)
            return
        home = self.home(_HOME[section], entry)
        old = home.get(section)
        merged = old if isinstance(old, source.Mapping) else source.Mapping((), value.span)
        for each in value.entries:
            known = merged.entry(each.key.text)
            new, overrides = self._unwrapped(each.value, _VALUE[section])
            if section == "features" and each.key.text == _ADDITIVE and known is not None and not overrides:
                new = _joined(known.value, new)
            elif not self._may(known.key if known else None, each.key, overrides, section, _keys(merged)):
                continue
            merged = _with(merged, known.key if known and new is not each.value else each.key, new)
        self.files[_HOME[section]] = _with(home, entry.key, merged)

    def items(self, old: Node | None, new: Node, section: str, identity: tuple[str, ...]) -> Node:
        """The entries of a list with an overlay's among them, those that are changed in their old place."""
        if not isinstance(new, Sequence):
            self._misfit(section, "a list", new)
            return old or Sequence((), new.span)
        merged: list[Node] = list(old.items) if isinstance(old, Sequence) else []
        for item in new.items:
            name = _identity(item, identity)
            if not isinstance(item, source.Mapping) or name is None:
                merged.append(item)  # its shape is wrong, and that is told with that of all others
                continue
            plain, overrides = self._plain(item)
            place = next((index for index, each in enumerate(merged) if _identity(each, identity) == name), None)
            at = _name_node(item, identity)
            first = _name_node(merged[place], identity) if place is not None else None
            known = [" of ".join(filter(None, found)) for each in merged if (found := _identity(each, identity))]
            if not self._may(first, at, overrides, section, known):
                continue
            if place is None:
                merged.append(plain)
            else:
                merged[place] = _changed(merged[place], plain)
        return Sequence(tuple(merged), old.span if isinstance(old, Sequence) else new.span)

    def families(self, value: Node) -> None:
        """Merge whole families of operations: a new one is a file of its own."""
        if not isinstance(value, Sequence):
            self._misfit("families", "a list", value)
            return
        for item in value.items:
            name = _identity(item, ("family",))
            if not isinstance(item, source.Mapping) or name is None:
                self._misfit("families", "a list of mappings with a `family` each", item)
                continue
            plain, overrides = self._plain(item)
            home = self._file_of(str(name[0]))
            at, first = _name_node(item, ("family",)), _name_node(self.files[home], ("family",)) if home else None
            if not self._may(first, at, overrides, "families", list(self._families())):
                continue
            if home:
                self.files[home] = _changed(self.files[home], plain)
            else:
                version = Entry(Scalar("version", True, at.span), Scalar("1", True, at.span))
                self.files[f"ops/{name[0]}"] = source.Mapping((version, *plain.entries), plain.span)

    def ops(self, value: Node) -> None:
        """Merge operations into families that are there: `ops:` has them by family."""
        if not isinstance(value, source.Mapping):
            self._misfit("ops", "a mapping of families to lists of operations", value)
            return
        for each in value.entries:
            home = self._file_of(each.key.text)
            if home is None:
                message = f"there is no family `{each.key.text}` to add operations to"
                fix = near(each.key.text, self._families()) or "declare it under `families:`"
                self.findings.append(error("DG118", message, each.key.span, fix=fix))
                continue
            family = self.files[home]
            merged = self.items(family.get("ops"), each.value, "ops", ("name",))
            self.files[home] = _with(family, Scalar("ops", True, each.key.span), merged)

    def _families(self) -> Iterator[str]:
        for name, node in self.files.items():
            if name.startswith("ops/") and isinstance(family := node.get("family"), Scalar):
                yield family.text

    def _file_of(self, family: str) -> str | None:
        for name, node in self.files.items():
            if name.startswith("ops/") and _identity(node, ("family",)) == (family,):
                return name
        return None

    def _may(self, first: Scalar | None, at: Scalar, overrides: bool, section: str, known: list[str]) -> bool:
        """Whether the entry may be merged: a new one, or one that says that it changes another."""
        if first is not None and not overrides:
            message = f"`{at.text}` is there already in `{section}`"
            related = [Related(first.span, "first here")]
            fix = "give it another name, or write `override: true` to change that entry key by key"
            self.findings.append(error("DG117", message, at.span, related=related, fix=fix))
            return False
        if first is None and overrides:
            message = f"`{at.text}` overrides nothing: `{section}` has no such entry"
            self.findings.append(error("DG118", message, at.span, fix=near(at.text, known) or "leave `override` out"))
            return False
        return True

    def _unwrapped(self, value: Node, key: str) -> tuple[Node, bool]:
        """The value of a feature or cfg, which stands under `key` where `override` stands beside it."""
        if isinstance(value, source.Mapping) and value.entry(OVERRIDE):
            plain, overrides = self._plain(value)
            return plain.get(key) or plain, overrides
        return value, False

    def _plain(self, item: source.Mapping) -> tuple[source.Mapping, bool]:
        """The entry without its `override`, and whether that says true."""
        said = item.entry(OVERRIDE)
        if said is None:
            return item, False
        if not isinstance(said.value, Scalar) or not isinstance(said.value.value, bool):
            self._misfit(OVERRIDE, "true or false", said.value)
        entries = tuple(entry for entry in item.entries if entry is not said)
        return source.Mapping(entries, item.span), said.value.value is not False

    def _misfit(self, what: str, expected: str, found: Node) -> None:
        told = f"`{what}` must be {expected}, not {describe(found)}"
        self.findings.append(error("DG115", told, found.span, fix=f"write {expected}"))


def _keys(node: source.Mapping) -> list[str]:
    return [entry.key.text for entry in node.entries]


def _identity(node: Node, keys: tuple[str, ...]) -> tuple[str | None, ...] | None:
    """What tells the entry from others, or None where it has nothing of the kind."""
    found = [node.get(key) for key in keys] if isinstance(node, source.Mapping) else []
    texts = tuple(each.text if isinstance(each, Scalar) else None for each in found)
    return texts if any(texts) else None


def _name_node(node: Node, keys: tuple[str, ...]) -> Scalar:
    """The scalar that names an entry which has an identity."""
    assert isinstance(node, source.Mapping)
    return next(found for key in keys if isinstance(found := node.get(key), Scalar))


def _with(node: source.Mapping, key: Scalar, value: Node) -> source.Mapping:
    """The mapping with another value for a key, in the key's old place where it has one."""
    changed = Entry(key, value)
    if node.entry(key.text) is None:
        return source.Mapping((*node.entries, changed), node.span)
    entries = tuple(changed if entry.key.text == key.text else entry for entry in node.entries)
    return source.Mapping(entries, node.span)


def _changed(old: Node, new: source.Mapping) -> source.Mapping:
    """The old entry with the keys of the new one instead of its own."""
    assert isinstance(old, source.Mapping)
    for entry in new.entries:
        old = _with(old, entry.key, entry.value)
    return old


def _joined(old: Node, new: Node) -> Node:
    """Two lists as one; anything else is left for the shape to be refused."""
    if isinstance(old, Sequence) and isinstance(new, Sequence):
        return Sequence((*old.items, *new.items), old.span)
    return new
