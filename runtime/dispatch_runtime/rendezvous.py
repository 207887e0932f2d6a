"""Where the processes of a group meet: what the settings and torchrun's environment say, checked before any network."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import urlsplit

from dispatch_runtime.errors import ErrorTable
from dispatch_runtime.values import LONGEST, DistributedConfig, ReduceOperation

_OP = "DistributedContext"
_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_CHOICES: dict[str, tuple[object, ...]] = {
    "agreement": ("always", "first", "off"),
    "overlap": ("auto", "on", "off"),
    "shared_gradients": (True, False),
    "broadcast_buffers": (True, False),
}


@dataclass(frozen=True)
class Place:
    """One process's view of the rendezvous.

    `host` and `port` are those of a store that process 0 opens, or that is `open` already, as torchrun's is; else
    `path` is the file that all share. With a `world` of 1 there is nothing to meet.
    """

    process: int = 0
    world: int = 1
    host: str | None = None
    port: int = 0
    path: str | None = None
    open: bool = False
    prefix: str = "dispatch"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in (self.host or "") else self.host
        return f"file://{self.path}" if self.path is not None else f"tcp://{host}:{self.port}"


def place_of(errors: ErrorTable, config: DistributedConfig) -> Place:
    """Where the group of these settings meets. Raises `bad_config` for settings that make no sense."""

    def refuse(problem: str, fix: str) -> NoReturn:
        raise errors.make("bad_config", _OP, "the config", problem=problem, fix=fix)

    if not isinstance(config, DistributedConfig):
        refuse(f"the config is a {type(config).__name__}", "pass a DistributedConfig")
    _check_plain(config, refuse)
    for name, value, least in (("rank", config.rank, 0), ("world_size", config.world_size, 1)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            refuse(f"{name}={value!r}", f"{name} is a whole number from {least} on")
    if config.rendezvous is None:
        if config.rank is not None or config.world_size is not None:
            refuse("rank and world_size are set without a rendezvous", "name one: rendezvous='tcp://host:port'")
        if not all(os.environ.get(name) for name in _VARIABLES):
            return Place()
    if config.rendezvous is None or config.rendezvous == "env://":
        return _of_environment(config, refuse)
    process, world = config.rank, config.world_size
    if process is None or world is None:
        refuse(f"rendezvous={config.rendezvous!r} without rank and world_size", "set both: they count processes")
    _check_rank(process, world, refuse)
    return _of_address(config.rendezvous, process, world, refuse)


def _check_plain(config: DistributedConfig, refuse: Callable[[str, str], NoReturn]) -> None:
    timeout = config.timeout
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= LONGEST:
        refuse(f"timeout={timeout!r}", f"the timeout is a number of seconds above 0, {LONGEST:.0f} at most")
    if config.all_reduce_op not in (ReduceOperation.SUM, ReduceOperation.MEAN):
        refuse(f"all_reduce_op={config.all_reduce_op!r}", "gradients are reduced by SUM or MEAN")
    for name, known in _CHOICES.items():
        value = getattr(config, name)
        if not any(value is each or (isinstance(each, str) and value == each) for each in known):
            refuse(f"{name}={value!r}", f"{name} is one of {', '.join(map(str, known))}")


def _check_rank(process: int, world: int, refuse: Callable[[str, str], NoReturn]) -> None:
    if process >= world:
        refuse(f"rank={process} with world_size={world}", f"ranks go from 0 to {world - 1}: the world counts processes")


def _of_environment(config: DistributedConfig, refuse: Callable[[str, str], NoReturn]) -> Place:
    environment = os.environ
    unset = [name for name in _VARIABLES if not environment.get(name)]
    if config.rank is not None and config.world_size is not None:
        unset = [name for name in unset if name not in ("RANK", "WORLD_SIZE")]
    if unset:
        refuse(f"rendezvous='env://' and {', '.join(unset)} not set", "start the program with torchrun, or set them")
    numbers = {}
    for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"):
        text = environment.get(name, "0")
        if not (text.isascii() and text.isdigit()):
            refuse(f"{name}={text!r} in the environment", f"{name} is a whole number")
        numbers[name] = int(text)
    process = numbers["RANK"] if config.rank is None else config.rank
    world = numbers["WORLD_SIZE"] if config.world_size is None else config.world_size
    if world < 1:
        refuse(f"WORLD_SIZE={world} in the environment", "a world has at least one process")
    _check_rank(process, world, refuse)
    run = [environment.get(name, "") for name in ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")]
    return Place(
        process,
        world,
        environment["MASTER_ADDR"],
        numbers["MASTER_PORT"],
        open=environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        prefix="/".join(["dispatch", *filter(None, run)]),
    )


def _of_address(address: str, process: int, world: int, refuse: Callable[[str, str], NoReturn]) -> Place:
    forms = "write tcp://host:port, tcp://[address]:port, file:///path or env://"
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except (ValueError, AttributeError) as error:
        refuse(f"rendezvous={address!r}: {error}", forms)
    if parts.scheme == "file":
        path = f"{parts.netloc}{parts.path}"
        if not path or not os.path.isdir(os.path.dirname(os.path.abspath(path))):
            refuse(
                f"rendezvous={address!r}: there is no such folder", "name a file in a folder that all processes share"
            )
        return Place(process, world, path=os.path.abspath(path))
    if parts.scheme != "tcp" or not host or port is None:
        refuse(f"rendezvous={address!r}", forms)
    if port == 0 and world > 1:
        refuse(
            f"rendezvous={address!r} with world_size={world}", "port 0 is for one process: the others cannot find it"
        )
    return Place(process, world, host, port)
