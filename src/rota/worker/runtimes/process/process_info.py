"""The run of a process, its start time, and whether memory ended it. Only the standard library, as in the shim."""

import contextlib
import os
from pathlib import Path
from typing import Any, Final

_STAT_BYTES: Final = 64 * 1024
#: Identifies processes that a run leaves behind where there are no cgroups.
_RUN_VARIABLE: Final = "ROTA_RUN"


def start_ticks(pid: int) -> int:
    """The start time of a process in the kernel's clock; distinguishes it from a later process with the same pid."""
    try:
        opened = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        text = os.read(opened, _STAT_BYTES)
    except OSError:
        return 0
    finally:
        os.close(opened)
    return int(text.rpartition(b")")[2].split()[19])


def marked(request: dict[str, Any]) -> dict[str, Any]:
    """A request whose process can be attributed to its run; with cgroups it can be in any case."""
    if request.get("cgroups"):
        return request
    return {**request, "env": {**request["env"], _RUN_VARIABLE: request["id"]}}


def run_of(pid: int) -> str:
    """The run of a process, by its environment; empty if unknown."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    mark = f"{_RUN_VARIABLE}=".encode()
    return next((one[len(mark) :].decode("utf-8", "replace") for one in variables if one.startswith(mark)), "")


def members(folder: str) -> list[int]:
    """The processes of a control group."""
    try:
        return [int(line) for line in Path(folder, "cgroup.procs").read_bytes().split()]
    except OSError:
        return []


def ran_out_of_memory(folder: str) -> bool:
    """Whether the kernel killed a process of a control group for memory."""
    if not folder:
        return False
    for name in ("memory.events", "memory.oom_control"):
        with contextlib.suppress(OSError, ValueError):
            for line in Path(folder, name).read_text().splitlines():
                key, _, value = line.partition(" ")
                if key == "oom_kill" and int(value) > 0:
                    return True
    return False
