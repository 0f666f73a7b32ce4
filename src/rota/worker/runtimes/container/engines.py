"""Command lines of the container engine, crun. Nothing is started here.

Everything is mounted in a mount namespace that ends with the container, so no mount is left behind: the image is the
lower layer of an overlay, the container's own files the upper one. crun creates no cgroups, since the shim has put it
into the container's already. crun refuses machines with both cgroup versions mounted; there the version 2 mount, which
has none of the limits, is hidden from it.
"""

import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rota.worker.runtimes.runtime_interface import LaunchError

ENGINE: Final = "crun"
_PROGRAMS: Final = (ENGINE, "unshare", "mount", "umount", "sh")
_CAP_SYS_ADMIN: Final = 21
_BOTH: Final = Path("/sys/fs/cgroup/unified")
#: File names in a bundle.
CONFIG: Final = "config.json"
LOWER: Final = "lower"
PID: Final = "pid"
ERRORS: Final = "errors"
#: The upper layer of the container.
OWN: Final = "own"
#: If the disk cannot hold an upper layer, as with a disk that is an overlay itself, it is kept in memory.
_LAYERS: Final = (
    "mkdir -p rootfs own/upper own/work",
    "mount -t overlay overlay -o lowerdir=lower,upperdir=own/upper,workdir=own/work rootfs 2>/dev/null || "
    "{ mount -t tmpfs tmpfs own && mkdir own/upper own/work && "
    "mount -t overlay overlay -o lowerdir=lower,upperdir=own/upper,workdir=own/work rootfs; }",
)


def problem() -> str:
    """Why containers cannot run here; empty if they can."""
    missing = [one for one in _PROGRAMS if shutil.which(one) is None]
    if missing:
        return f"{', '.join(missing)} not found; install crun and util-linux"
    if os.geteuid() != 0:
        return "this worker does not run as root"
    return "" if _may_mount() else "this worker may not mount file systems (it lacks CAP_SYS_ADMIN)"


def _may_mount() -> bool:
    status = Path("/proc/self/status").read_text()
    held = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(held, 16) >> _CAP_SYS_ADMIN & 1)


def check() -> None:
    """LaunchError if containers cannot run here."""
    if found := problem():
        raise LaunchError("CreateContainerError", f"this node cannot run containers from images: {found}")


class Engine:
    """Command lines of crun, with its state in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder: Final = folder

    def run(self, bundle: Path, run: str) -> list[str]:
        """Run a bundle until it ends."""
        crun = [*self._crun(), f"--log={ERRORS}", "run", f"--pid-file={PID}", "--bundle=.", run]
        steps = ["set -e", f"cd {shlex.quote(str(bundle))}", *_hide(), *_LAYERS, f"exec {shlex.join(crun)}"]
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", "; ".join(steps)]

    def execute(self, run: str, process: Path, *, cgroups: Sequence[str], pid_file: str = "") -> list[str]:
        """Run a process, described by a file, in a running container and in its cgroups."""
        options = [f"--process={process}", *([f"--pid-file={pid_file}"] if pid_file else [])]
        join = (f"echo $$ > {shlex.quote(one)}/cgroup.procs" for one in cgroups)
        steps = ["set -e", *join, *_hide(), 'exec "$@"']
        crun = [*self._crun(), "exec", *options, run]
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", "; ".join(steps), "sh", *crun]

    def forget(self, run: str) -> None:
        """Remove crun's state of a run that has ended."""
        shutil.rmtree(self._folder / run, ignore_errors=True)

    def _crun(self) -> list[str]:
        return [ENGINE, "--cgroup-manager=disabled", f"--root={self._folder}"]


def _hide() -> list[str]:
    return [f"umount {_BOTH}"] if _BOTH.is_mount() else []
