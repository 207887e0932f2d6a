"""All mutations of some projects, one at a time on copies, spread over processes where the system can fork."""

from __future__ import annotations

import multiprocessing
import os
import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from dispatchgen.selftest.mutation import Mutation
from dispatchgen.selftest.project import Project

MOST = 20_000
"""Mutations beyond this many are sampled."""
SEED = 5
_CHUNK = 50


@dataclass(frozen=True)
class Survivor:
    """A mutation that was not found as it has to be, and what was found instead."""

    project: int
    mutation: Mutation
    instead: str


@dataclass(frozen=True)
class Result:
    """What came of all mutations."""

    kinds: dict[str, int]
    """How many there were of each kind."""
    survivors: tuple[Survivor, ...]
    made: int
    """How many could have been made."""

    @property
    def total(self) -> int:
        """How many were made."""
        return sum(self.kinds.values())


@dataclass(frozen=True)
class Task:
    """One project, and which of its mutations are made."""

    project: Project
    mutations: tuple[Mutation, ...]


def run(tasks: Sequence[Task], made: int, progress: Callable[[int], None]) -> Result:
    """Every mutation, and which of them survived. `progress` is told after every few how many those were."""
    kinds: dict[str, int] = {}
    for task in tasks:
        for mutation in task.mutations:
            kinds[mutation.kind] = kinds.get(mutation.kind, 0) + 1
    survivors = []
    for found, count in _outcomes(tasks):
        survivors += found
        progress(count)
    order = sorted(
        survivors, key=lambda each: (each.project, str(each.mutation.file), each.mutation.line, each.mutation.kind)
    )
    return Result(dict(sorted(kinds.items())), tuple(order), made)


def sampled(tasks: Sequence[Task], most: int = MOST) -> list[Task]:
    """The tasks with at most so many mutations together, drawn with a fixed seed where there are more."""
    total = sum(len(task.mutations) for task in tasks)
    if total <= most:
        return [*tasks]
    kept = set(random.Random(SEED).sample(range(total), most))
    found, start = [], 0
    for task in tasks:
        chosen = tuple(each for place, each in enumerate(task.mutations, start) if place in kept)
        found.append(replace(task, mutations=chosen))
        start += len(task.mutations)
    return found


def _outcomes(tasks: Sequence[Task]) -> Iterator[tuple[list[Survivor], int]]:
    chunks = [(number, start) for number, task in enumerate(tasks) for start in range(0, len(task.mutations), _CHUNK)]
    if "fork" not in multiprocessing.get_all_start_methods() or _workers() == 1:
        yield from (_chunk(tasks, chunk) for chunk in chunks)
        return
    _state.tasks = tasks  # what is forked has it, and nothing has to be sent
    with ProcessPoolExecutor(_workers(), multiprocessing.get_context("fork"), initializer=_settle) as pool:
        yield from pool.map(_of_worker, chunks)


class _State:
    """What a worker works on."""

    tasks: Sequence[Task] = ()


_state = _State()


def _workers() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _settle() -> None:
    """Give this worker copies of its own."""
    for task in _state.tasks:
        task.project.root = task.project.root.with_name(f"{task.project.root.name}_{os.getpid()}")
        task.project.write()


def _of_worker(chunk: tuple[int, int]) -> tuple[list[Survivor], int]:
    return _chunk(_state.tasks, chunk, moved=True)


def _chunk(tasks: Sequence[Task], chunk: tuple[int, int], moved: bool = False) -> tuple[list[Survivor], int]:
    number, start = chunk
    task = tasks[number]
    project = task.project
    mutations = task.mutations[start : start + _CHUNK]
    found = []
    for mutation in mutations:
        instead = project.survives(_moved(mutation, project.root) if moved else mutation)
        if instead is not None:
            found.append(Survivor(number, mutation, instead))
    return found, len(mutations)


def _moved(mutation: Mutation, root: Path) -> Mutation:
    """The mutation in a copy of the copy."""

    def there(file: Path) -> Path:
        old = next(each for each in file.parents if each.parent == root.parent)
        return root / file.relative_to(old)

    expected = tuple(replace(each, file=there(each.file)) for each in mutation.expected)
    return replace(mutation, file=there(mutation.file), expected=expected)
