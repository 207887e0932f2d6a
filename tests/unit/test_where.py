"""From generated lines back to templates and YAML, on the shipped catalog and on texts that the formatter turned over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from dispatchgen.cache import FolderCache
from dispatchgen.format import format_files
from dispatchgen.model.catalog import Catalog
from dispatchgen.plan import PlannedFile, plan
from dispatchgen.render import render
from dispatchgen.source import Span
from dispatchgen.template_set import TemplateSet
from dispatchgen.where import Answer, Trace, trace
from tests import shipped

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Package:
    """The shipped package as it would be generated now."""

    catalog: Catalog
    template_set: TemplateSet
    planned: Mapping[str, PlannedFile]
    texts: Mapping[str, str]
    traces: dict[str, Trace] = field(default_factory=dict)

    def at(self, path: str, number: int, text: str | None = None) -> Answer:
        if path not in self.traces:
            self.traces[path] = trace(self.planned[path], self.template_set)
        return self.traces[path].behind(number, text or self.texts[path], self.catalog)

    def of(self, path: str, line: str, after: str = "") -> Answer:
        """What is behind the first line that reads so, after one that has other words in it."""
        lines = self.texts[path].splitlines()
        start = next(index for index, each in enumerate(lines) if after in each)
        number = next(index for index, each in enumerate(lines) if index >= start and each.strip() == line) + 1
        return self.at(path, number)


@pytest.fixture(scope="module")
def package(request: pytest.FixtureRequest) -> Package:
    template_set, catalog = shipped.template_set(), shipped.catalog_of()
    build = shipped.build_of(catalog)
    planned = plan(catalog, template_set, build)
    cache = FolderCache(Path(request.config.cache.mkdir("dispatchgen")))
    formatted, findings = format_files(render(planned, template_set, cache)[0], cache)
    assert findings == ()
    files = {file.path: file for file in planned.files}
    return Package(catalog, template_set, files, {file.path: file.text for file in formatted})


def text_at(span: Span) -> str:
    return Path(span.file).read_text(encoding="utf-8").split("\n")[span.line - 1]


def told(answer: Answer) -> tuple[list[str], list[str]]:
    """The template lines, and the lines of the spec with what they are said to be."""
    templates = [f"{Path(span.file).name}: {text_at(span).strip()}" for span in answer.templates]
    return templates, [f"{origin.what}: {text_at(origin.span).strip()}" for origin in answer.origins]


def test_marks_change_nothing_and_reach_everything(package: Package) -> None:
    for path, planned in package.planned.items():
        found = trace(planned, package.template_set)
        assert len(found.pieces) > 1 or not found.text, path
        assert "\ue000" not in found.text


def test_templates_that_marks_disturb_are_told_of_as_a_whole(tmp_path: Path, package: Package) -> None:
    (tmp_path / "odd.jinja").write_text(
        "{% set body %}ab{% endset %}\n{% for _ in body %}\nx\n{% endfor %}\n{{ body[1:] }}\n"
    )
    odd = PlannedFile("odd.txt", "odd.jinja", {}, "")
    found = trace(odd, replace(package.template_set, folder=tmp_path))
    assert found.text == "x\nx\nb\n"
    answer = found.behind(2, found.text, package.catalog)
    assert [Path(span.file).name for span in answer.templates] == ["odd.jinja"]


def test_a_macro_that_answers_a_question_still_does(tmp_path: Path, package: Package) -> None:
    (tmp_path / "asks.jinja").write_text(
        "{% macro is_odd(n) %}{{ 'yes' if n % 2 else '' }}{% endmacro %}\n"
        "{% for n in range(3) %}{% if not is_odd(n) and is_odd(n + 1) %}even{% else %}odd{% endif %} \n"
        "{{ 'big' if is_odd(n) == '' else 'small' }}{% set odd = is_odd(n) %}{{ odd if odd else 'no' }}\n{% endfor %}\n"
    )
    found = trace(PlannedFile("x", "asks.jinja", {}, ""), replace(package.template_set, folder=tmp_path))
    assert found.text.split() == ["even", "bigno", "odd", "smallyes", "even", "bigno"]
    assert len(found.pieces) > 6


def test_an_arm(package: Package) -> None:
    templates, spec = told(package.of("ops/collective.py", "case k.METAL:", after="def bind_broadcast"))
    assert templates == ["family.py.jinja: case k.{{ arm.constant }}:"]
    assert spec == ["backend Metal: - name: Metal", "op broadcast: - name: broadcast"]


def test_a_refusal(package: Package) -> None:
    lines = package.texts["ops/collective.py"].splitlines()
    start = lines.index("def bind_broadcast(device: Device) -> BroadcastArm:")
    metal = lines.index("        case k.METAL:", start)
    templates, spec = told(package.at("ops/collective.py", metal + 2))
    assert len(templates) == 1
    assert templates[0].startswith("_arm.jinja: return arms.refuse(")
    assert spec == ["backend Metal: - name: Metal", "op broadcast: - name: broadcast"]


def test_an_arm_of_a_runtime(package: Package) -> None:
    templates, spec = told(package.of("ops/collective.py", "case k.LibTorchRuntime.MTIA:", after="def bind_barrier"))
    assert templates == ["family.py.jinja: case k.{{ arm.backend }}Runtime.{{ runtime.constant }}:"]
    assert spec == [
        "runtime mtia: - {name: mtia}",
        "backend LibTorch: - name: LibTorch",
        "op barrier: - name: barrier",
    ]


def test_a_forward_that_the_formatter_split(package: Package) -> None:
    for line in ("pending = kernel.broadcast(", "timeout,"):
        templates, spec = told(package.of("ops/collective.py", line, after="def _forward_broadcast"))
        assert templates[0].startswith("_arm.jinja: pending = kernel.{{ op.name }}({{ op.kernel_call }})")
        assert any(each.startswith("op broadcast") for each in spec)


def test_lines_of_a_docstring(package: Package) -> None:
    for line in (
        '"""Give every device the root\'s tensor.',
        "root: The device whose value counts.",
    ):
        templates, spec = told(package.of("ops/collective.py", line, after="def broadcast("))
        assert templates == ["_arm.jinja: {{ op.docstring | docstring(4) }}"]
        assert spec == ["op broadcast: doc: doc: Give every device the root's tensor."]


