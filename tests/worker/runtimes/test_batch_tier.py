"""The batch tier in the kernel: what the files of both cgroup versions do. `scripts/prove-cgroups-v2` runs this too.

Only ordinary imports and fixtures of its own: in a virtual machine the rest takes long to load.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rota.worker.runtimes import batch_tier
from rota.worker.runtimes.batch_tier import BatchTier
from rota.worker.runtimes.process.cgroups import ControlGroups, Group
from rota.worker.runtimes.runtime_interface import Limits

MEGABYTE = 1024 * 1024
BURN = "while True: pass"
#: Waits for a line of input, so that it allocates in its cgroup.
ALLOCATE = "import sys; sys.stdin.readline(); kept = bytearray(512 * 1024 * 1024); print(len(kept))"
LIMITS = Limits(cpu_request_milli=100, memory_bytes=64 * MEGABYTE, batch=True)


@pytest.fixture
def groups() -> Iterator[ControlGroups]:
    made = ControlGroups(f"rota-tier-{os.getpid()}")
    if made.batch_tier() is None:
        pytest.skip(f"needs cgroups with cpu and memory that this user may create: {made.problem}")
    yield made
    made.remove("c")
    made.close()


@pytest.fixture
def tier(groups: ControlGroups) -> BatchTier:
    found = groups.batch_tier()
    assert found is not None
    return found


def favour(tier: BatchTier) -> None:
    """Give the tier most of a busy machine: idle processes may wait for minutes there."""
    if (tier.cpu / "cpu.idle").exists():
        (tier.cpu / "cpu.idle").write_text("0")
    name, most = ("cpu.weight", "10000") if tier.unified else ("cpu.shares", "262144")
    (tier.cpu / name).write_text(most)


def started(program: str, group: Group) -> "subprocess.Popen[bytes]":
    """A process in the cgroups of a container."""
    made = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for folder in group.folders:
        Path(folder, "cgroup.procs").write_text(str(made.pid))
    return made


def ended(process: "subprocess.Popen[bytes]") -> int:
    process.kill()
    process.communicate()
    return process.returncode


def until(condition: Callable[[], bool]) -> None:
    for _ in range(5000):
        if condition():
            return
        time.sleep(0.02)
    raise TimeoutError


def test_the_tier_counts_and_limits_the_cpu_of_its_containers(groups: ControlGroups, tier: BatchTier) -> None:
    favour(tier)
    process = started(BURN, groups.make("c", LIMITS))
    try:
        before = tier.used_nanos()
        until(lambda: tier.used_nanos() > before)
        throttled = batch_tier.throttled_periods(tier.cpu)
        tier.limit(0)
        until(lambda: batch_tier.throttled_periods(tier.cpu) > throttled)
        assert tier.memory_bytes() > 0
    finally:
        ended(process)


def test_the_tier_is_idle_for_the_kernel(tier: BatchTier) -> None:
    idle = tier.cpu / "cpu.idle"
    if not idle.exists():
        pytest.skip("this kernel has no cpu.idle: it came with 5.15")
    assert idle.read_text().strip() == "1"


def test_a_container_that_takes_more_memory_than_it_bought_is_killed(groups: ControlGroups, tier: BatchTier) -> None:
    favour(tier)
    process = started(ALLOCATE, groups.make("c", LIMITS))
    output, _ = process.communicate(b"\n")
    assert (process.returncode, output) == (-9, b"")


def test_the_tier_is_removed_when_it_is_empty(groups: ControlGroups, tier: BatchTier) -> None:
    groups.make("c", LIMITS)
    groups.close()
    assert not tier.cpu.exists()
    assert not tier.memory.exists()
