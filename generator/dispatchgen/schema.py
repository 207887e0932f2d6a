"""JSON Schema of the spec files and of a template set, for editors: the records, as pydantic tells them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from dispatchgen._shape import VERSION
from dispatchgen.model.records import records_for
from dispatchgen.template_set import Declared, TemplateSet


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
