"""The cgroup of all batch containers of a worker: its quota, and what it uses. Both cgroup versions.

The tier is beside the worker's other cgroups and idle (`cpu.idle`, or the lowest weight on older kernels): a process of
any other cgroup that wakes runs at once. The quota keeps batch from filling the machine besides.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

PERIOD_US: Final = 100_000
#: The kernel's minimum for a quota.
LEAST_QUOTA_US: Final = 1_000
_LEAST_SHARES: Final = 2
_LEAST_WEIGHT: Final = 1


@dataclass(frozen=True, slots=True)
class BatchTier:
    """The folders of the tier by controller; all the same in version 2."""

    cpu: Path
    usage: Path
    memory: Path
    unified: bool

    def lower(self) -> None:
        """Put the tier behind all other cgroups."""
        if (self.cpu / "cpu.idle").exists():
            (self.cpu / "cpu.idle").write_text("1")
        elif self.unified:
            (self.cpu / "cpu.weight").write_text(str(_LEAST_WEIGHT))
        else:
            (self.cpu / "cpu.shares").write_text(str(_LEAST_SHARES))

    def limit(self, milli: float) -> None:
        """Let the containers of the tier use this much cpu together; OSError if the kernel refuses."""
        set_quota(self.cpu, milli, unified=self.unified)

    def used_nanos(self) -> int:
        """The cpu time of the tier so far; OSError if it cannot be read."""
        if self.unified:
            return _stat(self.cpu / "cpu.stat")["usage_usec"] * 1000
        return int((self.usage / "cpuacct.usage").read_text())

    def memory_bytes(self) -> int:
        """The memory of the tier without page cache that can be reclaimed; OSError if it cannot be read."""
        name, idle = (
            ("memory.current", "inactive_file") if self.unified else ("memory.usage_in_bytes", "total_inactive_file")
        )
        return max(int((self.memory / name).read_text()) - _stat(self.memory / "memory.stat").get(idle, 0), 0)


def set_quota(folder: Path, milli: float, *, unified: bool) -> None:
    """Set the cpu quota of a cgroup."""
    quota_us = max(int(milli * PERIOD_US / 1000), LEAST_QUOTA_US)
    if unified:
        (folder / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
    else:
        (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (folder / "cpu.cfs_quota_us").write_text(str(quota_us))


def throttled_periods(folder: Path) -> int:
    """How often the containers of a cgroup have used up their quota; OSError if it cannot be read."""
    return _stat(folder / "cpu.stat").get("nr_throttled", 0)


def _stat(path: Path) -> dict[str, int]:
    pairs = (line.split() for line in path.read_text().splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}
