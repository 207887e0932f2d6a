"""How processes meet, again and again, and what they hear when they do not."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from dispatch_runtime.links import Links
from dispatch_runtime.meeting import Facts, Meeting

import torchdispatch as td
from tests.runtime.processes import Spot, free_port, outcomes, values
from torchdispatch import ReduceOperation as Op

ROOT = Path(__file__).parents[2]


def _total(context: Any) -> float:
    mine = torch.tensor([10.0 ** context.local_devices[0].rank])
    return float(context.communicator(context.local_devices[0]).all_reduce(mine, Op.SUM).wait().item())


def _meets(spot: Spot) -> float:
    with spot.open() as context:
        return _total(context)


@pytest.mark.parametrize("form", ["tcp", "ipv6", "localhost", "file"])
def test_forms_of_an_address(form: str, tmp_path: Path) -> None:
    address = {
        "tcp": f"tcp://127.0.0.1:{free_port()}",
        "ipv6": f"tcp://[::1]:{free_port('::1')}",
        "localhost": f"tcp://localhost:{free_port()}",
        "file": f"file://{tmp_path}/store",
    }[form]
    assert values(_meets, 3, address=address) == [111.0] * 3


def _sockets(version: str) -> set[str]:
    """The inodes of this process's own TCP sockets of an IP version."""
    own = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            own.add(os.readlink(f"/proc/self/fd/{name}"))
    rows = [line.split() for line in Path(f"/proc/net/{version}").read_text().splitlines()[1:]]
    return {row[9] for row in rows if f"socket:[{row[9]}]" in own}


def _families(spot: Spot) -> list[bool]:
    before = _sockets("tcp")
    with spot.open() as context:
        assert _total(context) == 11
        return [bool(_sockets("tcp") - before), bool(_sockets("tcp6"))]


@pytest.mark.skipif(
    not Path("/proc/net/tcp6").exists(), reason="sockets are counted where Linux lists them, IPv6 included"
)
def test_data_go_where_the_processes_have_met_and_not_where_the_name_of_the_host_leads() -> None:
    assert values(_families, 2, address=f"tcp://[::1]:{free_port('::1')}") == [[False, True]] * 2


def _on_interface(spot: Spot, name: str) -> float:
    os.environ["GLOO_SOCKET_IFNAME"] = name
    return _meets(spot)


def test_an_interface_that_gloos_variable_names() -> None:
    assert values(_on_interface, 2, "lo") == [11.0] * 2
    for outcome in outcomes(_on_interface, 2, "eth99"):
        assert outcome.error in ("PeerFailed", "ContextFailed"), outcome
        assert "GLOO_SOCKET_IFNAME names the interface 'eth99'; there are lo" in outcome.text


def _environment(spot: Spot, explicit: bool) -> float:
    host, _, port = spot.address.removeprefix("tcp://").rpartition(":")
    os.environ.update(RANK=str(spot.rank), WORLD_SIZE=str(spot.world), MASTER_ADDR=host, MASTER_PORT=port)
    config = td.DistributedConfig(timeout=20.0, rendezvous="env://" if explicit else None)
    with td.DistributedContext([td.Cpu(0)], config) as context:
        return _total(context)


@pytest.mark.parametrize("explicit", [True, False])
def test_the_environment_says_where(explicit: bool) -> None:
    assert values(_environment, 2, explicit) == [11.0] * 2


