"""What this machine and this torch can do, as plain data."""

from __future__ import annotations

import importlib
import platform
import sys
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from dispatch_runtime.backends.cpu import Cpu
from dispatch_runtime.backends.cuda import Cuda
from dispatch_runtime.backends.libtorch import LibTorch
from dispatch_runtime.backends.metal import Metal
from dispatch_runtime.backends.ndarray import NdArray
from dispatch_runtime.backends.rocm import Rocm
from dispatch_runtime.backends.xpu import Xpu

_BACKENDS = (Cpu, Cuda, Rocm, Xpu, Metal, NdArray)


def probe(kernels: Mapping[str, str] | None = None) -> Mapping[str, Any]:
    """Versions and builds, the c10d engines of this torch, and per backend how many devices, or why none.

    `kernels` names the kernel classes of further backends, as `module:Class` by `Backend` or `Backend[runtime]`.
    """
    backends: dict[str, Mapping[str, Any]] = {}
    for kernel in _BACKENDS:
        backends[kernel.__name__] = {"devices": kernel.count(), "missing": kernel.why_unavailable(0)}
    for runtime in ("hpu", "npu", "mtia", "xla"):
        backends[f"{LibTorch.__name__}[{runtime}]"] = {
            "devices": LibTorch.count(runtime),
            "missing": LibTorch.why_unavailable(0, runtime),
        }
    for name, reference in (kernels or {}).items():
        backends.setdefault(name, _counted(name, reference))
    return {
        "python": sys.version.split()[0],
        "platform": platform.platform(terse=True),
        "torch": torch.__version__,
        "builds": {"cuda": torch.version.cuda, "hip": torch.version.hip, "mps": torch.backends.mps.is_built()},
        "threads": torch.get_num_threads(),
        "engines": _engines(),
        "backends": backends,
    }


def _counted(name: str, reference: str) -> Mapping[str, Any]:
    """How many devices the kernel class of a backend counts, or that it cannot be imported."""
    module, _, kernel_class = reference.partition(":")
    runtime = name.partition("[")[2].rstrip("]") or None
    try:
        kernel = getattr(importlib.import_module(module), kernel_class)
    except (ImportError, AttributeError) as problem:
        return {"devices": 0, "missing": f"its kernels cannot be imported: {problem}"}
    return {"devices": kernel.count(runtime), "missing": kernel.why_unavailable(0, runtime)}


def _engines() -> dict[str, bool]:
    """Which engines of torch.distributed this torch was built with."""
    if not dist.is_available():
        return {}
    return {
        "gloo": dist.is_gloo_available(),
        "nccl": dist.is_nccl_available(),
        "xccl": dist.is_xccl_available(),
        "mpi": dist.is_mpi_available(),
        "ucc": dist.is_ucc_available(),
    }
