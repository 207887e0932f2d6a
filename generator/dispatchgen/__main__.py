"""`python -m dispatchgen`."""

from __future__ import annotations

from dispatchgen.cli import run

if __name__ == "__main__":
    run()
