"""Resource usage of pods and the machine: cpu, memory, network, disk, processes.

    meter = Meter(runtime.places, folder=..., clock=clock)
    meter.usage(pod_uid)   ->  PodUsage | None       None if nothing of the pod runs here
    meter.everything()     ->  {pod_uid: PodUsage}   all pods of which something runs
    meter.node()           ->  NodeUsage

`PodUsage` has a `Usage` for each running container and their `total`. `cpu_nanos` counts from the container's start and
only grows; `cpu_nanocores` is the rate since the last sample (since the start, at the first one). A value that the
machine does not provide is None. Counters are those of the cgroups (version 1 or 2), else those of the processes in
/proc. Reading is blocking and fast, except for the sizes of folders: callers use a thread. Parsing is pure.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from rota.kit.clock import Clock
from rota.worker.runtimes.runtime_interface import Place, parse_run_id

_TICK_NANOS: Final = 10**9 // os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
#: Rates over a shorter time are not meaningful.
_LEAST_SPAN_S: Final = 1.0
#: How long a folder's size is cached: computing it means a stat of every file.
_SIZE_KEPT_S: Final = 60.0


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes and errors since the interfaces came up."""

    received_bytes: int
    sent_bytes: int
    receive_errors: int = 0
    send_errors: int = 0


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of a container, a pod or a machine at one moment."""

    #: Seconds since the epoch.
    at: float
    started_at: float
    cpu_nanos: int | None = None
    cpu_nanocores: int | None = None
    memory_bytes: int | None = None
    #: Without reclaimable page cache; the value of `kubectl top`.
    working_set_bytes: int | None = None
    rss_bytes: int | None = None
    processes: int | None = None
    #: Files that it wrote: its folder, its own volumes, its logs. Only known for whole pods.
    disk_bytes: int | None = None
    #: None if the network is shared with the machine.
    network: Network | None = None


class PodUsage(msgspec.Struct, frozen=True, kw_only=True):
    """A pod's containers by name, and their sum."""

    uid: str
    containers: Mapping[str, Usage]
    total: Usage


class NodeUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The machine: its usage, and what is available."""

    total: Usage
    memory_capacity_bytes: int
    memory_available_bytes: int
    disk_capacity_bytes: int
    disk_available_bytes: int
    most_processes: int
    inodes: int
    inodes_free: int


class Meter:
    """Measures; keeps the last sample for rates."""

    def __init__(
        self,
        places: Callable[[], Mapping[str, Place]],
        *,
        folder: Path,
        clock: Clock,
        folders: Callable[[str], Iterable[Path]] = lambda _: (),
        proc: Path = Path("/proc"),
    ) -> None:
        """`folder` is on the disk that counts as the node's; `folders` returns those of a pod, by its uid."""
        self._places: Final = places
        self._folder: Final = folder
        self._clock: Final = clock
        self._folders: Final = folders
        self._proc: Final = proc
        self._last: Final[dict[str, tuple[float, int, int]]] = {}
        self._sizes: Final[dict[str, tuple[float, int]]] = {}

    def usage(self, pod_uid: str) -> PodUsage | None:
        """The usage of a pod; None if nothing of it runs."""
        return self._pod(pod_uid, self._by_pod().get(pod_uid, {}))

    def everything(self) -> dict[str, PodUsage]:
        """The usage of every pod of which something runs."""
        pods = self._by_pod()
        found = {uid: self._pod(uid, places) for uid, places in pods.items()}
        running = {run for places in pods.values() for run in places}
        for memory, known in ((self._last, running | {""}), (self._sizes, set(pods))):
            for key in [one for one in memory if one not in known]:
                del memory[key]
        return {uid: one for uid, one in found.items() if one is not None}

    def node(self) -> NodeUsage:
        """The usage of the whole machine."""
        now = self._clock.now()
        cpu_nanos, booted_at = parse_machine_cpu((self._proc / "stat").read_text())
        memory = parse_meminfo((self._proc / "meminfo").read_text())
        disk = os.statvfs(self._folder)
        total, available = memory["MemTotal"], memory.get("MemAvailable", memory.get("MemFree", 0))
        return NodeUsage(
            total=Usage(
                at=now,
                started_at=booted_at,
                cpu_nanos=cpu_nanos,
                cpu_nanocores=self._rate("", now, booted_at, cpu_nanos),
                memory_bytes=total - memory.get("MemFree", 0),
                working_set_bytes=total - available,
                rss_bytes=memory.get("AnonPages"),
                processes=_count(_text(self._proc / "loadavg")),
                disk_bytes=(disk.f_blocks - disk.f_bfree) * disk.f_frsize,
                network=parse_network((self._proc / "net" / "dev").read_text()),
            ),
            memory_capacity_bytes=total,
            memory_available_bytes=available,
            disk_capacity_bytes=disk.f_blocks * disk.f_frsize,
            disk_available_bytes=disk.f_bavail * disk.f_frsize,
            most_processes=int(_text(self._proc / "sys/kernel/pid_max") or 0),
            inodes=disk.f_files,
            inodes_free=disk.f_favail,
        )

    def _by_pod(self) -> dict[str, dict[str, Place]]:
        found: dict[str, dict[str, Place]] = {}
        for run, place in self._places().items():
            found.setdefault(parse_run_id(run)[0], {})[run] = place
        return found

    def _pod(self, uid: str, places: Mapping[str, Place]) -> PodUsage | None:
        containers = {parse_run_id(run)[1]: self._container(run, place) for run, place in places.items()}
        if not containers:
            return None
        total = combined(containers.values(), at=self._clock.now())
        with_disk = msgspec.structs.replace(total, disk_bytes=self._size(uid), network=self._network(places))
        return PodUsage(uid=uid, containers=containers, total=with_disk)

    def _container(self, run: str, place: Place) -> Usage:
        now = self._clock.now()
        counters = read_counters(place, proc=self._proc)
        return Usage(
            at=now,
            started_at=place.started_at,
            cpu_nanos=counters.cpu_nanos,
            cpu_nanocores=self._rate(run, now, place.started_at, counters.cpu_nanos),
            memory_bytes=counters.memory_bytes,
            working_set_bytes=counters.working_set_bytes,
            rss_bytes=counters.rss_bytes,
            processes=counters.processes,
        )

    def _rate(self, key: str, now: float, started_at: float, cpu_nanos: int | None) -> int | None:
        if cpu_nanos is None:
            return None
        then, nanos, rate = self._last.get(key, (started_at, 0, -1))
        span = now - then
        if span < _LEAST_SPAN_S and rate >= 0:
            return rate
        # Processes that end without being waited for are missing from the count.
        rate = max(int((cpu_nanos - nanos) / max(span, 0.001)), 0)
        if span >= _LEAST_SPAN_S:
            self._last[key] = (now, cpu_nanos, rate)
        return rate

    def _size(self, uid: str) -> int | None:
        now = self._clock.monotonic()
        found = self._sizes.get(uid)
        if found is None or now - found[0] > _SIZE_KEPT_S:
            folders = list(self._folders(uid))
            if not folders:
                return None
            found = self._sizes[uid] = (now, sum(map(folder_size, folders)))
        return found[1]

    def _network(self, places: Mapping[str, Place]) -> Network | None:
        for place in places.values():
            with contextlib.suppress(OSError):
                own = (self._proc / str(place.pid) / "ns/net").readlink()
                if own != (self._proc / "self/ns/net").readlink():
                    return parse_network((self._proc / str(place.pid) / "net/dev").read_text())
        return None


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """The kernel's counters of one container."""

    cpu_nanos: int | None = None
    memory_bytes: int | None = None
    working_set_bytes: int | None = None
    rss_bytes: int | None = None
    processes: int | None = None


def read_counters(place: Place, *, proc: Path = Path("/proc")) -> Counters:
    """The counters of a container: of its cgroups, and of its processes for what those do not count."""
    found: dict[str, int] = {}
    for folder in map(Path, place.cgroups):
        if stat := _text(folder / "cpu.stat"):
            usage_us = parse_flat(stat).get("usage_usec")
            if usage_us is not None:
                found["cpu_nanos"] = usage_us * 1000
        if text := _text(folder / "cpuacct.usage"):
            found["cpu_nanos"] = int(text)
        for name in ("memory.current", "memory.usage_in_bytes"):
            if text := _text(folder / name):
                stats = parse_flat(_text(folder / "memory.stat"))
                idle = stats.get("total_inactive_file", stats.get("inactive_file", 0))
                found["memory_bytes"] = int(text)
                found["working_set_bytes"] = max(int(text) - idle, 0)
                found["rss_bytes"] = stats.get("total_rss", stats.get("anon", 0))
        if text := _text(folder / "pids.current"):
            found["processes"] = int(text)
    if {"cpu_nanos", "memory_bytes", "processes"} <= found.keys():
        return Counters(**found)
    return Counters(**(_of_processes(pids(place, proc), proc) | found))


