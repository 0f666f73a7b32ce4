"""What a machine offers, what it keeps back, and when it is short of something."""

from pathlib import Path

import pytest

from rota.api import resources
from rota.worker import host_resources, pressure
from rota.worker.usage import NodeUsage, Usage

GIGABYTE = 1024**3


def _usage(
    *, memory: int = 8 * GIGABYTE, disk: int = 50 * GIGABYTE, inodes: int = 500_000, processes: int = 300
) -> NodeUsage:
    return NodeUsage(
        total=Usage(at=0, started_at=0, processes=processes),
        memory_capacity_bytes=16 * GIGABYTE,
        memory_available_bytes=memory,
        disk_capacity_bytes=500 * GIGABYTE,
        disk_available_bytes=disk,
        most_processes=32_768,
        inodes=1_000_000,
        inodes_free=inodes,
    )


def _true(usage: NodeUsage) -> set[str]:
    return {one["type"] for one in pressure.conditions(usage) if one["status"] == "True"}


def test_a_machine_with_enough_is_under_no_pressure() -> None:
    assert _true(_usage()) == set()
    assert _true(_usage(disk=2 * GIGABYTE)) == set(), "nearly full is not in trouble"
    assert len(pressure.conditions(_usage())) == 3


def test_what_runs_short_is_said() -> None:
    assert _true(_usage(memory=50 * 1024**2)) == {"MemoryPressure"}
    assert _true(_usage(disk=GIGABYTE // 2)) == {"DiskPressure"}
    assert _true(_usage(inodes=10_000)) == {"DiskPressure"}
    assert _true(_usage(processes=32_000)) == {"PIDPressure"}


def test_what_is_kept_back_is_not_offered(tmp_path: Path) -> None:
    capacity, allocatable = host_resources.measure(tmp_path, reserve={"cpu": 500, "memory": GIGABYTE, "pods": 10})
    assert capacity["cpu"] - allocatable["cpu"] == 500
    assert capacity["memory"] - allocatable["memory"] == GIGABYTE
    assert capacity["pods"] - allocatable["pods"] == 10
    assert allocatable[resources.EPHEMERAL_STORAGE] < capacity[resources.EPHEMERAL_STORAGE], "by itself"


def test_nothing_less_than_nothing_is_offered(tmp_path: Path) -> None:
    _, allocatable = host_resources.measure(tmp_path, reserve={"cpu": 10**9})
    assert allocatable["cpu"] == 0


def test_named_amounts_override_the_machine(tmp_path: Path) -> None:
    capacity, allocatable = host_resources.measure(tmp_path, overrides={"cpu": 4000, "example.com/gpu": 2})
    assert capacity["cpu"] == allocatable["cpu"] == 4000
    assert allocatable["example.com/gpu"] == 2


@pytest.mark.parametrize(
    ("devices", "driver", "count"),
    [((), (), 0), (("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"), (), 2), ((), ("0000:01:00.0",), 1)],
)
def test_graphics_cards_are_counted(
    tmp_path: Path, devices: tuple[str, ...], driver: tuple[str, ...], count: int
) -> None:
    for name in devices:
        (tmp_path / "dev" / name).mkdir(parents=True)
    for name in driver:
        (tmp_path / "proc/driver/nvidia/gpus" / name).mkdir(parents=True)
    assert host_resources.gpus(dev=tmp_path / "dev", proc=tmp_path / "proc") == count
