"""Build the wheel, install it into an empty environment, and use all three ways in from there.

Run as a program by CI, because it makes environments: `python tests/packaging/wheel.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import torch
import torchdispatch as td

def total(device):
    return td.all_reduce(torch.tensor([2.0, 5.0]) * (device.rank + 1), td.ReduceOperation.SUM).resolve().tolist()

with td.DistributedContext([td.Cpu(0), td.Cpu(1)]) as context:
    assert context.run(total) == [[6.0, 15.0], [6.0, 15.0]]
import sys
loaded = {name for name in ("jinja2", "yaml", "black", "pydantic", "typer", "rich") if name in sys.modules}
assert not loaded, f"the package imported parts of the generator's libraries: {loaded}"
"""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="dispatchgen-wheel-") as name:
        folder = Path(name)
        subprocess.run([sys.executable, "-m", "build", "--outdir", str(folder / "dist"), str(ROOT)], check=True)
        wheel = next((folder / "dist").glob("*.whl"))
        contents(wheel)
        python = environment(folder / "generator")
        pip(python, str(wheel))
        generator(python, folder)
        print("without torch: generate, check, matrix and explain work")
        pip(python, f"{wheel}[torch]", "torch==2.13.0")
        subprocess.run([python, "-c", PROGRAM], cwd=folder, check=True, env=clean())
        print("with torch: two devices reduce")
    print("the wheel works in an empty environment")


def contents(wheel: Path) -> None:
    """Every file that the three packages and their data have in the checkout is in the wheel."""
    inside = set(zipfile.ZipFile(wheel).namelist())
    wanted = {}
    for source, target in {
        "generator/dispatchgen": "dispatchgen",
        "runtime/dispatch_runtime": "dispatch_runtime",
        "generated/torchdispatch": "torchdispatch",
        "spec": "dispatchgen/_data/spec",
        "templates": "dispatchgen/_data/templates",
    }.items():
        listed = subprocess.run(["git", "ls-files", source], cwd=ROOT, check=True, capture_output=True, text=True)
        for path in listed.stdout.splitlines():
            wanted[path] = path.replace(source, target, 1)
    missing = sorted(path for path, target in wanted.items() if target not in inside)
    assert wanted, "git lists no files"
    assert not missing, f"the wheel lacks {missing}"


def environment(folder: Path) -> str:
    venv.create(folder, with_pip=True)
    return str(folder / "bin" / "python")


def clean() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}


def pip(python: str, *what: str) -> None:
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what]
    subprocess.run(command, check=True, env=clean())


def generator(python: str, folder: Path) -> None:
    """The generator makes the committed package again, from the data inside the wheel and without torch."""
    spec = subprocess.run(
        [python, "-c", "from dispatchgen._resources import data_root; print(data_root() / 'spec')"],
        check=True,
        capture_output=True,
        text=True,
        cwd=folder,
        env=clean(),
    ).stdout.strip()

    def dispatchgen(*arguments: str) -> str:
        command = [python, "-m", "dispatchgen", *arguments]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=clean())
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    out = folder / "out"
    dispatchgen("generate", "--spec", spec, "--out", str(out))
    dispatchgen("check", "--spec", spec, "--out", str(out))
    for path in sorted((ROOT / "generated").rglob("*.py")):
        made = out / path.relative_to(ROOT / "generated")
        assert made.read_bytes() == path.read_bytes(), f"{path} differs from what the wheel generates"
    cells = json.loads(dispatchgen("matrix", "--spec", spec, "--format", "json"))["cells"]
    assert any(cell["op"] == "all_reduce" and cell["arm"] == "kernel" for cell in cells)
    assert "TD101" in dispatchgen("explain", "TD101", "--spec", spec)
    assert subprocess.run([python, "-c", "import torch"], check=False, capture_output=True, env=clean()).returncode != 0


if __name__ == "__main__":
    main()
