"""Training with the usual idioms of torch: what a loop does on one device has to work on several, with the right values."""

from __future__ import annotations

import copy
import io
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import torchdispatch as td
from tests.runtime import processes

MEAN, SUM = td.ReduceOperation.MEAN, td.ReduceOperation.SUM
LOCAL = (1.0, 3.0)


def on_each(fn: Callable[[Any, Any], Any], size: int = 2, devices: list[Any] | None = None, **config: Any) -> list[Any]:
    """What `fn(context, device)` returns or raises on each device of a fresh group."""

    def caught(device: Any) -> Any:
        try:
            return fn(context, device)
        except td.DispatchError as error:
            return error

    settings = td.DistributedConfig(**{"timeout": 20.0, **config})
    with td.DistributedContext(devices or [td.Cpu(index) for index in range(size)], settings) as context:
        return context.run(caught)


class Weight(nn.Module):
    """One number."""

    def __init__(self, value: float = 1.0) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor([value]))

    def forward(self, x: float) -> torch.Tensor:
        return self.w * x


SEEDED = threading.Lock()
"""torch's generator belongs to all threads: who seeds it and draws from it does both before the next one."""


def network(seed: int = 0) -> nn.Module:
    with SEEDED:
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4)).double()


def batches(steps: int, rows: int = 8) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    return [torch.randn(rows, 6, generator=generator, dtype=torch.float64) for _ in range(steps)]


def numbers(module: nn.Module) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in module.parameters()]


def assert_all_close(first: list[torch.Tensor], second: list[torch.Tensor], tolerance: float = 1e-11) -> None:
    for one, other in zip(first, second, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


OPTIMIZERS: dict[str, Callable[[Iterator[nn.Parameter]], torch.optim.Optimizer]] = {
    "SGD": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "Adam": lambda p: torch.optim.Adam(p, 0.01, amsgrad=True),
    "AdamW": lambda p: torch.optim.AdamW(p, 0.01),
    "Adamax": lambda p: torch.optim.Adamax(p, 0.01),
    "NAdam": lambda p: torch.optim.NAdam(p, 0.01),
    "RAdam": lambda p: torch.optim.RAdam(p, 0.01),
    "Adagrad": lambda p: torch.optim.Adagrad(p, 0.05),
    "Adadelta": lambda p: torch.optim.Adadelta(p, 1.0),
    "RMSprop": lambda p: torch.optim.RMSprop(p, 0.01),
    "Rprop": lambda p: torch.optim.Rprop(p, 0.01),
    "ASGD": lambda p: torch.optim.ASGD(p, 0.05),
    "Adafactor": lambda p: torch.optim.Adafactor(p, 0.05),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_takes_the_steps_of_one_device(name: str) -> None:
    """Two replicas with half of each batch end where one device with whole batches ends."""

    def train(module: nn.Module, rows: slice) -> list[torch.Tensor]:
        optimizer = OPTIMIZERS[name](module.parameters())
        for batch in batches(12):
            optimizer.zero_grad()
            module(batch[rows]).square().mean().backward()
            optimizer.step()
        return numbers(module)

    def step(context: Any, device: Any) -> list[torch.Tensor]:
        return train(td.distribute(network(device.rank), context), slice(4 * device.rank, 4 * device.rank + 4))

    alone = train(network(), slice(None))
    first, second = on_each(step)
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))
    assert_all_close(first, alone, 1e-6 if name in ("Rprop", "Adadelta") else 1e-9)


def test_muon() -> None:
    def train(module: nn.Module, rows: slice) -> list[torch.Tensor]:
        optimizer = torch.optim.Muon([p for p in module.parameters() if p.ndim == 2], 0.01)
        for batch in batches(5):
            module.zero_grad()
            module(batch[rows].float()).square().mean().backward()
            optimizer.step()
        return numbers(module)

    def step(context: Any, device: Any) -> list[torch.Tensor]:
        return train(td.distribute(network().float(), context), slice(4 * device.rank, 4 * device.rank + 4))

    assert_all_close(on_each(step)[1], train(network().float(), slice(None)), 1e-3)


