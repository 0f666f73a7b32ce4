"""Holds processes to a share of a core, by control groups of version 1 or 2."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_ROOT: Final = Path("/sys/fs/cgroup")
#: Short, so that a process that has used its share does not pause for long.
_PERIOD_US: Final = 20_000


class CoreShares:
    """Control groups for some processes, each in one of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder: Final = folder
        self._groups: Final[list[Path]] = []

    def hold(self, pid: int, share: float) -> None:
        """Let a process use this much of a core from now on."""
        group = self._folder / f"rota-bench-{os.getpid()}-{len(self._groups)}"
        group.mkdir()
        self._groups.append(group)
        quota = max(1_000, round(share * _PERIOD_US))
        if (group / "cpu.max").exists():
            (group / "cpu.max").write_text(f"{quota} {_PERIOD_US}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        (group / "cgroup.procs").write_text(str(pid))

    def release(self) -> None:
        """Lift the limits; the processes may still run."""
        for group in self._groups:
            for pid in (group / "cgroup.procs").read_text(encoding="ascii").split():
                with contextlib.suppress(OSError):
                    (self._folder / "cgroup.procs").write_text(pid)
            group.rmdir()
        self._groups.clear()


@contextlib.contextmanager
def held() -> Iterator[CoreShares | None]:
    """Control groups that are removed in the end; None if this user may not make any here."""
    folder = _ROOT / "cpu" if (_ROOT / "cpu").is_dir() else _ROOT
    limit = "cpu.cfs_quota_us" if folder.name == "cpu" else "cpu.max"
    probe = folder / f"rota-bench-{os.getpid()}"
    try:
        probe.mkdir()
    except OSError:
        yield None
        return
    possible = (probe / limit).exists()
    probe.rmdir()
    if not possible:
        yield None
        return
    shares = CoreShares(folder)
    try:
        yield shares
    finally:
        shares.release()
