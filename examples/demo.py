"""The whole idea once: a catalog in, a package out, and a classifier trained with it on four devices.

Generates the package from `spec/` into a temporary folder and compares it byte for byte with the committed one, prints
the support matrix, trains on four CPU devices of this process, then on two processes under torchrun, and compares the
weights of both with those of one device on the same batches. The last line of the output is one JSON object.
"""

from __future__ import annotations

import filecmp
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1]
TRAIN = ROOT / "examples" / "train_digits.py"


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="dispatchgen-demo-") as name:
        folder = Path(name)
        say("1. Generate torchdispatch from spec/ and compare it with generated/")
        run("-m", "dispatchgen", "generate", "--out", str(folder / "generated"))
        if stale := first_difference(folder / "generated", ROOT / "generated"):
            print(f"generated/ is not what spec/ says: {stale}; run `dispatchgen generate`", file=sys.stderr)
            return 1
        print("byte for byte the same")

        say("2. What every operation does on every backend")
        run("-m", "dispatchgen", "matrix")

        say("3. One device, the reference: no dispatch layer, the same batches")
        train(folder, "one", "--single")
        say("4. Four devices of one process, gradients through the generated operations")
        four = train(folder, "four", "--devices", "4")
        say("5. Two processes over gloo, started by torchrun, the same program")
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        train(folder, "two", launcher=torchrun)

        difference = max(weight_difference(folder, each, "one") for each in ("four", "two"))
        say("6. Result")
        print(json.dumps({**four, "max_weight_difference": difference}))
        return 0 if difference < 1e-9 else 1


def say(title: str) -> None:
    print(f"\n{title}", flush=True)


def run(*arguments: str) -> None:
    environment = {"OMP_NUM_THREADS": "1", **os.environ}  # two processes share a laptop's cores
    subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, env=environment)


def train(folder: Path, name: str, *options: str, launcher: list[str] | None = None) -> dict[str, float]:
    """What one training run says of itself: accuracy, devices and steps. Its weights stay in the folder."""
    result = folder / f"{name}.json"
    run(*(launcher or []), str(TRAIN), *options, "--out", str(folder / f"{name}.pt"), "--json", str(result))
    found: dict[str, float] = json.loads(result.read_text())
    return found


def weight_difference(folder: Path, one: str, other: str) -> float:
    """The largest difference between two sets of weights, over all their numbers."""
    first, second = (torch.load(folder / f"{name}.pt", weights_only=True) for name in (one, other))
    return max(float((first[key] - second[key]).abs().max()) for key in first)


def first_difference(one: Path, other: Path) -> str | None:
    """The first path that is not byte-equal in both trees, or None."""
    files = [{path.relative_to(top) for path in top.rglob("*") if path.is_file()} for top in (one, other)]
    wanted = [
        {path for path in found if "__pycache__" not in path.parts and not path.name.startswith(".")} for found in files
    ]
    for path in sorted(wanted[0] | wanted[1]):
        if path not in wanted[0] or path not in wanted[1] or not filecmp.cmp(one / path, other / path, shallow=False):
            return str(path)
    return None


if __name__ == "__main__":
    sys.exit(main())
