"""A template set's `set.yaml` as a value: everything special about what is generated."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from dispatchgen.findings import Finding, Related, error, in_order, near
from dispatchgen.source import Mapping, Sequence, Span
from dispatchgen.statements import ArmShape, Statement, arm_problems, form_problems, problems


@dataclass(frozen=True)
class CapabilityKind:
    """Something that a backend may be capable of; a backend that has the key of this name is."""

    name: str
    doc: str = ""
    engines: tuple[str, ...] = ()


@dataclass(frozen=True)
class WrapperKind:
    """Something that may stand around a backend, and the key with which a backend refuses it."""

    name: str
    key: str
    doc: str = ""


@dataclass(frozen=True)
class Key:
    """An extra key of backends or operations. Backends of one build differ in at least one `identity` key."""

    name: str
    type: Literal["text", "flag", "number", "list"]
    doc: str = ""
    identity: bool = False
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Route:
    """A way to find the device of a call: from the first argument of this type."""

    name: str
    argument: str
    doc: str = ""


@dataclass(frozen=True)
class ArgumentType:
    """What an argument is in the public function, in the arm, and in the kernel, as annotations.

    `pass_` is the expression that makes the kernel's value from the arm's, with `{name}` for the argument; an
    argument with an empty one is not handed to the kernel. `adopt` makes the arm's value from the public one where the
    route does not, with `{name}` and `{op}`. `choice` is the expression for one of the `choices`, with
    `{name}` for the choice.
    """

    name: str
    public: str
    arm: str
    kernel: str
    pass_: str
    doc: str = ""
    keyword: bool = False
    tracked: bool = False
    adopt: str = ""
    choices: tuple[str, ...] = ()
    choice: str = ""


@dataclass(frozen=True)
class ReturnType:
    """What an operation gives back, and the expression that makes it from the kernel's `{value}`.

    One with `{of}` in its annotation is around another one.
    """

    name: str
    public: str
    kernel: str
    wrap: str
    doc: str = ""
    tracked: bool = False

    @property
    def has_content(self) -> bool:
        """Whether the type is around another one, which the operation names with `of`."""
        return "{of}" in self.public or "{of}" in self.kernel


@dataclass(frozen=True)
class Situation:
    """Something that can go wrong, and the fields that a text about it may use beside `op` and `subject`."""

    name: str
    fields: tuple[str, ...] = ()
    doc: str = ""


@dataclass(frozen=True)
class Decisions:
    """The situation that stands for each reason for which the generator itself decides against a kernel."""

    not_capable: str
    not_built: str
    no_kernel: str
    no_transfer: str
    wrong_wrapper: str


@dataclass(frozen=True)
class Guard:
    """A question that a program can ask before it calls: a function of the generated package, and its expression."""

    name: str
    parameters: str
    returns: str
    value: str
    doc: str = ""


@dataclass(frozen=True)
class OutputFile:
    """One template, and the path of what it makes; `each` renders it once per family or per backend."""

    template: str
    path: str
    each: Literal["family", "backend"] | None = None


@dataclass(frozen=True)
class StarterFile:
    """A file of a new project: rendered with the package's name where `source` is a template, else copied.

    `source` is relative to the template set's folder; `path` to the project's, with `{package}` for the name.
    """

    source: str
    path: str


@dataclass(frozen=True)
class Declared:
    """What stands in `set.yaml`, key by key."""

    version: int
    name: str
    decisions: Decisions
    files: tuple[OutputFile, ...]
    doc: str = ""
    capabilities: tuple[CapabilityKind, ...] = ()
    wrappers: tuple[WrapperKind, ...] = ()
    backend_keys: tuple[Key, ...] = ()
    op_keys: tuple[Key, ...] = ()
    routes: tuple[Route, ...] = ()
    arguments: tuple[ArgumentType, ...] = ()
    returns: tuple[ReturnType, ...] = ()
    situations: tuple[Situation, ...] = ()
    reserved: tuple[str, ...] = ()
    builtins: tuple[str, ...] = ()
    """Builtins of Python that operations may be called like, because the templates do without them."""
    guards: tuple[Guard, ...] = ()
    imports: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The modules that names in annotations and expressions come from; a module without names is imported itself."""
    probe: str | None = None
    """`module:function` that tells what the machine can do: plain data, and under `backends`, by name or by
    `name[runtime]`, how many `devices` there are and what is `missing`."""
    starter: tuple[StarterFile, ...] = ()
    """What a new project begins with."""
    kernel: str | None = None
    """The template of a new module with the kernel class of a backend."""
    binds: str | None = None
    """The name of the function, in the family's file, with the match over variants for `{method}`; None: not checked."""
    arms: ArmShape | None = None
    """How that match and its arms are written; None: only the words in them are checked."""
    statements: tuple[Statement, ...] = ()
    """What else the files must say."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {
        "strict": True,
        "extra": "forbid",
        "alias_generator": lambda name: name.rstrip("_"),
    }


@dataclass(frozen=True, kw_only=True)
class TemplateSet(Declared):
    """A template set: what it declares, and the folder in which its templates lie."""

    folder: Path
    places: Mapping = field(default=Mapping((), Span("", 0, 0, 0, 0)), compare=False, repr=False)
    """Where things stand in `set.yaml`."""
    overlays: tuple[Path, ...] = ()
    """Folders whose templates take the place of those of the same name; of several, the last one's."""

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where templates are looked for, in this order."""
        return *reversed(self.overlays), self.folder

    def place(self, section: str, name: str, key: str) -> Span:
        """Where a key of a named item stands in `set.yaml`, or the item where it was left out. Raises KeyError."""
        items = self.places.get(section)
        for item in items.items if isinstance(items, Sequence) else ():
            if isinstance(item, Mapping) and (named := item.get("name")) and named.value == name:
                return (item.get(key) or named).span
        raise KeyError(name)

    @property
    def taken(self) -> frozenset[str]:
        """Names that the package cannot have: those that the templates use, and the packages that they import."""
        imported = {module.partition(".")[0] for module in self.imports}
        return frozenset({*self.reserved, *imported} - {"{package}"})

    def argument(self, name: str) -> ArgumentType:
        """The argument type of that name. Raises KeyError."""
        return self._argument_types[name]

    def returned(self, name: str) -> ReturnType:
        """The return type of that name. Raises KeyError."""
        return self._return_types[name]

    def route(self, name: str) -> Route:
        """The route of that name. Raises KeyError."""
        return self._routes[name]

    def situation(self, name: str) -> Situation:
        """The situation of that name. Raises KeyError."""
        return self._situations[name]

    @cached_property
    def _argument_types(self) -> dict[str, ArgumentType]:
        return by_name(self.arguments)

    @cached_property
    def _return_types(self) -> dict[str, ReturnType]:
        return by_name(self.returns)

    @cached_property
    def _routes(self) -> dict[str, Route]:
        return by_name(self.routes)

    @cached_property
    def _situations(self) -> dict[str, Situation]:
        return by_name(self.situations)


class _Named(Protocol):
    @property
    def name(self) -> str: ...


Item = TypeVar("Item", bound=_Named)


def by_name(items: Iterable[Item]) -> dict[str, Item]:
    """The items by their names."""
    return {item.name: item for item in items}


def read_set(folder: Path, overlays: tuple[Path, ...] = ()) -> tuple[TemplateSet | None, tuple[Finding, ...]]:
    """The template set in a folder, with overlays over its templates, and what is wrong with its `set.yaml`."""
    from dispatchgen._shape import load, shown  # pydantic is slow to import, and the classes here do without it

    declared, node, findings = load(folder / "set.yaml", shown(folder / "set.yaml"), Declared)
    if declared is None or node is None:
        return None, in_order(findings)
    template_set = TemplateSet(**vars(declared), folder=folder, places=node, overlays=overlays)
    return template_set, in_order([*findings, *_check(template_set, node)])


_BACKEND_KEYS = ("name", "id", "cfg", "doc", "kernels", "transfer", "priority", "runtimes")
_OP_KEYS = ("name", "doc", "route", "args", "returns", "otherwise", "backward", "wrapper", "pair", "exceptions")


def _check(declared: Declared, node: Mapping) -> Iterator[Finding]:
    """What the shape alone cannot tell: repeated names, and names that nothing declares."""
    for section in (
        "capabilities",
        "wrappers",
        "backend_keys",
        "op_keys",
        "routes",
        "arguments",
        "returns",
        "situations",
        "guards",
    ):
        names = [item.name for item in getattr(declared, section)]
        yield from _repeated(names, [_place(node, section, index) for index in range(len(names))], section)
    backend_keys = [*by_name(declared.capabilities), *(wrapper.key for wrapper in declared.wrappers)]
    yield from _taken(declared.backend_keys, (*_BACKEND_KEYS, *backend_keys), node, "backend_keys")
    yield from _taken(declared.op_keys, _OP_KEYS, node, "op_keys")
    for index, route in enumerate(declared.routes):
        if route.argument not in by_name(declared.arguments):
            message = f"the route `{route.name}` takes an argument of type `{route.argument}`, which is not declared"
            fix = near(route.argument, by_name(declared.arguments))
            yield error("DG601", message, _place(node, "routes", index), fix=fix)
    for decision, situation in vars(declared.decisions).items():
        if situation not in by_name(declared.situations):
            message = f"the decision `{decision}` raises the situation `{situation}`, which is not declared"
            fix = near(situation, by_name(declared.situations))
            yield error("DG601", message, _place(node, "decisions", decision), fix=fix)
    capabilities = [*by_name(declared.capabilities)]
    brackets = {"engines": capabilities, "capable": capabilities}
    brackets |= {"wraps": [*by_name(declared.wrappers)], "keys": [*by_name(declared.backend_keys)]}
    for index, statement in enumerate(declared.statements):
        for wrong in problems(statement, brackets):
            yield error("DG604", wrong, _place(node, "statements", index))
    forms: list[tuple[str, int | str, str, tuple[str, ...]]] = [("binds", "", declared.binds or "", ("method",))]
    forms += [("imports", module, module, ("package",)) for module in declared.imports]
    for index, argument in enumerate(declared.arguments):
        texts = (argument.pass_, argument.adopt or "", argument.choice or "")
        forms += [("arguments", index, text, ("name", "op")) for text in texts]
    for index, returned in enumerate(declared.returns):
        forms += [("returns", index, returned.wrap, ("value",))]
        forms += [("returns", index, text, ("of",)) for text in (returned.public, returned.kernel)]
    for section, part, text, known in forms:
        for wrong in form_problems(text, *known):
            yield error("DG604", wrong, _place(node, section, part))
    for wrong in arm_problems(declared.arms) if declared.arms else ():
        yield error("DG604", wrong, _place(node, "arms", ""))
    for index, file in enumerate(declared.files):
        if problem := _bad_path(file):
            yield error("DG603", f"the path `{file.path}` {problem}", _place(node, "files", index))
    for index, starter in enumerate(declared.starter):
        if _leaves(starter.path):
            yield error("DG603", f"the path `{starter.path}` leaves the project", _place(node, "starter", index))


def _repeated(names: list[str], places: list[Span], section: str) -> Iterator[Finding]:
    first: dict[str, Span] = {}
    for name, place in zip(names, places, strict=True):
        if name in first:
            related = [Related(first[name], "first here")]
            yield error("DG602", f"`{name}` stands twice in `{section}`", place, related=related)
        first.setdefault(name, place)


def _taken(keys: Iterable[Key], taken: Collection[str], node: Mapping, section: str) -> Iterator[Finding]:
    for index, key in enumerate(keys):
        if key.name in taken:
            yield error("DG602", f"the key `{key.name}` has a meaning already", _place(node, section, index))


def _bad_path(file: OutputFile) -> str | None:
    """Why a file cannot have this path, or None."""
    if _leaves(file.path):
        return "leaves the package"
    if file.each and "{module}" not in file.path:
        return f"needs `{{module}}`: it is rendered for each {file.each}"
    if not file.each and "{" in file.path:
        return "has a field, and the file is rendered once"
    return None


def _leaves(name: str) -> bool:
    path = PurePosixPath(name)
    return path.is_absolute() or ".." in path.parts or "\\" in name or not path.parts


def _place(node: Mapping, section: str, part: int | str) -> Span:
    """The place of an item of a section, or of the section where that is not to be found."""
    items = node.get(section)
    if isinstance(items, Sequence) and isinstance(part, int):
        return items.items[part].span
    if isinstance(items, Mapping) and (value := items.get(str(part))):
        return value.span
    return (items or node).span
