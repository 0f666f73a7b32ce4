"""Control groups of both versions: where they are made, and what is written into them."""

import contextlib
import os
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from rota.worker.runtimes import batch_tier
from rota.worker.runtimes.process import cgroups
from rota.worker.runtimes.process.cgroups import ControlGroups
from rota.worker.runtimes.runtime_interface import Limits

MEGABYTE = 1024 * 1024


def _unified(tmp_path: Path, *, inside: str, controllers: str = "cpu memory pids io") -> Path:
    """Files as a machine with version 2 has them; the folder of /proc."""
    tree = tmp_path / "tree"
    (tree / inside).mkdir(parents=True)
    for folder in (tree, *(one for one in tree.rglob("*") if one.is_dir())):
        (folder / "cgroup.controllers").write_text(controllers)
        (folder / "cgroup.subtree_control").write_text("")
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "mountinfo").write_text(f"30 1 0:26 / {tree} rw,nosuid - cgroup2 cgroup2 rw\n")
    (proc / "cgroup").write_text(f"0::/{inside}\n")
    return proc


def _split(tmp_path: Path, hierarchies: Sequence[str] = ("cpu,cpuacct", "memory", "pids")) -> Path:
    proc, lines, mounts = tmp_path / "proc", [], []
    proc.mkdir()
    for number, names in enumerate(hierarchies):
        (tmp_path / names / "agent").mkdir(parents=True)
        mounts.append(f"3{number} 1 0:2{number} / {tmp_path / names} rw - cgroup cgroup rw,{names}\n")
        lines.append(f"{number}:{names}:/agent\n")
    (proc / "mountinfo").write_text("".join(mounts))
    (proc / "cgroup").write_text("".join(lines))
    return proc


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new group in an ordinary folder has no file that says what it hands on; the kernel's has."""
    before = cgroups._hand_on

    def hand_on(folder: Path) -> None:
        (folder / "cgroup.subtree_control").touch()
        before(folder)

    monkeypatch.setattr(cgroups, "_hand_on", hand_on)


@pytest.mark.usefixtures("plain")
def test_limits_are_written_in_the_words_of_version_2(tmp_path: Path) -> None:
    groups = ControlGroups("g", proc=_unified(tmp_path, inside="user/session"))
    limits = Limits(cpu_milli=1500, cpu_request_milli=500, memory_bytes=64 * MEGABYTE, pids=20)
    made = groups.make("c", limits)
    folder = tmp_path / "tree/user/session/g/c"
    assert made.folders == (str(folder),)
    assert made.memory == str(folder)
    assert (folder / "cpu.max").read_text() == "150000 100000"
    assert (folder / "cpu.weight").read_text() == "20"
    assert (folder / "memory.max").read_text() == str(64 * MEGABYTE)
    assert (folder / "pids.max").read_text() == "20"
    groups.make("d", Limits())
    assert (folder.parent / "d" / "cpu.max").read_text() == "max 100000"
    assert (folder.parent / "d" / "memory.max").read_text() == "max"


def test_limits_are_written_in_the_words_of_version_1(tmp_path: Path) -> None:
    groups = ControlGroups("g", proc=_split(tmp_path))
    made = groups.make("c", Limits(cpu_milli=500, cpu_request_milli=250, memory_bytes=MEGABYTE, pids=9))
    assert len(made.folders) == 3
    assert (tmp_path / "cpu,cpuacct/agent/g/c/cpu.cfs_quota_us").read_text() == "50000"
    assert (tmp_path / "cpu,cpuacct/agent/g/c/cpu.shares").read_text() == "256"
    assert (tmp_path / "memory/agent/g/c/memory.limit_in_bytes").read_text() == str(MEGABYTE)
    assert (tmp_path / "pids/agent/g/c/pids.max").read_text() == "9"
    assert groups.make("d", Limits()).folders == (str(tmp_path / "pids/agent/g/d"),), "the fence is always there"


BATCH = Limits(cpu_request_milli=500, memory_bytes=64 * MEGABYTE, batch=True)


@pytest.mark.usefixtures("plain")
def test_batch_containers_are_in_a_tier_beside_the_others_in_version_2(tmp_path: Path) -> None:
    groups = ControlGroups("g", proc=_unified(tmp_path, inside="user"))
    tier = tmp_path / "tree/user/g-batch"
    assert groups.make("c", BATCH).folders == (str(tier / "c"),)
    assert (tier / "c/memory.max").read_text() == str(64 * MEGABYTE)
    assert (tier / "c/cpu.max").read_text() == "max 100000", "its quota is that of the tier"
    assert (tier / "cpu.weight").read_text() == "1", "a kernel without cpu.idle"
    assert "+cpu" in (tier / "cgroup.subtree_control").read_text()
    made = groups.batch_tier()
    assert made is not None
    made.limit(250.5)
    assert (tier / "cpu.max").read_text() == "25050 100000"
    made.limit(0)
    assert (tier / "cpu.max").read_text() == "1000 100000", "the kernel's minimum"
    (tier / "cpu.stat").write_text("usage_usec 12\nnr_throttled 3\n")
    (tier / "memory.current").write_text("1000\n")
    (tier / "memory.stat").write_text("anon 500\ninactive_file 300\n")
    assert (made.used_nanos(), made.memory_bytes()) == (12_000, 700)
    assert batch_tier.throttled_periods(tier) == 3


