"""Termination messages: `terminationMessagePath` and its policy.

A small file is mounted at the path and read when the run has ended. If the policy says so and nothing was written, the
end of the log of a failed run is used instead. A mount needs root. Without it a process of the machine has the file by
a relative path, which is in its home, or asks for its name by ROTA_OUTPUTS.
"""

import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from rota.worker.runtimes.runtime_interface import CONTAINER, Launch, LaunchError, LogOptions, Mount

#: The default path.
USUAL: Final = "/dev/termination-log"
#: The variable with the file's name; the pod sets it to the path above.
VARIABLE: Final = "ROTA_OUTPUTS"
#: The folder of these files, in that of a pod's volumes.
FOLDER: Final = ".last-words"
#: The kubelet's limits.
_MOST_BYTES: Final = 4096
_MOST_LOG_BYTES: Final = 2048
LOG_END: Final = LogOptions(tail_lines=80)


def given(launch: Launch, container: Mapping[str, Any], folder: Path, *, home: str, may_mount: bool) -> Launch:
    """The launch with the file of its termination message, which is in its pod's folder of volumes; unchanged if it has
    none.

    A process has it at its path if files can be mounted, else only by the variable; both are names of one file.
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
            # The task owns the folders in its home: a link instead of one would lead us anywhere.
            raise LaunchError("CreateContainerConfigError", f"terminationMessagePath: {target} is not absolute")
        fields = {"words": str(Path(home, target)), "last_words": True}
    if VARIABLE in launch.env and target == USUAL:
        words = str(Path(home, f"{FOLDER}.{container['name']}.{launch.run}"))
        fields |= {"env": {**launch.env, VARIABLE: words}, "words": words, "last_words": True}
    return msgspec.structs.replace(launch, **fields)


def prepare(folder: Path, launch: Launch) -> None:
    """Create the file of a run, writable by all users."""
    path = _file(folder, launch.container, launch.run)
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    path.touch()
    path.chmod(0o666)
    if launch.words and not os.path.lexists(launch.words):
        # a hard link to the same file: if the user replaces it, the replacement is not read
        Path(launch.words).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        Path(launch.words).hardlink_to(path)


def read(folder: Path, container: str, run: int) -> str:
    """The message of a run; empty if none."""
    with contextlib.suppress(OSError), _file(folder, container, run).open("rb") as file:
        return file.read(_MOST_BYTES).decode("utf-8", "replace")
    return ""


def trim(folder: Path) -> None:
    """Truncate the files of an ended pod to the part that is read, since they are kept until the pod is deleted."""
    with contextlib.suppress(OSError):
        for file in (folder / FOLDER).iterdir():
            if file.stat(follow_symlinks=False).st_size > _MOST_BYTES:
                os.truncate(file, _MOST_BYTES)


def wants_log(container: Mapping[str, Any]) -> bool:
    """Whether the end of the log is used for a failed run without a message."""
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
