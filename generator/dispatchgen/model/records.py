"""The shape of the spec files, key by key. What the template set adds to backends and operations is added here too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, WithJsonSchema, create_model
from pydantic_core import PydanticCustomError

from dispatchgen._shape import TAG
from dispatchgen.template_set import Key, TemplateSet


def _predicate(value: Any) -> Any:
    """A predicate's text: YAML reads a bare `true` or `false` as a boolean, and it is one of the grammar's words."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        raise PydanticCustomError("predicate_type", "must be a predicate")
    return value


def _scalar(value: Any) -> Any:
    if isinstance(value, list | dict):
        raise PydanticCustomError("scalar_type", "must be a single value")
    return value


def _word(value: Any) -> Any:
    """A bare `false` as the word that is meant."""
    return "false" if value is False else value


Cfg = Annotated[str, BeforeValidator(_predicate), WithJsonSchema({"type": ["string", "boolean"]})]
ScalarValue = Annotated[
    Any, BeforeValidator(_scalar), WithJsonSchema({"type": ["string", "number", "boolean", "null"]})
]


Otherwise = Annotated[
    Literal["error", "none", "false"] | None,
    BeforeValidator(_word),
    WithJsonSchema({"enum": ["error", "none", "false", False, None]}),
]


class Record(BaseModel):
    """A mapping with these keys and no others."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)


class WrapperRecord(Record):
    """An entry of `wrappers:`."""

    name: str
    cfg: Cfg
    doc: str = ""


class CapabilityRecord(Record):
    """What stands under a capability's key."""

    engine: str


class RuntimeRecord(Record):
    """An entry of a backend's `runtimes:`; the template set's capabilities are further keys."""

    name: str
    cfg: Cfg = "true"


class BackendRecord(Record):
    """An entry of `backends:`; the template set's capabilities, wrapper keys and backend keys are further keys."""

    name: str
    id: int
    cfg: Cfg
    doc: str = ""
    kernels: str | None = None
    transfer: Literal["both", "into", "out", "none"] = "both"
    priority: int | None = None


class BackendsFile(Record):
    """`backends.yaml`, without its backends."""

    version: int
    package: str = ""
    features: dict[str, list[str]] = {}
    cfgs: dict[str, Cfg] = {}
    wrappers: list[WrapperRecord] = []


class ArgumentRecord(Record):
    """An entry of an operation's `args:`."""

    name: str
    type: str
    doc: str = ""
    optional: bool = False
    default: ScalarValue = None


class ReturnsRecord(Record):
    """What stands under `returns:`."""

    type: str
    of: str | None = None
    optional: bool = False


class RuleRecord(Record):
    """One choice under `backward:`."""

    op: str
    with_: str | None = Field(default=None, alias="with")
    only: str | None = None


class PairRecord(Record):
    """What stands under `pair:`."""

    argument: str
    out: str
    into: str
    carries: str | None = None


class ExceptionRecord(Record):
    """An entry of an operation's `exceptions:`."""

    source: str
    target: str
    reason: str


def _kind_of_backward(value: Any) -> str:
    return f"{TAG}rules" if isinstance(value, dict) else f"{TAG}word"


Backward = Annotated[
    Annotated[dict[str, RuleRecord], Tag(f"{TAG}rules")] | Annotated[Literal["native"], Tag(f"{TAG}word")],
    Discriminator(_kind_of_backward),
]


class OpRecord(Record):
    """An entry of `ops:`; the template set's op keys are further keys."""

    name: str
    doc: str
    route: str
    args: list[ArgumentRecord]
    returns: ReturnsRecord
    otherwise: Otherwise = None
    backward: Backward = {}
    wrapper: str | None = None
    pair: PairRecord | None = None
    exceptions: list[ExceptionRecord] = []


class FamilyFile(Record):
    """A file of `ops/`, without its operations."""

    version: int
    family: str
    doc: str
    requires: str | None = None


class ExampleRecord(Record):
    """What stands under an error's `example:`."""

    before: str
    after: str


class ErrorRecord(Record):
    """An entry of `errors:`."""

    code: str
    exception: str = Field(alias="class")
    when: str
    message: str
    reason: str
    help: str
    cause: str
    example: ExampleRecord
    guard: str | None = None


class ErrorsFile(Record):
    """`errors.yaml`."""

    version: int
    errors: list[ErrorRecord]


class ExemptionRecord(Record):
    """An entry of `exemptions:`."""

    reason: str
    until: str
    backend: str | None = None
    op: str | None = None
    answer: str | None = None


class ExemptionsFile(Record):
    """`exemptions.yaml`."""

    version: int
    exemptions: list[ExemptionRecord] = []


@dataclass(frozen=True)
class Records:
    """The shapes of the four kinds of spec file, with the keys that one template set adds."""

    backends: type[BackendsFile]
    family: type[FamilyFile]
    errors: type[ErrorsFile] = ErrorsFile
    exemptions: type[ExemptionsFile] = ExemptionsFile


def records_for(template_set: TemplateSet) -> Records:
    """The records that know the template set's keys."""
    capabilities: _Keys = {kind.name: (CapabilityRecord | None, None, kind.doc) for kind in template_set.capabilities}
    runtime = _with(RuntimeRecord, capabilities)
    backend = _with(
        BackendRecord,
        {
            **capabilities,
            **{kind.key: (bool, True, f"Whether {kind.name} may stand around it.") for kind in template_set.wrappers},
            **{key.name: (_type(key) | None, None, key.doc) for key in template_set.backend_keys},
        },
    )
    backend = create_model(backend.__name__, __base__=backend, runtimes=(list[runtime], []))  # type: ignore[valid-type]
    op = _with(OpRecord, {key.name: (_type(key) | None, None, key.doc) for key in template_set.op_keys})
    return Records(
        create_model("BackendsFile", __base__=BackendsFile, backends=(list[backend], ...)),  # type: ignore[valid-type]
        create_model("FamilyFile", __base__=FamilyFile, ops=(list[op], ...)),  # type: ignore[valid-type]
    )


_Keys = dict[str, tuple[Any, Any, str]]
"""Further keys of a record: annotation, default, and what an editor says about it."""


def _with(record: type[Record], keys: _Keys) -> Any:
    """The record with further keys. They are aliases, so that a key may have any name, even one of pydantic's."""
    extra: dict[str, Any] = {
        f"extra_{number}": (annotation, Field(default=default, alias=key, description=doc or None))
        for number, (key, (annotation, default, doc)) in enumerate(keys.items())
    }
    return create_model(record.__name__, __base__=record, **extra)


def _type(key: Key) -> Any:
    """The annotation of an extra key."""
    text: Any = Literal.__getitem__(key.values) if key.values else str
    return {"text": text, "flag": bool, "number": int, "list": list[text]}[key.type]
