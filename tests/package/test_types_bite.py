"""A gap in the generated package or in a kernel class is an error for the type checker, at the place where it hurts."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

import pytest

from benchmarks import types_bite
from tests.package.builds import type_check
from tests.shipped import ROOT

Line = tuple[str, str]
"""The file of an error, and its text."""


def cut(path: Path, *ends: tuple[str, ...]) -> None:
    """Delete the pieces of a Python file that these paths of names lead to; a case goes by its pattern."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    for names in ends:
        node: ast.AST = ast.parse(text)
        for name in names:
            node = next(each for each in ast.walk(node) if name in (getattr(each, "name", None), case_of(each)))
        first, last = (node.pattern.lineno, node.body[-1].end_lineno) if isinstance(node, ast.match_case) else (node.lineno, node.end_lineno)  # type: ignore[attr-defined]
        for line in range(first - 1, last):
            lines[line] = ""
    path.write_text("".join(lines), encoding="utf-8")


def case_of(node: ast.AST) -> str | None:
    return ast.unparse(node.pattern) if isinstance(node, ast.match_case) else None


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> list[Line]:
    """What mypy says about copies of the package and the runtime with one gap of each kind."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "generated" / "torchdispatch", folder / "torchdispatch")
    shutil.copytree(ROOT / "runtime" / "dispatch_runtime", folder / "dispatch_runtime")
    package, runtime = folder / "torchdispatch", folder / "dispatch_runtime"
    cut(package / "ops" / "distributed.py", ("bind_sync_collective", "k.XPU"))
    cut(package / "ops" / "distributed.py", ("bind_start_communication_server", "k.LibTorchRuntime.NPU"))
    cut(package / "ops" / "collective.py", ("bind_broadcast",))
    cut(package / "guards.py", ("ensure_supported",))
    cut(runtime / "backends" / "_c10d.py", ("CollectiveKernels", "all_gather"))
    cut(runtime / "backends" / "ndarray.py", ("NdArray", "import_tensor"))
    found = type_check(folder, ["torchdispatch"], folder)
    assert found.returncode == 1, found.stdout + found.stderr
    return [(match[1], match[2]) for match in re.finditer(r"^(.+?):\d+: error: (.*)$", found.stdout, re.MULTILINE)]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        pytest.param("ops/distributed.py", r'"assert_never" has incompatible type .*XPU', id="case"),
        pytest.param("ops/distributed.py", r'"assert_never" has incompatible type .*NPU', id="case-of-a-runtime"),
        pytest.param("dispatch.py", r'has no attribute "bind_broadcast"', id="bind-function"),
        pytest.param("__init__.py", r'has no attribute "ensure_supported"', id="guard"),
        pytest.param("ops/collective.py", r'expected "Callable.*AllGatherKernel', id="method-of-several-kernels"),
    ],
)
@pytest.mark.slow
def test_what_is_deleted_is_missed(errors: list[Line], file: str, text: str) -> None:
    assert [each for each in errors if each[0] == f"torchdispatch/{file}" and re.search(text, each[1])], errors


def test_a_method_that_a_base_class_has_too_is_not_missed_and_every_kernel_is_named(errors: list[Line]) -> None:
    """Cpu, Cuda, Rocm, Xpu and LibTorch forward `all_gather`; NdArray inherits `import_tensor` from its base."""
    missing = [text for file, text in errors if file == "torchdispatch/ops/collective.py" and "AllGatherKernel" in text]
    assert {re.findall(r"\[Device\], (\w+)\]", text)[0] for text in missing} == {
        "Cpu",
        "Cuda",
        "Rocm",
        "Xpu",
        "LibTorch",
    }
    assert not [text for file, text in errors if file == "torchdispatch/ops/transfer.py"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_sample_of_all_deletions_is_caught(tmp_path: Path) -> None:
    """All of them: `python -m benchmarks.types_bite`."""
    *_, outcome = types_bite.run(tmp_path, sample=12)
    assert sum(outcome.tried.values()) == 12
    assert outcome.missed == []
