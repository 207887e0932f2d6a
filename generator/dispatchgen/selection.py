"""Which features somebody asks for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Selection:
    """What was asked for: these features, with those of `default` unless `default` is false, or `all` there are."""

    features: tuple[str, ...] = ()
    default: bool = True
    all: bool = False
