"""A picture of training steps: what each variant takes on each model, and how much of it is exposed communication."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt

from benchmarks.replicas import DDP, PROCESSES, SHARED, THREADS, Measured

BARS = (DDP, PROCESSES, THREADS, SHARED)
NAMES = ("DDP\n2 processes", "td\n2 processes", "td\n2 threads", "td, shared\n2 threads")


def draw(results: list[Measured], path: Path) -> None:
    """Write the picture as PNG."""
    figure, axes = plt.subplots(1, len(results), figsize=(3.4 * len(results), 3.6), squeeze=False)
    for axis, each in zip(axes[0], results, strict=True):
        total = [each.milliseconds(name) for name in BARS]
        exposed = [min(max(each.exposed(name), 0.0), whole) for name, whole in zip(BARS, total, strict=True)]
        computed = [whole - part for whole, part in zip(total, exposed, strict=True)]
        axis.bar(NAMES, computed, color="#4c78a8", label="forward and backward")
        axis.bar(NAMES, exposed, bottom=computed, color="#f58518", label="exposed communication")
        for place, (name, whole) in enumerate(zip(BARS, total, strict=True)):
            axis.text(place, whole, f"{each.ratio(name):.2f}x", ha="center", va="bottom", fontsize=8)
        axis.set_title(each.workload, fontsize=10)
        axis.tick_params(axis="x", labelsize=7)
        axis.margins(y=0.12)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("milliseconds per step")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="lower center", ncols=2, frameon=False, fontsize=8)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(path, dpi=150)
    plt.close(figure)
