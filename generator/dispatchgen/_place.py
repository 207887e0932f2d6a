"""Places in files that nobody has parsed, made without the YAML reader."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dispatchgen.node import Span


def place(path: Path | str, line: int = 1, column: int = 1) -> Span:
    """The place in a file, by default its beginning."""
    from dispatchgen.node import Span  # needed only once something is wrong

    return Span(str(path), line, column, line, column)
