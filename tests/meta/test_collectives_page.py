"""What docs/collectives.md says in its tables is what the collectives do."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import torchdispatch as td
from torchdispatch.ops import collective, distributed, point_to_point

PAGE = Path(__file__).resolve().parents[2] / "docs" / "collectives.md"
Op = td.ReduceOperation


def table(heading: str) -> list[dict[str, str]]:
    """The first table below a heading, a row as its cells by column."""
    lines = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    head, _, *body = rows
    return [dict(zip(head, row, strict=True)) for row in body]


CALLS = {row["call"].strip("`"): row for row in table("The calls")}
NUMBERS = {row["dtype"].strip("`"): row for row in table("Which numbers are reduced, and how")}


def test_every_collective_is_there() -> None:
    asked = {
        name
        for module in (collective, distributed, point_to_point)
        for name, function in vars(module).items()
        if inspect.isfunction(function)
        and function.__module__ == module.__name__
        and name in td.__all__
        and ("CollectiveTensor" in str(function.__annotations__.get("return")) or name == "barrier")
    }
    assert {call.partition("(")[0] for call in CALLS} == asked


@pytest.mark.parametrize("call", CALLS)
def test_calls_have_these_arguments_and_give_this(call: str) -> None:
    name, _, arguments = call.rstrip(")").partition("(")
    function = getattr(td, name)
    signature = inspect.signature(function)
    required = [each.name for each in signature.parameters.values() if each.default is inspect.Parameter.empty]
    assert [each for each in arguments.split(", ") if each] == required
    assert "timeout" in signature.parameters
    gives = (
        "a handle" if "CollectiveTensor" in str(function.__annotations__["return"]) else "nothing, once all have come"
    )
    assert CALLS[call]["gives"] == gives


def _outcome(call: Callable[[], Any]) -> str:
    try:
        call().resolve()
    except td.DispatchError as error:
        return type(error).__name__
    return "yes"


def _tracked(op: td.ReduceOperation | None) -> Callable[[Any], dict[str, str]]:
    def body(device: Any) -> dict[str, str]:
        first, peer = device.context.devices[0], device.context.devices[1 - device.rank]

        def one() -> torch.Tensor:
            return torch.ones(2, requires_grad=True)

        arguments: dict[str, Callable[[], Any]] = {
            "tensor": one,
            "like": one,
            "tensors": lambda: [one(), one()],
            "op": lambda: op,
            "root": lambda: first,
            "peer": lambda: peer,
        }
        seen = {}
        for call in CALLS:
            name, _, wanted = call.rstrip(")").partition("(")
            if name != "barrier" and ("op" in wanted.split(", ")) == (op is not None):
                given = [arguments[each]() for each in wanted.split(", ")]
                if name == "scatter" and device != first:
                    continue  # it brings nothing that could be tracked
                seen[call] = _outcome(lambda name=name, given=given: getattr(td, name)(*given))  # type: ignore[misc]
        return seen

    return body


def test_what_is_differentiable() -> None:
    found: dict[str, list[str]] = {call: [] for call in CALLS if call != "barrier()"}
    with td.DistributedContext([td.Cpu(0), td.Cpu(1)], td.DistributedConfig(timeout=20)) as context:
        for op in (None, *Op):
            seen, _ = context.run(_tracked(op))
            for call, outcome in seen.items():
                assert outcome in ("yes", "NoBackward")
                if outcome == "yes":
                    found[call].append("always" if op is None else op.name)
    for call, ops in found.items():
        assert CALLS[call]["differentiable"] == (", ".join(ops) or "never"), call


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("dtype", NUMBERS)
def test_what_is_reduced(dtype: str) -> None:
    kind = getattr(torch, dtype)

    def body(device: Any) -> list[str]:
        return [_outcome(lambda op=op: td.all_reduce(torch.ones(3).to(kind), op)) for op in Op]  # type: ignore[misc]

    with td.DistributedContext([td.Cpu(0), td.Cpu(1)], td.DistributedConfig(timeout=20)) as context:
        first, second = context.run(body)
        moved = context.run(lambda device: td.all_gather(torch.ones(3).to(kind)).resolve()[1].primitive.dtype)
    assert first == second
    assert moved == [kind, kind]
    for op, outcome in zip(Op, first, strict=True):
        assert NUMBERS[dtype][op.name] == ("yes" if outcome == "yes" else "refused"), op
        assert outcome in ("yes", "MeaninglessReduction", "UnsupportedTensor")
        assert td.can_reduce(kind, op) == (outcome == "yes")


def test_what_sums_are_taken_in() -> None:
    """256 + 1 + 1 + … in the dtype itself, or rounded once: the first that it cannot count up to tells."""
    for dtype, row in NUMBERS.items():
        kind, wide = getattr(torch, dtype), row["adds up in"]
        if not wide or not (kind.is_floating_point or kind.is_complex):
            assert wide in ("", dtype)
            continue
        edge = 2 / torch.finfo(kind).eps
        with td.DistributedContext([td.Cpu(index) for index in range(3)], td.DistributedConfig(timeout=20)) as context:
            parts = [
                td.from_torch(torch.tensor([edge if each.rank == 0 else 1.0], dtype=kind), each)
                for each in context.devices
            ]
            handles = [td.all_reduce(part, Op.SUM) for part in parts]
            total = handles[0].resolve().primitive
            for handle in handles[1:]:
                handle.resolve()
        assert (total.item() == edge + 2) == (wide != dtype), dtype


def test_every_dtype_that_is_reduced_is_there() -> None:
    kinds = {
        name for name, kind in vars(torch).items() if isinstance(kind, torch.dtype) and str(kind) == f"torch.{name}"
    }
    reduced = {name for name in kinds if any(td.can_reduce(getattr(torch, name), op) for op in Op)}
    assert reduced <= set(NUMBERS)
