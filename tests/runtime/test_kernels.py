"""The kernels of each backend: what they do here, and what they say where they cannot be had."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from dispatch_runtime.backends.capture import CaptureDevice
from dispatch_runtime.backends.cuda import Cuda
from dispatch_runtime.backends.libtorch import LibTorch
from dispatch_runtime.backends.rocm import Rocm
from dispatch_runtime.probe import probe

import torchdispatch as td


def test_replicas_of_the_cpu_share_no_memory_and_gradients_flow_between_them() -> None:
    x = torch.ones(2, requires_grad=True)
    there = td.to_device(td.Tensor(x, td.Cpu(0)), td.Cpu(1))
    assert there.torch().data_ptr() != x.data_ptr()
    (3 * there.torch()).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0, 3.0]
    assert td.to_device(there, td.Cpu(1)).torch() is there.torch()


def test_cuda_counts_and_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(torch.version, "cuda", None)
    assert Cuda.why_unavailable(0) == f"this torch ({torch.__version__}) was built without CUDA"
    assert Cuda.count() == 0
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert Cuda.count() == 2
    assert Cuda.why_unavailable(1) is None
    assert Cuda.why_unavailable(5) == "torch sees 2 CUDA devices, index 5 is not there"
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert Cuda.why_unavailable(0) == f"torch {torch.__version__} sees no CUDA device on this machine"


def test_cuda_and_rocm_tell_the_builds_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", "7.1")
    assert Rocm.why_unavailable(0) is None
    assert "built for HIP 7.1" in (Cuda.why_unavailable(0) or "")
    monkeypatch.setattr(torch.version, "hip", None)
    assert "built without HIP" in (Rocm.why_unavailable(0) or "")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has the device")
def test_a_device_that_cannot_be_had_says_so() -> None:
    with pytest.raises(
        td.Unavailable, match=r"^Distributed operations are not supported for device Cuda\(0\)"
    ) as caught:
        td.to_device(td.Tensor(torch.ones(1), td.Cpu(0)), td.Cuda(0))
    assert caught.value.fields["missing"] == Cuda.why_unavailable(0)


def test_libtorch_names_the_plugin() -> None:
    assert "torch plugin is not installed" in (LibTorch.why_unavailable(0, "hpu") or "")
    assert "torch plugin is not installed" in (LibTorch.why_unavailable(0, "npu") or "")
    assert LibTorch.count("npu") == 0


def test_the_probe_is_plain_data() -> None:
    found = probe()
    assert json.loads(json.dumps(found)) == found
    assert found["backends"]["Cpu"] == {"devices": 1, "missing": None}
    assert found["engines"]["gloo"] is torch.distributed.is_gloo_available()


def linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    first, second = torch.nn.functional.linear(x, weight).relu().add_(1).split([1, 2], dim=1)
    return first.sum() + second.mean()


def test_a_capture_records_a_graph_that_computes_the_same() -> None:
    x, weight = torch.randn(2, 3), torch.randn(3, 3)
    with td.CaptureDevice.capture() as recording:
        captured = td.to_device(td.Tensor(x, td.Cpu(0)), td.Capture(0)).torch()
        result = linear(captured, weight)
        assert result.shape == ()
    recording.graph.lint()
    targets = [node.target for node in recording.graph.nodes if node.op == "call_function"]
    assert torch.ops.aten.relu.default in targets
    other = torch.randn(2, 3)
    torch.testing.assert_close(recording.module(other), linear(other, weight))


def test_a_capture_tensor_is_of_no_use_outside() -> None:
    tensor = td.Tensor(torch.ones(2), td.Cpu(0))
    with pytest.raises(td.OutsideCapture, match=r"^capture tensor operations must run inside CaptureDevice\.capture"):
        td.to_device(tensor, td.Capture(0))
    with CaptureDevice.capture():
        captured = td.to_device(tensor, td.Capture(0)).torch()
    with pytest.raises(td.OutsideCapture):
        captured + 1


def test_a_capture_ends_where_its_block_ends() -> None:
    def broken() -> Any:
        with CaptureDevice.capture():
            raise KeyError("broken")

    with pytest.raises(KeyError):
        broken()
    assert not CaptureDevice.is_capturing()


def test_the_protocol_by_hand() -> None:
    devices = [td.Cpu(0), td.Cpu(1)]
    td.start_communication_server(devices, td.DistributedConfig(timeout=20))
    try:
        handles = [
            td.all_reduce(td.Tensor(torch.tensor([1.0 + i]), d), td.ReduceOperation.SUM) for i, d in enumerate(devices)
        ]
        assert [handle.resolve().tolist() for handle in handles] == [[3.0], [3.0]]
        for device in devices:
            td.sync_collective(device)
        with pytest.raises(td.AlreadyOpen):
            td.start_communication_server(devices)
    finally:
        td.close_communication_server(td.Cpu(0))
        td.close_communication_server(td.Cpu(0))
    with pytest.raises(td.NoContext):
        td.all_reduce(td.Tensor(torch.ones(1), devices[0]), td.ReduceOperation.SUM)


def test_references() -> None:
    tensor = td.Tensor(torch.ones(2, requires_grad=True), td.Cpu(3))
    ref = td.TensorRef(tensor)
    assert td.comm_device(ref) == td.Cpu(3)
    copy = td.float_from_ref(ref)
    assert copy.tolist() == [1.0, 1.0]
    assert not copy.requires_grad
    assert copy.torch().data_ptr() != tensor.torch().data_ptr()


def test_marks() -> None:
    tensor = td.Tensor(torch.ones(2, requires_grad=True), td.Cpu(0))
    assert td.distributed_params(tensor) is None
    assert td.is_distributed(tensor) is False
    assert td.set_distributed_params(tensor, "0:weight").torch() is tensor.torch()
    assert td.distributed_params(tensor) == td.DistributedParams("0:weight")
    assert td.is_distributed(tensor) is True
