"""JSON Schemas: they take what the records take and refuse what the records refuse."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from dispatchgen._shape import shape_file
from dispatchgen.model.records import records_for
from dispatchgen.schema import schemas
from dispatchgen.schema_files import FOLDER, outdated, stale
from dispatchgen.source import read
from dispatchgen.template_set import Declared
from tests import shipped

if TYPE_CHECKING:
    from tests.unit.conftest import Workshop

ROOT = Path(__file__).resolve().parents[2]
FILES = {
    "backends": ["spec/backends.yaml"],
    "ops": sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "spec/ops").glob("*.yaml")),
    "errors": ["spec/errors.yaml"],
    "exemptions": ["spec/exemptions.yaml"],
    "set": ["templates/torch/set.yaml", "tests/cases/_base/templates/set.yaml"],
}
PAIRS = [(kind, file) for kind, files in FILES.items() for file in files]


SET = shipped.template_set()
VALIDATORS = {name.removesuffix(".json"): Draft202012Validator(json.loads(text)) for name, text in schemas(SET).items()}
RECORDS: dict[str, Any] = {
    "backends": records_for(SET).backends,
    "ops": records_for(SET).family,
    "errors": records_for(SET).errors,
    "exemptions": records_for(SET).exemptions,
    "set": Declared,
}


def plain(file: str) -> Any:
    node, findings = read((ROOT / file).read_bytes(), file)
    assert node is not None, findings
    return node.value


def records_take(kind: str, value: Any) -> bool:
    """Whether the reader takes the value, written as JSON, which is YAML too."""
    node, findings = read(json.dumps(value, ensure_ascii=False).encode(), "x")
    assert node is not None, findings
    assert node.value == value
    return not shape_file(node, RECORDS[kind])[1]


def schema_takes(kind: str, value: Any) -> bool:
    return bool(VALIDATORS[kind].is_valid(value))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of everything inside a value."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from places(each, (*path, key))


def changed(value: Any, path: tuple[Any, ...], new: Any, *, key: str | None = None) -> Any:
    """The value with another one at a path; with `key`, put there under that key instead."""
    value = copy.deepcopy(value)
    at = value
    for part in path[:-1]:
        at = at[part]
    target = at[path[-1]] if path else value
    if key is not None and isinstance(target, dict):
        target[key] = new
    elif new is DROP and path:
        del at[path[-1]]
    elif path:
        at[path[-1]] = new
    return value


DROP = object()
ODD = st.sampled_from(
    [DROP, None, True, False, 0, 1, -1, "", "x", "error", "both", "native", [], [1], ["x"], {}, {"a": 1}]
)


@pytest.mark.parametrize("kind", FILES)
def test_they_are_schemas(kind: str) -> None:
    Draft202012Validator.check_schema(VALIDATORS[kind].schema)
    assert VALIDATORS[kind].schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(("kind", "file"), PAIRS)
def test_shipped_files_are_taken_and_name_their_schema(kind: str, file: str) -> None:
    value = plain(file)
    assert [error.message for error in VALIDATORS[kind].iter_errors(value)] == []
    assert records_take(kind, value)
    first = (ROOT / file).read_text(encoding="utf-8").splitlines()[0]
    if not file.startswith("tests"):
        marker = "# yaml-language-server: $schema="
        assert first.startswith(marker)
        assert (
            (ROOT / file).parent / first.removeprefix(marker)
        ).resolve() == ROOT / "spec" / "schema" / f"{kind}.json"


@pytest.mark.parametrize("kind", FILES)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_schema_and_records_agree_on_what_is_wrong(kind: str, data: st.DataObject) -> None:
    value = plain(data.draw(st.sampled_from(FILES[kind])))
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from(sorted(places(value), key=repr)))
        if data.draw(st.booleans()):
            value = changed(value, path, data.draw(ODD.filter(lambda each: each is not DROP)), key="unheard")
        else:
            value = changed(value, path, data.draw(ODD))
    if isinstance(value, dict):
        assert schema_takes(kind, value) == records_take(kind, value), list(VALIDATORS[kind].iter_errors(value))


def test_every_key_of_the_template_set_is_there(workshop: Workshop) -> None:
    made = {name: json.loads(text) for name, text in schemas(workshop.template_set).items()}
    backend = made["backends.json"]["$defs"]["BackendRecord"]["properties"]
    assert {"talks", "logged", "place", "floor", "tags"} <= backend.keys()
    assert made["ops.json"]["$defs"]["OpRecord"]["properties"]["route"]["examples"] == ["value", "spot"]
    assert made["ops.json"]["properties"]["requires"]["examples"] == ["talks"]
    assert made["backends.json"]["$defs"]["CapabilityRecord"]["properties"]["engine"]["examples"] == ["wire", "radio"]


def test_the_committed_ones_are_up_to_date() -> None:
    assert outdated(SET, ROOT / "spec") == (), "to mend this: dispatchgen schema"


def test_what_is_stale_is_told(workshop: Workshop) -> None:
    folder = Path("spec") / FOLDER
    folder.mkdir()
    for name, text in schemas(workshop.template_set).items():
        (folder / name).write_text(text)
    assert stale(workshop.template_set, Path("spec")) == ()
    (folder / "ops.json").write_text("{}")
    (folder / "errors.json").unlink()
    assert [(str(each.span), each.message) for each in stale(workshop.template_set, Path("spec"))] == [
        ("spec/schema/ops.json:1:1", "ops.json is not what the format and the template set make of it now"),
        ("spec/schema/errors.json:1:1", "errors.json is missing"),
    ]
