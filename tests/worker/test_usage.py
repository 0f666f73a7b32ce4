"""What pods and the machine use, from the kernel's files."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from rota.testing.clocks import FakeClock
from rota.worker import usage
from rota.worker.runtimes.runtime_interface import Place
from rota.worker.usage import Meter

MEGABYTE = 1024 * 1024


def _files(folder: Path, **contents: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name.replace("__", ".")).write_text(content)
    return str(folder)


def _meter(places: Mapping[str, Place], tmp_path: Path, clock: FakeClock | None = None) -> Meter:
    return Meter(lambda: places, folder=tmp_path, clock=clock or FakeClock(), folders=lambda _: [tmp_path / "files"])


def test_version_2_groups_count_cpu_memory_and_processes(tmp_path: Path) -> None:
    group = _files(
        tmp_path / "g",
        cpu__stat="usage_usec 2500000\nuser_usec 2000000\n",
        memory__current=str(50 * MEGABYTE),
        memory__stat=f"anon {30 * MEGABYTE}\ninactive_file {15 * MEGABYTE}\n",
        pids__current="3\n",
    )
    found = usage.read_counters(Place(pid=1, started_at=0, cgroups=[group]))
    assert found.cpu_nanos == 2_500_000_000
    assert found.memory_bytes == 50 * MEGABYTE
    assert found.working_set_bytes == 35 * MEGABYTE
    assert found.rss_bytes == 30 * MEGABYTE
    assert found.processes == 3


def test_version_1_groups_count_in_hierarchies_of_their_own(tmp_path: Path) -> None:
    cpu = _files(tmp_path / "cpu", cpuacct__usage="77\n", cpu__stat="nr_periods 5\n")
    memory = _files(
        tmp_path / "memory",
        memory__usage_in_bytes="1000\n",
        memory__stat="inactive_file 1\ntotal_inactive_file 300\ntotal_rss 600\n",
    )
    pids = _files(tmp_path / "pids", pids__current="2\n")
    found = usage.read_counters(Place(pid=1, started_at=0, cgroups=[cpu, memory, pids]))
    assert (found.cpu_nanos, found.working_set_bytes, found.rss_bytes, found.processes) == (77, 700, 600, 2)


def test_without_groups_the_processes_are_counted() -> None:
    found = usage.read_counters(Place(pid=os.getpid(), started_at=0))
    assert found.cpu_nanos is not None
    assert found.cpu_nanos > 0
    assert found.memory_bytes is not None
    assert found.memory_bytes > MEGABYTE
    assert found.processes is not None
    assert found.processes >= 1


def test_a_process_may_have_any_name() -> None:
    stat = "12 (a) b (c)) S 1 12 12 0 -1 4194560 100 0 0 0 7 3 2 1 20 0 1 0 100 1000000 25 18446744073709551615"
    nanos, resident = usage.parse_process(stat)
    assert nanos == 13 * 10**9 // os.sysconf("SC_CLK_TCK")
    assert resident == 25 * os.sysconf("SC_PAGE_SIZE")


async def test_rates_are_those_since_the_last_look(tmp_path: Path) -> None:
    clock = FakeClock()
    group = _files(tmp_path / "g", cpu__stat="usage_usec 4000000\n", memory__current="1", pids__current="1")
    start = clock.now() - 8
    meter = _meter({"u.c.0": Place(pid=1, started_at=start, cgroups=[group])}, tmp_path, clock)
    first = meter.usage("u")
    assert first is not None
    assert first.total.cpu_nanocores == 500_000_000, "half a core since the start"
    await clock.advance(10)
    _files(tmp_path / "g", cpu__stat="usage_usec 6000000\n")
    second = meter.usage("u")
    assert second is not None
    assert second.containers["c"].cpu_nanocores == 200_000_000


def test_a_pod_is_the_sum_of_its_containers_and_its_files(tmp_path: Path) -> None:
    places = {}
    for name in ("a", "b"):
        group = _files(tmp_path / name, cpu__stat="usage_usec 5\n", memory__current="100", pids__current="2")
        places[f"u.{name}.3"] = Place(pid=1, started_at=5, cgroups=[group])
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "big").write_bytes(b"x" * 100_000)
    found = _meter(places, tmp_path).everything()["u"]
    assert sorted(found.containers) == ["a", "b"]
    assert (found.total.memory_bytes, found.total.processes, found.total.cpu_nanos) == (200, 4, 10_000)
    assert found.total.disk_bytes is not None
    assert found.total.disk_bytes >= 100_000
    assert found.total.network is None, "the machine's network is nobody's own"


def test_of_a_pod_that_does_not_run_nothing_is_known(tmp_path: Path) -> None:
    assert _meter({}, tmp_path).usage("u") is None


def test_the_machine_is_measured(tmp_path: Path) -> None:
    node = _meter({}, tmp_path).node()
    assert node.memory_capacity_bytes > node.memory_available_bytes > 0
    assert node.disk_capacity_bytes > 0
    assert node.most_processes > 0
    assert node.total.cpu_nanos is not None
    assert node.total.cpu_nanos > 0
    assert node.total.processes is not None
    assert node.total.processes > 0


def test_loopback_is_not_the_network() -> None:
    text = "Inter-|\n face |\n    lo: 10 1 0 0 0 0 0 0 10 1 0 0 0 0 0 0\n  eth0: 70 2 3 0 0 0 0 0 50 4 5 0 0 0 0 0\n"
    found = usage.parse_network(text)
    assert (found.received_bytes, found.sent_bytes, found.receive_errors, found.send_errors) == (70, 50, 3, 5)


@pytest.mark.parametrize("text", ["", "nonsense\n", "a b c\n", "a -5\n"])
def test_lines_that_are_not_numbers_are_passed_over(text: str) -> None:
    assert usage.parse_flat(text) == {}
