"""Tensors of classes that are not torch's own."""

from __future__ import annotations

from typing import Any

import torch


class Named(torch.Tensor):
    """One with memory of its own, that operations keep."""


class Standing(torch.Tensor):
    """One without memory, for which no operation works."""

    @staticmethod
    def __new__(cls) -> Standing:
        return torch.Tensor._make_wrapper_subclass(cls, (2,), dtype=torch.float32)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.detach.default:
            return cls()
        raise AssertionError(func)

    def __repr__(self) -> str:  # type: ignore[override]
        return "Standing()"
