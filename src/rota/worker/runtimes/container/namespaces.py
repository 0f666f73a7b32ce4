"""Namespaces that the containers of a pod share besides the network: UTS, IPC, and shared memory.

Namespaces are kept by bind mounts of their files, shared memory by a tmpfs, so that no process is needed to hold them.
They survive the agent and are removed with the pod.
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
    """The pod's namespaces, by type and file, created if they are missing, with its shared memory."""
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
    """The mount of the pod's shared memory, or of the machine's for None."""
    return Mount(source=_PLACE if folder is None else str(folder / _MEMORY), target=_PLACE)


def removed(folder: Path) -> None:
    """Remove the namespaces of a pod."""
    for path in (*(folder / kind for kind in _KINDS), folder / _MEMORY):
        # Mounted more than once if a start was interrupted.
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
