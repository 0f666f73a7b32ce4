"""Volumes where containers expect them: bind mounts in a mount namespace of the container's own.

The machine's own files stay as they are, but for one thing: a folder to mount on must exist, so an empty one is made
where there is none. It takes root, and `unshare`, `mount` and `setpriv` of util-linux; where that is not to be had, a
container with volumes is not started, and says why.
"""

import os
import shlex
import shutil
from collections.abc import Sequence
from typing import Final

from rota.worker.runtimes.contract import Launch, LaunchError, Mount

_PROGRAMS: Final = ("unshare", "mount", "setpriv", "sh")


def inside(argv: Sequence[str], launch: Launch) -> list[str]:
    """The command line that runs `argv` with the volumes of a container in their places."""
    missing = [one for one in _PROGRAMS if shutil.which(one) is None]
    if os.geteuid() != 0 or missing:
        why = f"{', '.join(missing)} not found" if missing else "this worker does not run as root"
        raise LaunchError("CreateContainerError", f"volumes cannot be mounted: {why}")
    script = "; ".join(["set -e", *(_mount(one) for one in launch.mounts), 'exec "$@"'])
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *_become(launch), *argv]


def _mount(mount: Mount) -> str:
    source, target = shlex.quote(mount.source), shlex.quote(mount.target)
    file = f"mkdir -p $(dirname {target}); [ -e {target} ] || : > {target}"
    there = f"if [ -d {source} ]; then mkdir -p {target}; else {file}; fi"
    bind = f"mount --bind {source} {target}"
    if mount.read_only:
        bind += f"; mount -o remount,bind,ro {target}"
    return f"{there}; {bind}"


def _become(launch: Launch) -> list[str]:
    """Whoever mounts is root; what runs then is who the container says."""
    if launch.user is None:
        return []
    groups = ["--groups", ",".join(map(str, launch.groups))] if launch.groups else ["--clear-groups"]
    group = launch.group if launch.group is not None else launch.user
    return ["setpriv", f"--reuid={launch.user}", f"--regid={group}", *groups]
