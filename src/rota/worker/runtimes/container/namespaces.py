"""What the containers of a pod share beside the network: a host name, messages between processes, and shared memory.

Namespaces are kept by files that they are mounted on, shared memory by a small file system, so that no process has to
live for them. They outlive the agent, and go when the pod does.
"""

import contextlib
import os
import subprocess
from pathlib import Path
from typing import Final

from rota.worker.runtimes.runtime_interface import LaunchError, Mount

_KINDS: Final = ("ipc", "uts")
_MEMORY: Final = "shm"
_PLACE: Final = "/dev/shm"  # noqa: S108 - where it is, not a file of ours
_MEMORY_OPTIONS: Final = "nosuid,nodev,noexec,mode=1777,size=64m"


def made(folder: Path, *, host_name: str) -> dict[str, str]:
    """The pod's namespaces, by kind and file, made if they are missing, and its shared memory with them."""
    files = {kind: folder / kind for kind in _KINDS}
    if not all(map(os.path.ismount, (*files.values(), folder / _MEMORY))):
        removed(folder)
        (folder / _MEMORY).mkdir(mode=0o700, parents=True, exist_ok=True)
        for one in files.values():
            one.touch()
        options = [f"--{kind}={path}" for kind, path in files.items()]
        _do(["unshare", *options, "sh", "-c", 'echo "$1" >/proc/sys/kernel/hostname', "sh", host_name], folder)
        _do(["mount", "-t", "tmpfs", "-o", _MEMORY_OPTIONS, _MEMORY, str(folder / _MEMORY)], folder)
    return {kind: str(path) for kind, path in files.items()}


def shared_memory(folder: Path | None) -> Mount:
    """The pod's shared memory, or the machine's for None, where containers look for it."""
    return Mount(source=_PLACE if folder is None else str(folder / _MEMORY), target=_PLACE)


def removed(folder: Path) -> None:
    """Let what a pod's containers shared go."""
    for path in (*(folder / kind for kind in _KINDS), folder / _MEMORY):
        # Mounted more than once if a start was cut off in the middle.
        while os.path.ismount(path) and _run(["umount", str(path)]).returncode == 0:
            pass
        with contextlib.suppress(OSError):
            path.rmdir() if path.is_dir() else path.unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()


def _do(argv: list[str], folder: Path) -> None:
    answer = _run(argv)
    if answer.returncode:
        removed(folder)
        said = answer.stderr.strip()
        raise LaunchError("CreateContainerError", f"what the pod's containers share cannot be made: {said}")


def _run(argv: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(argv, capture_output=True, text=True, check=False)