def _of_processes(pids: Iterable[int], proc: Path) -> dict[str, int]:
    lines = [text for pid in pids if (text := _text(proc / str(pid) / "stat"))]
    cpu, rss = 0, 0
    for line in lines:
        nanos, resident = parse_process(line)
        cpu, rss = cpu + nanos, rss + resident
    return {
        "cpu_nanos": cpu,
        "memory_bytes": rss,
        "working_set_bytes": rss,
        "rss_bytes": rss,
        "processes": len(lines),
    }


def pids(place: Place, proc: Path) -> list[int]:
    """The processes of a container: all in its cgroup, or its first process and its descendants."""
    for folder in place.cgroups:
        if text := _text(Path(folder, "cgroup.procs")):
            return [int(one) for one in text.split()]
    found, left = [], [place.pid]
    while left:
        pid = left.pop()
        found.append(pid)
        left += [int(one) for one in _text(proc / str(pid) / "task" / str(pid) / "children").split()]
    return found


def combined(parts: Iterable[Usage], *, at: float) -> Usage:
    """The sum of several containers; a value that is None for all stays None."""
    parts = list(parts)

    def total(name: str) -> int | None:
        known = [value for one in parts if (value := getattr(one, name)) is not None]
        return sum(known) if known else None

    return Usage(
        at=at,
        started_at=min(one.started_at for one in parts),
        cpu_nanos=total("cpu_nanos"),
        cpu_nanocores=total("cpu_nanocores"),
        memory_bytes=total("memory_bytes"),
        working_set_bytes=total("working_set_bytes"),
        rss_bytes=total("rss_bytes"),
        processes=total("processes"),
    )


def folder_size(folder: Path) -> int:
    """The size of the files below a folder; links are not followed, and hard links count once."""
    found: dict[tuple[int, int], int] = {}
    for path, folders, files in os.walk(folder):
        for name in (*folders, *files):
            with contextlib.suppress(OSError):
                stat = os.lstat(os.path.join(path, name))  # noqa: PTH118 - there may be a great many
                found[stat.st_dev, stat.st_ino] = stat.st_blocks * 512
    return sum(found.values())


# --- parsing ----------------------------------------------------------------------------------------------------------


def parse_flat(text: str) -> dict[str, int]:
    """A file of the kernel with a name and a number in each line."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def parse_process(stat: str) -> tuple[int, int]:
    """/proc/PID/stat: cpu time with that of children that it waited for, in nanoseconds, and resident bytes."""
    # The name, in parentheses, may contain anything.
    fields = stat.rpartition(")")[2].split()
    ticks = sum(int(one) for one in fields[11:15])
    return ticks * _TICK_NANOS, int(fields[21]) * _PAGE_BYTES


def parse_machine_cpu(stat: str) -> tuple[int, float]:
    """/proc/stat: the busy time of all cpus in nanoseconds, and the boot time."""
    busy, booted_at = 0, 0.0
    for line in stat.splitlines():
        name, *values = line.split()
        if name == "cpu":
            user, nice, system, _, _, irq, softirq, *more = (int(one) for one in values)
            busy = user + nice + system + irq + softirq + (more[0] if more else 0)
        elif name == "btime":
            booted_at = float(values[0])
    return busy * _TICK_NANOS, booted_at


def parse_meminfo(text: str) -> dict[str, int]:
    """/proc/meminfo, in bytes."""
    found = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        number, _, unit = rest.strip().partition(" ")
        if number.isdecimal():
            found[name] = int(number) * (1024 if unit == "kB" else 1)
    return found


def parse_network(text: str) -> Network:
    """/proc/net/dev: all interfaces together, without loopback."""
    sums = [0, 0, 0, 0]
    for line in text.splitlines()[2:]:
        name, _, rest = line.partition(":")
        if name.strip() != "lo":
            values = [int(one) for one in rest.split()]
            for place, column in enumerate((0, 8, 2, 10)):
                sums[place] += values[column]
    return Network(received_bytes=sums[0], sent_bytes=sums[1], receive_errors=sums[2], send_errors=sums[3])


def _count(loadavg: str) -> int | None:
    """The number of processes and threads: after the slash in the fourth field."""
    parts = loadavg.split()
    return int(parts[3].partition("/")[2]) if len(parts) > 3 else None


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
