"""The three operations of gradient sync, called by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from dispatch_runtime.gradient_forms import LARGE, TOGETHER, Form, buckets

import torchdispatch as td
from tests.runtime import processes

MEAN, SUM = td.ReduceOperation.MEAN, td.ReduceOperation.SUM


def on_each(fn: Callable[[Any], Any], size: int = 2, op: td.ReduceOperation = MEAN) -> list[Any]:
    """What `fn` returns or raises on each device of a fresh group."""

    def caught(device: Any) -> Any:
        try:
            return fn(device)
        except td.DispatchError as error:
            return error

    config = td.DistributedConfig(all_reduce_op=op, timeout=20)
    with td.DistributedContext([td.Cpu(index) for index in range(size)], config) as context:
        return context.run(caught)


def sync(device: Any, gradients: dict[str, torch.Tensor], registered: Sequence[str] | None = None) -> None:
    names = list(gradients) if registered is None else registered
    td.register_sync_parameters(device, [td.DistributedParams(name) for name in names])
    for name, gradient in gradients.items():
        td.submit_gradient_sync(td.TensorRef(td.Tensor(gradient, device)), td.DistributedParams(name))
    td.submit_sync_collective(device)


@pytest.mark.parametrize(("op", "values"), [(MEAN, [2.0, 20.0]), (SUM, [4.0, 40.0])])
def test_results_are_written_back_through_the_references(op: td.ReduceOperation, values: list[float]) -> None:
    def step(device: Any) -> list[float]:
        a, b = torch.tensor([[1.0, 3.0][device.rank]]), torch.tensor([[10.0, 30.0][device.rank]])
        sync(device, {"a": a, "b": b})
        return [a.item(), b.item()]

    assert on_each(step, op=op) == [values, values]


def test_gradients_meet_by_id_whatever_the_order() -> None:
    def step(device: Any) -> dict[str, float]:
        gradients = {"a": torch.tensor([1.0 + 2 * device.rank]), "b": torch.tensor([10.0 + 20 * device.rank])}
        names = ["a", "b"] if device.rank == 0 else ["b", "a"]
        sync(device, {name: gradients[name] for name in names})
        return {name: gradients[name].item() for name in gradients}

    assert on_each(step) == [{"a": 2.0, "b": 20.0}] * 2


def test_what_a_rank_did_not_hand_over_counts_as_zero() -> None:
    def step(device: Any) -> list[float]:
        a, b = torch.tensor([1.0 + 2 * device.rank]), torch.tensor([7.0])
        sync(device, {"a": a, "b": b} if device.rank == 0 else {"a": a}, ["a", "b"])
        return [a.item(), b.item()]

    assert on_each(step) == [[2.0, 3.5], [2.0, 7.0]]


def test_two_gradients_of_one_parameter_add_up_and_the_same_one_counts_once() -> None:
    def step(device: Any) -> list[float]:
        first, second = torch.tensor([1.0 + 2 * device.rank]), torch.tensor([10.0])
        td.register_sync_parameters(device, [td.DistributedParams("a")])
        for gradient in (first, second, first):
            td.submit_gradient_sync(td.TensorRef(td.Tensor(gradient, device)), td.DistributedParams("a"))
        td.submit_sync_collective(device)
        return [first.item(), second.item()]

    assert on_each(step) == [[12.0, 12.0]] * 2


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        (torch.float64, (1.0, 3.0), 2.0),
        (torch.float16, (60000.0, 60000.0), 60000.0),
        (torch.bfloat16, (256.0, 1.0), 128.0),
        (torch.complex64, (10 + 10j, 90 + 90j), 50 + 50j),
    ],
)
def test_dtypes(dtype: torch.dtype, values: tuple[Any, Any], expected: Any) -> None:
    def step(device: Any) -> Any:
        gradient = torch.full((3,), values[device.rank], dtype=dtype)
        sync(device, {"a": gradient, "b": torch.ones(2)})
        return gradient.tolist()

    assert on_each(step) == [[expected] * 3] * 2


def test_sizes_and_layouts() -> None:
    """Large ones in place, small ones together, nothing and one number, a column of a matrix with its neighbour whole."""
    large = TOGETHER // 4 + 3

    def step(device: Any) -> Any:
        scale = 1.0 + 2 * device.rank
        matrix = torch.arange(8.0).reshape(4, 2) * scale
        gradients = {
            "column": matrix[:, 0],
            "empty": torch.empty(0, 3),
            "large": torch.arange(float(large)) * scale,
            "number": torch.tensor(scale),
            "double": torch.full((2, 2), scale, dtype=torch.float64),
        }
        sync(device, gradients)
        assert torch.equal(gradients["large"], torch.arange(float(large)) * 2)
        return matrix.tolist(), gradients["number"].item(), gradients["double"].unique().tolist()

    first, second = on_each(step)
    assert first == ([[0, 1], [4, 3], [8, 5], [12, 7]], 2.0, [2.0])
    assert second == ([[0, 3], [4, 9], [8, 15], [12, 21]], 2.0, [2.0])


def test_four_ranks_sum_in_the_same_bits() -> None:
    def step(device: Any) -> torch.Tensor:
        gradient = torch.rand(1000, generator=torch.Generator().manual_seed(device.rank))
        sync(device, {"a": gradient, "b": torch.ones(1)})
        return gradient

    results = on_each(step, size=4)
    parts = [torch.rand(1000, generator=torch.Generator().manual_seed(rank)) for rank in range(4)]
    assert all(torch.equal(each, results[0]) for each in results)
    torch.testing.assert_close(results[0], torch.stack(parts).mean(0))


def test_a_gradient_that_was_not_registered_is_refused() -> None:
    def step(device: Any) -> None:
        sync(device, {"b": torch.ones(1)}, ["a"])

    for error in on_each(step):
        assert isinstance(error, td.NotRegistered)
        assert error.fields == {"param": "b", "registered": "a"}


def test_different_parameters_are_the_same_disagreement_on_all_and_the_group_goes_on() -> None:
    def step(device: Any) -> tuple[str, float]:
        with pytest.raises(td.Disagreement) as caught:
            sync(device, {"same": torch.ones(1), f"only{device.rank}": torch.ones(1)})
        gradient = torch.tensor([1.0 + 2 * device.rank])
        sync(device, {"a": gradient})
        return caught.value.fields["differences"], gradient.item()

    first, second = on_each(step)
    assert first == second
    assert first[0] == (
        "parameter only0: float32 of shape (1,) on rank 0, not registered on rank 1; "
        "parameter only1: not registered on rank 0, float32 of shape (1,) on rank 1"
    )
    assert first[1] == 2.0


@pytest.mark.parametrize("other", [torch.ones(3), torch.ones(2, dtype=torch.float64), torch.ones(2, 1)])
def test_different_shapes_and_dtypes_disagree_before_anything_moves(other: torch.Tensor) -> None:
    def step(device: Any) -> torch.Tensor:
        gradient = torch.full((2,), 5.0) if device.rank == 0 else other.clone()
        with pytest.raises(td.Disagreement, match="parameter a: float32 of shape"):
            sync(device, {"a": gradient})
        return gradient

    first, second = on_each(step)
    assert torch.equal(first, torch.full((2,), 5.0))
    assert torch.equal(second, other)


def test_an_empty_list_takes_part() -> None:
    def step(device: Any) -> str:
        sync(device, {})
        with pytest.raises(td.Disagreement):
            sync(device, {} if device.rank else {"a": torch.ones(1)})
        return "done"

    assert on_each(step) == ["done", "done"]


def test_an_expanded_gradient_is_refused_by_the_call() -> None:
    def step(device: Any) -> None:
        sync(device, {"a": torch.ones(1).expand(3)})

    for error in on_each(step):
        assert isinstance(error, td.UnsupportedTensor)
        assert "expanded" in error.reason


def test_sparse_gradients_stay_sparse() -> None:
    def step(device: Any) -> torch.Tensor:
        rows = torch.tensor([[0, 0]]) if device.rank == 0 else torch.tensor([[2, 0]])
        gradient = torch.sparse_coo_tensor(
            rows, torch.tensor([1.0, 2.0]) * (1 + device.rank), (4,), check_invariants=True
        )
        sync(device, {"a": gradient})
        return gradient

    for gradient in on_each(step, op=SUM):
        assert gradient.is_sparse
        assert gradient.to_dense().tolist() == [7.0, 0.0, 2.0, 0.0]


def test_rounds_leave_nothing_behind() -> None:
    def step(device: Any) -> list[float]:
        results = []
        for turn in range(100):
            gradient = torch.full((turn % 7,), float(device.rank + turn))
            sync(device, {f"p{turn}": gradient})
            results.append(gradient.sum().item())
        return results

    expected = [(turn % 7) * (turn + 0.5) for turn in range(100)]
    assert on_each(step) == [expected, expected]


def test_small_gradients_of_a_dtype_share_a_bucket_and_large_ones_stay_alone() -> None:
    forms = [
        Form("a", (10,), "torch.float32", used=True),
        Form("b", (TOGETHER // 4,), "torch.float32", used=True),
        Form("c", (2, 3), "torch.float64", used=True),
        Form("d", (), "torch.float32", used=True),
        Form("unused", (3,), "torch.float32"),
        Form("f", (3, 3), "torch.float32", sparse=1, used=True),
        Form("e", (TOGETHER // 8 - 6,), "torch.float64", used=True),
    ]
    assert buckets(forms) == [[0, 3], [1], [2, 6], [5]]


@pytest.mark.parametrize(("more", "plan"), [(0, [[0, 1, 2, 3]]), (1, [[0], [1, 3], [2]])])
def test_large_counts_only_where_there_is_much_of_a_dtype(more: int, plan: list[list[int]]) -> None:
    large, rest = LARGE // 4, TOGETHER // 4 - 2 * (LARGE // 4)
    sizes = {"large": large, "nearly": large - 1, "rest": rest + more, "tiny": 1}
    assert buckets([Form(name, (size,), "torch.float32", used=True) for name, size in sizes.items()]) == plan


def of_many_kinds(device: Any) -> dict[str, list[Any]]:
    """Reduced gradients of many kinds, as numbers, by name."""
    rank, scale = device.rank, 1.0 + 2 * device.rank
    many = TOGETHER // 2
    rows = torch.tensor([[0, 0]]) if rank == 0 else torch.tensor([[2, 0]])
    gradients = {
        "bfloat16": torch.tensor([256.0, 1.0][rank : rank + 1], dtype=torch.bfloat16),
        "complex": torch.tensor([10 + 10j, 90 + 90j][rank : rank + 1]),
        "conjugate": torch.full((many,), scale * (1 + 1j)).conj(),
        "double": torch.full((2, 2), scale, dtype=torch.float64),
        "empty": torch.empty(0, 3),
        "float16": torch.tensor([60000.0], dtype=torch.float16),
        "large": torch.arange(float(many + 3)) * scale,
        "large column": torch.full((many, 2), scale)[:, 0],
        "large half": torch.full((many,), 60000.0, dtype=torch.float16),
        "negated": torch.full((many,), scale * 1j).conj().imag,
        "number": torch.tensor(scale),
        "sparse": torch.sparse_coo_tensor(rows, torch.tensor([1.0, 2.0]) * scale, (4,), check_invariants=True),
        "sparse rows": torch.sparse_coo_tensor(rows, torch.full((2, 3), scale), (4, 3), check_invariants=True),
        "no rows": torch.sparse_coo_tensor(rows[:, :rank], torch.full((rank,), scale), (4,), check_invariants=True),
    }
    sync(device, gradients)
    assert all(gradients[name].is_sparse for name in ("sparse", "sparse rows", "no rows"))
    return {name: _told(each) for name, each in gradients.items()}


def _told(gradient: torch.Tensor) -> list[Any]:
    dense = gradient.to_dense().resolve_conj().resolve_neg().flatten()
    return dense.tolist() if dense.numel() < 20 else [dense.sum().item(), dense[0].item(), dense[-1].item()]


def _of_many_kinds(spot: processes.Spot, op: td.ReduceOperation) -> Any:
    with spot.open(all_reduce_op=op) as context:
        return context.run(of_many_kinds)[0]


@pytest.mark.parametrize("op", [MEAN, SUM])
def test_every_kind_is_the_same_over_the_network_and_in_memory(op: td.ReduceOperation) -> None:
    over_network = processes.values(_of_many_kinds, 2, op)
    in_memory = on_each(of_many_kinds, op=op)
    assert over_network == in_memory
    assert in_memory[0] == in_memory[1]
    factor = 0.5 if op is MEAN else 1.0
    first = in_memory[0]
    assert first["bfloat16"] == [257 * factor if op is MEAN else 256.0] or first["bfloat16"] == [128.0]
    assert first["complex"] == [(100 + 100j) * factor]
    assert first["conjugate"][1] == (4 - 4j) * factor
    assert first["negated"][1] == -4 * factor
    assert first["double"] == [4 * factor] * 4
    assert first["float16"] == [60000.0 if op is MEAN else float("inf")]
    assert first["large half"][1] == first["float16"][0]
    assert first["large"][1:] == [0.0, (TOGETHER // 2 + 2) * 4 * factor]
    assert first["sparse"] == [9 * factor, 0.0, 3 * factor, 0.0]
    assert first["sparse rows"][:3] == [5 * factor] * 3
    assert first["no rows"] == [0.0, 0.0, 3 * factor, 0.0]
