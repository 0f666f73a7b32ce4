"""What a container leaves behind for people when it ends: `terminationMessagePath` and its policy.

A small file is mounted where the container may write it, and is read when the run is over; where the policy says so and
nothing was written, the end of the log of a run that failed takes its place. A process of the machine gets such a file
only under a path that its pod chose: the usual one is in /dev, which is the machine's.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

from rota.worker.runtimes.contract import CONTAINER, LogOptions, Mount

#: Where containers write them if nobody says otherwise.
USUAL: Final = "/dev/termination-log"
_FOLDER: Final = ".last-words"
#: The kubelet's bounds.
_MOST_BYTES: Final = 4096
_MOST_LOG_BYTES: Final = 2048
LOG_END: Final = LogOptions(tail_lines=80)


def mount(container: Mapping[str, Any], folder: Path, run: int, *, runtime: str) -> Mount | None:
    """Where a run finds its file, in a pod's folder of volumes; None if it has none."""
    target = container.get("terminationMessagePath") or USUAL
    if runtime != CONTAINER and target == USUAL:
        return None
    return Mount(source=str(_file(folder, container["name"], run)), target=target)


def prepare(folder: Path, container: str, run: int) -> None:
    """Make the file of a run, for anybody to write."""
    path = _file(folder, container, run)
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    path.touch()
    path.chmod(0o666)


def read(folder: Path, container: str, run: int) -> str:
    """What a run has left; empty if nothing."""
    with contextlib.suppress(OSError), _file(folder, container, run).open("rb") as file:
        return file.read(_MOST_BYTES).decode("utf-8", "replace")
    return ""


def wants_log(container: Mapping[str, Any]) -> bool:
    """Whether the end of the log is taken for a failed run that left nothing."""
    return container.get("terminationMessagePolicy") == "FallbackToLogsOnError"


async def end_of(log: AsyncIterator[bytes]) -> str:
    """The end of a log; empty if there is none."""
    kept = b""
    with contextlib.suppress(OSError, ValueError):
        async for piece in log:
            kept = (kept + piece)[-_MOST_LOG_BYTES:]
    return kept.decode("utf-8", "replace")


def _file(folder: Path, container: str, run: int) -> Path:
    return folder / _FOLDER / f"{container}.{run}"
