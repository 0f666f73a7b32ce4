"""What a container leaves behind for people when it ends: `terminationMessagePath` and its policy.

A small file is mounted where the container may write it, and is read when the run is over; where the policy says so and
nothing was written, the end of the log of a run that failed takes its place. A process of the machine gets such a file
only under a path that its pod chose, for the usual one is in /dev, which is the machine's; or it asks by ROTA_OUTPUTS,
and is told where the file is, which takes no mount and therefore no root.
"""

import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from rota.worker.runtimes.contract import CONTAINER, Launch, LogOptions, Mount

#: Where containers write them if nobody says otherwise.
USUAL: Final = "/dev/termination-log"
#: By which a program is told the file's name; its pod sets it to the path above.
VARIABLE: Final = "ROTA_OUTPUTS"
#: The folder of these files, in that of a pod's volumes.
FOLDER: Final = ".last-words"
#: The kubelet's bounds.
_MOST_BYTES: Final = 4096
_MOST_LOG_BYTES: Final = 2048
LOG_END: Final = LogOptions(tail_lines=80)


def given(launch: Launch, container: Mapping[str, Any], folder: Path, *, home: str) -> Launch:
    """A run that finds its file, which is in its pod's folder of volumes; or as it was, if it has none."""
    target, file = container.get("terminationMessagePath") or USUAL, str(_file(folder, container["name"], launch.run))
    if launch.runtime == CONTAINER or target != USUAL:
        mount = Mount(source=file, target=target)
        return msgspec.structs.replace(launch, mounts=[*launch.mounts, mount], last_words=True)
    if VARIABLE not in launch.env:
        return launch
    if launch.user:  # another user may not pass through our folders, but through its pod's own
        file = str(Path(home, f"{FOLDER}.{container['name']}.{launch.run}"))
    return msgspec.structs.replace(launch, env={**launch.env, VARIABLE: file}, last_words=True)


def prepare(folder: Path, launch: Launch) -> None:
    """Make the file of a run, for anybody to write."""
    path = _file(folder, launch.container, launch.run)
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    path.touch()
    path.chmod(0o666)
    if launch.runtime == CONTAINER or any(mount.source == str(path) for mount in launch.mounts):
        return  # the variable, if there is one, is the pod's own, and so is what it says
    told = Path(launch.env[VARIABLE])
    if not told.exists():
        # a second name of the same file: what its user puts in that place instead, nobody reads
        told.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        told.hardlink_to(path)


def read(folder: Path, container: str, run: int) -> str:
    """What a run has left; empty if nothing."""
    with contextlib.suppress(OSError), _file(folder, container, run).open("rb") as file:
        return file.read(_MOST_BYTES).decode("utf-8", "replace")
    return ""


def trim(folder: Path) -> None:
    """Cut the files of a pod that is over to what is read of them, since they are kept until the pod is gone."""
    with contextlib.suppress(OSError):
        for file in (folder / FOLDER).iterdir():
            if file.stat(follow_symlinks=False).st_size > _MOST_BYTES:
                os.truncate(file, _MOST_BYTES)


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
    return folder / FOLDER / f"{container}.{run}"
