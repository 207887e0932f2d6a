"""NumPy arrays: shared where they can be, refused with the way out where they cannot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import torchdispatch as td


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.arange(6, dtype=np.int16)[::2],
        np.arange(12.0).reshape(3, 4).T,
        np.array(3.5),
        np.empty((0, 3), np.float32),
        np.array([True, False]),
        np.array([1 + 2j]),
        np.ones(2, np.float16),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_from_numpy_shares_the_memory(array: np.ndarray[Any, Any]) -> None:
    tensor = td.from_numpy(array)
    assert tensor.device == td.NdArray(0)
    assert np.shares_memory(tensor.numpy(), array) or array.size == 0
    if array.size:
        array.flat[0] = 1
        assert np.asarray(tensor.tolist()).flat[0] == 1


def read_only() -> np.ndarray[Any, Any]:
    array = np.ones(2)
    array.flags.writeable = False
    return array


REFUSED: list[tuple[Callable[[], Any], str, str]] = [
    (lambda: np.array([None, 1]), "Python objects", "astype"),
    (lambda: np.array(["a", "b"]), "text", "astype"),
    (lambda: np.zeros(2, [("x", "f4")]), "structured", "array['x'].copy()"),
    (lambda: np.arange(3.0).astype(">f8"), "byte order", "newbyteorder('=')"),
    (lambda: np.arange(3.0)[::-1], "negative strides", "ascontiguousarray"),
    (read_only, "read-only", "copy()"),
    (lambda: np.zeros(2, "M8[s]"), "datetime64", "view(numpy.int64)"),
    (lambda: np.zeros(2, [("x", "i1"), ("y", "f4")])["y"], "multiple of its item size", "ascontiguousarray"),
    (lambda: np.ma.masked_array([1.0], [True]), "mask", "filled"),
    (lambda: [1.0, 2.0], "list", "asarray"),
]


@pytest.mark.parametrize(("make", "problem", "fix"), REFUSED, ids=[each[1] for each in REFUSED])
def test_from_numpy_refuses_what_it_would_have_to_copy(make: Callable[[], Any], problem: str, fix: str) -> None:
    with pytest.raises(td.UnsupportedArray) as caught:
        td.from_numpy(make())
    assert problem in caught.value.reason
    assert fix in caught.value.help


@pytest.mark.parametrize("make", [lambda: np.arange(3.0).astype(">f8"), lambda: np.arange(3.0)[::-1], read_only])
def test_the_way_out_works(make: Callable[[], Any]) -> None:
    array = make()
    with pytest.raises(td.UnsupportedArray) as caught:
        td.from_numpy(array)
    mended = eval(caught.value.help.rpartition(": ")[2], {"array": array, "numpy": np})
    assert td.from_numpy(mended).tolist() == array.tolist()


def test_cpu_and_ndarray_share_memory_both_ways() -> None:
    tensor = torch.arange(3.0)
    there = td.to_device(td.Tensor(tensor, td.Cpu(0)), td.NdArray(0))
    back = td.to_device(there, td.Cpu(1))
    assert there.device == td.NdArray(0)
    assert back.device == td.Cpu(1)
    assert tensor.data_ptr() == there.torch().data_ptr() == back.torch().data_ptr()


@pytest.mark.parametrize(
    ("make", "fix"),
    [
        (lambda: torch.ones(2, requires_grad=True), "detach()"),
        (lambda: torch.ones(2, dtype=torch.bfloat16), "float()"),
        (lambda: torch.ones(2).to(torch.float8_e4m3fn), "float()"),
        (lambda: torch.eye(2).to_sparse(), "to_dense()"),
    ],
)
def test_what_numpy_cannot_hold_is_refused(make: Callable[[], torch.Tensor], fix: str) -> None:
    with pytest.raises(td.UnsupportedArray, match="NumPy") as caught:
        td.to_device(td.Tensor(make(), td.Cpu(0)), td.NdArray(0))
    assert fix in caught.value.help


def test_a_lazy_conjugate_is_written_out() -> None:
    tensor = torch.tensor([1 + 2j]).conj()
    assert td.to_device(td.Tensor(tensor, td.Cpu(0)), td.NdArray(0)).numpy().tolist() == [1 - 2j]
