"""The views of operations: signatures, kernel calls, gradient rules, and the arm of every variant."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from dispatchgen import _names as names
from dispatchgen.features import Build
from dispatchgen.literals import py
from dispatchgen.matrix import Arm, Cell, Side, sides
from dispatchgen.model.catalog import Argument, Backend, Catalog, Family, Op, Returns
from dispatchgen.plan.views import ArgumentView, ArmView, FamilyView, MatchView, OpView, RuleView, summary_first
from dispatchgen.template_set import TemplateSet


@dataclass(frozen=True)
class Source:
    """What views are made from."""

    catalog: Catalog
    template_set: TemplateSet
    build: Build
    cells: Mapping[str, tuple[Cell, ...]]
    """The cells of the build by op."""


def family_view(family: Family, source: Source) -> FamilyView:
    """The view of a family with the arms of one build."""
    ops = tuple(_op_view(op, family, source) for op in family.ops)
    return FamilyView(family.name, names.family_module(family.name), summary_first(family.doc), family.requires, ops)


def argument_view(arg: Argument, op: Op, template_set: TemplateSet) -> ArgumentView:
    """An argument with the annotations that its type has in the template set.

    None reaches the kernel where it is part of what the argument can be, and where the value is handed on as it is.
    """
    type_ = template_set.argument(arg.type)
    none = _may_be_none(arg)
    kernel_none = arg.optional or (none and type_.pass_ == "{name}")
    passed = type_.pass_.format(name=arg.name, op=py(op.name))
    if arg.optional and type_.pass_ not in ("", "{name}"):
        passed = f"None if {arg.name} is None else {passed}"
    return ArgumentView(
        name=arg.name,
        type=arg.type,
        doc=arg.doc,
        public=type_.public + (" | None" if none else ""),
        arm=type_.arm + (" | None" if none else ""),
        kernel=type_.kernel + (" | None" if kernel_none and type_.kernel else ""),
        passed=passed,
        default=py(arg.default) if arg.has_default else None,
        keyword=type_.keyword,
    )


def _may_be_none(arg: Argument) -> bool:
    return arg.optional or (arg.has_default and arg.default is None)


def _op_view(op: Op, family: Family, source: Source) -> OpView:
    catalog, template_set = source.catalog, source.template_set
    args = tuple(argument_view(arg, op, template_set) for arg in op.args)
    routed = routed_argument(op, template_set)
    returns, _, result, of = _returns(op.returns, template_set)
    choice = next((arg.name for arg in op.args if template_set.argument(arg.type).choices), None)
    rules = tuple(_rules(op, family, catalog, template_set))
    kept = [arg for arg in args if arg.name != routed]
    target = op.pair.argument if op.pair else None
    return OpView(
        name=op.name,
        class_name=names.class_name(op.name),
        doc=op.doc,
        route=op.route,
        routed=routed,
        parameters=_public_parameters(args),
        args=args,
        returns=returns,
        result=result,
        of=of,
        call=", ".join(_handed(arg, op, routed, template_set) for arg in op.args if arg.name != target),
        kernel_call=", ".join(arg.passed for arg in args if arg.passed and arg.name != target),
        wrapper=op.wrapper,
        question=op.otherwise in ("none", "false"),
        native=op.backward == "native",
        choice=choice,
        rules=rules,
        gradient_parameters=", ".join(f"{arg.name}: {arg.arm}" for arg in kept) if rules else "",
        gradient_arguments=", ".join(arg.name for arg in kept) if rules else "",
        inputs=tuple(arg.name for arg in args if template_set.argument(arg.type).tracked),
        gives=_content(op.returns, template_set),
        gives_tracked=template_set.returned(op.returns.type).tracked,
        answer=_ANSWERS.get(op.otherwise or "", ""),
        docstring=_docstring(op),
        matches=tuple(_matches(op, family, source, args, returns)),
        direct_call=", ".join(
            _passed(arg, op, routed, template_set)
            for arg in op.args
            if arg.name != target and template_set.argument(arg.type).pass_
        ),
        pair_target=target,
        exceptions=tuple((each.source, each.target, each.reason) for each in op.exceptions),
        keys={key.name: op.keys.get(key.name) for key in template_set.op_keys},
    )


def routed_argument(op: Op, template_set: TemplateSet) -> str:
    """The name of the first argument that the op's route looks at; empty where it has none."""
    wanted = template_set.route(op.route).argument
    return next((arg.name for arg in op.args if arg.type == wanted), "")


