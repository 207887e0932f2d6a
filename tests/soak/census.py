"""What a process holds: its threads, and its open files by kind."""

from __future__ import annotations

import gc
import os
import re
import time
from collections import Counter


def census() -> Counter[str]:
    """How many threads, sockets, pipes and files this process has, from /proc."""
    gc.collect()
    found = Counter({"thread": len(os.listdir("/proc/self/task"))})
    for name in os.listdir("/proc/self/fd"):
        try:
            found[re.sub(r":?\[?\d+\]?$", "", os.readlink(f"/proc/self/fd/{name}"))] += 1
        except OSError:
            continue  # that of the listing itself
    return found


def more_than(before: Counter[str], allowed: Counter[str], patience: float = 3.0) -> dict[str, int]:
    """What there is more of than before and what is allowed, once that has had the time to go."""
    end = time.monotonic() + patience
    while (more := census() - before - allowed) and time.monotonic() < end:
        time.sleep(0.05)
    return dict(more)
