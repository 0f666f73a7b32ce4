"""Leased workers on a real cluster: calls of one shape share them, and what becomes of calls when they end."""

import asyncio
import contextlib
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.python.conftest import Cluster

import rota
from rota.python import lease_connection, lease_manager
from rota.python.futures import Future
from rota.python.leased_calls import LeasedCall

pytestmark = pytest.mark.slow

PATIENCE_S = 60.0


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def own(cluster: Cluster) -> Iterator[rota.Client]:
    """A client without leases."""
    with rota.Client(cluster.kubeconfig) as made:
        yield made


def supervisor() -> int:
    """The process that keeps the connection of the worker that runs this."""
    return os.getppid()


def test_calls_share_a_worker_which_is_given_back_when_it_is_idle(cluster: Cluster) -> None:
    with rota.Client(cluster.kubeconfig, idle=0.5) as client:
        pids = {client.submit(os.getpid).result(PATIENCE_S) for _ in range(20)}
        assert len(pids) == 1
        assert client.progress().succeeded == 20
        until(lambda: not client.progress().leases)
        assert client.submit(os.getpid).result(PATIENCE_S) not in pids, "and another one is leased when needed"


def test_leases_are_shown_with_their_client_and_their_shape(own: rota.Client, cluster: Cluster) -> None:
    task = rota.task(cpu=0.1, memory="200Mi")(os.getpid)
    future = own.submit(task)
    future.result(PATIENCE_S)
    rows = json.loads(cluster.rota("top", "leases", "--json"))
    (row,) = [one for one in rows if one["name"] == future.pod]
    assert (row["node"], row["phase"], row["shape"]) == (future.node, "Running", task.task_options.shape)
    assert row["requests"] == {"cpu": "100m", "memory": "200Mi"}
    assert row["lease"] in cluster.rota("top", "leases", "-A")


def test_nothing_of_a_call_is_in_the_store(own: rota.Client, cluster: Cluster) -> None:
    def work(given: str) -> str:
        return given

    assert own.submit(work, "a secret argument").result(PATIENCE_S) == "a secret argument"
    assert not [one for one in cluster.rota("get", "jobs", "-o", "name").split() if "work" in one]
    assert "secret argument" not in cluster.rota("get", "jobs,pods", "-o", "json")


def test_long_calls_run_side_by_side_and_do_not_hold_up_others(own: rota.Client, tmp_path: Path) -> None:
    def meet(number: int) -> int:
        Path(tmp_path, str(number)).touch()
        deadline = time.monotonic() + PATIENCE_S
        while len(list(tmp_path.iterdir())) < 6:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return number

    assert rota.results(own.map(meet, range(6))) == list(range(6)), "each waits for all others"


def test_a_call_behind_a_long_one_moves_to_another_worker(own: rota.Client, tmp_path: Path) -> None:
    def maybe_wait(wait: bool) -> int:
        deadline = time.monotonic() + PATIENCE_S
        while wait and not (tmp_path / "go").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        return os.getpid()

    assert len({one.result(PATIENCE_S) for one in own.map(maybe_wait, [False] * 200)}) >= 1
    long = own.submit(maybe_wait, True)
    others = own.map(maybe_wait, [False] * 200)
    assert all(one.result(PATIENCE_S) for one in others)
    assert not long.done()
    (tmp_path / "go").touch()
    assert long.result(PATIENCE_S)


@pytest.mark.parametrize(("options", "runs"), [({}, 1), ({"retries": 1}, 2), ({"idempotent": True}, 2)])
def test_a_call_whose_worker_dies_is_repeated_only_if_it_may_be(
    own: rota.Client, tmp_path: Path, options: dict[str, Any], runs: int
) -> None:
    def die_first() -> int:
        with (tmp_path / "runs").open("a") as file:
            file.write("x")
        if len((tmp_path / "runs").read_text()) == 1:
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(PATIENCE_S)
        return 7

    future = own.submit(rota.task(**options)(die_first))
    if runs == 1:
        with pytest.raises(rota.TaskDied, match=r"die-first-\w+ was lost.*retries=\.\.\. or idempotent=True"):
            future.result(PATIENCE_S)
    else:
        assert future.result(PATIENCE_S) == 7
    assert len((tmp_path / "runs").read_text()) == runs
    assert own.submit(abs, -1).result(PATIENCE_S) == 1, "the client goes on"


def test_a_function_that_ends_its_process_does_not_end_the_lease(own: rota.Client) -> None:
    before = own.submit(supervisor).result(PATIENCE_S)
    with pytest.raises(rota.TaskDied, match="with code 3"):
        own.submit(os._exit, 3).result(PATIENCE_S)
    assert own.submit(supervisor).result(PATIENCE_S) == before