def test_torchrun(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        "import sys, torch, torchdispatch as td\n"
        "for _ in range(2):\n"
        "    with td.DistributedContext([td.Cpu(0), td.Cpu(1)]) as context:\n"
        "        one = lambda device: td.all_reduce(torch.ones(1), td.ReduceOperation.SUM).resolve().primitive.item()\n"
        "        open(f'{sys.argv[1]}/{context.process}', 'a').write(str(context.run(one)))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("runtime", "generated"))}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script, tmp_path]
    subprocess.run(command, env={**environment, "OMP_NUM_THREADS": "1"}, timeout=60, check=True, capture_output=True)
    assert [(tmp_path / str(process)).read_text() for process in range(2)] == ["[4.0, 4.0]" * 2] * 2


def _again_and_again(spot: Spot) -> list[float]:
    seen = []
    for cycle in range(20):
        if cycle % 7 == spot.rank:
            time.sleep(0.05)
        with spot.open() as context:
            seen.append(_total(context))
    return seen


@pytest.mark.parametrize("scheme", ["tcp", "file"])
def test_groups_open_one_after_the_other_at_one_address(scheme: str, tmp_path: Path) -> None:
    address = f"file://{tmp_path}/store" if scheme == "file" else None
    for _ in range(2):
        assert values(_again_and_again, 2, address=address) == [[11.0] * 20] * 2


def _several(spot: Spot) -> list[float]:
    with spot.open() as first, spot.open() as second:
        return [_total(first), _total(second), _total(first)]


def test_groups_at_one_address_are_independent() -> None:
    assert values(_several, 2) == [[11.0] * 3] * 2


def _beside(spot: Spot, path: str) -> list[float]:
    import torch.distributed as dist

    with spot.open() as context:
        before = _total(context)
        assert not dist.is_initialized()
        store = dist.FileStore(path, 2)
        dist.init_process_group("gloo", store=store, rank=spot.rank, world_size=2)
        own = torch.ones(1)
        dist.all_reduce(own)
        after = _total(context)
        dist.destroy_process_group()
        return [before, float(own.item()), after, _total(context)]


def test_the_programs_own_default_group_is_left_alone(tmp_path: Path) -> None:
    assert values(_beside, 2, f"{tmp_path}/store") == [[11.0, 2.0, 11.0, 11.0]] * 2


def _problems(ended: list[Any]) -> list[str]:
    assert [outcome.error for outcome in ended] == ["RendezvousFailed"] * len(ended), ended
    return [outcome.fields["problem"] for outcome in ended]


def _absent(spot: Spot, absent: int) -> None:
    if spot.rank != absent:
        spot.open(timeout=3.0)


@pytest.mark.parametrize("scheme", ["tcp", "file"])
def test_processes_that_do_not_come_are_named(scheme: str, tmp_path: Path) -> None:
    address = f"file://{tmp_path}/store" if scheme == "file" else None
    first, _, last = outcomes(_absent, 3, 1, address=address)
    problems = _problems([first, last])
    assert problems[0] == problems[1]
    assert problems[0].startswith("process 1 of 3 did not come within")
    assert max(first.seconds, last.seconds) < 6


def test_a_store_that_does_not_open() -> None:
    _, *others = outcomes(_absent, 3, 0)
    for problem in _problems(others):
        assert problem.startswith("process 0, which opens it, was not there in time")
    assert max(outcome.seconds for outcome in others) < 6


def _gives_up_once(spot: Spot) -> float:
    if spot.rank == 0:
        with pytest.raises(td.DispatchError, match="did not come within"):
            spot.open(timeout=0.3)
    else:
        time.sleep(1.0)
    with spot.open() as context:
        return _total(context)


def test_a_new_attempt_meets_after_one_that_was_given_up() -> None:
    assert values(_gives_up_once, 2) == [11.0] * 2


def _as(spot: Spot, ranks: list[int], worlds: list[int]) -> None:
    time.sleep(0.2 * spot.rank)
    spot.open(rank=ranks[spot.rank], world_size=worlds[spot.rank], timeout=10.0)


@pytest.mark.parametrize("scheme", ["tcp", "file"])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_is_there_twice(scheme: str, rank: int, tmp_path: Path) -> None:
    address = f"file://{tmp_path}/store" if scheme == "file" else None
    ranks = [0, 0, 9] if rank == 0 else [0, 1, 1]
    ended = outcomes(_as, 2 if rank == 0 else 3, ranks, [3, 3, 3], address=address)
    for problem in _problems(ended):
        assert problem.startswith(f"process {rank} is there twice: pid ")
    assert max(outcome.seconds for outcome in ended) < 8


def test_world_sizes_that_differ() -> None:
    ended = outcomes(_as, 2, [0, 1], [2, 3])
    for problem in _problems(ended):
        assert problem == "process 1 has world_size 3, process 0 has 2"


def _reductions(spot: Spot) -> None:
    spot.open(all_reduce_op=Op.SUM if spot.rank else Op.MEAN, timeout=10.0)


def test_settings_that_differ() -> None:
    for problem in _problems(outcomes(_reductions, 2)):
        assert problem == "the processes differ in their reduction: process 0 has MEAN, process 1 has SUM"


def _settings(spot: Spot) -> None:
    spot.open(agreement="off" if spot.rank else "always", timeout=5.0)


def test_ranks_that_would_agree_differently_do_not_meet() -> None:
    for problem in _problems(outcomes(_settings, 2)):
        assert problem == "the processes differ in their agreement: process 0 has always, process 1 has off"


def test_a_port_that_another_program_has() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        first, *_ = outcomes(_absent, 2, 1, address=address)
    assert "in use by another program" in _problems([first])[0]


def test_port_0_is_for_one_process() -> None:
    config = td.DistributedConfig(rendezvous="tcp://127.0.0.1:0", rank=0, world_size=1)
    with td.DistributedContext([td.Cpu(0), td.Cpu(1)], config) as context:
        assert context.size == 2


def _dies_early(spot: Spot) -> float:
    if spot.rank == 1:
        pid = os.fork()
        if pid == 0:
            try:
                spot.open(timeout=20.0)
            finally:
                os._exit(0)
        time.sleep(0.5)
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    else:
        time.sleep(1.0)
    with spot.open() as context:
        return _total(context)


def test_a_process_that_died_while_it_waited_does_not_count(tmp_path: Path) -> None:
    assert values(_dies_early, 2, address=f"file://{tmp_path}/store") == [11.0] * 2


def test_only_the_address_that_was_asked_for_is_listened_on() -> None:
    ended = values(_listening, 2)
    assert all(each.startswith("127.0.0.1:") for addresses in ended for each in addresses), ended
    assert ended[0]


def _listening(spot: Spot) -> list[str]:
    with spot.open() as context:
        _total(context)
        own = set()
        for entry in os.listdir("/proc/self/fd"):
            try:
                own.add(os.readlink(f"/proc/self/fd/{entry}"))
            except OSError:
                continue
        seen = []
        for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
                host, port = fields[1].split(":")
                seen.append(f"{socket.inet_ntoa(bytes.fromhex(host)[::-1])}:{int(port, 16)}")
        return seen


def test_connections_that_are_there_count_though_the_time_is_over() -> None:
    """As for a process that was stopped while it opened the group."""
    listener = socket.create_server(("127.0.0.1", 0))
    where = listener.getsockname()
    facts = tuple(Facts(process, 2, os.getpid(), "here", "Cpu", "gloo", {}, [], *where) for process in range(2))
    with socket.create_connection(where) as caller:
        caller.sendall(json.dumps(["secret", 1]).encode() + b"\n")
        meeting = Meeting(0, facts, "secret", lambda: pytest.fail("nobody asks for a store"), listener)
        heard: list[Any] = []
        links = Links.open(
            td.Cpu.package.errors, meeting, time.monotonic() - 1.0, lambda *said: heard.append(said), print
        )
        links.listen()
        caller.sendall(b'["blocked"]\n')
        while not heard:
            time.sleep(0.01)
        links.close()
    assert heard == [(1, ["blocked"])]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_store_that_goes_away_is_not_taken_for_another_program() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"

        def serve() -> None:
            server.accept()[0].close()
            connection, _ = server.accept()
            server.close()
            connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        config = td.DistributedConfig(rendezvous=address, rank=1, world_size=2, timeout=2.0)
        with pytest.raises(td.RendezvousFailed, match="process 0, which opens it, was not there in time"):
            td.DistributedContext([td.Cpu(0)], config)
        thread.join()
