"""A dispatch layer of any size: a catalog of backends that all compute with torch, written and generated on the fly."""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
from pathlib import Path
from types import ModuleType

from dispatchgen.cli import main

ROOT = Path(__file__).resolve().parent.parent

KERNELS = '''\
"""The kernels of every backend of the benchmark."""

from __future__ import annotations

from typing import Any

import torch


class Kernels:
    """What torch does, and a kernel that does nothing."""

    def __init__(self, device: Any) -> None:
        self.device = device

    def same(self, tensor: Any) -> Any:
        """The argument itself."""
        return tensor

'''

KERNEL = '''\
    def {name}(self, tensor: torch.Tensor) -> torch.Tensor:
        """The negated tensor."""
        return torch.neg(tensor)

'''

SAME = """\
  - name: same
    doc: The tensor itself.
    route: tensor
    args: [{name: tensor, type: tensor, doc: What is given back.}]
    returns: {type: bool}
    backward: native
"""

OP = """\
  - name: {name}
    doc: The negated tensor.
    route: tensor
    args: [{{name: tensor, type: tensor, doc: What is negated.}}]
    returns: {{type: tensor}}
    backward: native
"""


def op_names(count: int) -> list[str]:
    """The names of the ops beside `same`: `neg`, `neg_1` and so on."""
    return ["neg", *(f"neg_{number}" for number in range(1, count))]


def write_catalog(folder: Path, package: str, backends: int, ops: int = 1) -> None:
    """Write a catalog of so many backends, all in the default build, with one family of so many ops and `same`.

    The first backend is torch's CPU; the others have torch devices that no torch knows.
    """
    spec = folder / "spec"
    (spec / "ops").mkdir(parents=True, exist_ok=True)
    entries = "".join(
        f'  - {{name: Bench{index}, id: {index}, cfg: feature = "bench", kernels: benchkernels:Kernels, '
        f"torch_device: {'cpu' if index == 0 else f'bench{index}'}}}\n"
        for index in range(backends)
    )
    (spec / "backends.yaml").write_text(
        f"version: 1\npackage: {package}\nfeatures: {{default: [bench, autodiff], bench: [], autodiff: []}}\n"
        f'wrappers: [{{name: Autodiff, cfg: feature = "autodiff"}}]\nbackends:\n{entries}'
    )
    made = "".join(OP.format(name=name) for name in op_names(ops))
    (spec / "ops" / "neg.yaml").write_text(
        f"version: 1\nfamily: NegOps\ndoc: Ops of the benchmark.\nops:\n{SAME}{made}"
    )
    (spec / "errors.yaml").write_text((ROOT / "spec" / "errors.yaml").read_text())
    (folder / "benchkernels.py").write_text(KERNELS + "".join(KERNEL.format(name=name) for name in op_names(ops)))


def generate(folder: Path, package: str, backends: int, ops: int = 1) -> Path:
    """Write the catalog and generate its package; gives back the folder to import it from."""
    write_catalog(folder, package, backends, ops)
    told = io.StringIO()
    words = ["generate", "--spec", f"{folder / 'spec'}", "--templates", f"{ROOT / 'templates' / 'torch'}"]
    with contextlib.redirect_stdout(told):
        code = main([*words, "--out", f"{folder / 'generated'}"])
    if code:
        sys.exit(f"the catalog of the benchmark does not generate:\n{told.getvalue()}")
    return folder / "generated"


def load(folder: Path, package: str, backends: int, ops: int = 1) -> ModuleType:
    """The generated package, imported."""
    sys.path[:0] = [str(generate(folder, package, backends, ops)), str(folder)]
    return importlib.import_module(package)
