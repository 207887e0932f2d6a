"""Kernels of somebody else's: found by what the catalog says, and their troubles told as they are."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.package.builds import Build
from tests.shipped import SPEC

SHIPPED = "dispatch_runtime.backends.ndarray:NdArray"


def catalog(tmp_path: Path, kernels: str, source: str = "") -> Path:
    """The shipped catalog with other kernels for arrays, in a module of their own."""
    spec = tmp_path / "spec"
    shutil.copytree(SPEC, spec)
    text = (spec / "backends.yaml").read_text(encoding="utf-8")
    assert text.count(SHIPPED) == 1
    (spec / "backends.yaml").write_text(text.replace(SHIPPED, kernels), encoding="utf-8")
    (tmp_path / f"{kernels.partition(':')[0]}.py").write_text(source, encoding="utf-8")
    return spec


def test_arrays_go_where_the_catalog_says(build_package: Build, tmp_path: Path) -> None:
    source = "from dispatch_runtime.backends.ndarray import NdArray\nclass Arrays(NdArray): ...\n"
    spec = catalog(tmp_path, "kernels_of_arrays:Arrays", source)
    package = build_package("cpu", "ndarray", spec=spec, name="with_arrays")
    array = np.ones(2, dtype=np.float32)
    tensor = package.from_numpy(array)
    assert tensor.device == package.NdArray(0)
    assert package.to_numpy(package.to_device(tensor, "cpu")).tolist() == [1, 1]
    with pytest.raises(package.UnsupportedArray):
        package.from_torch(tensor.primitive.bfloat16(), package.NdArray(0))


@pytest.mark.parametrize(
    ("kernels", "source", "missing"),
    [
        (
            "kernels_in_need:Arrays",
            "import no_such_dependency\nclass Arrays: ...\n",
            "No module named 'no_such_dependency'",
        ),
        ("kernels_renamed:Arrays", "class Array: ...\n", "cannot import name 'Arrays' from 'kernels_renamed'"),
        ("kernels_half:Arrays", "from dispatch_runtime.tensors import NoSuchName\n", "cannot import name 'NoSuchName'"),
    ],
)
def test_what_the_kernels_of_a_backend_lack_is_named(
    build_package: Build, tmp_path: Path, kernels: str, source: str, missing: str
) -> None:
    spec = catalog(tmp_path, kernels, source)
    package = build_package("cpu", "ndarray", spec=spec, name="with_" + kernels.partition(":")[0])
    device = package.NdArray(0)
    assert package.enumerate(package.NdArray) == []
    assert not package.is_available(device)
    tensor = package.from_numpy(np.ones(2))
    calls = [
        lambda: package.ensure_supported(device, "to_device"),
        lambda: package.to_device(tensor, "cpu"),
    ]
    for call in calls:
        with pytest.raises(package.Unavailable) as caught:
            call()
        assert missing in caught.value.reason
        assert "cannot be imported" in caught.value.reason
    sys.modules.pop(kernels.partition(":")[0], None)