def test_lbfgs_with_a_loss_that_all_ranks_share() -> None:
    """Its line search looks at the loss, so the closure has to give every rank the same."""

    def train(module: nn.Module, rows: slice, mean: Callable[[torch.Tensor], torch.Tensor]) -> list[torch.Tensor]:
        optimizer = torch.optim.LBFGS(module.parameters(), max_iter=5, line_search_fn="strong_wolfe")
        (batch,) = batches(1)

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = module(batch[rows]).square().mean()
            loss.backward()
            return mean(loss.detach())

        for _ in range(3):
            optimizer.step(closure)
        return numbers(module)

    def step(context: Any, device: Any) -> list[torch.Tensor]:
        def mean(loss: torch.Tensor) -> torch.Tensor:
            return td.all_reduce(loss, MEAN).resolve().torch()

        return train(td.distribute(network(), context), slice(4 * device.rank, 4 * device.rank + 4), mean)

    assert_all_close(on_each(step)[0], train(network(), slice(None), lambda loss: loss), 1e-6)


def test_sparse_adam() -> None:
    def train(module: nn.Module, rows: torch.Tensor) -> torch.Tensor:
        optimizer = torch.optim.SparseAdam(list(module.parameters()), 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            module(rows).square().mean().backward()
            optimizer.step()
        return module.weight.detach()  # type: ignore[return-value]

    def table() -> nn.Module:
        with SEEDED:
            torch.manual_seed(3)
            return nn.Embedding(6, 3, sparse=True)

    rows = torch.tensor([[0, 1], [1, 4]])

    def step(context: Any, device: Any) -> torch.Tensor:
        return train(td.distribute(table(), context), rows[device.rank])

    alone = train(table(), rows.flatten())
    for weight in on_each(step):
        torch.testing.assert_close(weight, alone)
        assert torch.equal(weight[2], table().weight[2])  # type: ignore[index]


def test_clipping_by_norm_sees_the_reduced_gradients() -> None:
    def step(context: Any, device: Any) -> Any:
        module = td.distribute(Weight(), context)
        module(LOCAL[device.rank]).backward()
        norm = nn.utils.clip_grad_norm_(module.parameters(), 0.5)
        return norm.item(), round(module.w.grad.item(), 4)

    assert on_each(step) == [(2.0, 0.5)] * 2


def test_autocast_and_a_gradient_scaler() -> None:
    def train(module: nn.Module, rows: slice) -> list[torch.Tensor]:
        optimizer = torch.optim.SGD(module.parameters(), 0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        for batch in batches(4):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = module(batch[rows].float()).float().square().mean()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        return numbers(module)

    def step(context: Any, device: Any) -> list[torch.Tensor]:
        return train(td.distribute(network().float(), context), slice(4 * device.rank, 4 * device.rank + 4))

    first, second = on_each(step)
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))
    assert_all_close(first, train(network().float(), slice(None)), 2e-2)