def _handed(arg: Argument, op: Op, routed: str, template_set: TemplateSet) -> str:
    """What the public function hands to the arm for an argument."""
    if arg.name == routed:
        return "routed"
    adopt = template_set.argument(arg.type).adopt
    if not adopt:
        return arg.name
    adopted = adopt.format(name=arg.name, op=py(op.name))
    return f"None if {arg.name} is None else {adopted}" if _may_be_none(arg) else adopted


def _passed(arg: Argument, op: Op, routed: str, template_set: TemplateSet) -> str:
    """What the public function hands to the kernel for an argument where no arm stands between them."""
    type_ = template_set.argument(arg.type)
    if arg.name == routed:
        return type_.pass_.format(name="routed", op=py(op.name))
    adopted = type_.adopt.format(name=arg.name, op=py(op.name)) or arg.name
    passed = type_.pass_.format(name=adopted, op=py(op.name))
    return f"None if {arg.name} is None else {passed}" if _may_be_none(arg) and passed != arg.name else passed


def _docstring(op: Op) -> str:
    """What the public function says about itself."""
    lines = [f"    {arg.name}: {arg.doc}" for arg in op.args if arg.doc]
    return "\n".join([summary_first(op.doc), *(["", "Args:", *lines] if lines else [])])


def _public_parameters(args: tuple[ArgumentView, ...]) -> str:
    """The parameters in Python's order: plain ones, then keyword-only ones behind a star."""

    def text(arg: ArgumentView) -> str:
        return f"{arg.name}: {arg.public}" + (f" = {arg.default}" if arg.default is not None else "")

    plain = [text(arg) for arg in args if not arg.keyword]
    keyword = [text(arg) for arg in args if arg.keyword]
    return ", ".join([*plain, *(["*", *keyword] if keyword else [])])


def _returns(returns: Returns, template_set: TemplateSet) -> tuple[str, str, str, str | None]:
    """Annotation of the public function and of the kernel, the result's expression, and a handle's finish."""
    type_ = template_set.returned(returns.type)
    none = " | None" if returns.optional else ""
    if returns.of is None:
        return type_.public + none, type_.kernel + none, type_.wrap.format(value="value"), None
    inner = template_set.returned(returns.of)
    finish = inner.wrap.format(value="value")
    finish = f"None if value is None else {finish}" if returns.optional else finish
    public, kernel = inner.public + none, inner.kernel + none
    return type_.public.format(of=public), type_.kernel.format(of=kernel), type_.wrap.format(value="value"), finish


def _content(returns: Returns, template_set: TemplateSet) -> str:
    """The annotation of what an op gives in the end."""
    return template_set.returned(returns.of or returns.type).public


def _rules(op: Op, family: Family, catalog: Catalog, template_set: TemplateSet) -> Iterator[RuleView]:
    """The calls that make the gradients: the routed argument is the gradient, a choice is the rule's, the rest stays."""
    if isinstance(op.backward, str):
        return
    by_name = {each.name: (home, each) for home, each in catalog.ops}
    own = {arg.name: arg for arg in op.args}
    own_choice = next((arg for arg in op.args if template_set.argument(arg.type).choices), None)
    for rule in op.backward:
        home, target = by_name[rule.op]
        routed = routed_argument(target, template_set)
        parts = []
        for arg in target.args:
            type_ = template_set.argument(arg.type)
            if arg.name == routed:
                value = "gradient"
            elif type_.choices:
                value = type_.choice.format(name=rule.with_)
            elif arg.name in own:
                value = arg.name
            else:
                break  # what stands behind it has defaults too
            parts.append(f"{arg.name}={value}" if type_.keyword else value)
        expression = template_set.argument(own_choice.type).choice.format(name=rule.choice) if own_choice else None
        only = None if rule.only is None else argument_view(own[rule.only], op, template_set).passed
        gives, pending = _content(target.returns, template_set), target.returns.of is not None
        elsewhere = None if home is family else names.family_module(home.name)
        yield RuleView(expression, rule.op, elsewhere, ", ".join(parts), only, gives, pending)


def public_signature(op: Op, template_set: TemplateSet) -> tuple[str, str]:
    """The parameters and the return annotation of the public function of an op."""
    args = tuple(argument_view(arg, op, template_set) for arg in op.args)
    return _public_parameters(args), _returns(op.returns, template_set)[0]


