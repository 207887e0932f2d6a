"""The networks that training is measured on, each with a batch of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn


@dataclass(frozen=True)
class Workload:
    """A network, the batch of one replica, and what they are called."""

    name: str
    network: Callable[[], nn.Module]
    batch: Callable[[], torch.Tensor]
    steps: int
    """How many steps one measurement takes."""


def small_tensors() -> nn.Module:
    """A hundred narrow layers: 200 tensors, 1.6 MiB."""
    return nn.Sequential(*(layer for _ in range(100) for layer in (nn.Linear(64, 64), nn.Tanh())))


def convolutions() -> nn.Module:
    """Five convolutions and a linear layer: 12 tensors, 2.4 MiB."""
    layers: list[nn.Module] = []
    for before, after in pairwise([3, 32, 64, 128, 128, 256]):
        layers += [nn.Conv2d(before, after, 3, padding=1, stride=1 if before == 3 else 2), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(1024, 100))


def wide_mlp() -> nn.Module:
    """Six layers of 2048: 25 million parameters, 96 MiB."""
    return nn.Sequential(*(layer for _ in range(6) for layer in (nn.Linear(2048, 2048), nn.ReLU())))


def transformer() -> nn.Module:
    """Eight encoder layers of 512: 25 million parameters, 96 MiB."""
    layer = nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 8, enable_nested_tensor=False)


WORKLOADS = (
    Workload("200 small tensors", small_tensors, lambda: torch.randn(32, 64), 20),
    Workload("conv net", convolutions, lambda: torch.randn(8, 3, 32, 32), 20),
    Workload("25M MLP", wide_mlp, lambda: torch.randn(32, 2048), 4),
    Workload("25M transformer", transformer, lambda: torch.randn(2, 40, 512), 3),
)
