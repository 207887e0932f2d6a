"""What ends a run with exit code 2."""

from __future__ import annotations


class Problem(Exception):
    """Wrong usage, or something that the environment lacks: one sentence for the person at the terminal."""
