"""`python -m dispatchgen`."""

from __future__ import annotations

import sys

from dispatchgen.cli import main

if __name__ == "__main__":
    sys.exit(main())
