"""Devices are frozen values: how they are named, found, compared, copied and carried, and what is refused."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType

import pytest
import torch
from dispatch_runtime import placing
from dispatch_runtime.package import BackendSupport

import torchdispatch as td
from torchdispatch._binding import PACKAGE

Build = Callable[..., ModuleType]


@pytest.mark.parametrize(
    ("text", "device"),
    [
        ("cpu", td.Cpu(0)),
        ("cpu:", td.Cpu(0)),
        ("CPU:3", td.Cpu(3)),
        (" cpu:1 ", td.Cpu(1)),
        ("cuda", td.Cuda(0)),
        ("cuda:300", td.Cuda(300)),  # torch.device would make 44 of it
        ("rocm:1", td.Rocm(1)),
        ("xpu:2", td.Xpu(2)),
        ("mps", td.Metal(0)),
        ("metal:0", td.Metal(0)),
        ("ndarray", td.NdArray(0)),
        ("capture", td.Capture(0)),
        ("hpu:1", td.LibTorch("hpu", 1)),
        ("npu:1", td.LibTorch("npu", 1)),  # no torch without the vendor's plugin knows this one
        ("remote:host:29500:2", td.Remote("host:29500", 2)),
        ("remote:host:29500", td.Remote("host:29500", 0)),
        ("remote:[::1]:29500:0", td.Remote("[::1]:29500", 0)),
        ("remote:[::1]:29500", td.Remote("[::1]:29500", 0)),
        ("remote:10.0.0.1:1:7", td.Remote("10.0.0.1:1", 7)),
    ],
)
def test_text(text: str, device: td.Device) -> None:
    assert td.device(text) == device


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        (torch.device("cpu"), td.Cpu(0)),
        (torch.device("cpu:1"), td.Cpu(1)),
        (torch.device("cuda:3"), td.Cuda(3)),
        (torch.device("mps"), td.Metal(0)),
        (torch.device("xpu", 1), td.Xpu(1)),
        (torch.device("hpu", 1), td.LibTorch("hpu", 1)),
    ],
)
def test_torch_devices(device: torch.device, expected: td.Device) -> None:
    assert td.device(device) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("gpu:0", "no backend 'gpu'"),
        ("cudda", "did you mean 'cuda'"),
        ("cpu:-1", "whole number from 0 on"),
        ("cpu:1.5", "whole number from 0 on"),
        ("cpu:\u0661", "whole number from 0 on"),
        ("cpu:1:2", "whole number from 0 on"),
        ("libtorch", "name one: hpu, mtia, npu, xla"),
        ("libtorch:hpu:0", "name one: hpu, mtia, npu, xla"),
        ("remote", "remote:host:port:index"),
        ("remote:host", "remote:host:port:index"),
        ("remote:::1:29500:0", "remote:host:port:index"),
        ("remote:host:0", "a port from 1 to 65535"),
        ("remote:host:99999:0", "a port from 1 to 65535"),
        ("", "no backend ''"),
    ],
)
def test_text_that_names_no_device_says_why(text: str, reason: str) -> None:
    with pytest.raises(td.UnknownDevice) as caught:
        td.device(text)
    assert repr(text) in str(caught.value)
    assert reason in caught.value.reason
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("value", [None, 3, 1.5, ["cpu:0"], b"cpu:0", td.Cpu, object()])
def test_values_that_are_no_device(value: object) -> None:
    with pytest.raises(td.UnknownDevice, match=f"not {type(value).__name__}"):
        td.device(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("index", [-1, True, 1.0, "0", None])
def test_indices_that_are_none(index: object) -> None:
    with pytest.raises(td.UnknownDevice) as caught:
        td.Cpu(index)  # type: ignore[arg-type]
    assert str(caught.value).startswith(f"Cpu({index!r}) names no device.")


@pytest.mark.parametrize("address", ["host", "", "host:abc", "host:1:2", ":29500", "::1:29500", "a b:1", None, 29500])
def test_addresses_that_are_none(address: object) -> None:
    with pytest.raises(td.UnknownDevice, match="an address is host:port"):
        td.Remote(address)  # type: ignore[arg-type]


def test_a_runtime_that_no_entry_lists() -> None:
    with pytest.raises(td.UnlistedDevice, match="hpu, npu, mtia, xla"):
        td.LibTorch("maia")
    with pytest.raises(td.UnlistedDevice, match="device meta"):
        td.device(torch.device("meta"))


def test_equality_looks_at_who_and_not_at_autodiff_or_group() -> None:
    assert td.Cpu(0) == td.Cpu(0) != td.Cpu(1)
    assert td.Cuda(0) != td.Rocm(0)
    assert td.LibTorch("hpu") != td.LibTorch("npu")
    assert td.Remote("a:1") != td.Remote("b:1")
    assert td.Cpu(0) == td.autodiff(td.Cpu(0))
    assert hash(td.Cpu(0)) == hash(td.autodiff(td.Cpu(0)))
    assert td.Cpu(0) != td.Cpu(0).replace(process=1)
    assert td.Cpu(0) != "cpu:0"
    with td.DistributedContext([td.Cpu(0)]) as context:
        assert context.devices[0] == td.Cpu(0)
        assert {td.Cpu(0): "found"}[context.devices[0]] == "found"


def test_devices_of_two_packages_differ(build_package: Build) -> None:
    other = build_package("cpu")
    assert other.Cpu(0) != td.Cpu(0)
    with pytest.raises(td.UnknownDevice, match="belongs to the package built_cpu"):
        td.sync_collective(other.Cpu(0))


@pytest.mark.parametrize("name", ["index", "host", "autodiff", "rank", "anything"])
def test_devices_do_not_change(name: str) -> None:
    device = td.Cpu(0)
    with pytest.raises(AttributeError, match="devices do not change"):
        setattr(device, name, 1)
    with pytest.raises(AttributeError, match="devices do not change"):
        delattr(device, name)


@pytest.mark.parametrize(
    "device",
    [td.Cpu(2), td.autodiff(td.Cpu(1), td.Checkpointing.BALANCED), td.Remote("[::1]:1", 3), td.LibTorch("hpu", 1)],
    ids=repr,
)
def test_pickle_and_copies_keep_everything(device: td.Device) -> None:
    for same in (pickle.loads(pickle.dumps(device)), copy.copy(device), copy.deepcopy(device)):
        assert same == device
        assert repr(same) == repr(device)
        assert same.checkpointing is device.checkpointing


def test_device_of_a_group_leaves_it_in_a_pickle_and_stays_in_a_copy() -> None:
    with td.DistributedContext([td.Cpu(0), td.Cpu(1)]) as context:
        device = context.devices[1]
        assert copy.deepcopy([device])[0].context is context
        arrived = pickle.loads(pickle.dumps(device))
        assert arrived.context is None
        assert arrived.rank is None
        assert context.rank_of(arrived) == 1  # here it is process 0 again, and the group knows it


@pytest.mark.parametrize(
    ("device", "text"),
    [
        (td.Cpu(0), "Cpu(0)"),
        (td.autodiff("cuda:1"), "Autodiff(Cuda(1))"),
        (td.Remote("host:1", 2), "Remote('host:1', 2)"),
        (td.LibTorch("hpu", 1), "LibTorch('hpu', 1)"),
        (td.Cpu(0).replace(process=3), "Cpu(0) of process 3"),
    ],
)
def test_repr_is_how_one_writes_it(device: td.Device, text: str) -> None:
    assert repr(device) == str(device) == f"{device}" == text


def test_enumerate() -> None:
    assert td.enumerate(td.Cpu) == [td.Cpu(0)]
    assert td.enumerate(td.NdArray) == [td.NdArray(0)]
    assert td.enumerate(td.Remote) == []
    assert len(td.enumerate(td.Cuda)) == (torch.cuda.device_count() if torch.version.cuda else 0)


@pytest.mark.parametrize("kind", ["cpu", td.Cpu(0), td.Device, int, None])
def test_enumerate_takes_the_class_of_a_backend(kind: object) -> None:
    with pytest.raises(TypeError, match=r"enumerate takes the class of a backend .*Cpu"):
        td.enumerate(kind)  # type: ignore[type-var]


def test_default_device_follows_priority_and_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHDISPATCH_DEVICE", raising=False)
    best = td.default_device()
    kinds = (td.Cuda, td.Rocm, td.Xpu, td.Metal, td.Cpu)
    assert best == next(found for kind in kinds for found in td.enumerate(kind))
    monkeypatch.setenv("TORCHDISPATCH_DEVICE", "cpu:1")
    assert td.default_device() == td.Cpu(1)
    for unset in ("", " "):
        monkeypatch.setenv("TORCHDISPATCH_DEVICE", unset)
        assert td.default_device() == best
    monkeypatch.setenv("TORCHDISPATCH_DEVICE", "warp:9")
    with pytest.raises(td.UnknownDevice, match="TORCHDISPATCH_DEVICE") as caught:
        td.default_device()
    assert "'warp:9'" in str(caught.value)


def test_autodiff_is_a_twin_that_is_kept() -> None:
    device = td.Cpu(0)
    twin = td.autodiff(device)
    assert twin.autodiff
    assert not device.autodiff
    assert td.autodiff(device) is twin
    balanced = td.autodiff(device, td.Checkpointing.BALANCED)
    assert balanced.checkpointing is td.Checkpointing.BALANCED
    assert td.is_autodiff(twin)
    assert not td.is_autodiff(device)
    assert not td.is_autodiff("cpu:0")
    with pytest.raises(td.UnknownDevice, match="no autodiff around NdArray"):
        td.autodiff("ndarray")
    with pytest.raises(TypeError, match="autodiff takes a Checkpointing, one of DISABLED, BALANCED, not str"):
        td.autodiff(device, "balanced")  # type: ignore[arg-type]


def test_a_device_that_torch_cannot_count_to_is_not_taken_for_another() -> None:
    with pytest.raises(td.Unavailable, match="up to 127"):
        td.from_torch(torch.ones(1), td.Cuda(300))
    with pytest.raises(td.Unavailable, match="npu"):
        td.from_torch(torch.ones(1), td.LibTorch("npu"))


def test_backend_of_another_build(build_package: Build) -> None:
    small = build_package("cpu")
    assert not hasattr(small, "Cuda")
    assert getattr(small, "Cuda", None) is None
    assert not small.is_built("Cuda")
    with pytest.raises(AttributeError) as caught:
        _ = small.Cuda
    assert isinstance(caught.value, small.DispatchError)
    assert isinstance(caught.value, small.NotBuilt)
    assert str(caught.value).startswith("Distributed operations are not supported for device Cuda")
    assert 'feature = "cuda"' in caught.value.reason
    assert "dispatchgen generate --no-default-features --features cpu,cuda" in caught.value.help
    with pytest.raises(AttributeError, match="has no attribute 'Warp'") as unknown:
        _ = small.Warp
    assert not isinstance(unknown.value, small.DispatchError)


@pytest.mark.parametrize(
    ("like", "feature"),
    [
        ("cuda:0", "cuda"),
        (torch.device("xpu:1"), "xpu"),
        ("remote:host:1:0", "remote"),
        ("hpu", "libtorch"),
        ("mps", "metal"),
    ],
)
def test_every_way_of_naming_a_device_of_another_build(
    build_package: Build, like: str | torch.device, feature: str
) -> None:
    small = build_package("cpu")
    for call in (small.device, small.sync_collective, lambda d: small.DistributedContext([d])):
        with pytest.raises(small.NotBuilt) as caught:
            call(like)
        assert f"--features {','.join(sorted(['cpu', feature]))}" in caught.value.help
    assert not small.is_available(like)
    assert not small.is_distributed_capable(like)
    assert not small.can_transfer("cpu", like)


def test_autodiff_of_another_build(build_package: Build) -> None:
    plain = build_package("cpu")
    with pytest.raises(plain.NotBuilt, match=r"Autodiff\(Cpu\(0\)\)") as caught:
        plain.autodiff("cpu")
    assert "--features autodiff,cpu" in caught.value.help


def test_build_whose_only_device_is_not_here(build_package: Build) -> None:
    small = build_package("remote")
    with pytest.raises(small.NoBackend, match="no device to choose from") as caught:
        small.default_device()
    assert "dispatchgen generate" in caught.value.help


@pytest.mark.parametrize("wrong", [None, 3, "sum", torch.ones(2)])
def test_what_is_no_list_of_devices(wrong: object) -> None:
    with pytest.raises((TypeError, td.UnknownDevice)) as caught:
        td.start_communication_server(wrong)  # type: ignore[arg-type]
    assert "device" in str(caught.value)


def test_a_list_of_devices_may_be_any_iterable_and_one_device() -> None:
    for devices in (("cpu:0", "cpu:1"), (each for each in [td.Cpu(0), td.Cpu(1)]), [torch.device("cpu:0"), "cpu:1"]):
        with td.DistributedContext(devices) as context:  # type: ignore[arg-type]
            assert list(context.devices) == [td.Cpu(0), td.Cpu(1)]
    with td.DistributedContext("cpu:3") as context:  # type: ignore[arg-type]
        assert list(context.devices) == [td.Cpu(3)]


def test_the_same_device_twice() -> None:
    with pytest.raises(td.DuplicateDevice, match=r"Cpu\(0\) is in the list twice"):
        td.DistributedContext(["cpu:0", td.Cpu(1), torch.device("cpu")])


@pytest.mark.parametrize(
    ("built", "runtime_built", "expected"),
    [(True, True, ("Npu", None)), (False, True, ("LibTorch", "npu")), (False, False, ("Npu", None))],
)
def test_a_backend_for_one_torch_device_comes_before_one_for_several(
    built: bool, runtime_built: bool, expected: tuple[str, str | None]
) -> None:
    several = td.BACKENDS["LibTorch"]
    runtimes = tuple(
        replace(each, built=runtime_built and each.built) if each.name == "npu" else each for each in several.runtimes
    )
    npu = BackendSupport(name="Npu", id=100, cfg="true", built=built, missing=(), torch_device="npu")
    package = replace(PACKAGE, backends={**td.BACKENDS, "LibTorch": replace(several, runtimes=runtimes), "Npu": npu})
    support, runtime = placing.backend_of_torch(package, "npu")
    assert support is not None
    assert (support.name, runtime) == expected
