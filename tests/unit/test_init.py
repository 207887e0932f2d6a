"""A new project is complete: it generates, checks clean, runs, and takes a backend and an operation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dispatchgen.cli import main

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISPATCHGEN_CACHE", str(request.config.cache.mkdir("dispatchgen")))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.syspath_prepend(str(ROOT / "runtime"))  # as where it is installed


def python(*arguments: str, cwd: Path) -> str:
    path = os.pathsep.join(map(str, (cwd / "generated", cwd / "src", ROOT / "runtime", ROOT / "generator")))
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_a_new_project_generates_checks_clean_and_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "my-layer"]) == 0
    project = tmp_path / "my-layer"
    assert {"README.md", "pyproject.toml", "spec/backends.yaml", "src/my_layer_kernels/cpu.py"} <= files(project)
    monkeypatch.chdir(project)
    capsys.readouterr()
    assert main(["generate"]) == 0
    assert main(["check", "--deny", "warnings"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("up to date")
    assert main(["schema", "--check"]) == 0
    example = (project / "README.md").read_text().split("```python\n")[1].split("```")[0]
    assert python("-c", example, cwd=project) == "tensor([2., 2.])\n"
    assert python("-m", "ruff", "check", "--isolated", "src", cwd=project)


def test_distributing_a_module_works_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["init", "layer"]) == 0
    monkeypatch.chdir(tmp_path / "layer")
    assert main(["generate"]) == 0
    program = """
import torch, layer

def train(device):
    torch.manual_seed(0)
    model = layer.distribute(torch.nn.Linear(2, 1, bias=False), context)
    model(torch.full((1, 2), float(device.rank + 1))).sum().backward()
    return model.weight.grad.tolist()

with layer.DistributedContext([layer.Cpu(0), layer.Cpu(1)]) as context:
    print(context.run(train))
"""
    assert python("-c", program, cwd=tmp_path / "layer") == "[[[1.5, 1.5]], [[1.5, 1.5]]]\n"


def test_a_backend_and_an_operation_are_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "layer"]) == 0
    project = tmp_path / "layer"
    monkeypatch.chdir(project)
    assert main(["add-backend", "Far", "--kernels", "layer_kernels.far:Far", "--capability", "gloo"]) == 0
    assert main(["add-op", "arithmetic", "twice", "--route", "tensor", "--arg", "t:tensor", "--returns", "tensor"]) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("to do")]
    assert [line.split("`")[1] for line in told] == [
        "def add(self, tensor: torch.Tensor, other: torch.Tensor) -> torch.Tensor:",
        "def twice(self, t: torch.Tensor) -> torch.Tensor:",
        "def twice(self, t: torch.Tensor) -> torch.Tensor:",
    ]
    assert all(line.endswith("its names come by `import torch`") for line in told)
    assert main(["generate"]) == 0
    assert main(["check"]) == 1
    far, cpu = project / "src/layer_kernels/far.py", project / "src/layer_kernels/cpu.py"
    twice = "\n    def twice(self, t: torch.Tensor) -> torch.Tensor:\n        return 2 * t\n"
    add = "\n    def add(self, tensor: torch.Tensor, other: torch.Tensor) -> torch.Tensor:\n        return tensor + other\n"
    cpu.write_text(cpu.read_text() + twice)
    far.write_text(far.read_text().replace("annotations\n", "annotations\n\nimport torch\n") + twice + add)
    assert main(["check", "--deny", "warnings"]) == 0
    program = "import layer, torch; print(layer.to_torch(layer.twice(layer.from_torch(torch.ones(1), layer.Far(0)))))"
    assert python("-c", program, cwd=project) == "tensor([2.])\n"


def test_an_overlay_over_the_shipped_catalog(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.dispatchgen]\nspec = "shipped"\noverlays = ["far.yaml"]\nsources = ["src"]\n'
    )
    call = ["add-backend", "Far", "--kernels", "far_kernels:Far", "--capability", "gloo"]
    (tmp_path / "far.yaml").write_text("version: 1\n")
    assert main(call) == 2
    assert "the shipped catalog is not changed: write to an overlay with --into FILE" in capsys.readouterr().err
    (tmp_path / "far.yaml").unlink()
    assert main([*call, "--into", "far.yaml"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "wrote   far.yaml",
        "wrote   src/far_kernels.py",
        "next: dispatchgen generate; dispatchgen check",
    ]
    assert main(["generate"]) == 0
    assert main(["check"]) == 0
    assert python("-c", "import torchdispatch as td; print(td.Far(0))", cwd=tmp_path) == "Far(0)\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["full"], "full is not empty; name a new folder, or an empty one"),
        (["new/../full"], "new/../full is not empty; name a new folder, or an empty one"),
        (["file"], "file is a file; name a new folder, or an empty one"),
        (["x", "--package", "class"], "the package cannot be called 'class': that is a keyword of Python"),
        (["json"], "the package cannot be called 'json': that is a module of Python's standard library"),
        (["é"], "'é' is no name for a package of Python: choose one in ASCII letters with --package"),
        (["café"], "'café' is no name for a package of Python: choose one in ASCII letters with --package"),
        (["--", "-"], "'-' is no name for a package of Python: choose one in ASCII letters with --package"),
        (["x", "--package", "é"], "the package cannot be called 'é': that is no ASCII identifier"),
        (["x", "--package", "a-b"], "the package cannot be called 'a-b': that is no ASCII identifier"),
        (["dispatch_runtime"], "'dispatch_runtime': that is a name that the generated modules use themselves"),
        (["torch"], "'torch': that is a name that the generated modules use themselves"),
        (["con"], "'con': that becomes a file `con`, which is a device on Windows"),
        (["1st"], "the package cannot be called '1st': that is no ASCII identifier; name it with --package"),
        (["x", "--templates", "nowhere"], "'nowhere' is neither a folder nor a shipped template set"),
        (
            ["x", "--templates", str(ROOT / "tests/cases/_base/templates")],
            "does not say what a new project begins with",
        ),
    ],
)
def test_what_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    (tmp_path / "file").write_text("")
    before = files(tmp_path)
    assert main(["init", *arguments]) == 2
    assert words in capsys.readouterr().err
    assert files(tmp_path) == before


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    assert main(["init", "here", "--package", "other"]) == 0
    assert "package: other\n" in (tmp_path / "here/spec/backends.yaml").read_text()
