"""Every error arm of the committed build is raised, and says who, why and what to do."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch

import torchdispatch as td
from dispatchgen.matrix import Cell, cells
from tests import shipped

ROOT = Path(__file__).resolve().parents[2]


def matrix() -> tuple[Cell, ...]:
    catalog = shipped.catalog_of()
    return cells(catalog, shipped.template_set(), shipped.build_of(catalog))


MATRIX = matrix()
HERE = ("Cpu", "NdArray", "Capture", "Remote")
"""Sources whose refusals do not depend on the machine."""


def device_of(backend: str, runtime: str | None, wrapper: str | None) -> td.Device:
    kind = getattr(td, backend)
    device = kind(runtime, 0) if runtime else kind("localhost:1", 0) if backend == "Remote" else kind(0)
    return td.autodiff(device) if wrapper else device


def tensor_on(device: td.Device) -> td.Tensor:
    """A tensor that says it lives there: enough for an arm that refuses before it looks at values."""
    return td.Tensor(torch.ones(2), device)


def call(op: str, device: td.Device) -> object:
    tensor = tensor_on(device)
    arguments = {
        "start_communication_server": ([device],),
        "close_communication_server": (device,),
        "register_sync_parameters": (device, []),
        "submit_gradient_sync": (td.TensorRef(tensor), td.DistributedParams("0:w")),
        "submit_sync_collective": (device,),
        "all_reduce": (tensor, td.ReduceOperation.SUM),
        "sync_collective": (device,),
        "comm_device": (td.TensorRef(tensor),),
        "float_from_ref": (td.TensorRef(tensor),),
        "set_distributed_params": (tensor, "0:w"),
        "broadcast": (tensor, device),
        "reduce": (tensor, td.ReduceOperation.SUM, device),
        "all_gather": (tensor,),
        "reduce_scatter": ([tensor], td.ReduceOperation.SUM),
        "all_to_all": ([tensor],),
        "gather": (tensor, device),
        "send": (tensor, device),
        "recv": (tensor, device),
    }
    return getattr(td, op)(*arguments[op])


def refusing(*without: str) -> list[Cell]:
    return [cell for cell in MATRIX if cell.arm.kind == "error" and cell.target is None and cell.op not in without]


def label(cell: Cell) -> str:
    return "-".join(part for part in (cell.op, cell.backend, cell.runtime, cell.wrapper) if part)


# An op on a list of devices finds its variant through the group of the caller, and no group has a device that refuses.
@pytest.mark.parametrize("cell", refusing("scatter", "barrier"), ids=label)
def test_every_error_arm_says_who_why_and_what_to_do(cell: Cell) -> None:
    device = device_of(cell.backend, cell.runtime, cell.wrapper)
    with pytest.raises(td.DispatchError) as caught:
        call(cell.op, device)
    error = caught.value
    assert error.entry.situation == cell.arm.situation
    assert error.op == cell.op
    assert cell.backend in str(error)
    assert error.reason
    assert error.help
    assert error.code in str(error)
    assert len(error.explain()) > len(str(error)) // 2


@pytest.mark.parametrize("op", ["distributed_params", "is_distributed"])
@pytest.mark.parametrize("cell", [c for c in MATRIX if c.op == "is_distributed"], ids=label)
def test_questions_never_raise(op: str, cell: Cell) -> None:
    tensor = tensor_on(device_of(cell.backend, cell.runtime, cell.wrapper))
    assert getattr(td, op)(tensor) in (None, False)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (c.backend, c.target)
        for c in MATRIX
        if c.target and c.arm.kind == "error" and c.backend in HERE and not c.wrapper
    ],
)
def test_every_pair_that_cannot_be_is_refused(source: str, target: str) -> None:
    there = device_of(target, "hpu" if target == "LibTorch" else None, None)
    there = (
        there if source != target else td.device(f"{target.lower()}:1") if target != "Remote" else td.Remote("other:1")
    )
    with pytest.raises(td.DispatchError, match=r"Capture|Remote"):
        td.to_device(tensor_on(device_of(source, None, None)), there)


def test_unsupported_device_of_a_device_op() -> None:
    with pytest.raises(
        td.NotCapable, match=r"^Distributed operations are not supported for device Metal\(0\)"
    ) as caught:
        td.sync_collective(td.Metal(0))
    assert "Cpu" in caught.value.reason


def test_numpy_tensor_in_set_distributed_params() -> None:
    tensor = td.from_numpy(torch.ones(2).numpy())
    with pytest.raises(
        td.NotCapable, match=r"^Distributed operations are not supported for tensor kind NdArray\(Float\)"
    ):
        td.set_distributed_params(tensor, "0:w")


def test_quantized_tensor() -> None:
    with warnings.catch_warnings(action="ignore"):  # torch wants to be rid of them, programs still have them
        quantized = torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8)
    with pytest.raises(
        td.WrongKind, match=r"^Distributed operations are not supported for tensor kind Quantized"
    ) as caught:
        td.float_from_ref(td.TensorRef(td.from_torch(quantized, td.Cpu(0))))
    assert "dequantize()" in str(caught.value)


@pytest.mark.parametrize("devices", [[td.Cpu(0), td.Metal(0)], [td.Cpu(0), td.autodiff(td.Cpu(1))]])
def test_mixed_variants_name_index_and_both(devices: list[td.Device]) -> None:
    with pytest.raises(td.MixedVariants, match=r"^All devices are expected to be of the same variant\.") as caught:
        td.start_communication_server(devices)
    text = str(caught.value)
    assert "1" in text
    assert all(repr(device) in text for device in devices)


def test_no_devices() -> None:
    with pytest.raises(td.NoDevices):
        td.start_communication_server([])


def test_autodiff_in_autodiff() -> None:
    with pytest.raises(td.NestedAutodiff, match=r"^Autodiff should not wrap an autodiff device\."):
        td.autodiff(td.autodiff(td.Cpu(0)))


def test_plain_tensor_where_autodiff_is_needed() -> None:
    with pytest.raises(td.PlainTensor, match=r"^Requires autodiff tensor\."):
        td.set_distributed_params(td.from_torch(torch.ones(2), td.Cpu(0)), "0:w")


def test_untracked_tensor_on_an_autodiff_device() -> None:
    with pytest.raises(td.UntrackedTensor, match=r"^Expected autodiff-wrapped float tensor for backend Cpu"):
        td.set_distributed_params(td.from_torch(torch.ones(2), td.autodiff(td.Cpu(0))), "0:w")


@pytest.mark.parametrize(
    ("primitive", "device", "context", "opening"),
    [
        (
            torch.ones(2).requires_grad_(),
            td.Cpu(0),
            td.AutodiffContext(False),
            "an autodiff float primitive must have an enabled autodiff context",
        ),
        (torch.ones(2), td.Cpu(0), td.AutodiffContext(True), "an enabled float tensor must use an autodiff primitive"),
    ],
)
def test_tensor_put_together_in_contradiction(
    primitive: torch.Tensor, device: td.Device, context: td.AutodiffContext, opening: str
) -> None:
    with pytest.raises(td.ContextMismatch, match="^" + opening):
        td.Tensor(primitive, device, context=context)


def test_tensor_in_the_wrong_place_names_the_way() -> None:
    with pytest.raises(td.WrongPlace) as caught:
        td.from_torch(torch.ones(2), td.Cuda(0))
    assert "to_device" in str(caught.value)


def test_torch_device_that_no_entry_lists() -> None:
    with pytest.raises(td.UnlistedDevice, match=r"^Distributed operations are not supported for device vulkan"):
        td.device(torch.device("vulkan"))


@pytest.mark.parametrize("text", ["gpu:0", "cpu:x", "cpu:-1", "", "remote", "libtorch:0", "cpu:1:2"])
def test_text_that_names_no_device(text: str) -> None:
    with pytest.raises(td.UnknownDevice) as caught:
        td.device(text)
    assert repr(text) in str(caught.value)


def test_devices_that_cannot_be_had_here() -> None:
    for kind in (td.Cuda, td.Rocm, td.Xpu, td.Metal):
        present = td.enumerate(kind)
        if present:
            print(f"{kind.__name__} is here: {present}")
            continue
        with pytest.raises(td.Unavailable, match=r"^Distributed operations are not supported for device") as caught:
            td.ensure_supported(kind(0), "to_device")
        assert "torch" in caught.value.reason
