"""Processor time and memory of a piece of work or of a process."""

import gc
import os
import time
from collections.abc import Callable
from pathlib import Path


def spent_s(work: Callable[[], None]) -> float:
    """The processor time that work takes, without garbage collection."""
    gc.collect()
    gc.disable()
    try:
        start = time.process_time()
        work()
        return time.process_time() - start
    finally:
        gc.enable()


def used_s(pid: int) -> float:
    """The processor time that a process has used since its start."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int | None = None) -> float:
    """The resident memory of a process, or of this one."""
    pages = int(Path(f"/proc/{pid or 'self'}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
