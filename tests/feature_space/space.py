"""The feature sets of a catalog, and what each cell of the support matrix does in the build for one of them.

Every build is generated, imported and called. All kernels are recorders, so that an arm that forwards shows where to.
"""

from __future__ import annotations

import ast
import importlib
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, combinations
from pathlib import Path
from types import ModuleType
from typing import Any

from dispatchgen.plan import plan
from dispatchgen.render import render
from tests.feature_space.calls import Group, calls, device_of, tensor_on, text_of
from tests.feature_space.reader import Spec, Variant, read
from tests.feature_space.recorders import Reached, forget
from tests.feature_space.said import unsaid
from tests.shipped import ROOT, SPEC, build_of, catalog_of, template_set

LIMIT = 12
"""Up to this many features all of their sets are tried, and all pairs beyond."""
CATALOGS = ("shipped", "burn_2026_08", "burn_2026_09")
RECORDERS = "tests.feature_space.recorders"

Key = tuple[str, ...]
"""A cell: op, backend, runtime, wrapper and target, empty where it has none, and what it does."""


def prepare(name: str, folder: Path) -> Path:
    """The spec folder of a catalog. Burn's have its backends, and this project's operations and errors."""
    if name == "shipped":
        return SPEC
    spec = folder / name
    spec.mkdir(parents=True, exist_ok=True)
    shutil.copytree(SPEC / "ops", spec / "ops", dirs_exist_ok=True)
    shutil.copy(SPEC / "errors.yaml", spec / "errors.yaml")
    shutil.copy(ROOT / "tests" / "data" / "burn" / f"{name}.yaml", spec / "backends.yaml")
    return spec


def feature_sets(spec: Path, pairs: bool) -> list[tuple[str, ...]]:
    """Every set of features, or the empty one, every single one and every pair: where asked, and beyond the limit."""
    names = [name for name in read(spec / "backends.yaml")["features"] if name != "default"]
    most = 2 if pairs or len(names) > LIMIT else len(names)
    sets = chain.from_iterable(combinations(names, size) for size in range(most + 1))
    return [*sets, *([tuple(names)] if most == 2 else [])]


def generate(spec: Path, features: tuple[str, ...], package: str, out: Path, *, recorded: bool) -> ModuleType:
    """The package of a build, with a recorder for every kernel class."""
    catalog = replace(catalog_of(spec), package=package)
    if recorded:
        backends = tuple(replace(each, kernels=f"{RECORDERS}:{each.name}") for each in catalog.backends)
        catalog = replace(catalog, backends=backends)
    files, findings = render(plan(catalog, template_set(), build_of(catalog, *features, default=False)), template_set())
    assert not findings
    for file in files:
        path = out / package / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text, encoding="utf-8")
    importlib.invalidate_caches()
    return importlib.import_module(package)


@dataclass
class Found:
    """What one build did: the cells that were executed, those that should have been, and what went wrong."""

    executed: set[Key] = field(default_factory=set)
    expected: set[Key] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)

    def note(self, key: Key, what: str, problem: str | None) -> None:
        """Take down what came of the call for a cell."""
        self.expected.add(key)
        if problem is None:
            self.executed.add(key)
        else:
            self.wrong.append(f"{what}{f' to {key[4]}' if key[4] else ''}: {problem}")


def explore(spec_folder: Path, features: tuple[str, ...], out: Path, *, recorded: bool = True) -> Found:
    """Every cell of the build for some features, executed and compared with the second reader of the catalog."""
    package = "space_of_features"
    spec = Spec(spec_folder, features, kernels=recorded)
    found = Found()
    kept = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(out))
    try:
        pkg = generate(spec_folder, features, package, out, recorded=recorded)
        _arms(spec, out / package, found)
        for variant in spec.variants():
            if spec.built(*variant):
                _present(pkg, spec, variant, found)
            else:
                _absent(pkg, spec, variant, found)
    finally:
        sys.path.remove(str(out))
        sys.dont_write_bytecode = kept
        for name in [name for name in sys.modules if name.partition(".")[0] == package]:
            del sys.modules[name]
        shutil.rmtree(out / package, ignore_errors=True)
    return found


def _arms(spec: Spec, folder: Path, found: Found) -> None:
    """Each binder has exactly one arm for each variant of the build, and no other."""
    built = [variant for variant in spec.variants() if spec.built(*variant)]
    backends = list(dict.fromkeys(name.upper() for name, _ in built))
    wanted = {name.upper(): [each for other, each in built if other == name] for name, runtime in built if runtime}
    variants = importlib.import_module(f"{folder.name}._variants")
    known = {name.upper(): getattr(variants, f"{name}Runtime") for name, runtime in built if runtime}
    binders = set()
    for path in sorted((folder / "ops").glob("*.py")):
        for function in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(function, ast.FunctionDef) and function.name.startswith("bind_"):
                binders.add(function.name.removeprefix("bind_"))
                cases, inner = named_cases(function)
                runtimes = {name: [known[name][each].value for each in inner[name]] for name in inner}
                if cases != backends or runtimes != wanted:
                    found.wrong.append(f"{function.name} names {cases} and {inner}")
    methods = {method for _, op in spec.ops() for method in _methods(op)}
    if binders != methods:
        found.wrong.append(f"there are binders of {sorted(binders ^ methods)} too many or too few")


