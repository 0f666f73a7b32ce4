"""Memory, disk and PID pressure of the machine, as conditions of its node. Pure.

Masters taint a node under pressure, so it gets no more pods. The thresholds are the kubelet's for memory and inodes;
for the disk a tenth of it, but at most a gibibyte.
"""

from typing import Final

from rota.worker.usage import NodeUsage

_LEAST_MEMORY_BYTES: Final = 100 * 1024 * 1024
_LEAST_DISK_PART: Final = 0.10
_ENOUGH_DISK_BYTES: Final = 1024**3
_LEAST_INODES_PART: Final = 0.05
_LEAST_PROCESSES_PART: Final = 0.05


def conditions(node: NodeUsage) -> list[dict[str, str]]:
    """The three conditions, true or false."""
    memory = node.memory_available_bytes
    disk = node.disk_available_bytes
    least_disk = min(node.disk_capacity_bytes * _LEAST_DISK_PART, _ENOUGH_DISK_BYTES)
    # Some file systems do not count inodes.
    files_short = node.inodes > 0 and node.inodes_free < node.inodes * _LEAST_INODES_PART
    used = node.total.processes or 0
    left = node.most_processes - used
    return [
        _condition(
            "MemoryPressure",
            memory < _LEAST_MEMORY_BYTES,
            ("WorkerHasInsufficientMemory", f"{_shown(memory)} of memory are left"),
            ("WorkerHasSufficientMemory", "the worker has sufficient memory available"),
        ),
        _condition(
            "DiskPressure",
            disk < least_disk or files_short,
            ("WorkerHasDiskPressure", f"{_shown(disk)} and {node.inodes_free} files are left on the disk"),
            ("WorkerHasNoDiskPressure", "the worker has no disk pressure"),
        ),
        _condition(
            "PIDPressure",
            node.most_processes > 0 and left < node.most_processes * _LEAST_PROCESSES_PART,
            ("WorkerHasInsufficientPID", f"{left} of {node.most_processes} processes are left"),
            ("WorkerHasSufficientPID", "the worker has sufficient PID available"),
        ),
    ]


def _condition(kind: str, holds: bool, bad: tuple[str, str], good: tuple[str, str]) -> dict[str, str]:
    reason, message = bad if holds else good
    return {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message}


def _shown(amount: int) -> str:
    return f"{amount / 1024**2:.0f}Mi"
