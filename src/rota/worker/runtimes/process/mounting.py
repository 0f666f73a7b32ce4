"""Volumes where containers expect them: bind mounts in a mount namespace of the container's own.

The machine's own files stay as they are, but for one thing: a folder to mount on must exist, so an empty one is made
where there is none. It takes root, and `unshare`, `mount` and `setpriv` of util-linux; where that is not to be had, a
container with volumes is not started, and says why.

Whoever is not root gets such a namespace too if the worker's folder is closed to others, as it is: all of it is veiled
but for the pod's own home, which is found under the same path.
"""

import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rota.worker.runtimes.contract import Launch, LaunchError, Mount
from rota.worker.runtimes.process import shielding

_PROGRAMS: Final = ("unshare", "mount", "setpriv", "sh")
_OTHERS_MAY_PASS: Final = 0o001


def is_needed(launch: Launch, home: Path) -> bool:
    """Whether a container needs a mount namespace of its own."""
    return bool(launch.mounts) or (_is_other(launch) and closed(home) is not None)


def inside(argv: Sequence[str], launch: Launch, home: Path) -> list[str]:
    """The command line that runs `argv` with the volumes of a container in their places, in its working directory.

    It is to be run with the variables of `shielding.environment`.
    """
    missing = [one for one in _PROGRAMS if shutil.which(one) is None]
    if os.geteuid() != 0 or missing:
        why = f"{', '.join(missing)} not found" if missing else "this worker does not run as root"
        raise LaunchError("CreateContainerError", f"volumes cannot be mounted: {why}")
    steps = ["set -e", *(_mount(one) for one in launch.mounts)]
    if _is_other(launch) and (veiled := closed(home)) is not None:
        steps.append(_veil(veiled, home))
    steps += [f"cd {shlex.quote(launch.working_dir or str(home))}", 'exec "$@"']
    script = "; ".join(steps)
    behind = [*become(launch), *shielding.restored(launch.env), *argv]
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *behind]


def become(launch: Launch) -> list[str]:
    """Whoever mounts is root; what runs then is who the container says."""
    user, group = launch.user, launch.group if launch.group is not None else launch.user
    if user is None and group is None and not launch.groups:
        return []
    options = [*([] if user is None else [f"--reuid={user}"]), *([] if group is None else [f"--regid={group}"])]
    if launch.groups:
        return ["setpriv", *options, "--groups", ",".join(map(str, launch.groups))]
    return ["setpriv", *options, "--keep-groups" if user is None else "--clear-groups"]


def closed(path: Path) -> Path | None:
    """The highest folder on the way to a path through which others may not pass; None if there is none."""
    for folder in reversed(path.parents):
        if not folder.stat().st_mode & _OTHERS_MAY_PASS:
            return folder
    return None


def _is_other(launch: Launch) -> bool:
    return bool(launch.user) and os.geteuid() == 0


def _mount(mount: Mount) -> str:
    source, target = shlex.quote(mount.source), shlex.quote(mount.target)
    file = f"mkdir -p $(dirname {target}); [ -e {target} ] || : > {target}"
    there = f"if [ -d {source} ]; then mkdir -p {target}; else {file}; fi"
    bind = f"mount --bind {source} {target}"
    if mount.read_only:
        bind += f"; mount -o remount,bind,ro {target}"
    return f"{there}; {bind}"


def _veil(folder: Path, home: Path) -> str:
    """Cover a closed folder with an empty one that holds nothing but the home, which stays open by its number."""
    veiled, kept = shlex.quote(str(folder)), shlex.quote(str(home))
    cover = f"mount -t tmpfs -o mode=711,size=64k tmpfs {veiled}"
    return f"exec 9<{kept}; {cover}; mkdir -p {kept}; mount --no-canonicalize --bind /proc/self/fd/9 {kept}; exec 9<&-"
