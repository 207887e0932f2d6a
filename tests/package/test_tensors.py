"""Tensors: in and out without a copy, what they know of themselves, where plain ones are placed, how they move."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from dispatch_runtime import placing

import torchdispatch as td

SUM = td.ReduceOperation.SUM


def shares(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.data_ptr() == other.data_ptr() and one.shape == other.shape and one.stride() == other.stride()


def test_from_torch_and_to_torch_never_copy() -> None:
    for plain in (
        torch.arange(6.0).reshape(2, 3).t(),
        torch.zeros(0, 3),
        torch.tensor(1),
        torch.ones(2, dtype=torch.bfloat16),
    ):
        tensor = td.from_torch(plain, "cpu:1")
        assert tensor.primitive is plain
        assert td.to_torch(tensor) is plain
        assert tensor.device == td.Cpu(1)
        assert (tensor.shape, tensor.dtype) == (plain.shape, plain.dtype)


def test_numpy_both_ways_never_copies() -> None:
    array = np.arange(6.0).reshape(2, 3)
    tensor = td.from_numpy(array)
    assert tensor.device == td.NdArray(0)
    array[0, 0] = 7
    assert tensor.tolist()[0][0] == 7
    back = td.to_numpy(tensor)
    assert np.shares_memory(back, array)
    assert np.shares_memory(td.to_numpy(torch.ones(2)), np.empty(0)) is False


@pytest.mark.parametrize(
    ("array", "fix"),
    [
        (np.arange(4)[::-1], "numpy.ascontiguousarray(array)"),
        (np.array(["a"]), "array.astype"),
        (np.array([None]), "array.astype"),
        (np.arange(4, dtype=">i4"), "newbyteorder"),
        (np.float32(3), "numpy.asarray(value)"),
        ([1.0, 2.0], "numpy.asarray(value)"),
        (None, "numpy.asarray(value)"),
    ],
)
def test_arrays_that_cannot_be_shared_say_what_to_write(array: Any, fix: str) -> None:
    with pytest.raises(td.UnsupportedArray) as caught:
        td.from_numpy(array)
    assert fix in caught.value.help


def test_read_only_array() -> None:
    array = np.ones(2)
    array.flags.writeable = False
    with pytest.raises(td.UnsupportedArray, match=r"array\.copy\(\)"):
        td.from_numpy(array)


def quantized() -> torch.Tensor:
    with warnings.catch_warnings(action="ignore"):  # torch wants to be rid of them, programs still have them
        return torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)


KINDS = [
    (torch.ones(2), td.Kind.Float),
    (torch.ones(2, dtype=torch.complex64), td.Kind.Float),
    (torch.ones(2, dtype=torch.bfloat16), td.Kind.Float),
    (torch.ones(2, dtype=torch.uint8), td.Kind.Int),
    (torch.tensor(True), td.Kind.Bool),
    (quantized(), td.Kind.Quantized),
]


@pytest.mark.parametrize(("plain", "kind"), KINDS)
def test_kinds(plain: torch.Tensor, kind: td.Kind) -> None:
    assert td.from_torch(plain, "cpu").kind is kind
    assert td.is_kind(plain, kind)
    assert [each for each in td.Kind if td.is_kind(td.from_torch(plain, "cpu"), each)] == [kind]
    on_autodiff = td.from_torch(plain, td.autodiff("cpu"))
    assert on_autodiff.kind is (td.Kind.Autodiff if kind is td.Kind.Float else kind)
    assert td.is_kind(on_autodiff, kind)


def test_one_truth_for_autodiff() -> None:
    plain, tracked = torch.ones(2), torch.ones(2, requires_grad=True)
    assert td.from_torch(plain, "cpu").context == td.AutodiffContext(False)
    assert td.from_torch(tracked, "cpu").context == td.AutodiffContext(True)
    assert td.from_torch(tracked, "cpu").kind is td.Kind.Autodiff
    balanced = td.autodiff("cpu", td.Checkpointing.BALANCED)
    assert td.from_torch(plain, balanced).context == td.AutodiffContext(True, td.Checkpointing.BALANCED)
    tensor = td.from_torch(tracked, "cpu")
    assert (tensor.tracked, tensor.requires_grad, td.is_tracked(tensor), td.is_tracked(tracked)) == (True,) * 4
    torch.sum(tensor).backward()  # type: ignore[call-overload]
    assert tensor.grad is tracked.grad
    assert tracked.grad is not None


@pytest.mark.parametrize(
    ("plain", "device", "options", "error"),
    [
        (torch.ones(2, requires_grad=True), "cpu", {"context": td.AutodiffContext(False)}, td.ContextMismatch),
        (torch.ones(2), "cpu", {"context": td.AutodiffContext(True)}, td.ContextMismatch),
        (torch.ones(2), "cpu", {"kind": td.Kind.Autodiff, "context": td.AutodiffContext(False)}, td.ContextMismatch),
        (
            torch.ones(2, requires_grad=True),
            "cpu",
            {"kind": td.Kind.Float, "context": td.AutodiffContext(True)},
            td.ContextMismatch,
        ),
        (torch.ones(2), "balanced", {"context": td.AutodiffContext(True)}, td.ContextMismatch),
        (torch.ones(2), "cpu", {"kind": td.Kind.Int}, td.WrongKind),
        (torch.ones(2, requires_grad=True), "cpu", {"kind": td.Kind.Float}, td.WrongKind),
    ],
)
def test_contradictions(plain: torch.Tensor, device: str, options: dict[str, Any], error: type[Exception]) -> None:
    where = td.autodiff("cpu", td.Checkpointing.BALANCED) if device == "balanced" else td.device(device)
    with pytest.raises(error):
        td.Tensor(plain, where, **options)


@pytest.mark.parametrize(
    ("plain", "device", "options"),
    [
        (torch.ones(2, requires_grad=True), td.Cpu(0), {"context": td.AutodiffContext(True)}),
        (torch.ones(2), td.Cpu(0), {"kind": td.Kind.Float, "context": td.AutodiffContext(False)}),
        (torch.ones(2), td.autodiff(td.Cpu(0)), {"kind": td.Kind.Autodiff, "context": td.AutodiffContext(True)}),
        (
            torch.ones(2, dtype=torch.int8),
            td.autodiff(td.Cpu(0)),
            {"kind": td.Kind.Int, "context": td.AutodiffContext(False)},
        ),
    ],
)
def test_what_is_no_contradiction(plain: torch.Tensor, device: td.Device, options: dict[str, Any]) -> None:
    assert td.Tensor(plain, device, **options).primitive is plain


@pytest.mark.parametrize(
    ("arguments", "options", "wanted"),
    [
        (([1.0], td.Cpu(0)), {}, "takes a Tensor, not list"),
        ((torch.ones(1), "cpu"), {}, "takes a Device, not str"),
        ((torch.ones(1), torch.device("cpu")), {}, "takes a Device, not device"),
        (
            (torch.ones(1), td.Cpu(0)),
            {"kind": "Float"},
            "takes a Kind, one of Float, Int, Bool, Quantized, Autodiff, not str",
        ),
        ((torch.ones(1), td.Cpu(0)), {"context": True}, "takes an AutodiffContext, not bool"),
    ],
)
def test_a_tensor_of_the_wrong_things(arguments: Any, options: dict[str, Any], wanted: str) -> None:
    with pytest.raises(TypeError, match=wanted):
        td.Tensor(*arguments, **options)


TAKERS = {
    "op": lambda value: td.all_reduce(value, SUM),
    "ops": lambda value: td.reduce_scatter([value], SUM),
    "to_device": lambda value: td.to_device(value, "cpu"),
    "from_torch": lambda value: td.from_torch(value, "cpu"),
    "to_torch": td.to_torch,
    "to_numpy": td.to_numpy,
    "reference": td.TensorRef,
    "question": td.is_distributed,
    "mark": td.distributed_params,
    "kind": lambda value: td.is_kind(value, td.Kind.Float),
    "tracked": td.is_tracked,
    "write": lambda value: td.TensorRef(torch.ones(1)).set(value),
}


@pytest.mark.parametrize("value", [None, 1.0, [1.0], "cpu", np.ones(2)], ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("take", TAKERS.values(), ids=TAKERS)
def test_what_is_no_tensor(take: Any, value: Any) -> None:
    with pytest.raises(TypeError, match=f"takes a Tensor or a torch.Tensor, not {type(value).__name__}"):
        take(value)


@pytest.mark.parametrize(
    "value",
    [None, 1, "cpu", torch.ones(2), td.from_torch(torch.ones(2), "cpu")],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_list_of_tensors(value: Any) -> None:
    for call in (lambda: td.reduce_scatter(value, SUM), lambda: td.all_to_all(value)):
        with pytest.raises(TypeError, match=f"takes a list of tensors, not {type(value).__name__}"):
            call()


@pytest.mark.parametrize("op", ["sum", None, 1, torch.distributed.ReduceOp.SUM], ids=repr)
@pytest.mark.parametrize("tracked", [False, True])
def test_what_is_no_reduce_operation(op: Any, tracked: bool) -> None:
    with td.DistributedContext(["cpu"]), pytest.raises(TypeError, match="one of SUM, MEAN, MIN, MAX, PRODUCT, not"):
        td.all_reduce(torch.ones(2, requires_grad=tracked), op)


def test_other_arguments_of_the_wrong_type() -> None:
    marked = td.from_torch(torch.ones(2, requires_grad=True), "cpu")
    reference = td.TensorRef(torch.ones(2))
    with td.DistributedContext(["cpu"]):
        for wrong in (3, None):
            with pytest.raises(TypeError, match="set_distributed_params takes a str"):
                td.set_distributed_params(marked, wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="submit_gradient_sync takes a DistributedParams, not str"):
            td.submit_gradient_sync(reference, "0:w")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="submit_gradient_sync takes a TensorRef, not Tensor"):
            td.submit_gradient_sync(torch.ones(2), td.DistributedParams("0:w"))  # type: ignore[arg-type]
        for wrongs in (None, "0:w", td.DistributedParams("0:w"), ["0:w"]):
            with pytest.raises(TypeError, match="register_sync_parameters takes a"):
                td.register_sync_parameters("cpu", wrongs)  # type: ignore[arg-type]
        for timeout in ("5", True, [5]):
            with pytest.raises(TypeError, match="a number of seconds"):
                td.sync_collective("cpu", timeout=timeout)  # type: ignore[arg-type]
        for seconds in (-1, float("nan"), float("inf")):
            for call in (lambda s: td.sync_collective("cpu", timeout=s), lambda s: td.barrier(timeout=s)):
                with pytest.raises(td.BadConfig, match="timeout="):
                    call(seconds)
        td.barrier()


@pytest.mark.parametrize("op", ["nothing", "all_reduc", ""])
def test_ensure_supported_of_an_op_that_is_none(op: str) -> None:
    with pytest.raises(ValueError, match="there is no op"):
        td.ensure_supported("cpu", op)
    with pytest.raises(TypeError, match="ensure_supported takes a str"):
        td.ensure_supported("cpu", None)  # type: ignore[arg-type]


# -- plain tensors ----------------------------------------------------------------------------------------------------


def test_plain_tensor_without_a_group_is_on_the_first_cpu() -> None:
    assert td.from_torch(torch.ones(2)).device == td.Cpu(0)
    with pytest.raises(td.NoContext, match=r"here for Cpu\(0\)"):
        td.all_reduce(torch.ones(2), SUM)


def test_plain_tensor_belongs_to_the_only_local_device() -> None:
    with td.DistributedContext([td.Cpu(3)]) as context:
        assert td.from_torch(torch.ones(2)).device == td.Cpu(3)
        assert td.all_reduce(torch.ones(2), SUM).resolve().device.context is context
    outside = td.DistributedContext([td.Cpu(4)])
    assert td.from_torch(torch.ones(2)).device == td.Cpu(4)
    outside.close()


def test_plain_tensor_belongs_to_the_device_of_the_run_thread() -> None:
    with td.DistributedContext([td.Cpu(0), td.Cpu(1)]) as context:
        assert context.run(lambda device: td.from_torch(torch.ones(1)).device.rank) == [0, 1]
        results = context.run(lambda device: td.all_reduce(torch.full((1,), device.rank + 1.0), SUM).resolve())
        assert [each.item() for each in results] == [3.0, 3.0]
        assert [each.device.rank for each in results] == [0, 1]


@pytest.mark.parametrize("inside", [True, False])
def test_plain_tensor_that_may_belong_to_several_is_refused(inside: bool) -> None:
    context = td.DistributedContext([td.Cpu(0), td.Cpu(1)])
    if inside:
        context.__enter__()
    calls = [
        lambda: td.all_reduce(torch.ones(2), SUM),
        lambda: td.to_device(torch.ones(2), "ndarray"),
        lambda: td.from_torch(torch.ones(2)),
        lambda: td.comm_device(td.TensorRef(torch.ones(2))),
        lambda: td.reduce_scatter([torch.ones(2)], SUM),
    ]
    for call in calls:
        with pytest.raises(td.Unplaced, match="Nobody can know") as caught:
            call()
        assert "Cpu(0), Cpu(1)" in caught.value.reason
    assert td.from_torch(torch.ones(2), td.Cpu(1)).device == td.Cpu(1)
    assert not td.is_distributed(torch.ones(2))  # which replica it belongs to does not matter here
    if inside:
        context.__exit__(None, None, None)
    context.close()


def test_plain_tensor_with_two_groups_open() -> None:
    one, other = td.DistributedContext(["cpu:0"]), td.DistributedContext(["cpu:0"])
    with pytest.raises(td.AmbiguousContext):
        td.all_reduce(torch.ones(2), SUM)
    third = td.DistributedContext(["cpu:1"])
    with pytest.raises(td.Unplaced):
        td.from_torch(torch.ones(2))
    for context in (one, other, third):
        context.close()


def test_plain_tensor_on_a_device_that_is_no_backend() -> None:
    meta = torch.ones(2, device="meta")
    for call in (lambda: td.from_torch(meta), lambda: td.all_reduce(meta, SUM)):
        with pytest.raises(td.UnlistedDevice, match="device meta"):
            call()
    assert not td.is_distributed(meta)
    assert td.distributed_params(meta) is None
    assert not td.is_distributed_capable(meta)


def test_devices_of_another_group_are_refused_in_every_place() -> None:
    with td.DistributedContext(["cpu:0"]) as other, td.DistributedContext(["cpu:0"]) as context:
        tensor = td.from_torch(torch.ones(2), context.devices[0])
        stranger = other.devices[0]
        calls = [
            lambda: td.all_reduce(tensor, SUM, [stranger]),
            lambda: td.all_gather(tensor, (each for each in [stranger])),  # type: ignore[arg-type]
            lambda: td.broadcast(tensor, stranger),
        ]
        for call in calls:
            with pytest.raises(td.NotInContext, match="another device group"):
                call()
        assert td.broadcast(tensor, "cpu:0").resolve().tolist() == [1.0, 1.0]
        td.barrier(iter(["cpu:0"]))  # type: ignore[arg-type]
        td.barrier([stranger])  # devices alone say which group is meant


@pytest.mark.parametrize(
    ("devices", "error"),
    [
        (3, TypeError),
        ([], td.NoDevices),
        (["cpu:0", "cpu:0"], td.DuplicateDevice),
        (["cpu:0", "cpu:9"], td.NotInContext),
        (["cpu:0", "metal"], td.MixedVariants),
        ([None], td.UnknownDevice),
    ],
)
def test_wrong_lists_of_devices(devices: Any, error: type[Exception]) -> None:
    with td.DistributedContext(["cpu:0"]):
        for call in (lambda: td.all_reduce(torch.ones(2), SUM, devices), lambda: td.barrier(devices)):
            with pytest.raises(error):
                call()
        td.barrier("cpu:0")  # type: ignore[arg-type]


# -- where a tensor is said to be -------------------------------------------------------------------------------------


def test_from_torch_refuses_what_would_be_a_move() -> None:
    for there in (td.Remote("host:1"), td.Capture(0), td.Metal(0), td.Cuda(0)):
        with pytest.raises(td.WrongPlace, match="to_device"):
            td.from_torch(torch.ones(2), there)
    with pytest.raises(td.WrongPlace):
        td.from_torch(torch.ones(2, device="meta"), "cpu")


def test_from_torch_of_a_tensor_of_the_layer() -> None:
    tensor = td.from_torch(torch.ones(2), td.autodiff("cpu"))
    assert td.from_torch(tensor).device.autodiff  # type: ignore[arg-type]
    with pytest.raises(td.NestedAutodiff, match=r"^Autodiff should not wrap an autodiff tensor\."):
        td.from_torch(tensor, td.autodiff("cpu"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("plain", "fix"),
    [(torch.ones(2, requires_grad=True), "detach()"), (torch.ones(2, dtype=torch.bfloat16), "tensor.float()")],
)
def test_what_numpy_cannot_hold(plain: torch.Tensor, fix: str) -> None:
    calls = [lambda: td.from_torch(plain, "ndarray"), lambda: td.to_device(td.from_torch(plain, "cpu"), "ndarray")]
    for call in calls:
        with pytest.raises(td.UnsupportedArray) as caught:
            call()
        assert fix in caught.value.help


# -- moves ------------------------------------------------------------------------------------------------------------


def test_to_the_same_device_is_the_same_tensor() -> None:
    for device in ("cpu:1", "ndarray"):
        tensor = td.from_torch(torch.ones(2), device)
        assert td.to_device(tensor, device).primitive is tensor.primitive


def test_cpu_and_ndarray_share_their_memory() -> None:
    tensor = td.from_torch(torch.arange(6.0).reshape(2, 3).t(), "cpu")
    there = td.to_device(tensor, "ndarray")
    assert there.device == td.NdArray(0)
    assert shares(there.primitive, tensor.primitive)
    assert shares(td.to_device(there, "cpu:1").primitive, tensor.primitive)


def test_replicas_of_the_cpu_share_nothing_and_gradients_flow() -> None:
    leaf = torch.tensor([1.0, 2.0], requires_grad=True)
    tensor = td.from_torch(leaf, "cpu:0")
    moved = td.to_device(tensor, "cpu:1")
    assert moved.device == td.Cpu(1)
    assert moved.primitive.data_ptr() != leaf.data_ptr()
    torch.sum(torch.mul(moved, moved)).backward()  # type: ignore[call-overload]
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [2.0, 4.0]


def test_a_plain_tensor_moves_too() -> None:
    assert td.to_device(torch.ones(2), "ndarray").device == td.NdArray(0)


def test_into_a_capture_and_never_out() -> None:
    tensor = td.from_torch(torch.ones(2, 3), "cpu")
    assert td.can_transfer("cpu", "capture")
    assert not td.can_transfer("capture", "cpu")
    with pytest.raises(td.OutsideCapture, match=r"^capture tensor operations must run inside CaptureDevice\.capture"):
        td.to_device(tensor, "capture")
    with td.CaptureDevice.capture() as recording:
        assert td.is_capturing()
        there = td.to_device(tensor, "capture")
        assert there.device == td.Capture(0)
        assert there.shape == (2, 3)
        torch.relu(there)  # type: ignore[arg-type]
        with pytest.raises(td.NoTransfer, match="from Capture"):
            td.to_device(there, "cpu")
        with pytest.raises(td.NotCapable, match=r"tensor kind Capture\(Float\)"):
            td.all_reduce(there, SUM)
    assert not td.is_capturing()
    assert "relu" in str(recording.graph)
    with pytest.raises(td.OutsideCapture):
        torch.relu(there)  # type: ignore[arg-type]


# -- the checkpointing strategy ---------------------------------------------------------------------------------------


def test_every_result_carries_the_strategy_of_its_operand() -> None:
    device = td.autodiff("cpu", td.Checkpointing.BALANCED)
    with td.DistributedContext(["cpu"]) as context:
        tensor = td.from_torch(torch.ones(2), device)
        results = [
            td.all_reduce(tensor, SUM).resolve(),
            td.broadcast(tensor, "cpu").resolve(),
            *td.all_gather(tensor).resolve(),
            td.float_from_ref(td.TensorRef(tensor)),
            td.set_distributed_params(td.from_torch(torch.ones(2, requires_grad=True), device), "0:w"),
            td.all_reduce(td.from_torch(torch.ones(2, requires_grad=True), device), SUM).resolve(),
            td.to_device(tensor, td.autodiff("cpu:1", td.Checkpointing.BALANCED)),
        ]
        for result in results:
            assert result.device.autodiff
            assert result.device.checkpointing is td.Checkpointing.BALANCED
        assert results[0].device.context is context


def test_two_strategies_in_one_call() -> None:
    one = td.from_torch(torch.ones(2), td.autodiff("cpu"))
    other = td.from_torch(torch.ones(2), td.autodiff("cpu", td.Checkpointing.BALANCED))
    with pytest.raises(td.TwoStrategies, match="BALANCED and the first has DISABLED"):
        td.reduce_scatter([one, other], SUM)


def test_what_is_not_autodiff_takes_the_strategy_of_the_others() -> None:
    plain = td.from_torch(torch.ones(2), "cpu")
    balanced = td.from_torch(torch.ones(2), td.autodiff("cpu", td.Checkpointing.BALANCED))
    found = placing.as_tensors(td.Device.package, "reduce_scatter", [plain, balanced])
    assert [each.device.checkpointing for each in found] == [td.Checkpointing.BALANCED] * 2
    assert found[0].primitive is plain.primitive
    assert not plain.device.autodiff


def test_tensors_of_several_devices_in_one_call() -> None:
    with pytest.raises(td.MixedVariants, match=r"Number 1 of the list is NdArray\(0\)"):
        td.reduce_scatter([td.from_torch(torch.ones(2), "cpu"), td.from_numpy(np.ones(2))], SUM)
    with pytest.raises(td.MixedVariants, match=r"Number 1 of the list is Cpu\(1\)"):
        td.reduce_scatter([td.from_torch(torch.ones(2), "cpu:0"), td.from_torch(torch.ones(2), "cpu:1")], SUM)
    with pytest.raises(td.UnsupportedTensor, match="it is empty"):
        td.reduce_scatter([], SUM)


# -- the rest ---------------------------------------------------------------------------------------------------------


def test_a_reference_reads_and_writes() -> None:
    plain = torch.ones(2, requires_grad=True)
    reference = td.TensorRef(td.from_torch(plain, "cpu:1"))
    assert reference.device == td.comm_device(reference) == td.Cpu(1)
    reference.set(torch.full((2,), 3.0))
    assert plain.tolist() == [3.0, 3.0]
    copied = td.float_from_ref(reference)
    assert not copied.requires_grad
    assert copied.primitive.data_ptr() != plain.data_ptr()


def test_a_tensor_survives_a_pickle() -> None:
    tensor = td.from_torch(torch.ones(2), td.autodiff("cpu:1", td.Checkpointing.BALANCED))
    again = pickle.loads(pickle.dumps(tensor))
    assert again.tolist() == [1.0, 1.0]
    assert repr(again.device) == repr(tensor.device)
    assert again.context == tensor.context


def test_the_questions_about_marks() -> None:
    tensor = td.set_distributed_params(torch.ones(2, requires_grad=True), "0:w")
    assert td.is_distributed(tensor)
    assert td.is_distributed(tensor.primitive)
    assert td.distributed_params(tensor) == td.DistributedParams("0:w")
    for other in (torch.ones(2), torch.ones(2, dtype=torch.int8), torch.tensor(True), quantized()):
        assert not td.is_distributed(other)
        assert td.distributed_params(td.from_torch(other, "cpu")) is None
