"""What this machine can do, asked of the template set's probe in a process of its own.

The probe may import anything; the generator imports none of it, and survives whatever the probe does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PATIENCE = 120.0
"""Seconds to wait for the probe."""

_PROGRAM = """\
import importlib, inspect, json, sys
module, _, name = sys.argv[1].partition(":")
function = getattr(importlib.import_module(module), name)
facts = function(json.loads(sys.argv[2])) if inspect.signature(function).parameters else function()
sys.stdout.flush()
print("\\n" + json.dumps(facts))
"""


def probe(
    reference: str, kernels: Mapping[str, str], roots: Sequence[Path], patience: float = PATIENCE
) -> tuple[Mapping[str, Any] | None, str]:
    """The facts that `module:function` tells, or None and why there are none.

    The function is given `kernels` if it takes anything: by backend, or `backend[runtime]`, the class of its kernels.
    Modules are looked for in `roots` too.
    """
    path = os.pathsep.join([*(str(root.absolute()) for root in roots), *_inherited()])
    command = [sys.executable, "-c", _PROGRAM, reference, json.dumps(dict(kernels))]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=patience,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, f"it did not answer within {patience:.0f} s"
    except OSError as cause:
        return None, f"Python cannot be started: {cause.strerror}"
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        return None, said[-1].strip() if said else f"it ended with exit code {done.returncode}"
    try:
        facts = json.loads(done.stdout.rstrip("\n").rpartition("\n")[2])
    except ValueError:
        facts = None
    return (facts, "") if isinstance(facts, dict) else (None, "it did not tell facts as a mapping")


def _inherited() -> list[str]:
    found = os.environ.get("PYTHONPATH")
    return [found] if found else []
