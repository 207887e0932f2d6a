"""The command line: one module per command, and nothing imported before it is needed."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from dispatchgen._garbage import no_collection
from dispatchgen.cli._options import read
from dispatchgen.cli._problem import Problem
from dispatchgen.lock import DiskError

CLEAN, FINDINGS, USAGE, FAULT = range(4)
"""Exit codes: nothing to tell; findings; wrong usage or environment; our fault."""
_QUICK = (["check"], ["generate"])
"""The commands that people run all day; they start nobody else's code."""
INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code of one run, by default with the arguments of this process."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # whoever started it closed that
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        with no_collection():  # a run is short, and most of what it makes lives to its end
            return _run(words)
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else CLEAN if done.code is None else FAULT
    except (Problem, DiskError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # whoever reads has seen enough; Python would complain once more at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINDINGS
    except OSError as problem:  # a name that is too long, a disk that fails: whatever no command expects of a file
        print(f"error: {problem.filename or 'the system'}: {problem.strerror or problem}", file=sys.stderr)
        return USAGE
    except Exception:
        print(f"error: this is a fault of dispatchgen itself; please report it with {_traceback()}", file=sys.stderr)
        return FAULT


def run() -> NoReturn:
    """`main` as a process: it collects no garbage, not even at its end, since the system takes all back at once.

    Nor does pydantic look for plugins in the commands that run all day: reading the metadata of all that is installed
    takes longer than reading a spec.
    """
    gc.disable()
    if sys.argv[1:2] in _QUICK:
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    code = main()
    gc.freeze()
    sys.exit(code)


def _run(words: list[str]) -> int:
    if words[:1] in _QUICK:
        command = getattr(import_module(f"dispatchgen.cli.{words[0]}"), words[0])
        arguments = read(command, words[1:])
        if arguments is not None:
            return command(**arguments) or CLEAN
    from dispatchgen.cli._app import app_for

    app_for(words)(args=words, prog_name="dispatchgen")
    return CLEAN


def _traceback() -> str:
    """The path of a new file that holds the traceback of the exception that is being handled."""
    import tempfile
    import traceback

    handle, name = tempfile.mkstemp(prefix="dispatchgen-", suffix=".txt")
    with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
        traceback.print_exc(file=stream)
    return name
