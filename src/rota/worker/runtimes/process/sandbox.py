"""What is hidden from a process of the machine, and what is mounted for it: the worker's side of `isolation.py`.

A worker that is root runs tasks as another user, who cannot traverse folders that are closed to others. Those on the
path to what a task needs (its home, the worker's Python) are covered in a mount namespace of the task's own, with
nothing in them but that. Rota's own files are covered as well. A worker that is an ordinary user runs tasks as itself
and may not mount; where the system allows user namespaces, Rota's own files are covered in one.
"""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import rota
from rota.kit import default_paths
from rota.worker.runtimes.process.isolation import inside
from rota.worker.runtimes.runtime_interface import CONTAINER, Launch, LaunchError

_CAP_SYS_ADMIN: Final = 21
_PROGRAMS: Final = ("nsenter", "setpriv", "sh")


class Sandbox:
    """Mount plans for the processes of one worker."""

    def __init__(self, own: Sequence[Path] = ()) -> None:
        """`own` are Rota's own files and folders, which are hidden from tasks."""
        self._own: Final = [str(one.resolve()) for one in own]
        self._is_root: Final = os.geteuid() == 0
        self._may_mount: Final = self._is_root and may_mount()
        #: Why tasks of an ordinary user see Rota's own files; None before the plan was tried.
        self._problem: str | None = None

    @property
    def own(self) -> Sequence[str]:
        """Rota's own files and folders."""
        return self._own

    @property
    def what_if(self) -> dict[str, Any] | None:
        """A plan to try before tasks depend on it; None if nothing does."""
        if self._is_root or not self._own or self._problem is not None:
            return None
        return {"hidden": self._own, "user_namespace": True}

    def tried(self, problem: str) -> None:
        """The result of trying the plan of `what_if`; an empty problem means success."""
        self._problem = problem

    @property
    def exposure(self) -> str:
        """Why tasks may read Rota's own files; empty if they may not."""
        return self._problem or ""

    @property
    def may_mount(self) -> bool:
        """Whether processes can have mounts of their own."""
        return self._may_mount

    @property
    def homes_are_out_of_reach(self) -> bool:
        """Whether tasks of other users cannot reach folders that are closed to them."""
        return self._is_root and not self._may_mount

    def plan(self, launch: Launch, home: Path) -> dict[str, Any] | None:
        """The mount namespace of a process; None if it needs none, LaunchError if it is not available."""
        if launch.mounts and not self._may_mount:
            why = "it lacks CAP_SYS_ADMIN" if self._is_root else "this worker does not run as root"
            raise LaunchError("CreateContainerError", f"volumes cannot be mounted: {why}")
        hidden: list[str] = []
        exposed: list[str] = []
        if launch.runtime != CONTAINER:
            needed = [str(home.resolve()), *self._python()]
            hidden = self._hidden(launch, needed)
            exposed = [one for one in needed if inside(one, hidden)]
        if not hidden and not launch.mounts:
            return None
        return {
            "mounts": [
                {
                    "source": one.source,
                    "inside": one.inside,
                    "target": one.target,
                    "read_only": one.read_only,
                    "own": one.own,
                    "made_as": [launch.user, launch.group or launch.user] if one.as_user and launch.user else None,
                }
                for one in launch.mounts
            ],
            "hidden": hidden,
            "exposed": exposed,
            "forbidden": self._own,
            "user_namespace": not self._is_root,
        }

    def entry(self, launch: Launch, home: Path, pid: int) -> list[str]:
        """The program that enters the namespaces of a process; empty if it has none of its own."""
        if self.plan(launch, home) is None:
            return []
        as_user = [] if self._is_root else [f"--user=/proc/{pid}/ns/user", "--preserve-credentials"]
        return ["nsenter", *as_user, f"--mount=/proc/{pid}/ns/mnt"]

    def _hidden(self, launch: Launch, needed: Sequence[str]) -> list[str]:
        if not self._is_root:
            return self._own if self._problem == "" else []
        if not launch.user or not self._may_mount:
            return []
        found = {*self._own, *(str(one) for path in needed if (one := default_paths.closed(Path(path))) is not None)}
        return sorted(one for one in found if not any(inside(one, [other]) for other in found if other != one))

    def _python(self) -> list[str]:
        """The paths that the worker's Python and its imports need."""
        found = [sys.prefix, sys.base_prefix, str(Path(rota.__file__).parents[1])]
        found += os.environ.get("ROTA_ENVIRONMENTS", "").split(os.pathsep)
        real = {str(Path(one).resolve()) for one in found if one and Path(one).is_dir()}
        return sorted(one for one in real if not any(inside(own, [one]) for own in self._own))


def become(launch: Launch) -> list[str]:
    """The program that switches to the user of a container, for commands that a root agent runs in it."""
    user, group = launch.user, launch.group if launch.group is not None else launch.user
    last = ["--no-new-privs"] if launch.no_new_privileges else []
    if user is None and group is None and not launch.groups:
        return ["setpriv", *last] if last else []
    options = [*([] if user is None else [f"--reuid={user}"]), *([] if group is None else [f"--regid={group}"])]
    if launch.groups:
        return ["setpriv", *options, "--groups", ",".join(map(str, launch.groups)), *last]
    return ["setpriv", *options, "--keep-groups" if user is None else "--clear-groups", *last]


def missing_programs() -> list[str]:
    """The programs that commands in a namespace need and that are missing here."""
    return [one for one in _PROGRAMS if shutil.which(one) is None]


def may_mount() -> bool:
    """Whether this process may mount file systems."""
    status = Path("/proc/self/status").read_text()
    held = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(held, 16) >> _CAP_SYS_ADMIN & 1)
