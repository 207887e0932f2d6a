"""Side by side with torch's DistributedDataParallel, in the same two processes: every parameter on every rank, 20 steps.

DDP runs on the default process group of the program, which a device group must not touch.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

import torchdispatch as td
from tests.runtime import processes

STEPS = 20


class Block(nn.Module):
    """A transformer encoder block over token embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(16, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.block(self.tokens(x)))


class Tied(nn.Module):
    """The output layer is the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(16, 8)
        self.inner = nn.Linear(8, 8)
        self.head = nn.Linear(8, 16, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.inner(self.tokens(x))))


class Bag(nn.Module):
    """A sparse embedding and a dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Embedding(64, 4, sparse=True)
        self.head = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.rows(x))


class Sometimes(nn.Module):
    """A branch that only some ranks take in some steps."""

    def __init__(self) -> None:
        super().__init__()
        self.always = nn.Linear(4, 4)
        self.branch = nn.Linear(4, 4)
        self.taken = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.always(x)
        return self.branch(y) if self.taken else y


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3))


def convolutions() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3, stride=2), nn.BatchNorm2d(4)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)),
    )


def large() -> nn.Module:
    return nn.Sequential(nn.Linear(600, 600), nn.Tanh(), nn.Linear(600, 4))


def tokens(generator: torch.Generator) -> torch.Tensor:
    return torch.randint(0, 16, (3, 5), generator=generator)


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Callable[[torch.Generator], torch.Tensor]]] = {
    "mlp": (mlp, lambda g: torch.randn(5, 6, generator=g)),
    "large": (large, lambda g: torch.randn(3, 600, generator=g)),
    "conv": (convolutions, lambda g: torch.randn(4, 3, 9, 9, generator=g)),
    "channels last": (
        lambda: convolutions().to(memory_format=torch.channels_last),
        lambda g: torch.randn(4, 3, 9, 9, generator=g).to(memory_format=torch.channels_last),
    ),
    "transformer": (Block, tokens),
    "tied": (Tied, tokens),
    "sparse": (Bag, lambda g: torch.randint(0, 64, (7,), generator=g)),
    "sometimes": (Sometimes, lambda g: torch.randn(5, 4, generator=g)),
}


def _train(spot: processes.Spot, folder: str, settings: dict[str, Any]) -> dict[str, Any]:
    dist.init_process_group("gloo", init_method=f"file://{folder}/default", rank=spot.rank, world_size=2)
    before, seen = dist.group.WORLD, {}
    with spot.open(**settings) as context:
        for name, (network, batch) in NETWORKS.items():
            torch.manual_seed(spot.rank)
            plain = network()
            unused = name == "sometimes"
            theirs = nn.parallel.DistributedDataParallel(copy.deepcopy(plain), find_unused_parameters=unused)
            ours = td.distribute(plain, context)
            generator = torch.Generator().manual_seed(10 + spot.rank)
            optimizers = [
                torch.optim.SGD(each.parameters(), 0.1, momentum=0.9 * (name != "sparse")) for each in (theirs, ours)
            ]
            for step in range(STEPS):
                x = batch(generator)
                for module, optimizer in zip((theirs, ours), optimizers, strict=True):
                    if unused:
                        inner = getattr(module, "module", module)
                        inner.taken = step % 3 == spot.rank
                    optimizer.zero_grad()
                    module(x).square().mean().backward()
                    optimizer.step()
            pairs = list(zip(theirs.module.named_parameters(), ours.named_parameters(), strict=True))
            seen[name] = [(key, one.detach(), other.detach()) for (key, one), (_, other) in pairs]
        assert dist.group.WORLD is before
        probe = torch.tensor([1.0 + spot.rank])
        dist.all_reduce(probe)
        assert probe.item() == 3.0
    dist.destroy_process_group()
    return seen


@pytest.mark.parametrize("settings", [{}, {"overlap": "on"}], ids=["plain", "overlap"])
def test_every_parameter_is_that_of_ddp_after_twenty_steps(settings: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        results = processes.values(_train, 2, folder, settings, deadline=100)
    assert [set(each) for each in results] == [set(NETWORKS)] * 2
    for name in NETWORKS:
        for key, theirs, ours in results[0][name] + results[1][name]:
            torch.testing.assert_close(
                ours, theirs, rtol=1e-5, atol=1e-6, msg=lambda text, at=(name, key): f"{at}: {text}"
            )
        for (key, _, first), (_, _, second) in zip(results[0][name], results[1][name], strict=True):
            assert torch.equal(first, second), (name, key)