def test_nothing_of_a_worker_is_left_when_it_is_killed(own: rota.Client, tmp_path: Path) -> None:
    def stay() -> None:
        (tmp_path / "pids").write_text(f"{os.getpid()} {os.getppid()}")
        while True:
            time.sleep(1)

    future = own.submit(stay)
    until(lambda: (tmp_path / "pids").exists() and (tmp_path / "pids").read_text())
    child, parent = map(int, (tmp_path / "pids").read_text().split())
    os.kill(parent, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{child}").exists())
    assert isinstance(future.exception(PATIENCE_S), rota.TaskDied)


def test_a_drain_moves_calls_and_results(own: rota.Client, cluster: Cluster, tmp_path: Path) -> None:
    def stay_first(number: int) -> str:
        with (tmp_path / "runs").open("a") as file:
            file.write("x")
        if len((tmp_path / "runs").read_text()) == 1:
            time.sleep(1000)
        return f"moved {number}"

    held = own.submit(os.urandom, 3_000_000)
    until(held.done)
    moved = own.submit(stay_first, 1)
    until(lambda: moved.running() and moved.node)
    nodes = {moved.node, held.node}
    for node in nodes:
        cluster.rota("cordon", node)
    try:
        for pod in json.loads(cluster.rota("get", "pods", "-l", "rota.dev/lease", "-o", "json"))["items"]:
            if pod["spec"].get("nodeName") in nodes and moved.pod in pod["metadata"]["name"]:
                cluster.rota("delete", "pod", pod["metadata"]["name"], "--grace-period", "1")
        for node in nodes:
            cluster.rota("uncordon", node)
        assert moved.result(PATIENCE_S) == "moved 1"
        assert len(held.result(PATIENCE_S)) == 3_000_000
        assert own.progress().repeated >= 1
    finally:
        for node in nodes:
            cluster.rota("uncordon", node)


def test_a_client_that_dies_leaves_no_lease(cluster: Cluster, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import os, time, rota

        def stay():
            time.sleep(1000)

        client = rota.Client()
        print(client.submit(os.getppid).result(60), flush=True)
        client.submit(stay).result()
        """)
    )
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    with subprocess.Popen([sys.executable, str(script)], env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        worker = int(process.stdout.readline())
        process.kill()
    until(lambda: not Path(f"/proc/{worker}").exists())


def test_results_stay_with_the_worker_until_they_are_read(own: rota.Client) -> None:
    future = own.submit(np.arange, 1_000_000)
    until(future.done)
    assert future.remote is not None
    assert future.status == "succeeded"
    found = future.result(PATIENCE_S)
    assert found.sum() == 999_999 * 500_000
    assert future.remote is None
    assert future.result() is found, "it is fetched once"


def test_dependencies_run_where_the_data_is(own: rota.Client) -> None:
    def place(array: Any) -> tuple[int, int]:
        return os.getppid(), len(array)

    def both(first: Any, parts: list[Any]) -> int:
        return int(first.sum() + sum(part.sum() for part in parts))

    large = own.submit(np.arange, 2_000_000)
    small = own.submit(np.arange, 10)
    where = own.submit(place, large)
    total = own.submit(both, small, [large, small])
    assert total.result(PATIENCE_S) == 45 + 1_999_999 * 1_000_000 + 45
    assert where.result(PATIENCE_S)[1] == 2_000_000
    assert large.remote is not None, "it did not come here for that"
    failing = own.submit(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        own.submit(repr, failing).result(PATIENCE_S)


def test_a_dropped_result_is_dropped_at_the_worker(own: rota.Client) -> None:
    def memory() -> int:
        return int(Path(f"/proc/{os.getppid()}/statm").read_text().split()[1]) * 4096

    before = own.submit(memory).result(PATIENCE_S)
    for _ in range(30):
        until(own.submit(bytes, 20 << 20).done)
    assert own.submit(memory).result(PATIENCE_S) - before < 300 << 20


def test_many_items_are_mapped_in_bounded_memory(own: rota.Client) -> None:
    seen = 0

    def items() -> Iterator[int]:
        for number in range(5000):
            assert number - seen <= 300
            yield number

    for number, value in enumerate(own.imap(abs, items(), window=300)):
        assert value == number
        seen += 1
    assert seen == 5000
    assert sorted(own.imap(abs, [-3, -2, -1], ordered=False)) == [1, 2, 3]
    with pytest.raises(ZeroDivisionError):
        list(own.imap(lambda number: 1 // number, [2, 1, 0, 1]))


def test_nothing_grows_with_the_number_of_calls(cluster: Cluster) -> None:
    def memory() -> tuple[int, int]:
        pages = [int(Path(f"/proc/{one}/statm").read_text().split()[1]) for one in (os.getppid(), os.getpid())]
        return pages[0] * 4096, pages[1] * 4096

    def alive() -> int:
        gc.collect()
        return sum(isinstance(one, (Future, LeasedCall, asyncio.Handle)) for one in gc.get_objects())

    with rota.Client(cluster.kubeconfig, leases=1) as client:
        assert sum(client.imap(abs, range(1000), window=200)) == 499_500
        before, objects = client.submit(memory).result(PATIENCE_S), alive()
        assert sum(client.imap(abs, range(5000), window=200)) == 12_497_500
        kept = client.map(abs, range(1000))
        assert rota.results(kept) == list(range(1000))
        assert alive() - objects <= 1000 + 50, "the futures that are kept, and nothing for the other calls"
        del kept
        until(lambda: alive() - objects <= 50)
        after = client.submit(memory).result(PATIENCE_S)
    assert all(new - old < 8 << 20 for old, new in zip(before, after, strict=True)), (before, after)


def test_what_a_call_prints_is_its_own_also_while_it_runs(own: rota.Client, tmp_path: Path) -> None:
    def talk(word: str) -> None:
        sys.stdout.write(f"{word}\n")
        sys.stdout.flush()
        while word == "wait" and not (tmp_path / "go").exists():
            time.sleep(0.01)

    waiting = own.submit(talk, "wait")
    until(lambda: waiting.logs() == "wait\n")
    (tmp_path / "go").touch()
    waiting.result(PATIENCE_S)
    futures = own.map(talk, [f"word {number}" for number in range(20)])
    assert [(one.result(PATIENCE_S), one.logs()) for one in futures] == [(None, f"word {n}\n") for n in range(20)]


def test_submissions_wait_while_arguments_take_too_much_memory(
    own: rota.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_manager, "MOST_WAITING_BYTES", 1 << 20)
    futures = [own.submit(len, os.urandom(300_000)) for _ in range(20)]
    assert [one.result(PATIENCE_S) for one in futures] == [300_000] * 20


def test_an_unfinished_call_of_a_closed_client_fails_by_name(cluster: Cluster) -> None:
    with rota.Client(cluster.kubeconfig) as client:
        future = client.submit(time.sleep, 1000)
        until(future.running)
    with pytest.raises(RuntimeError, match=f"before {future.name} had ended; wait for it, or use durable=True"):
        future.result(PATIENCE_S)
    until(lambda: future.pod not in cluster.rota("get", "pods", "-o", "name"))


def test_other_programs_cannot_use_a_lease(own: rota.Client) -> None:
    def ports() -> list[int]:
        opened = Path(f"/proc/{os.getppid()}/fd").iterdir()
        sockets = {str(one.readlink()) for one in opened if one.exists() or one.is_symlink()}
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return [int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets]

    assert own.submit(ports).result(PATIENCE_S) == [], "with a client, a worker listens no more"


class Counter:
    def __init__(self, start: int) -> None:
        if start < 0:
            raise ValueError("it counts from zero")
        self.value = start

    def add(self, number: int) -> int:
        self.value += number
        return self.value

    def end(self) -> None:
        os._exit(1)


Counters = rota.actor(Counter)


def test_an_actor_keeps_its_state_and_is_not_made_again_silently(cluster: Cluster) -> None:
    with rota.Client(cluster.kubeconfig), Counters.start(10) as counter:
        futures = [counter.add.submit(1) for _ in range(50)]
        assert [one.result(PATIENCE_S) for one in futures] == list(range(11, 61)), "one after the other"
        assert counter.add(5) == 65
        with pytest.raises(rota.TaskDied):
            counter.end()
        with pytest.raises(RuntimeError, match=r"the actor counter-\w+ is gone"):
            counter.add(1)
        with pytest.raises(ValueError, match="counts from zero"):
            Counters.start(-1)
    assert Counters(3).add(1) == 4, "here, as the class that it is"
    with pytest.raises(rota.OptionError, match="an actor has no retries"):
        rota.actor(retries=1)


def test_futures_of_large_results_can_be_awaited(cluster: Cluster) -> None:
    async def work() -> int:
        async with rota.AsyncClient(cluster.kubeconfig) as client:
            return len(await (await client.submit(os.urandom, 2_000_000)))

    assert asyncio.run(work()) == 2_000_000


def test_a_port_that_another_program_has_is_left_to_it(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.ExitStack() as stack:
        taken = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = taken.getsockname()[1]
        choose = lease_connection.candidate_ports
        monkeypatch.setattr(lease_connection, "candidate_ports", lambda rng: [port, *choose(rng)])
        monkeypatch.setattr(lease_connection, "_HANDSHAKE_S", 0.2)
        with rota.Client(cluster.kubeconfig) as client:
            assert client.submit(abs, -2).result(PATIENCE_S) == 2
