"""Families, operations and their arguments."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from dispatchgen._names import BUILTINS, class_name, family_module, unusable, unusable_module
from dispatchgen.findings import Finding, error, near
from dispatchgen.model.catalog import BackwardRule, Catalog, Family, Op
from dispatchgen.template_set import TemplateSet, by_name
from dispatchgen.validate._unique import repeated

ALWAYS = "always"
"""The choice of a backward rule for an operation that has no choices."""

PYTHONS = {"None": "null", "True": "true", "False": "false"}
"""Words of Python that are mere texts in YAML, and what is meant."""


def check(catalog: Catalog, template_set: TemplateSet) -> Iterator[Finding]:
    """Names, types, routes and rules of every operation."""
    yield from _names(catalog, template_set)
    capabilities = by_name(template_set.capabilities)
    for family in catalog.families:
        if family.requires is not None and family.requires not in capabilities:
            message = f"the template set `{template_set.name}` knows no capability `{family.requires}`"
            yield error("DG406", message, family.where("requires"), fix=near(family.requires, capabilities))
    for family, op in catalog.ops:
        yield from _arguments(op, template_set)
        yield from _route(op, template_set)
        yield from _returns(op, template_set)
        yield from _otherwise(family, op, template_set)
        yield from _backward(op, catalog, template_set)
        yield from _pair(op, catalog, template_set)
        wrappers = by_name(template_set.wrappers)
        if op.wrapper is not None and op.wrapper not in wrappers:
            message = f"the template set `{template_set.name}` knows no wrapper `{op.wrapper}`"
            yield error("DG409", message, op.where("wrapper"), fix=near(op.wrapper, wrappers))


def _names(catalog: Catalog, template_set: TemplateSet) -> Iterator[Finding]:
    reserved = frozenset(template_set.reserved)
    for family in catalog.families:
        if problem := unusable(family.name, reserved) or unusable_module(family_module(family.name)):
            yield error("DG401", f"a family cannot be called `{family.name}`: it {problem}", family.span)
    taken = reserved | _package_names(catalog, template_set)
    ops = [op for _, op in catalog.ops]
    for op in ops:
        if problem := unusable(op.name, taken, BUILTINS.difference(template_set.builtins)):
            yield error("DG401", f"an operation cannot be called `{op.name}`: it {problem}", op.span)
    yield from repeated(
        ops,
        lambda op: class_name(op.name).casefold(),
        lambda op: op.span,
        "DG402",
        lambda later, first: f"the operation `{later.name}` cannot be told from `{first.name}`",
    )


def _package_names(catalog: Catalog, template_set: TemplateSet) -> frozenset[str]:
    """What the package itself is going to have at its top: modules, guards, backends and wrappers."""
    modules = (file.path.split("/")[0].removesuffix(".py") for file in template_set.files)
    entries = chain(by_name(template_set.guards), (backend.name for backend in catalog.backends))
    return frozenset(chain(modules, entries, (wrapper.name for wrapper in catalog.wrappers)))


def _arguments(op: Op, template_set: TemplateSet) -> Iterator[Finding]:
    types, reserved = by_name(template_set.arguments), frozenset({*template_set.reserved, "self"})
    optional: str | None = None
    for argument in op.args:
        if problem := unusable(argument.name, reserved):
            yield error("DG401", f"an argument cannot be called `{argument.name}`: it {problem}", argument.span)
        if argument.type not in types:
            message = f"the template set `{template_set.name}` knows no argument type `{argument.type}`"
            yield error("DG404", message, argument.where("type"), fix=near(argument.type, types))
        elif not types[argument.type].keyword:
            if optional and not argument.has_default:
                message = f"`{argument.name}` has no default and stands after `{optional}`, which has one"
                yield error("DG414", message, argument.span, fix=f"move it before `{optional}`")
            optional = argument.name if argument.has_default else optional
        if argument.default in PYTHONS:
            message = f"the default of `{argument.name}` is the text '{argument.default}'"
            fix = f"write {PYTHONS[str(argument.default)]}: YAML has its own words for what Python calls {argument.default}"
            yield error("DG415", message, argument.where("default"), fix=fix)
    yield from repeated(
        op.args,
        lambda argument: argument.name,
        lambda argument: argument.span,
        "DG402",
        lambda later, _: f"`{op.name}` has two arguments `{later.name}`",
    )


def _route(op: Op, template_set: TemplateSet) -> Iterator[Finding]:
    routes = by_name(template_set.routes)
    if op.route not in routes:
        message = f"the template set `{template_set.name}` knows no route `{op.route}`"
        yield error("DG403", message, op.where("route"), fix=near(op.route, routes))
        return
    wanted = routes[op.route].argument
    if all(argument.type != wanted for argument in op.args):
        message = f"`{op.name}` goes by the route `{op.route}` and has no argument of type `{wanted}`"
        yield error("DG407", message, op.where("route"))


def _returns(op: Op, template_set: TemplateSet) -> Iterator[Finding]:
    types = by_name(template_set.returns)
    for key, name in (("type", op.returns.type), ("of", op.returns.of)):
        if name is not None and name not in types:
            message = f"the template set `{template_set.name}` knows no return type `{name}`"
            yield error("DG405", message, op.returns.where(key), fix=near(name, types))
    outer, inner = types.get(op.returns.type), types.get(op.returns.of or "")
    if outer is None:
        return
    if outer.has_content and op.returns.of is None:
        yield error("DG405", f"a `{outer.name}` is of something", op.returns.span, fix="say what with `of:`")
    if op.returns.of is not None and (not outer.has_content or (inner is not None and inner.has_content)):
        yield error("DG405", f"a `{outer.name}` is not of `{op.returns.of}`", op.returns.where("of"))


def _otherwise(family: Family, op: Op, template_set: TemplateSet) -> Iterator[Finding]:
    if op.otherwise is None:
        if family.requires is not None:
            message = f"`{op.name}` does not say what it does where `{family.requires}` is missing"
            yield error("DG408", message, op.span, fix="write otherwise: error, or none or false for a question")
        return
    if family.requires is None and op.otherwise != "error":
        message = f"nothing is required of `{op.name}`, so there is no `otherwise: {op.otherwise}`"
        yield error("DG408", message, op.where("otherwise"), fix="take it out")
    returned = by_name(template_set.returns).get(op.returns.type)
    if returned is None or op.otherwise == "error":
        return
    if op.otherwise == "none" and not op.returns.optional and returned.public != "None":
        message = f"`{op.name}` answers None and its returns are not optional"
        yield error("DG408", message, op.where("otherwise"), fix="write optional: true under returns")
    if op.otherwise == "false" and returned.public != "bool":
        message = f"`{op.name}` answers False and returns `{op.returns.type}`"
        yield error("DG408", message, op.where("otherwise"))


def _backward(op: Op, catalog: Catalog, template_set: TemplateSet) -> Iterator[Finding]:
    if isinstance(op.backward, str):
        return
    ops = {other.name: other for _, other in reversed(catalog.ops)}
    choices = _choices(op, template_set) or (ALWAYS,)
    for rule in op.backward:
        if rule.choice not in choices:
            message = f"`{op.name}` has no choice `{rule.choice}`"
            yield error("DG411", message, rule.span, fix=near(rule.choice, choices))
        if rule.op not in ops:
            yield error("DG410", f"there is no operation `{rule.op}`", rule.where("op"), fix=near(rule.op, ops))
        else:
            yield from _with(rule, _choices(ops[rule.op], template_set))
            yield from _arguments_of_gradient(op, rule, ops[rule.op], template_set)


def _arguments_of_gradient(op: Op, rule: BackwardRule, target: Op, template_set: TemplateSet) -> Iterator[Finding]:
    """What the operation of the gradient is called with has to be an argument of the forward one."""
    names = [argument.name for argument in op.args]
    if rule.only is not None and rule.only not in names:
        message = f"`{op.name}` has no argument `{rule.only}`"
        yield error("DG411", message, rule.where("only"), fix=near(rule.only, names))
    types, routes = by_name(template_set.arguments), by_name(template_set.routes)
    gradient = routes[target.route].argument if target.route in routes else None
    for argument in target.args:
        if argument.type == gradient:
            gradient = None
            continue
        given = argument.name in names or argument.has_default
        if not given and argument.type in types and not types[argument.type].choices:
            message = f"the gradient by `{rule.op}` needs `{argument.name}`, which `{op.name}` has not"
            yield error("DG411", message, rule.where("op"), fix="name an operation that the arguments fit")


def _with(rule: BackwardRule, choices: tuple[str, ...]) -> Iterator[Finding]:
    if rule.with_ is None and choices:
        message = f"the gradient by `{rule.op}` needs a choice"
        yield error("DG411", message, rule.where("op"), fix=f"write with: {' or '.join(choices)}")
    elif rule.with_ is not None and rule.with_ not in choices:
        message = f"`{rule.op}` has no choice `{rule.with_}`"
        yield error("DG411", message, rule.where("with"), fix=near(rule.with_, choices) or "take it out")


def _choices(op: Op, template_set: TemplateSet) -> tuple[str, ...]:
    types = by_name(template_set.arguments)
    return next((types[arg.type].choices for arg in op.args if arg.type in types and types[arg.type].choices), ())


def _pair(op: Op, catalog: Catalog, template_set: TemplateSet) -> Iterator[Finding]:
    if op.pair is not None:
        names = [argument.name for argument in op.args]
        if op.pair.argument not in names:
            message = f"`{op.name}` has no argument `{op.pair.argument}`"
            yield error("DG412", message, op.pair.where("argument"), fix=near(op.pair.argument, names))
        for key, method in (("out", op.pair.out), ("into", op.pair.into)):
            if problem := unusable(method):
                yield error("DG412", f"a kernel method cannot be called `{method}`: it {problem}", op.pair.where(key))
        types = by_name(template_set.returns)
        if op.pair.carries is not None and (op.pair.carries not in types or types[op.pair.carries].has_content):
            message = f"the template set `{template_set.name}` knows no plain return type `{op.pair.carries}`"
            yield error("DG405", message, op.pair.where("carries"), fix=near(op.pair.carries, types))
        if op.pair.out == op.pair.into:
            yield error("DG412", f"`{op.pair.out}` cannot be both ways", op.pair.where("into"))
    elif op.exceptions:
        message = f"`{op.name}` has exceptions between backends and no `pair:`"
        yield error("DG413", message, op.exceptions[0].span)
    known = [backend.name for backend in catalog.backends]
    for exception in op.exceptions:
        for key, name in (("source", exception.source), ("target", exception.target)):
            if name not in known:
                message = f"there is no backend `{name}`"
                yield error("DG413", message, exception.where(key), fix=near(name, known))
    yield from repeated(
        op.exceptions,
        lambda exception: (exception.source, exception.target),
        lambda exception: exception.span,
        "DG413",
        lambda later, _: f"the exception from {later.source} to {later.target} stands twice",
    )
