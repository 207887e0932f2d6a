"""The command line: one module per command, and nothing imported before it is needed."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from dispatchgen.cli._problem import Problem
from dispatchgen.disk import DiskError

CLEAN, FINDINGS, USAGE, FAULT = range(4)
"""Exit codes: nothing to tell; findings; wrong usage or environment; our fault."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code of one run, by default with the arguments of this process."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        from dispatchgen.cli._app import app

        app(args=list(sys.argv[1:] if arguments is None else arguments), prog_name="dispatchgen")
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else CLEAN if done.code is None else FAULT
    except (Problem, DiskError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return USAGE
    except Exception:
        print(f"error: this is a fault of dispatchgen itself; please report it with {_traceback()}", file=sys.stderr)
        return FAULT
    return CLEAN


def _traceback() -> str:
    """The path of a new file that holds the traceback of the exception that is being handled."""
    import os
    import tempfile
    import traceback

    handle, name = tempfile.mkstemp(prefix="dispatchgen-", suffix=".txt")
    with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
        traceback.print_exc(file=stream)
    return name