def test_an_overflow_on_one_rank_skips_the_step_on_all() -> None:
    def step(context: Any, device: Any) -> Any:
        module = td.distribute(Weight(), context)
        optimizer = torch.optim.SGD(module.parameters(), 0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
        seen = []
        for scale in (float("inf") if device.rank else 1.0, 1.0):
            optimizer.zero_grad()
            scaler.scale(module(scale)).backward()
            scaler.step(optimizer)
            scaler.update()
            seen.append((round(module.w.item(), 4), scaler.get_scale()))
        return seen

    assert on_each(step) == [[(1.0, 1.0), (0.9, 1.0)]] * 2


def test_a_disabled_scaler() -> None:
    def step(context: Any, device: Any) -> float:
        module = td.distribute(Weight(), context)
        optimizer = torch.optim.SGD(module.parameters(), 0.1)
        scaler = torch.amp.GradScaler("cpu", enabled=False)
        scaler.scale(module(LOCAL[device.rank])).backward()
        scaler.step(optimizer)
        scaler.update()
        return round(module.w.item(), 4)

    assert on_each(step) == [0.8, 0.8]


def test_batch_norm_trains_on_every_replica_with_statistics_of_its_own() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(x)

    def step(context: Any, device: Any) -> Any:
        module = td.distribute(Net(), context)
        x = torch.tensor([[1.0], [2.0]]) + 10 * device.rank
        (module(x) + module(x)).square().mean().backward()  # two forwards before one backward
        return round(module.norm.running_mean.item(), 4), module.norm.weight.grad.item()

    (mean0, grad0), (mean1, grad1) = on_each(step)
    assert (mean0, mean1) == (0.285, 2.185)
    assert grad0 == grad1


def test_a_checkpoint_is_saved_and_loaded() -> None:
    def step(context: Any, device: Any) -> Any:
        module = td.distribute(network(device.rank), context)
        optimizer = torch.optim.Adam(module.parameters(), 0.01)

        def once(module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
            optimizer.zero_grad()
            module(batches(1)[0] * (1 + device.rank)).square().mean().backward()
            optimizer.step()

        once(module, optimizer)
        saved = io.BytesIO()
        torch.save({"model": module.state_dict(), "optimizer": optimizer.state_dict()}, saved)
        once(module, optimizer)
        saved.seek(0)
        other = td.distribute(network(5), context)
        state = torch.load(saved)
        other.load_state_dict(state["model"])
        again = torch.optim.Adam(other.parameters(), 0.01)
        again.load_state_dict(state["optimizer"])
        once(other, again)
        return numbers(module), numbers(other)

    for straight, loaded in on_each(step):
        assert_all_close(straight, loaded)


def test_loading_with_assign_replaces_parameters_and_says_so() -> None:
    def step(context: Any, device: Any) -> None:
        module = td.distribute(network(), context)
        module.load_state_dict(network(1).state_dict(), assign=True)
        module(batches(1)[0]).sum().backward()

    assert [type(error) for error in on_each(step)] == [td.ParametersChanged] * 2


@pytest.mark.parametrize("swap", [False, True])
def test_conversions_that_replace_parameters_are_never_silent(swap: bool) -> None:
    """torch can be told to make new parameters in `module.double()`, or to swap what is behind them."""
    switch = torch.__future__.set_swap_module_params_on_conversion if swap else torch.__future__.set_overwrite_module_params_on_conversion  # fmt: skip

    def step(context: Any, device: Any) -> Any:
        module = td.distribute(Weight(), context)
        try:
            module.double()
        except RuntimeError:
            return "refused"
        module(LOCAL[device.rank]).backward()
        return module.w.grad.item()

    switch(True)
    try:
        results = on_each(step)
    finally:
        switch(False)
    assert all(each in ("refused", 2.0) or isinstance(each, td.ParametersChanged) for each in results)
    assert type(results[0]) is type(results[1])


@pytest.mark.parametrize("way", ["insert", "dictionary", "update", "after a deletion", "child's dictionary", "setattr"])
def test_a_new_layer_that_alone_is_trained_is_noticed(way: str) -> None:
    """Whichever way it joins, and though no parameter that was there before gets a gradient."""

    def step(context: Any, device: Any) -> None:
        module = nn.Module()
        module.layers = nn.ModuleList([nn.Linear(1, 1), nn.Linear(1, 1), nn.Linear(1, 1)])
        td.distribute(module.requires_grad_(True), context)
        module.requires_grad_(False)
        new = nn.Linear(1, 1)
        if way == "insert":
            module.layers.insert(1, new)
        elif way == "dictionary":
            module.layers._modules["0"] = new
        elif way == "update":
            module.layers[0]._parameters.update(weight=new.weight)
        elif way == "after a deletion":
            del module.layers[0]
            module.layers.append(new)
        elif way == "child's dictionary":
            module._modules["layers"] = nn.ModuleList([new])
        else:
            module.layers[2] = new
        new(torch.ones(1)).sum().backward()

    assert [type(error) for error in on_each(step)] == [td.ParametersChanged] * 2


def test_functional_calls_train_the_parameters_they_are_given() -> None:
    def step(context: Any, device: Any) -> Any:
        module = td.distribute(Weight(), context)
        own = {"w": torch.tensor([5.0], requires_grad=True)}
        torch.func.functional_call(module, own, (LOCAL[device.rank],)).backward()
        module(LOCAL[device.rank]).backward()
        return own["w"].grad.item(), module.w.grad.item()

    assert on_each(step) == [(local, 2.0) for local in LOCAL]


def test_parametrizations_that_come_later_are_right_or_refused() -> None:
    def step(context: Any, device: Any) -> Any:
        module = td.distribute(nn.Linear(1, 1, bias=False), context)
        nn.utils.parametrizations.weight_norm(module)
        module(torch.full((1, 1), LOCAL[device.rank])).sum().backward()

    assert [type(error) for error in on_each(step)] == [td.ParametersChanged] * 2


def test_a_copy_and_a_pickle_of_a_module_are_ordinary() -> None:
    def step(context: Any, device: Any) -> Any:
        module = td.distribute(nn.ModuleDict({"inner": Weight()}), context)
        twin, read = copy.deepcopy(module), pickle.loads(pickle.dumps(module))
        for each in (twin, read):
            each["inner"](LOCAL[device.rank]).backward()
            assert type(each._modules) is type(each["inner"]._parameters) is dict
        module["inner"](LOCAL[device.rank]).backward()
        return [each["inner"].w.grad.item() for each in (twin, read, module)]

    expected = [[1.0, 1.0, 2.0], [3.0, 3.0, 2.0]]
    assert on_each(step) == expected
    assert on_each(step, all_reduce_op=SUM) == [[*each[:2], 4.0] for each in expected]


# -- uneven inputs -------------------------------------------------------------------------------------------------


def uneven(context: Any, device: Any, counts: tuple[int, ...], divide_by: str) -> tuple[list[float], float]:
    module = td.distribute(Weight(), context)
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    seen = []
    with context.join(divide_by):
        for _ in range(counts[device.rank]):
            optimizer.zero_grad()
            module(LOCAL[device.rank]).backward()
            seen.append(module.w.grad.item())
            optimizer.step()
    return seen, round(module.w.item(), 4)


@pytest.mark.parametrize(("divide_by", "last"), [("size", 1.5), ("active", 3.0)])
def test_a_rank_that_runs_out_of_batches(divide_by: str, last: float) -> None:
    def step(context: Any, device: Any) -> Any:
        return uneven(context, device, (1, 3), divide_by)

    weight = round(1 - 0.1 * (2 + 2 * last), 4)
    assert on_each(step) == [([2.0], weight), ([2.0, last, last], weight)]


@pytest.mark.parametrize("counts", [(2, 2), (0, 0), (0, 2), (3, 1)])
def test_joining_with_other_counts(counts: tuple[int, int]) -> None:
    results = on_each(lambda context, device: uneven(context, device, counts, "size"))
    assert [len(seen) for seen, _ in results] == list(counts)
    assert results[0][1] == results[1][1]


@pytest.mark.parametrize("op", [MEAN, SUM])
@pytest.mark.parametrize("overlap", ["on", "off"])
@pytest.mark.parametrize(("divide_by", "last"), [("size", 1.5), ("active", 3.0)])
def test_what_was_reduced_before_a_rank_was_through_stays(
    op: td.ReduceOperation, overlap: str, divide_by: str, last: float
) -> None:
    """Several passes add up, as they do without ranks that are through; some of them have a sync, and some have none."""

    def step(context: Any, device: Any) -> Any:
        module = td.distribute(Weight(), context)
        module(LOCAL[device.rank]).backward()
        seen = []
        with context.join(divide_by):
            for _ in range(1 + 2 * device.rank):
                module(LOCAL[device.rank]).backward()
                seen.append(module.w.grad.item())
            if device.rank == 1:
                with context.no_sync():
                    module(LOCAL[1]).backward()
                module(LOCAL[1]).backward()
                seen.append(module.w.grad.item())
        module.w.grad = None
        for _ in range(2):
            module(LOCAL[device.rank]).backward()
        return seen, module.w.grad.item()

    mean = op is MEAN
    both, one = (2.0, last) if mean else (4.0, 3.0)
    own = [2 * both, 2 * both + one, 2 * both + 2 * one, 2 * both + 4 * one]
    expected = [([own[0]], 2 * both), (own, 2 * both)]
    assert on_each(step, all_reduce_op=op, overlap=overlap) == expected


def test_training_goes_on_after_a_join_and_a_stranger_to_it_is_told() -> None:
    def step(context: Any, device: Any) -> Any:
        module = td.distribute(Weight(), context)
        with context.join():
            for _ in range(1 + device.rank):
                module(1.0).backward()
        module.zero_grad()
        module(LOCAL[device.rank]).backward()
        return module.w.grad.item()

    assert on_each(step) == [2.0, 2.0]


def test_an_error_in_a_join_is_not_held_back() -> None:
    def step(context: Any, device: Any) -> None:
        module = td.distribute(Weight(), context)
        with context.join():
            module(1.0).backward()
            if device.rank == 0:
                raise ValueError("broken")
            module(1.0).backward()

    with pytest.raises(ValueError, match="broken"):
        on_each(step)


def _uneven(spot: processes.Spot) -> Any:
    with spot.open() as context:
        return uneven(context, context.local_devices[0], (1, 3), "size")


def test_processes_join_too() -> None:
    assert processes.values(_uneven, 2) == [([2.0], 0.5), ([2.0, 1.5, 1.5], 0.5)]


# -- checkpointing of activations ------------------------------------------------------------------------------------


class Blocks(nn.Module):
    """Children with dropout and batch norm, called in a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.rest = nn.ModuleList(
            nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Tanh()) for _ in range(3)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for block in self.rest:
            x = x + block(x)
        return x


def test_balanced_devices_recompute_and_train_alike() -> None:
    def step(context: Any, device: Any) -> Any:
        torch.manual_seed(0)
        module = Blocks().double()
        td.distribute(module, context)
        with torch.no_grad():
            module.eval()(batches(1)[0])
        module.train()
        torch.manual_seed(5)
        for batch in batches(2):
            module(batch[4 * device.rank : 4 * device.rank + 4]).square().mean().backward()
        return [p.grad for p in module.parameters()], list(module.buffers()), sorted(module.state_dict())

    plain = [td.Cpu(0), td.Cpu(1)]
    balanced = [td.autodiff(device, td.Checkpointing.BALANCED) for device in plain]
    torch.manual_seed(0)
    for expected, got in zip(on_each_in_turn(step, plain), on_each_in_turn(step, balanced), strict=True):
        assert expected[2] == got[2]
        assert_all_close(expected[0], got[0])
        assert_all_close([each.double() for each in expected[1]], [each.double() for each in got[1]])


def on_each_in_turn(step: Callable[[Any, Any], Any], devices: list[Any]) -> list[Any]:
    """The results of two groups of one device each: random numbers are drawn from one generator for all threads."""
    return [on_each(step, devices=[device])[0] for device in devices]


def test_a_balanced_device_keeps_less() -> None:
    """What autograd saves for the backward pass, counted where it is saved."""

    def saved(device: Any) -> int:
        holder = nn.Module()
        holder.blocks = nn.ModuleList(
            Stack(nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Tanh(), nn.Tanh())) for _ in range(4)
        )
        sizes: list[int] = []
        with td.DistributedContext([device]) as context:
            td.distribute(holder, context)

            def pack(tensor: torch.Tensor) -> torch.Tensor:
                sizes.append(0 if isinstance(tensor, nn.Parameter) else tensor.numel())
                return tensor

            x = torch.randn(64, 32, requires_grad=True)
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
                for block in holder.blocks:
                    x = block(x)
            x.sum().backward()
        return sum(sizes)

    assert saved(td.autodiff(td.Cpu(0), td.Checkpointing.BALANCED)) < 0.5 * saved(td.Cpu(0))


class Stack(nn.Module):
    """A block with a forward of its own."""

    def __init__(self, layers: nn.Module) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def test_a_balanced_module_is_copied_pickled_and_taken_over() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    with td.DistributedContext([td.autodiff(td.Cpu(0), td.Checkpointing.BALANCED)]) as context:
        td.distribute(module, context)
        twin, read = copy.deepcopy(module), pickle.loads(pickle.dumps(module))
        with torch.no_grad():
            module[0].weight.zero_()
        x = torch.ones(1, 2)
        assert torch.equal(twin(x), read(x))
        assert not torch.equal(twin(x), module(x))
    with td.DistributedContext([td.Cpu(0)]) as context:
        td.distribute(module, context)
        assert "forward" not in module[0].__dict__


def test_two_networks_that_are_trained_in_turn() -> None:
    """Each step has gradients of one of them; and one is cast on the way."""

    def train(first: nn.Module, second: nn.Module, rows: slice) -> list[torch.Tensor]:
        optimizers = [torch.optim.SGD(each.parameters(), 0.1, momentum=0.9) for each in (first, second)]
        for turn, batch in enumerate(batches(8)):
            if turn == 5:
                second.float()
            module, optimizer = ((first, second)[turn % 2], optimizers[turn % 2])
            optimizer.zero_grad()
            module(batch[rows].to(next(module.parameters()).dtype)).square().mean().backward()
            if turn < 5 or module is first:
                optimizer.step()
        return [*numbers(first), *(parameter.grad.clone() for parameter in second.parameters())]

    def step(context: Any, device: Any) -> list[torch.Tensor]:
        modules = [td.distribute(network(seed), context) for seed in (1, 2)]
        return train(*modules, slice(4 * device.rank, 4 * device.rank + 4))

    first, second = on_each(step)
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))
    assert_all_close(first, train(network(1), network(2), slice(None)), 1e-5)


def test_a_recurrent_network() -> None:
    def train(module: nn.Module, rows: slice) -> list[torch.Tensor]:
        optimizer = torch.optim.SGD(module.parameters(), 0.1)
        for batch in batches(4):
            optimizer.zero_grad()
            module(batch[rows].unsqueeze(0))[0].square().mean().backward()
            optimizer.step()
        return numbers(module)

    def lstm() -> nn.Module:
        with SEEDED:
            torch.manual_seed(4)
            return nn.LSTM(6, 5, num_layers=2).double()

    def step(context: Any, device: Any) -> list[torch.Tensor]:
        return train(td.distribute(lstm(), context), slice(4 * device.rank, 4 * device.rank + 4))

    assert_all_close(on_each(step)[1], train(lstm(), slice(None)))


# -- compiled modules and functions of one's own -----------------------------------------------------------------------


class Doubled(torch.autograd.Function):
    """A function whose gradient is not what autograd would derive."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        return 2 * gradients[0]


def test_custom_autograd_functions() -> None:
    def step(context: Any, device: Any) -> float:
        module = td.distribute(Weight(), context)
        Doubled.apply(module(LOCAL[device.rank])).backward()
        return module.w.grad.item()

    assert on_each(step) == [4.0, 4.0]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize(
    ("backend", "way"), [("inductor", "after"), *(("aot_eager", way) for way in ("after", "before", "itself"))]
)
@pytest.mark.slow
def test_compiled_modules(backend: str, way: str) -> None:
    results = processes.values(_compiled, 2, backend, way, deadline=110)
    assert results[0] == results[1] == [round(each, 6) for each in _expected_compiled()]


def _expected_compiled() -> list[float]:
    module = network()
    x = batches(1)[0]
    (module(x[:4]).square().mean() / 2 + module(x[4:]).square().mean() / 2).backward()
    return [parameter.grad.sum().item() for parameter in module.parameters()]


def _compiled(spot: processes.Spot, backend: str, way: str) -> list[float]:
    """Compiled after it was distributed, before that, or in its own place."""
    with spot.open(timeout=100.0) as context:
        module = Stack(network())
        compiled: Any = module
        if way == "itself":
            module.compile(backend=backend, fullgraph=True)
        if way == "before":
            compiled = torch.compile(module, backend=backend, fullgraph=True)
        td.distribute(compiled, context)
        if way == "after":
            compiled = torch.compile(module, backend=backend, fullgraph=True)
        rank = context.local_devices[0].rank
        compiled(batches(1)[0][4 * rank : 4 * rank + 4]).square().mean().backward()
        return [round(parameter.grad.sum().item(), 6) for parameter in module.parameters()]
