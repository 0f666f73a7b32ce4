"""Cgroups for containers: limits on cpu, memory and the number of processes, and the set of processes of a run.

Both versions are supported. Cgroups are created below the agent's own, so that the limits that the machine's owner gave
to the agent apply to all that it runs; in version 2, where a cgroup with processes cannot have limited children, beside
it. Where cgroups cannot be created (no permission, no controllers) containers run without limits, and `problem` has the
reason for the node's conditions.

Containers of batch pods have their cgroups in a tier of their own (`batch_tier`), beside the other ones.
"""

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rota.worker.runtimes.batch_tier import LEAST_QUOTA_US, PERIOD_US, BatchTier
from rota.worker.runtimes.runtime_interface import Limits

_CONTROLLERS: Final = ("cpu", "memory", "pids")
#: Version 1: counts cpu time, often in one hierarchy with `cpu`.
_ACCOUNTING: Final = "cpuacct"
_TIER: Final = "-batch"
_SHARES_PER_CORE: Final = 1024


@dataclass(frozen=True, slots=True)
class Group:
    """The cgroups of a container."""

    #: Its cgroup folders, one for each hierarchy.
    folders: tuple[str, ...] = ()
    #: The cgroup with the memory events.
    memory: str = ""


NO_GROUP: Final = Group()


class ControlGroups:
    """Creates and removes cgroups below `name`."""

    def __init__(self, name: str, *, proc: Path = Path("/proc/self")) -> None:
        self._name: Final = name
        #: Why there are no cgroups, or not all of them; empty otherwise.
        self.problem = ""
        self._unified: Path | None = None
        #: Version 1: a hierarchy for each controller.
        self._split: Final[dict[str, Path]] = {}
        #: Version 1: the folder for the tier's cgroup that counts cpu time, where that is not the one of `cpu`.
        self._accounting: Path | None = None
        #: Whether the present tier was put behind all other cgroups.
        self._is_lowered = False
        self._find(proc)

    @property
    def available(self) -> bool:
        """Whether containers can have cgroups."""
        return self._unified is not None or bool(self._split)

    def make(self, container: str, limits: Limits) -> Group:
        """The cgroups of a container; a second call changes the limits."""
        if limits.batch:
            self.batch_tier()
        bases = self._bases(batch=limits.batch)
        if self._unified is not None:
            folder = bases[""] / container
            folder.mkdir(parents=True, exist_ok=True)
            _limit_unified(folder, limits)
            return Group((str(folder),), str(folder))
        folders = {}
        for controller, base in bases.items():
            if controller in {"pids", _ACCOUNTING} or _is_limited(controller, limits):
                folder = folders[controller] = base / container
                folder.mkdir(parents=True, exist_ok=True)
                _limit_split(controller, folder, limits)
        return Group(tuple(str(one) for one in folders.values()), str(folders.get("memory", "")))

    def batch_tier(self) -> BatchTier | None:
        """The tier of batch containers, which is made if there is none; None without a cgroup for cpu and memory."""
        bases = self._bases(batch=True)
        if self._unified is not None:
            folder = bases[""]
            tier = BatchTier(folder, folder, folder, unified=True)
        elif {"cpu", "memory"} <= bases.keys():
            tier = BatchTier(bases["cpu"], bases.get(_ACCOUNTING, bases["cpu"]), bases["memory"], unified=False)
        else:
            return None
        if not self._is_lowered or not all(folder.exists() for folder in bases.values()):
            self._is_lowered = False
            for folder in bases.values():
                folder.mkdir(parents=True, exist_ok=True)
            if tier.unified:
                _hand_on(tier.cpu)
            tier.lower()
            self._is_lowered = True
        return tier

    def remove(self, container: str) -> None:
        """Remove the cgroups; those with processes stay for now."""
        for base in self._all_bases():
            with contextlib.suppress(OSError):
                (base / container).rmdir()

    def close(self) -> None:
        """Remove empty cgroups, and the common ones if none is left."""
        for base in self._all_bases():
            with contextlib.suppress(OSError):
                for folder in [one for one in base.iterdir() if one.is_dir()]:
                    with contextlib.suppress(OSError):
                        folder.rmdir()
                base.rmdir()

    def _bases(self, *, batch: bool) -> dict[str, Path]:
        """The folders in which containers have their cgroups, by controller; one without a name in version 2."""
        found = {"": self._unified} if self._unified is not None else dict(self._split)
        if not batch:
            return found
        if self._accounting is not None and self._unified is None:
            found[_ACCOUNTING] = self._accounting
        return {name: base.with_name(base.name + _TIER) for name, base in found.items()}

    def _all_bases(self) -> list[Path]:
        return [*self._bases(batch=False).values(), *self._bases(batch=True).values()]

    def _find(self, proc: Path) -> None:
        try:
            mounts = [line.split() for line in (proc / "mountinfo").read_text().splitlines()]
            lines = (proc / "cgroup").read_text().splitlines()
        except OSError as problem:
            self.problem = f"control groups cannot be read: {problem.strerror}"
            return
        for line in lines:
            _, controllers, inside = line.split(":", 2)
            for parts in mounts:
                point, dash = Path(parts[4]), parts.index("-")
                kind, options = parts[dash + 1], parts[dash + 3].split(",")
                if not controllers and kind == "cgroup2":
                    self._try_unified(point, point / inside.lstrip("/"))
                elif controllers and kind == "cgroup":
                    if controllers == _ACCOUNTING and _ACCOUNTING in options:
                        self._accounting = point / inside.lstrip("/") / self._name
                    for one in controllers.split(","):
                        if one in _CONTROLLERS and one in options and one not in self._split:
                            self._try_split(one, point / inside.lstrip("/"))
        if self._unified is not None:
            self._split.clear()
        if not self.available and not self.problem:
            self.problem = "this machine has no control groups"
        missing = [one for one in _CONTROLLERS if self._split and one not in self._split]
        if missing:
            self.problem = f"no limits on {', '.join(missing)}: {self.problem or 'no such controller'}"

    def _try_unified(self, point: Path, own: Path) -> None:
        """Create the common cgroup as deep as possible: in the agent's own, or the nearest ancestor that allows it."""
        try:
            if not set(_CONTROLLERS) <= set((point / "cgroup.controllers").read_text().split()):
                return  # the controllers are with version 1, or not available
        except OSError as problem:
            self.problem = f"control groups cannot be read: {problem.strerror}"
            return
        above = [own, *own.parents]
        for parent in above[: above.index(point) + 1]:
            try:
                # Controllers are enabled from the top. A cgroup with processes, as the agent's own, cannot enable them
                # for its children; nor can one that belongs to another user.
                for folder in reversed(above[above.index(parent) : above.index(point) + 1]):
                    _hand_on(folder)
                base = parent / self._name
                base.mkdir(exist_ok=True)
                _hand_on(base)
            except OSError as problem:
                self.problem = f"control groups cannot be made below {parent}: {problem.strerror}"
                continue
            self.problem = ""
            self._unified = base
            return

    def _try_split(self, controller: str, own: Path) -> None:
        base = own / self._name
        try:
            base.mkdir(exist_ok=True)
        except OSError as problem:
            self.problem = f"control groups cannot be made below {own}: {problem.strerror}"
            return
        self._split[controller] = base


