"""What a container leaves behind for people when it ends: `terminationMessagePath` and its policy.

A small file is mounted where the container may write it, and is read when the run is over; where the policy says so and
nothing was written, the end of the log of a run that failed takes its place. A mount takes root. Without it a process
of the machine has the file by a plain name, which is meant in its home, or asks by ROTA_OUTPUTS, and is told where the
file is.
"""

import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from rota.worker.runtimes.runtime_interface import CONTAINER, Launch, LaunchError, LogOptions, Mount

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


def given(launch: Launch, container: Mapping[str, Any], folder: Path, *, home: str, may_mount: bool) -> Launch:
    """A run that finds its file, which is in its pod's folder of volumes; or as it was, if it has none.

    A process finds it in its place if files can be mounted, else only by the variable; both are names of one file.
    """
    target, file = container.get("terminationMessagePath") or USUAL, str(_file(folder, container["name"], launch.run))
    if launch.runtime == CONTAINER:
        mount = Mount(source=file, target=str(Path("/", target)), own=True)
        return msgspec.structs.replace(launch, mounts=[*launch.mounts, mount], last_words=True)
    fields: dict[str, Any] = {}
    if target.startswith("/") and (may_mount or target != USUAL):
        mount = Mount(source=file, target=target, own=True, as_user=target != USUAL)
        fields = {"mounts": [*launch.mounts, mount], "last_words": True}
    elif not target.startswith("/"):
        if "/" in target or target in {".", ".."}:
            # Folders in its home are its own: a link in place of one would lead us anywhere.
            raise LaunchError("CreateContainerConfigError", f"terminationMessagePath: {target} is not absolute")
        fields = {"words": str(Path(home, target)), "last_words": True}
    if VARIABLE in launch.env and target == USUAL:
        words = str(Path(home, f"{FOLDER}.{container['name']}.{launch.run}"))
        fields |= {"env": {**launch.env, VARIABLE: words}, "words": words, "last_words": True}
    return msgspec.structs.replace(launch, **fields)


def prepare(folder: Path, launch: Launch) -> None:
    """Make the file of a run, for anybody to write."""
    path = _file(folder, launch.container, launch.run)
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    path.touch()
    path.chmod(0o666)
    if launch.words and not os.path.lexists(launch.words):
        # a second name of the same file: what its user puts in that place instead, nobody reads
        Path(launch.words).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        Path(launch.words).hardlink_to(path)


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
