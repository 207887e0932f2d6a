"""Whether an episode ended as it had to."""

from __future__ import annotations

import re
import signal

from tests.runtime.processes import Outcome
from tests.soak.plan import Episode, Fault
from tests.soak.play import Ended, Report

TELLING = {
    "kill": {"PeerFailed"},
    "stop": {"CollectiveTimeout", "PeerFailed"},
    "late": {"CollectiveTimeout", "PeerFailed"},
    "raise": {"PeerFailed"},
    "interrupt": {"PeerFailed"},
    "close": {"PeerClosed"},
}
"""What the ranks of other processes may hear of a fault, beside that the group has failed before they called."""

PROMPT = 1.5
"""Seconds in which an interrupt has to act."""


def problems(episode: Episode, outcomes: list[Outcome]) -> list[str]:
    """What should not have been, a line each."""
    deadly = episode.deadly
    struck = None if deadly is None else episode.process_of(deadly.rank)
    found = []
    for process, outcome in enumerate(outcomes):
        if deadly is not None and deadly.kind == "kill" and process == struck:
            if outcome.code != -signal.SIGKILL:
                found.append(f"process {process} was to be killed, and ended with {outcome.code} {outcome.trace}")
            continue
        if outcome.error is not None or outcome.code != 0:
            found.append(f"process {process} ended with {outcome.code}: {outcome.trace}{outcome.text}")
            continue
        found += [
            f"process {process}: {text}" for text in _of_process(episode, process, process == struck, outcome.value)
        ]
    return found


def _of_process(episode: Episode, process: int, struck: bool, report: Report) -> list[str]:
    deadly = episode.deadly
    found = list(report.again)
    if report.leaks:
        found.append(f"left behind: {report.leaks}")
    for rank, ended in report.ranks.items():
        found += [f"rank {rank}: {text}" for text in ended.wrong]
        if ended.how in ("done", "?"):
            continue
        why = "nothing had happened" if deadly is None else _unexpected(episode, deadly, rank, ended)
        if why is not None:
            found.append(f"rank {rank} ended at step {ended.step} with {ended.how}: {ended.text}\n  but {why}")
    if report.left != "done" and all(ended.how in ("done", "?") for ended in report.ranks.values()):
        outside = Ended(report.left, report.left_text)
        why = (
            "nothing had happened" if deadly is None else _unexpected(episode, deadly, None if struck else -1, outside)
        )
        if why is not None:
            found.append(f"ended outside of any call with {report.left}: {report.left_text}\n  but {why}")
    if deadly is not None and deadly.kind == "interrupt" and struck:
        if report.left != "KeyboardInterrupt" and report.left != "done":
            found.append(f"the interrupt came out as {report.left}: {report.left_text}")
        if report.acted_after > PROMPT:
            found.append(f"the interrupt took {report.acted_after:.1f} s to act")
    elif report.left == "done" and any(ended.how != "done" for ended in report.ranks.values()):
        found.append(f"the group was left in order, and its ranks ended so: {report.ranks}")
    return found


def _unexpected(episode: Episode, deadly: Fault, rank: int | None, ended: Ended) -> str | None:
    """Why a rank should not have ended so, or None. `rank` is None for a thread that works for all of its process."""
    process = episode.process_of(deadly.rank)
    ours = rank is None or (rank >= 0 and episode.process_of(rank) == process)
    if deadly.kind == "raise" and (rank == deadly.rank or rank is None):
        return None if ended.how == "Boom" else "it was to raise Boom"
    if deadly.kind == "interrupt" and ours and ended.how in ("KeyboardInterrupt", "ContextClosed"):
        return None
    if deadly.kind == "close" and ours:
        return None if ended.how == "ContextClosed" else "its group was closed here"
    if ended.how == "RendezvousFailed" and deadly.step == -1:
        if ours and deadly.kind == "stop":  # for itself, it is the others that did not come
            return None
        who = rf"\bprocess(es)? {process}\b|store went away|process 0, which opens it"
        return None if re.search(who, ended.text) else f"it does not name process {process}"
    allowed = {"ContextFailed", *TELLING[deadly.kind]}
    if ended.how not in allowed:
        return f"it was to be one of {', '.join(sorted(allowed))}"
    exact = deadly.kind in ("raise", "late")
    culprits = [deadly.rank] if exact else list(episode.ranks_of(process))
    if episode.agreement != "always" and deadly.kind in ("stop", "late") and "were not asked" in ended.text:
        return None
    named = [each for each in culprits if re.search(rf"\b{each} \(Cpu\(", ended.text)]
    return None if named else f"it names none of the ranks {culprits}"