@pytest.mark.usefixtures("plain")
def test_a_tier_that_could_not_be_put_behind_the_others_is_put_there_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = ControlGroups("g", proc=_unified(tmp_path, inside="user"))

    def refused(_: batch_tier.BatchTier) -> None:
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(batch_tier.BatchTier, "lower", refused)
        with pytest.raises(PermissionError):
            groups.batch_tier()
    groups.batch_tier()
    assert (tmp_path / "tree/user/g-batch/cpu.weight").read_text() == "1"


@pytest.mark.parametrize("hierarchies", [("cpu,cpuacct", "memory", "pids"), ("cpu", "cpuacct", "memory", "pids")])
def test_batch_containers_are_in_a_tier_beside_the_others_in_version_1(
    tmp_path: Path, hierarchies: tuple[str, ...]
) -> None:
    groups = ControlGroups("g", proc=_split(tmp_path, hierarchies))
    made = groups.make("c", BATCH)
    assert made.folders == tuple(str(tmp_path / one / "agent/g-batch/c") for one in sorted(hierarchies, key=_order))
    cpu = tmp_path / hierarchies[0] / "agent/g-batch"
    assert (cpu / "cpu.shares").read_text() == "2", "a kernel without cpu.idle"
    assert (cpu / "c/cpu.shares").read_text() == "512"
    assert (cpu / "c/cpu.cfs_quota_us").read_text() == "-1", "its quota is that of the tier"
    tier = groups.batch_tier()
    assert tier is not None
    tier.limit(1500)
    assert (cpu / "cpu.cfs_quota_us").read_text() == "150000"
    accounting = tmp_path / next(one for one in hierarchies if "cpuacct" in one)
    (accounting / "agent/g-batch/cpuacct.usage").write_text("77\n")
    (tmp_path / "memory/agent/g-batch/memory.usage_in_bytes").write_text("1000\n")
    (tmp_path / "memory/agent/g-batch/memory.stat").write_text("total_inactive_file 400\n")
    assert (tier.used_nanos(), tier.memory_bytes()) == (77, 600)
    assert ControlGroups("g", proc=tmp_path / "proc").make("d", Limits(pids=3)).folders == (
        str(tmp_path / "pids/agent/g/d"),
    )


def _order(hierarchy: str) -> int:
    return ("cpu", "cpu,cpuacct", "memory", "pids", "cpuacct").index(hierarchy)


def test_without_a_cgroup_for_memory_there_is_no_tier(tmp_path: Path) -> None:
    assert ControlGroups("g", proc=_split(tmp_path, ("cpu,cpuacct", "pids"))).batch_tier() is None


@pytest.mark.usefixtures("plain")
def test_a_machine_without_controllers_says_so(tmp_path: Path) -> None:
    groups = ControlGroups("g", proc=_unified(tmp_path, inside="user", controllers="cpuset io"))
    assert not groups.available
    assert groups.problem == "this machine has no control groups"


def _version_2() -> Path | None:
    """Where version 2 is mounted with a controller that this test may play with."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        parts = line.split()
        if parts[parts.index("-") + 1] == "cgroup2" and os.geteuid() == 0:
            with contextlib.suppress(OSError):
                if "hugetlb" in (Path(parts[4]) / "cgroup.controllers").read_text().split():
                    return Path(parts[4])
    return None


@pytest.fixture
def crowded() -> Iterator[tuple[Path, int]]:
    """A real group of version 2 that holds a process, inside of one that holds none; the group and the process."""
    point = _version_2()
    if point is None:
        pytest.skip("this machine has no control groups of version 2 to play with")
    slice_ = point / f"rota-test-{uuid.uuid4().hex[:8]}"
    scope = slice_ / "scope"
    try:
        scope.mkdir(parents=True)
    except OSError as problem:
        pytest.skip(f"control groups of version 2 cannot be made: {problem}")
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        try:
            (scope / "cgroup.procs").write_text(str(sleeper.pid))
            yield scope, sleeper.pid
        finally:
            sleeper.kill()
            sleeper.wait()
            for folder in sorted(slice_.rglob("*"), reverse=True):
                if folder.is_dir():
                    folder.rmdir()
            slice_.rmdir()


def test_where_a_group_holds_processes_its_neighbours_are_limited(
    crowded: tuple[Path, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The kernel's own rule, with a controller that nothing here depends on.
    monkeypatch.setattr(cgroups, "_CONTROLLERS", ("hugetlb",))
    scope, pid = crowded
    groups = ControlGroups("g", proc=Path(f"/proc/{pid}"))
    assert groups.problem == ""
    assert groups._unified == scope.parent / "g"
    assert "hugetlb" in (scope.parent / "g" / "cgroup.subtree_control").read_text()
    groups.close()
    assert not (scope.parent / "g").exists()
