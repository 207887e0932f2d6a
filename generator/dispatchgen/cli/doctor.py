"""`dispatchgen doctor`: what is here, and what each feature would give on this machine."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dispatchgen.cli import _inputs
from dispatchgen.cli._problem import Problem
from dispatchgen.cli._report import Piece, Report, counted, tell
from dispatchgen.cli.explain import ExplainFormat
from dispatchgen.findings import has_errors

if TYPE_CHECKING:
    from dispatchgen.findings import Finding
    from dispatchgen.model.catalog import Backend
    from dispatchgen.template_set import TemplateSet

FormatOption = Annotated[ExplainFormat, typer.Option("--format", help="How it is told.")]

TOOLS = ("black", "jinja2", "pydantic", "PyYAML", "typer", "rich", "filelock")
"""The distributions that the generator stands on."""


@dataclass(frozen=True)
class Place:
    """Something that a run needs, where it is, and what is to be said about it."""

    name: str
    path: str
    found: bool
    note: str = ""


@dataclass(frozen=True)
class Answer:
    """What the probe says about a backend, or one runtime of it; `devices` is None where it does not know."""

    name: str
    feature: str
    """The features that would bring it in, or empty where it is in the build."""
    devices: int | None
    missing: str


def doctor(
    spec: _inputs.Spec = None,
    templates: _inputs.Templates = None,
    out: _inputs.Out = None,
    package: _inputs.Package = None,
    features: _inputs.Features = None,
    no_default_features: _inputs.NoDefault = False,
    all_features: _inputs.AllFeatures = False,
    overlay: _inputs.Overlays = None,
    format: FormatOption = ExplainFormat.TEXT,
) -> None:
    """Say what is found here (tools, folders, cache), and what this machine has for each backend of the catalog.

    Example: dispatchgen doctor --format json
    """
    from dispatchgen.template_set import read_set

    settings = _inputs.settings(spec, templates, out, package, features, no_default_features, all_features, overlay)
    inputs: _inputs.Inputs | None = None
    findings: tuple[Finding, ...] = ()
    try:
        inputs, findings = _inputs.read(settings)
        note = counted(findings) if inputs is None else _size(inputs)
    except Problem as problem:
        note = str(problem)
    template_set, _ = read_set(settings.templates, settings.template_overlays)
    places = [
        Place("spec", str(settings.spec), settings.spec.is_dir(), note),
        Place("templates", str(settings.templates), True, template_set.doc if template_set else "set.yaml is broken"),
        *(Place("overlay", str(path), path.is_file()) for path in settings.overlays),
        *([_package(settings, inputs)] if inputs else []),
        _cache(),
    ]
    facts, why = _probed(settings, template_set, inputs)
    answers = list(_answers(inputs, facts)) if inputs else []
    if format is ExplainFormat.JSON:
        value = {
            "version": 1,
            "python": platform.python_version(),
            "platform": platform.platform(terse=True),
            "tools": _tools(),
            "places": [vars(place) for place in places],
            "probe": {"facts": facts, "why_not": why or None},
            "backends": [vars(answer) for answer in answers],
        }
        print(json.dumps(value, indent=2, ensure_ascii=False, default=str))
    else:
        tell(Report((), tuple(_told(places, facts, why, answers))))
    raise typer.Exit(int(has_errors(findings)))


def _size(inputs: _inputs.Inputs) -> str:
    catalog = inputs.catalog
    return f"{len(catalog.backends)} backends, {len(catalog.ops)} operations, {len(catalog.features)} features"


def _package(settings: _inputs.Settings, inputs: _inputs.Inputs) -> Place:
    from dispatchgen.manifest import NAME, read

    folder = settings.out / inputs.catalog.package
    manifest, damage = read(folder / NAME, str(folder / NAME))
    if manifest is None:
        return Place("package", str(folder), folder.is_dir(), damage[0].message if damage else "not generated yet")
    on = ", ".join(manifest.features) or "no features"
    return Place("package", str(folder), True, f"{len(manifest.files) + 1} files by {manifest.generator}, with {on}")


def _cache() -> Place:
    from dispatchgen.cache import FolderCache, user_cache

    cache = user_cache(os.environ)
    if not isinstance(cache, FolderCache):
        return Place("cache", "", True, "none: DISPATCHGEN_CACHE is empty, so everything is formatted anew")
    nearest = next((folder for folder in (cache.folder, *cache.folder.parents) if folder.exists()), Path())
    writable = os.access(nearest, os.W_OK)
    note = "" if writable else "cannot be written, so everything is formatted anew"
    return Place("cache", str(cache.folder), cache.folder.is_dir(), note)


def _tools() -> dict[str, str]:
    from importlib.metadata import version

    from dispatchgen import __version__

    return {"dispatchgen": __version__, **{name: version(name) for name in TOOLS}}


def _probed(
    settings: _inputs.Settings, template_set: TemplateSet | None, inputs: _inputs.Inputs | None
) -> tuple[Mapping[str, Any] | None, str]:
    """The facts of the probe, or why there are none."""
    from dispatchgen.probe import probe

    if template_set is None:
        return None, "the template set cannot be read; `dispatchgen check` says why"
    if template_set.probe is None:
        return None, f"the template set {template_set.name} has no probe"
    backends = inputs.catalog.backends if inputs else ()
    kernels = {name: backend.kernels for backend in backends if backend.kernels for name in _names(backend)}
    facts, why = probe(template_set.probe, kernels, _inputs.source_roots(settings))
    return facts, why and f"{template_set.probe} cannot tell: {why}"


def _answers(inputs: _inputs.Inputs, facts: Mapping[str, Any] | None) -> Iterator[Answer]:
    """One for each backend and runtime of the catalog, in its order."""
    from dispatchgen.features import missing

    known = (facts or {}).get("backends")
    known = known if isinstance(known, dict) else {}
    for backend in inputs.catalog.backends:
        needed = ", ".join(missing(inputs.build, backend.cfg))
        gone = needed or ("" if inputs.build.holds(backend.cfg) else "no feature brings it in")
        for name in _names(backend):
            said = known.get(name)
            said = said if isinstance(said, dict) else {}
            devices = said.get("devices")
            missing_ = str(said.get("missing") or "") if said else "the probe does not know it" if known else ""
            yield Answer(name, gone, devices if isinstance(devices, int) else None, missing_)


def _names(backend: Backend) -> list[str]:
    return [f"{backend.name}[{runtime.name}]" for runtime in backend.runtimes] or [backend.name]


def _told(
    places: list[Place], facts: Mapping[str, Any] | None, why: str, answers: list[Answer]
) -> Iterator[tuple[Piece, ...]]:
    yield ((f"Python {platform.python_version()} on {platform.platform(terse=True)}", "bold"),)
    yield ((", ".join(f"{name} {number}" for name, number in _tools().items()), ""),)
    yield ()
    for place in places:
        mark, style = ("found  ", "green") if place.found else ("missing", "yellow")
        note = f"  {place.note}" if place.note else ""
        yield (
            (f"{place.name:<10} ", "bold"),
            (mark, style),
            (f"  {place.path}" if place.path else "", ""),
            (
                note,
                "dim",
            ),
        )
    yield ()
    if facts is None:
        yield ((f"this machine: unknown. {why}", "yellow"),)
    else:
        for name, value in facts.items():
            if name != "backends":
                yield (f"{name:<10} ", "bold"), (_plain(value), "")
    yield ()
    width = max((len(answer.name) for answer in answers), default=0)
    for answer in answers:
        devices = "?" if answer.devices is None else str(answer.devices)
        style = "green" if answer.devices else "dim"
        build = f"needs {answer.feature}" if answer.feature else "in the build"
        yield (
            (f"{answer.name:<{width}}  ", "bold"),
            (f"{devices:>2} device{' ' if devices == '1' else 's'}  ", style),
            (f"{build:<14}  ", "" if not answer.feature else "yellow"),
            (answer.missing, "dim"),
        )
    yield from _gains(answers)


def _gains(answers: list[Answer]) -> Iterator[tuple[Piece, ...]]:
    """What features that are off would bring on this machine."""
    for answer in answers:
        if answer.feature and answer.devices:
            yield ("help", "bold green"), (f": feature {answer.feature} would give {answer.name} here", "")


def _plain(value: Any) -> str:
    """A fact in words: the names that are true, each key with its value, or the value itself."""
    if isinstance(value, dict) and all(isinstance(each, bool) for each in value.values()):
        on = [name for name, yes in value.items() if yes]
        off = [name for name, yes in value.items() if not yes]
        return (", ".join(on) or "none") + (f" (not {', '.join(off)})" if off else "")
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(each)}" for name, each in value.items())
    return "none" if value is None else "yes" if value is True else "no" if value is False else str(value)