def _methods(op: Any) -> tuple[str, ...]:
    return (op["pair"]["out"], op["pair"]["into"]) if "pair" in op else (op["name"],)


def named_cases(function: ast.FunctionDef) -> tuple[list[str], dict[str, list[str]]]:
    """The backends that the match of a binder names, and for each the runtimes that the match inside names."""

    def names(match: ast.Match) -> list[str]:
        return [each.pattern.value.attr for each in match.cases if isinstance(each.pattern, ast.MatchValue)]  # type: ignore[attr-defined]

    outer = next((each for each in function.body if isinstance(each, ast.Match)), None)
    if outer is None:
        return [], {}
    inner = {}
    for case in outer.cases:
        found = [each for each in case.body if isinstance(each, ast.Match)]
        if found:
            inner[case.pattern.value.attr] = names(found[0])  # type: ignore[attr-defined]
    return names(outer), inner


def _present(pkg: ModuleType, spec: Spec, variant: Variant, found: Found) -> None:
    """Every op on a variant that is in the build, plain and wrapped."""
    plain = device_of(pkg, *variant)
    for wrapped in (False, True) if spec.wraps(variant[0]) and spec.wrapped else (False,):
        device = pkg.autodiff(plain) if wrapped else plain
        inside = Group(device).own
        for family, op in spec.ops():
            for target in spec.backends if "pair" in op else (None,):
                arm = spec.arm(family, op, variant, wrapped, target)
                key = (op["name"], variant[0], variant[1] or "", "wrapped" * wrapped, target or "", *arm[:2])
                where = inside if arm[0] == "kernel" and op.get("context") else device
                tensor = tensor_on(pkg, where, tracked=bool(op.get("wrapper")) and wrapped)
                call = calls(pkg, where, tensor, _target(pkg, spec, target), [where])[op["name"]]
                named = _runtimes(spec, target)[0] if target and arm[0] == "absent" else None
                found.note(key, f"{op['name']} on {device}", _wrong(call, pkg, spec, op, device, arm, named))


def _runtimes(spec: Spec, backend: str) -> list[str | None]:
    return [runtime for name, runtime in spec.variants() if name == backend]


def _target(pkg: ModuleType, spec: Spec, target: str | None) -> Any:
    """A device of the target that no source is equal to, or its name where the build leaves it out."""
    if target is None:
        return None
    runtimes = _runtimes(spec, target)
    for runtime in runtimes:
        if spec.built(target, runtime):
            return device_of(pkg, target, runtime).replace(index=1)
    return text_of(pkg, target, runtimes[0])


def _absent(pkg: ModuleType, spec: Spec, variant: Variant, found: Found) -> None:
    """Every op on a variant that the build leaves out: a text names it, and no tensor of it can be had."""
    backend, runtime = variant
    text = text_of(pkg, backend, runtime)
    for _, op in spec.ops():
        call = calls(pkg, text, lambda: tensor_on(pkg, pkg.device(text)), devices=[text])[op["name"]]
        key = (op["name"], backend, runtime or "", "", "", "absent", "not_built")
        found.note(
            key, f"{op['name']} on {text}", _wrong(call, pkg, spec, op, None, ("absent", "not_built", backend), runtime)
        )


def _wrong(
    call: Callable[[], object],
    pkg: ModuleType,
    spec: Spec,
    op: Any,
    device: Any,
    arm: tuple[str, str, str],
    runtime: str | None = None,
) -> str | None:
    """What is wrong with what a call does, or None."""
    kind, what, who = arm
    forget()
    try:
        value = call()
    except Reached as reached:
        there = device is not None and reached.steps[0][1].runtime == device.runtime
        return None if kind == "kernel" and str(reached) == what and there else f"it reaches {reached}, not {arm}"
    except pkg.DispatchError as error:
        if kind not in ("error", "absent") or type(error).__name__ != spec.classes[what]:
            return f"it raises {type(error).__name__}, not {arm}"
        return unsaid(error, spec, op["name"], who, runtime, placed=device is not None)
    except Exception as error:
        return f"it fails with {type(error).__name__}: {error}"
    answer = {"none": None, "false": False}
    return None if kind == "value" and value is answer[what] else f"it gives {value!r}, not {arm}"


def cells_of(spec: Spec) -> Iterator[Key]:
    """Every cell of the catalog, whatever the build: op, backend, runtime, wrapper, target."""
    for _, op in spec.ops():
        for backend, runtime in spec.variants():
            for wrapper in ("", "wrapped") if spec.wraps(backend) else ("",):
                for target in spec.backends if "pair" in op else ("",):
                    yield op["name"], backend, runtime or "", wrapper, target
