"""The entries of errors.yaml: one for each situation, with texts that use only what the situation gives."""

from __future__ import annotations

import re
from collections.abc import Iterator
from string import Formatter

from dispatchgen._names import is_class_path, unusable
from dispatchgen.findings import Finding, Related, error, near
from dispatchgen.model.catalog import Backend, Catalog, ErrorEntry, Family, Op, Wrapper
from dispatchgen.template_set import TemplateSet, by_name
from dispatchgen.validate._unique import repeated

COMMON_FIELDS = ("op", "subject")
"""What every text may use, whatever the situation."""
_CODE = re.compile(r"[A-Z]{2,}[0-9]{3,}")


def check(catalog: Catalog, template_set: TemplateSet) -> Iterator[Finding]:
    """Situations without an entry, entries without a situation, repeated names, and fields that are not there."""
    if "errors.yaml" not in catalog.files:
        return  # that it is not there has been said
    situations = by_name(template_set.situations)
    told = {entry.when for entry in catalog.errors}
    for situation in template_set.situations:
        if situation.name not in told:
            message = f"no error has `when: {situation.name}`. {situation.doc}".strip()
            yield error("DG501", message, catalog.errors[-1].span if catalog.errors else None)
    for entry in catalog.errors:
        if entry.when not in situations:
            message = f"the template set `{template_set.name}` knows no situation `{entry.when}`"
            yield error("DG503", message, entry.where("when"), fix=near(entry.when, situations))
        else:
            fields = (*COMMON_FIELDS, *situations[entry.when].fields)
            for key, text in (("message", entry.message), ("reason", entry.reason), ("help", entry.help)):
                yield from _fields(entry, key, text, fields)
        yield from _names(entry, catalog, template_set)
    for key, code, what in (
        ("when", "DG502", "the situation"),
        ("code", "DG504", "the code"),
        ("exception", "DG506", "the class"),
    ):
        yield from _repeated(catalog, key, code, what)


def _repeated(catalog: Catalog, key: str, code: str, what: str) -> Iterator[Finding]:
    yaml_key = "class" if key == "exception" else key
    return repeated(
        catalog.errors,
        lambda entry: str(getattr(entry, key)),
        lambda entry: entry.where(yaml_key),
        code,
        lambda later, first: f"{later.code} and {first.code} have {what} `{getattr(later, key)}`",
    )


def _names(entry: ErrorEntry, catalog: Catalog, template_set: TemplateSet) -> Iterator[Finding]:
    if not _CODE.fullmatch(entry.code):
        fix = "write capital letters and a number of three digits or more"
        yield error("DG505", f"`{entry.code}` is no code of an error", entry.span, fix=fix)
    if ":" in entry.exception:
        if not is_class_path(entry.exception):
            message = f"`{entry.exception}` names no class"
            yield error("DG506", message, entry.where("class"), fix="write Class, or package.module:Class")
    elif problem := unusable(entry.exception, frozenset(template_set.reserved)):
        yield error("DG506", f"a class cannot be called `{entry.exception}`: it {problem}", entry.where("class"))
    name = entry.exception.rpartition(":")[2]
    others: tuple[Backend | Wrapper | Family | Op, ...] = (
        *catalog.backends,
        *catalog.wrappers,
        *catalog.families,
        *(op for _, op in catalog.ops),
    )
    for other in others:
        if other.name == name:
            message = f"the class of {entry.code} and something else in the package are both called `{name}`"
            yield error("DG506", message, entry.where("class"), related=[Related(other.span, "the other")])
            break
    if entry.guard is None:
        return
    guards = by_name(template_set.guards)
    if guards and entry.guard not in guards:
        message = f"the template set `{template_set.name}` knows no guard `{entry.guard}`"
        yield error("DG509", message, entry.where("guard"), fix=near(entry.guard, guards))
    elif problem := unusable(entry.guard):
        yield error("DG509", f"a guard cannot be called `{entry.guard}`: it {problem}", entry.where("guard"))


def _fields(entry: ErrorEntry, key: str, text: str, fields: tuple[str, ...]) -> Iterator[Finding]:
    place = entry.where(key)
    try:
        found = list(Formatter().parse(text))
    except ValueError as problem:
        yield error("DG508", f"`{key}` is no template: {problem}", place, fix="double a brace that is only a brace")
        return
    for _, name, spec, conversion in found:
        if name is None:
            continue
        if spec or conversion or not name.isidentifier():
            shown = "{" + name + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "") + "}"
            message = f"`{key}` uses `{shown}`; a field is a name and nothing else"
            yield error("DG508", message, place, fix="double a brace that is only a brace")
        elif name not in fields:
            message = f"`{key}` uses the field `{name}`, which the situation `{entry.when}` does not give"
            yield error("DG507", message, place, fix=near(name, fields))
