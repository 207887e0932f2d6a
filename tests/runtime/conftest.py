"""What the tests of the runtime share: the root of the tests on the path, so that spawned processes find them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHDISPATCH_DEVICE"):
        monkeypatch.delenv(name, raising=False)
