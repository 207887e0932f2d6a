"""Spec folder -> catalog: reads the files, checks their shape, and makes the frozen model of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

from dispatchgen import predicate, source
from dispatchgen.findings import Finding, error, in_order
from dispatchgen.model import catalog as model
from dispatchgen.model import records
from dispatchgen.model.files import SpecFiles
from dispatchgen.source import Node, Scalar, Span
from dispatchgen.template_set import TemplateSet

_FRACTION = re.compile(r"-?(0|[1-9][0-9]*)\.[0-9]+")
NOTHING: Mapping[Path, bytes] = MappingProxyType({})


def read_catalog(
    spec: Path, template_set: TemplateSet, overlays: Iterable[Path] = (), edited: Mapping[Path, bytes] = NOTHING
) -> tuple[model.Catalog | None, tuple[Finding, ...]]:
    """The catalog in a spec folder with overlays over it, and what is wrong with the text and the shape of its files.

    There is a catalog wherever every file has the right shape: what its names refer to is for `validate`. An
    unreadable predicate is a finding, and false in the catalog. `edited` has the content that some files are about to
    get.
    """
    files = SpecFiles(spec, edited)
    shapes = records.records_for(template_set)
    files.read("backends.yaml")
    for name in files.ops():
        files.read(f"ops/{name}")
    files.read("errors.yaml", needed=bool(template_set.situations))
    files.read("exemptions.yaml", needed=False)
    for overlay in overlays:
        files.lay(overlay)
    files.tell_of_unread()
    backends = files.shaped("backends.yaml", shapes.backends)
    families = [files.shaped(name, shapes.family) for name in files.nodes if name.startswith("ops/")]
    errors = files.shaped("errors.yaml", shapes.errors)
    exemptions = files.shaped("exemptions.yaml", shapes.exemptions)
    if backends is None or files.misshapen:
        return None, in_order(files.findings)
    make = _Maker(template_set, files.findings)
    head = make.head(*backends)
    catalog = model.Catalog(
        **head,
        unreadable=tuple(make.unreadable),
        families=tuple(make.family(*family) for family in families if family),
        errors=make.entries(errors, "errors", make.error),
        exemptions=make.entries(exemptions, "exemptions", make.exemption),
        files=tuple(sorted(dict.fromkeys(files.found), key=str.encode)),
    )
    return catalog, in_order(files.findings)


class _Maker:
    """Makes the entries of the model from records and the nodes that they were read from."""

    def __init__(self, template_set: TemplateSet, findings: list[Finding]) -> None:
        self.set = template_set
        self.findings = findings
        self.unreadable: list[str] = []

    def head(self, file: Any, node: source.Mapping) -> dict[str, Any]:
        """What `backends.yaml` says."""
        features, cfgs = _entries(node, "features"), _entries(node, "cfgs")
        wrappers = tuple(
            model.Wrapper(**_places(at), name=each.name, cfg=self._predicate(each.cfg, at, "cfg"), doc=each.doc)
            for each, at in zip(file.wrappers, _items(node, "wrappers"), strict=True)
        )
        return {
            "package": file.package,
            "at": _at(node),
            "features": tuple(
                model.Feature(
                    span=each.key.span, at=_at_value("implies", each.value), name=name, implies=tuple(implies)
                )
                for each, (name, implies) in zip(features, file.features.items(), strict=True)
            ),
            "cfgs": tuple(
                model.Cfg(
                    span=each.key.span,
                    at={"predicate": each.value.span},
                    name=name,
                    predicate=self._parse(text, each.value),
                )
                for each, (name, text) in zip(cfgs, file.cfgs.items(), strict=True)
            ),
            "wrappers": wrappers,
            "backends": tuple(
                self.backend(each, at, wrappers)
                for each, at in zip(file.backends, _items(node, "backends"), strict=True)
            ),
        }

    def backend(self, record: Any, node: source.Mapping, wrappers: Iterable[model.Wrapper]) -> model.Backend:
        """An entry of `backends:`."""
        extra = _extra(record)
        refused = {kind.name for kind in self.set.wrappers if not extra[kind.key]}
        runtimes = (
            model.Runtime(
                **_places(at),
                name=each.name,
                cfg=self._predicate(each.cfg, at, "cfg"),
                capabilities=self._capabilities(_extra(each), at),
            )
            for each, at in zip(record.runtimes, _items(node, "runtimes"), strict=True)
        )
        return model.Backend(
            **_places(node),
            name=record.name,
            id=record.id,
            cfg=self._predicate(record.cfg, node, "cfg"),
            doc=record.doc,
            kernels=record.kernels,
            capabilities=self._capabilities(extra, node),
            wrappers=tuple(wrapper.name for wrapper in wrappers if wrapper.name not in refused),
            transfer=record.transfer,
            priority=record.priority,
            runtimes=tuple(runtimes),
            keys=_declared(self.set.backend_keys, extra),
        )

    def _capabilities(self, extra: Mapping[str, Any], node: source.Mapping) -> Mapping[str, model.Capability]:
        kinds = [kind.name for kind in self.set.capabilities if extra[kind.name] is not None]
        return MappingProxyType(
            {
                name: model.Capability(
                    **_places(_mapping(node.get(name)), "engine"), name=name, engine=extra[name].engine
                )
                for name in kinds
            }
        )

    def family(self, file: Any, node: source.Mapping) -> model.Family:
        """A file of `ops/`."""
        ops = tuple(self.op(each, at) for each, at in zip(file.ops, _items(node, "ops"), strict=True))
        return model.Family(**_places(node, "family"), name=file.family, doc=file.doc, ops=ops, requires=file.requires)

    def op(self, record: Any, node: source.Mapping) -> model.Op:
        """An entry of `ops:`."""
        returns, pair = _mapping(node.get("returns")), node.get("pair")
        return model.Op(
            **_places(node),
            name=record.name,
            doc=record.doc,
            route=record.route,
            args=tuple(
                model.Argument(
                    **_places(at),
                    name=each.name,
                    type=each.type,
                    doc=each.doc,
                    optional=each.optional,
                    has_default="default" in each.model_fields_set,
                    default=_default(each.default, at.get("default")),
                )
                for each, at in zip(record.args, _items(node, "args"), strict=True)
            ),
            returns=model.Returns(**_places(returns, "type"), **record.returns.model_dump()),
            otherwise=record.otherwise,
            backward=_backward(record.backward, node),
            wrapper=record.wrapper,
            pair=model.Pair(**_places(_mapping(pair), "argument"), **record.pair.model_dump()) if record.pair else None,
            exceptions=tuple(
                model.PairException(**_places(at, "source"), **each.model_dump())
                for each, at in zip(record.exceptions, _items(node, "exceptions"), strict=True)
            ),
            keys=_declared(self.set.op_keys, _extra(record)),
        )

    def error(self, record: records.ErrorRecord, node: source.Mapping) -> model.ErrorEntry:
        """An entry of `errors:`."""
        plain = record.model_dump(exclude={"example"})
        return model.ErrorEntry(
            **_places(node, "code"), **plain, before=record.example.before, after=record.example.after
        )

    def exemption(self, record: records.ExemptionRecord, node: source.Mapping) -> model.Exemption:
        """An entry of `exemptions:`."""
        answer = record.answer or self.set.decisions.no_kernel
        return model.Exemption(**_places(node), **{**record.model_dump(), "answer": answer})

    def entries(self, loaded: Any, section: str, make: Any) -> tuple[Any, ...]:
        """The entries of a file that is one list."""
        if loaded is None:
            return ()
        file, node = loaded
        return tuple(make(each, at) for each, at in zip(getattr(file, section), _items(node, section), strict=True))

    def _predicate(self, text: str, node: source.Mapping, key: str) -> predicate.Predicate:
        return self._parse(text, node.get(key))

    def _parse(self, text: str, node: Node | None) -> predicate.Predicate:
        """The predicate of a text, or false where it is none, with a finding that points into the text."""
        try:
            return predicate.parse(text, node.span if node else None)
        except predicate.PredicateError as problem:
            span = node.inside(problem.offset) if isinstance(node, Scalar) else problem.span
            self.unreadable.append(text)
            self.findings.append(error("DG201", f"`{text}` is no predicate: {problem}", span, fix=problem.fix))
            return predicate.Const(False)


def _places(node: source.Mapping, key: str = "name") -> dict[str, Any]:
    """`span` and `at` of an entry: it stands at the value of `key`, or at its first key."""
    head = node.get(key)
    first = node.entries[0].key.span if node.entries else node.span
    return {"span": head.span if head else first, "at": _at(node)}


def _at(node: source.Mapping) -> Mapping[str, Span]:
    """The place of each value, and under `key[0]`, `key[1]` … of each item of a list."""
    places: dict[str, Span] = {}
    for entry in node.entries:
        places.update(_at_value(entry.key.text, entry.value))
    return MappingProxyType(places)


def _at_value(key: str, value: Node) -> Mapping[str, Span]:
    items = value.items if isinstance(value, source.Sequence) else ()
    return {key: value.span, **{f"{key}[{index}]": item.span for index, item in enumerate(items)}}


def _mapping(node: Node | None) -> source.Mapping:
    """The mapping that the shape has promised."""
    assert isinstance(node, source.Mapping)
    return node


def _entries(node: source.Mapping, key: str) -> tuple[source.Entry, ...]:
    value = node.get(key)
    return value.entries if isinstance(value, source.Mapping) else ()


def _items(node: source.Mapping, key: str) -> Iterator[source.Mapping]:
    value = node.get(key)
    return map(_mapping, value.items if isinstance(value, source.Sequence) else ())


def _default(value: Any, node: Node | None) -> Any:
    """The default of an argument: the one value of a catalog that may be a number with a fraction."""
    plain = isinstance(node, Scalar) and node.plain and _FRACTION.fullmatch(node.text)
    return float(value) if plain else value


def _extra(record: BaseModel) -> dict[str, Any]:
    """The values of the keys that the template set added to the record's class."""
    fields = type(record).model_fields
    return {
        field.alias: getattr(record, name)
        for name, field in fields.items()
        if name.startswith("extra_") and field.alias
    }


def _declared(keys: Iterable[Any], extra: Mapping[str, Any]) -> Mapping[str, Any]:
    """The extra keys that were written, lists frozen."""
    return MappingProxyType(
        {
            key.name: tuple(extra[key.name]) if isinstance(extra[key.name], list) else extra[key.name]
            for key in keys
            if extra[key.name] is not None
        }
    )


def _backward(rules: Any, node: source.Mapping) -> tuple[model.BackwardRule, ...] | str:
    if isinstance(rules, str):
        return rules
    at = {entry.key.text: entry for entry in _entries(node, "backward")}
    return tuple(
        model.BackwardRule(
            span=at[choice].key.span,
            at=_at(_mapping(at[choice].value)),
            choice=choice,
            op=rule.op,
            with_=rule.with_,
            only=rule.only,
        )
        for choice, rule in rules.items()
    )