def _hand_on(folder: Path) -> None:
    """Enable the controllers for a cgroup's children."""
    path = folder / "cgroup.subtree_control"
    if not set(_CONTROLLERS) <= set(path.read_text().split()):
        path.write_text(" ".join(f"+{one}" for one in _CONTROLLERS))


def _is_limited(controller: str, limits: Limits) -> bool:
    if controller == "cpu":
        return limits.batch or limits.cpu_milli is not None or limits.cpu_request_milli > 0
    return limits.memory_bytes is not None


def _limit_split(controller: str, folder: Path, limits: Limits) -> None:
    match controller:
        case "cpu":
            shares = max(limits.cpu_request_milli * _SHARES_PER_CORE // 1000, 2)
            (folder / "cpu.shares").write_text(str(shares))
            quota = -1 if limits.cpu_milli is None else _quota_us(limits.cpu_milli)
            (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (folder / "cpu.cfs_quota_us").write_text(str(quota))
        case "memory":
            (folder / "memory.limit_in_bytes").write_text(str(limits.memory_bytes))
        case "pids" if limits.pids is not None:
            (folder / "pids.max").write_text(str(limits.pids))


def _limit_unified(folder: Path, limits: Limits) -> None:
    quota = "max" if limits.cpu_milli is None else str(_quota_us(limits.cpu_milli))
    (folder / "cpu.max").write_text(f"{quota} {PERIOD_US}")
    # The two versions count differently; this is upstream's conversion.
    shares = max(limits.cpu_request_milli * _SHARES_PER_CORE // 1000, 2)
    (folder / "cpu.weight").write_text(str(1 + ((shares - 2) * 9999) // 262142))
    (folder / "memory.max").write_text("max" if limits.memory_bytes is None else str(limits.memory_bytes))
    (folder / "pids.max").write_text("max" if limits.pids is None else str(limits.pids))


def _quota_us(milli: int) -> int:
    return max(milli * PERIOD_US // 1000, LEAST_QUOTA_US)
