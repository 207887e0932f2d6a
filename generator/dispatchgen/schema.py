"""JSON Schema of the spec files and of a template set, for editors: the records, as pydantic tells them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pydantic
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from dispatchgen._place import place
from dispatchgen._shape import VERSION, shown
from dispatchgen.cache import Cache, NoCache
from dispatchgen.digests import sha256
from dispatchgen.findings import Finding, error
from dispatchgen.model.records import records_for
from dispatchgen.template_set import Declared, TemplateSet
from dispatchgen.tools import fingerprint

FOLDER = "schema"
"""In the spec folder."""


class _Untitled(GenerateJsonSchema):
    """Without the titles that only repeat the names of keys."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def schemas(template_set: TemplateSet) -> dict[str, str]:
    """The schemas as text, by file name: one for each kind of spec file, and one for `set.yaml`."""
    records = records_for(template_set)
    kinds: dict[str, tuple[Any, str]] = {
        "backends": (records.backends, "backends.yaml"),
        "ops": (records.family, "A file of ops/"),
        "errors": (records.errors, "errors.yaml"),
        "exemptions": (records.exemptions, "exemptions.yaml"),
        "set": (Declared, "set.yaml of a template set"),
    }
    return {f"{name}.json": _text(record, title, template_set) for name, (record, title) in kinds.items()}


def outdated(template_set: TemplateSet, spec: Path, cache: Cache | None = None) -> tuple[str, ...]:
    """The schemas that are missing in the spec's folder, or are not what they would be now."""
    texts = _remembered(template_set, cache or NoCache())
    return tuple(name for name, text in texts.items() if _on_disk(spec / FOLDER / name) != text)


def _remembered(template_set: TemplateSet, cache: Cache) -> dict[str, str]:
    """The schemas, from the cache where it has those of this `set.yaml`: pydantic takes its time to tell them."""
    declared = sha256((template_set.folder / "set.yaml").read_bytes())
    key = sha256(f"schemas\n{fingerprint()}\n{pydantic.VERSION}\n{sys.version}\n{declared}")
    if (known := cache.get(key)) is not None:
        texts: dict[str, str] = json.loads(known)
        return texts
    made = schemas(template_set)
    cache.put(key, json.dumps(made))
    return made


def stale(template_set: TemplateSet, spec: Path, cache: Cache | None = None) -> tuple[Finding, ...]:
    """A finding for each of the outdated schemas."""
    return tuple(
        error(
            "DG718",
            f"{name} {'is not what the format and the template set make of it now' if path.exists() else 'is missing'}",
            place(shown(path)),
            fix="run `dispatchgen schema`",
        )
        for name in outdated(template_set, spec, cache)
        for path in [spec / FOLDER / name]
    )


def _on_disk(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _text(record: Any, title: str, template_set: TemplateSet) -> str:
    made = TypeAdapter(record).json_schema(schema_generator=_Untitled)
    made["properties"]["version"] = {"const": VERSION}
    if title != "set.yaml of a template set":
        _suggest(made, template_set)
    # The title goes before the rest; the description would be the record's own, which speaks to programmers.
    head = {"$schema": GenerateJsonSchema.schema_dialect, "title": title}
    rest = {key: value for key, value in made.items() if key not in ("title", "description")}
    return json.dumps({**head, **rest}, indent=2, ensure_ascii=False) + "\n"


def _suggest(schema: dict[str, Any], template_set: TemplateSet) -> None:
    """Add the words that the template set declares, for completion; `validate` and not the shape insists on them."""
    definitions = {"": schema, **schema.get("$defs", {})}
    for (definition, key), words in _words(template_set).items():
        found = definitions.get(definition, {}).get("properties", {}).get(key)
        if found is not None and words:
            found["examples"] = words


def _words(template_set: TemplateSet) -> Mapping[tuple[str, str], list[str]]:
    names = {section: _names(getattr(template_set, section)) for section in _SECTIONS}
    engines = dict.fromkeys(engine for kind in template_set.capabilities for engine in kind.engines)
    return {
        ("", "requires"): names["capabilities"],
        ("CapabilityRecord", "engine"): list(engines),
        ("WrapperRecord", "name"): names["wrappers"],
        ("OpRecord", "route"): names["routes"],
        ("OpRecord", "wrapper"): names["wrappers"],
        ("ArgumentRecord", "type"): names["arguments"],
        ("ReturnsRecord", "type"): names["returns"],
        ("ReturnsRecord", "of"): names["returns"],
        ("ErrorRecord", "when"): names["situations"],
        ("ErrorRecord", "guard"): names["guards"],
        ("ExemptionRecord", "answer"): names["situations"],
    }


_SECTIONS = ("capabilities", "wrappers", "routes", "arguments", "returns", "situations", "guards")


def _names(items: Iterable[Any]) -> list[str]:
    return [item.name for item in items]