def kernel_signature(op: Op, template_set: TemplateSet) -> Iterator[tuple[str, str, str]]:
    """The kernel methods that an op needs: name, parameters after self, return annotation.

    One for most ops; the way out and the way in for an op between two backends, the latter with the device that
    it comes from as `source`, and where the pair says what it carries, with that as `carried`.
    """
    args = [argument_view(arg, op, template_set) for arg in op.args]
    _, returns, _, _ = _returns(op.returns, template_set)
    if op.pair is None:
        yield op.name, _parameters((arg.name, arg.kernel) for arg in args if arg.kernel), returns
        return
    plain = [(arg.name, arg.kernel) for arg in args if arg.kernel and arg.name != op.pair.argument]
    peer = next(arg.kernel for arg in args if arg.name == op.pair.argument)
    carried = [] if op.pair.carries is None else [("carried", template_set.returned(op.pair.carries).kernel)]
    yield op.pair.out, _parameters(plain), carried[0][1] if carried else returns
    yield op.pair.into, _parameters([*plain, *carried, ("source", peer)]), returns


def _parameters(pairs: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{name}: {annotation}" for name, annotation in pairs)


def _matches(
    op: Op, family: Family, source: Source, args: tuple[ArgumentView, ...], returns: str
) -> Iterator[MatchView]:
    signatures = list(kernel_signature(op, source.template_set))
    sided = sides(source.catalog, source.template_set, source.build, family, op) if op.pair else (None,)
    for (method, parameters, kernel_returns), found in zip(signatures, sided, strict=True):
        arms = tuple(_sided_arms(source, found) if found is not None else _arms(op, source))
        yield MatchView(
            method=method,
            class_name=names.class_name(method),
            doc=op.doc,
            arm_parameters=parameters if op.pair else ", ".join(f"{arg.name}: {arg.arm}" for arg in args),
            arm_returns=kernel_returns if op.pair else returns,
            kernel_parameters=parameters,
            kernel_returns=kernel_returns,
            arms=arms,
        )


def _arms(op: Op, source: Source) -> Iterator[ArmView]:
    """The arm of every backend in the build: what its plain variant does, and whether only the wrapped one forwards."""
    cells = {(cell.backend, cell.runtime, cell.wrapper): cell.arm for cell in source.cells[op.name]}

    def view(backend: Backend, runtime: str | None) -> ArmView | None:
        arm = cells[backend.name, runtime, None]
        if arm.kind == "absent":
            return None
        wrapped = cells.get((backend.name, runtime, op.wrapper))
        if arm.kind == "error" and wrapped is not None and wrapped.kind == "kernel":
            return replace(_named(backend, runtime), wrapped_only=arm.situation)
        return _shown(_named(backend, runtime), arm, op)

    yield from _per_backend(source.catalog, view)


def _sided_arms(source: Source, found: list[Side]) -> Iterator[ArmView]:
    arms = {(side.backend, side.runtime): side.arm for side in found}

    def view(backend: Backend, runtime: str | None) -> ArmView | None:
        arm = arms.get((backend.name, runtime))
        return None if arm is None else _shown(_named(backend, runtime), arm, None)

    yield from _per_backend(source.catalog, view)


def _per_backend(catalog: Catalog, view: Callable[[Backend, str | None], ArmView | None]) -> Iterator[ArmView]:
    """One arm per backend; where it has runtimes, one each inside of it."""
    for backend in catalog.backends:
        if not backend.runtimes:
            arm = view(backend, None)
            if arm is not None:
                yield arm
            continue
        inner = tuple(arm for runtime in backend.runtimes if (arm := view(backend, runtime.name)) is not None)
        if inner:
            yield replace(_named(backend, None), runtimes=inner)


def _named(backend: Backend, runtime: str | None) -> ArmView:
    name = runtime or backend.name
    return ArmView(name, names.module_name(backend.name), names.constant_name(name), backend.name)


def _shown(view: ArmView, arm: Arm, op: Op | None) -> ArmView:
    if arm.kind == "value" and op is not None:
        return replace(view, value=_ANSWERS[op.otherwise or "none"])
    if arm.kind == "error":
        return replace(view, situation=arm.situation, reason=arm.reason)
    return view


_ANSWERS = {"none": "None", "false": "False"}
