"""Train a classifier of handwritten digits on several devices, and get what one device would have got.

    python examples/train_digits.py --devices 4 --out four.pt
    torchrun --nproc-per-node 4 examples/train_digits.py --out four.pt
    python examples/train_digits.py --single --devices 4 --out one.pt

Every batch is cut into equal shards, one per device; the mean of the shards' gradients is the gradient of the whole
batch. `--single` trains on the same batches without the dispatch layer: the weights differ by rounding only.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn

import torchdispatch as td

HELD_OUT = 360


@dataclass(frozen=True)
class Digits:
    """Images as rows of 64 numbers from 0 to 1, and what they show; the last ones are kept for the test."""

    images: torch.Tensor
    labels: torch.Tensor

    @property
    def training(self) -> tuple[torch.Tensor, torch.Tensor]:
        """What is trained on."""
        return self.images[:-HELD_OUT], self.labels[:-HELD_OUT]

    @property
    def test(self) -> tuple[torch.Tensor, torch.Tensor]:
        """What is kept for the end."""
        return self.images[-HELD_OUT:], self.labels[-HELD_OUT:]


@dataclass(frozen=True)
class Schedule:
    """How long to train, and on how much at a time; `batch` is a multiple of the number of devices."""

    epochs: int
    batch: int
    samples: int

    @property
    def batches(self) -> int:
        """Whole batches in the samples; what is left over is not used."""
        return self.samples // self.batch

    @property
    def steps(self) -> int:
        """How often the weights change."""
        return self.epochs * self.batches

    def shards(self, rank: int, size: int) -> Iterator[slice]:
        """Which samples the rank takes at each step, always in the same order."""
        part = self.batch // size
        for step in range(self.steps):
            start = (step % self.batches) * self.batch + rank * part
            yield slice(start, start + part)


def read_digits(seed: int) -> Digits:
    data = load_digits()
    order = torch.randperm(len(data.target), generator=torch.Generator().manual_seed(seed))
    images = torch.from_numpy(data.data).double() / 16
    return Digits(images[order], torch.from_numpy(data.target).long()[order])


def classifier(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).double()


def train(
    module: nn.Module, digits: Digits, schedule: Schedule, rank: int, size: int, advance: Callable[[], None]
) -> nn.Module:
    """Plain PyTorch: nothing here knows whether the module is one of several replicas."""
    images, labels = digits.training
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    for shard in schedule.shards(rank, size):
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(images[shard]), labels[shard]).backward()
        optimizer.step()
        advance()
    return module


def train_together(devices: int | None, seed: int, digits: Digits, schedule: Schedule) -> tuple[nn.Module, bool]:
    """The trained replica of this process's first device, and whether this process speaks for all."""
    local = [td.Cpu(index) for index in range(devices or 1)]
    replicas = [classifier(seed + index) for index in range(len(local))]  # all but rank 0's are overwritten
    with td.DistributedContext(local) as context:
        first = context.local_devices[0]

        def replica(index: int, rank: int) -> nn.Module:
            module = td.distribute(replicas[index], context)
            with progress(schedule.steps, rank == 0) as advance:
                return train(module, digits, schedule, rank, context.size, advance)

        trained = context.run(lambda device: replica(device.index, device.rank or 0))
    return trained[0], first.rank == 0


@contextlib.contextmanager
def progress(steps: int, shown: bool) -> Iterator[Callable[[], None]]:
    """A bar on a terminal, nothing elsewhere."""
    if not (shown and sys.stderr.isatty()):
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("training", total=steps)
        yield lambda: bars.advance(task)


def accuracy(module: nn.Module, digits: Digits) -> float:
    images, labels = digits.test
    with torch.no_grad():
        return float((module(images).argmax(1) == labels).double().mean())


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--devices", type=int, default=2, help="CPU replicas in this process; torchrun's processes instead"
    )
    parser.add_argument(
        "--single", action="store_true", help="one device, without the dispatch layer, on the same batches"
    )
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch", type=int, default=60, help="samples in a batch over all devices")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="where the weights go")
    parser.add_argument("--json", type=Path, help="where accuracy, steps and number of devices go")
    options = parser.parse_args(argv)
    if options.devices < 1 or options.epochs < 1 or options.batch < options.devices:
        parser.error("--devices and --epochs are at least 1, and --batch has a sample for every device")
    return options


def main(argv: list[str] | None = None) -> None:
    options = parse(argv)
    torch.set_num_threads(1)  # the matrices are too small to be worth more
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    launched = processes > 1 and not options.single
    size = processes if launched else options.devices
    if options.batch < size:
        sys.exit(f"--batch {options.batch} has no sample for each of the {size} processes")
    digits = read_digits(options.seed)
    samples = len(digits.training[1])
    schedule = Schedule(options.epochs, options.batch - options.batch % size, samples)
    if options.single:
        with progress(schedule.steps, True) as advance:
            module = train(classifier(options.seed), digits, schedule, 0, 1, advance)
        speaks = True
    else:
        module, speaks = train_together(None if launched else size, options.seed, digits, schedule)
    if not speaks:
        return
    result = {"accuracy": accuracy(module, digits), "steps": schedule.steps, "devices": 1 if options.single else size}
    left = samples - schedule.batches * schedule.batch
    print(
        f"{schedule.steps} steps on {result['devices']} device(s), batches of {schedule.batch}, {left} samples left over"
    )
    print(f"accuracy on {HELD_OUT} held-out digits: {result['accuracy']:.4f}")
    if options.out is not None:
        torch.save(module.state_dict(), options.out)
    if options.json is not None:
        options.json.write_text(json.dumps(result) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