def test_values_of_a_backend(package: Package) -> None:
    _, spec = told(package.of("support.py", "priority=10,"))
    assert spec == ["backend Cuda: priority: priority: 10"]
    _, spec = told(package.of("support.py", "id=7,"))
    assert spec == ["backend Metal: id: id: 7"]
    _, spec = told(package.of("support.py", 'kernels="dispatch_runtime.backends.metal:Metal",'))
    assert spec == ["backend Metal: kernels: kernels: dispatch_runtime.backends.metal:Metal"]


def test_texts_of_an_error(package: Package) -> None:
    _, spec = told(package.of("errors.py", 'code="TD101",'))
    assert spec == ["error TD101: code: - code: TD101"]
    _, spec = told(package.of("errors.py", "exception=NotCapable,"))
    assert spec == ["error TD101: class: class: NotCapable"]
    _, spec = told(package.of("errors.py", "class Unavailable(DispatchError):"))
    assert spec == ["error TD103: class: class: Unavailable"]


def test_a_guard(package: Package) -> None:
    def guard(line: str) -> list[str]:
        return told(package.of("guards.py", line))[1]

    assert guard("return guards.is_available(PACKAGE, device)") == [
        "guard is_available: returns: returns: bool",
        "guard is_available: value: value: 'guards.is_available(PACKAGE, device)'",
    ]
    assert guard('"""Whether the device is in this build and can be had on this machine.') == [
        "guard is_available: doc: doc: Whether the device is in this build and can be had on this machine."
    ]
    assert guard("def is_available(device: DeviceLike) -> bool:") == [
        "guard is_available: parameters: parameters: 'device: DeviceLike'",
        "guard is_available: returns: returns: bool",
    ]


def test_a_header_and_an_import(package: Package) -> None:
    templates, spec = told(package.at("ops/collective.py", 1))
    assert templates == ["family.py.jinja: {{ header }}"]
    assert spec == ["family CollectiveOps: family: CollectiveOps"]
    templates, _ = told(package.of("ops/collective.py", "from torchdispatch.kernels import cpu as cpu_kernels"))
    assert templates == ["family.py.jinja: from {{ package }}.kernels import {{ module }} as {{ module }}_kernels"]


@pytest.mark.parametrize("path", ["ops/distributed.py", "ops/transfer.py", "errors.py", "__init__.py", "guards.py"])
def test_every_line_with_text_comes_from_somewhere(package: Package, path: str) -> None:
    lines = package.texts[path].splitlines()
    numbers = [number for number, line in enumerate(lines, 1) if line.strip(" ()[]{},:")]
    for number in numbers[:: max(len(numbers) // 12, 1)]:
        answer = package.at(path, number)
        assert answer.templates, f"{path}:{number}: {lines[number - 1]}"
        words = {Path(span.file).name for span in answer.templates}
        assert words <= {Path(package.planned[path].template).name, "_arm.jinja"}


def test_a_file_that_somebody_edited(package: Package) -> None:
    lines = package.texts["support.py"].splitlines()
    number = lines.index("        priority=10,")
    edited = "\n".join([*lines[:5], "mine = 1 + 2", *lines[5:]]) + "\n"
    assert told(package.at("support.py", number + 2, edited))[1] == ["backend Cuda: priority: priority: 10"]
    assert package.at("support.py", 6, edited) == Answer((), ())
    broken = "\n".join([*lines[: number + 1], "(((", *lines[number + 1 :]]) + "\n"
    assert isinstance(package.at("support.py", 1, broken), Answer)
