"""Ops whose public function calls the kernel itself: the catalog of the benchmarks, generated, imported and called."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CALL = """
import sys
sys.path[:0] = ["generated", "."]
import torch, layer
from dispatch_runtime.tensors import wrap

one = torch.ones(2, requires_grad=True)
last = layer.Bench2(1)
device = layer.neg(wrap(torch.ones(2), last)).device
assert device is last and device.arms.neg.__self__ is device.arms.same.__self__
assert layer.neg(torch.ones(2)).device == layer.Bench0(0)
assert layer.neg(torch.nn.Parameter(torch.ones(2), requires_grad=False)).device == layer.Bench0(0)
try:
    result = layer.neg(wrap(one, last))
except layer.DispatchError as error:
    print(type(error).__name__)
else:
    result.primitive.sum().backward()
    print(one.grad.tolist(), result.kind.name)
for wrong in (1, "x", None):
    try:
        layer.neg(wrong)
    except TypeError as error:
        assert "neg takes a Tensor" in str(error)
    else:
        raise AssertionError(wrong)
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [([], "[-1.0, -1.0] Autodiff"), (["--no-default-features", "--features", "bench"], "NotBuilt")],
    ids=["with autodiff", "without autodiff"],
)
def test_calls_of_kernels_without_an_arm_between(tmp_path: Path, words: list[str], said: str) -> None:
    write = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from pathlib import Path\n"
    write += "from benchmarks.layer import ROOT, write_catalog; write_catalog(Path(), 'layer', 3, 3)\n"
    write += f"from dispatchgen.cli import main; sys.exit(main(['generate', '--templates', 'torch', *{words!r}]))"
    path = f"{ROOT / 'generator'}:{ROOT / 'runtime'}"
    for code in (write, CALL):
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env={"PYTHONPATH": path, "DISPATCHGEN_CACHE": "", "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == said
