"""The process runtime: a command with its environment in a folder, in its own session and cgroups.

There is no image: `command` and `args` name a program of this machine (`commands.py`).
"""

import asyncio
import contextlib
import os
import shutil
import signal
import stat
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rota.kit.clock import Clock
from rota.kit.errors import UserError
from rota.worker.runtimes.batch_tier import BatchTier
from rota.worker.runtimes.process import command_output, commands, exec_command, log_files
from rota.worker.runtimes.process.cgroups import NO_GROUP, ControlGroups
from rota.worker.runtimes.process.deaths import is_of_the_machine
from rota.worker.runtimes.process.sandbox import Sandbox
from rota.worker.runtimes.process.shim_client import ShimClient, ShimGone
from rota.worker.runtimes.runtime_interface import (
    Attached,
    Exit,
    Inside,
    Known,
    Launch,
    LaunchError,
    LogOptions,
    OnExit,
    Place,
    parse_run_id,
    run_id,
)

#: The exit code of a run whose end was not observed.
_UNSEEN: Final = 137
#: How long the worker must survive a death by a signal that it did not send, for that to be a failure.
_AFTERMATH_S: Final = 1.0
#: The kernel kills processes with this value first if the machine runs out of memory.
_FIRST_TO_KILL: Final = 1000
#: The mode of a home whose pod has containers of several users.
_ANYBODYS: Final = 0o1777


class ProcessRuntime:
    """A `Runtime` with its state in a folder."""

    name: Final = "rota"

    def __init__(self, folder: Path, *, node: str, clock: Clock, own: Sequence[Path] = ()) -> None:
        """`own` are files and folders of Rota itself, which are hidden from tasks."""
        self._folder: Final = folder
        self._sandbox: Final = Sandbox(own)
        self._clock: Final = clock
        # By the folder as well: workers of several clusters on one machine may have the same name.
        mark = zlib.crc32(str(folder.absolute()).encode())
        self._groups: Final = ControlGroups(f"rota-{node}-{mark:08x}")
        self._homes: Final = _reachable(mark) if self._sandbox.homes_are_out_of_reach else folder / "homes"
        self._on_exit: OnExit | None = None
        self._shim: Final = ShimClient(folder / "nursery", clock=clock, on_exit=self._ended)
        self._running: Final[dict[str, asyncio.Event]] = {}
        #: The runs of each pod of which data is kept; a run without output has no log file.
        self._kept: Final[dict[str, set[str]]] = {}
        self._places: Final[dict[str, Place]] = {}
        self._tasks: Final[set[asyncio.Task[None]]] = set()

    @property
    def conditions(self) -> Sequence[Mapping[str, Any]]:
        """See `Runtime.conditions`."""
        problem = self._groups.problem
        status = {"status": "True", "reason": "NoControlGroups", "message": problem} if problem else {
            "status": "False", "reason": "ControlGroupsWork", "message": "limits of containers are enforced",
        }  # fmt: skip
        found = [{"type": "LimitsNotEnforced", **status}]
        if exposure := self._sandbox.exposure:
            message = f"tasks can read the files of Rota, keys included: user namespaces cannot be made ({exposure})"
            found.append({"type": "KeysExposed", "status": "True", "reason": "NoUserNamespaces", "message": message})
        return found

    @property
    def may_mount(self) -> bool:
        """See `Runtime.may_mount`."""
        return self._sandbox.may_mount

    async def open(self, on_exit: OnExit) -> Sequence[Known]:
        """See `Runtime.open`."""
        self._on_exit = on_exit
        await self._shim.open()
        if (what_if := self._sandbox.what_if) is not None:
            self._sandbox.tried((await self._shim.ask("try_isolation", plan=what_if))["problem"])
        found = (await self._shim.ask("list"))["runs"]
        known = []
        for record in found:
            ended = _exit(record) if "code" in record else None
            if ended is None and record.get("lost") and not record["alive"]:
                ended = Exit(id=record["id"], code=_UNSEEN, lost=True, finished_at=self._clock.now())
            if ended is None:
                self._running[record["id"]] = asyncio.Event()
                self._places[record["id"]] = _place(record)
                if record.get("lost"):
                    self._begin(self._watch_lost(record))
            self._keep(record["id"])
            known.append(Known(id=record["id"], started_at=record["started_at"], exit=ended))
        return known

    async def start(self, launch: Launch) -> None:
        """See `Runtime.start`."""
        argv = commands.command(launch)
        user, groups = launch.user, list(launch.groups)
        home = self.home(launch.uid)
        if user and os.geteuid() == 0:
            _give(home, user)
        plan = self._sandbox.plan(launch, home)
        name = _group_name(launch.id)
        group = NO_GROUP
        if self._groups.available:
            try:
                # Not in a thread: cgroup folders are in memory, and cost less than a switch of threads.
                group = self._groups.make(name, launch.limits)
            except OSError as problem:
                raise LaunchError("CreateContainerError", f"control groups: {problem.strerror}") from problem
        self._running.setdefault(launch.id, asyncio.Event())
        self._keep(launch.id)
        answer = await self._shim.ask(
            "spawn",
            id=launch.id,
            argv=argv,
            env=dict(launch.env),
            cwd=launch.working_dir or str(home),
            home=str(home),
            log=str(self._log(launch.uid, launch.container, launch.run)),
            cgroups=list(group.folders),
            memory=group.memory,
            user=user,
            group=launch.group,
            groups=groups if user is not None or (groups and os.geteuid() == 0) else None,
            isolation=plan,
            no_new_privileges=launch.no_new_privileges,
            **({"oom_score_adj": _FIRST_TO_KILL} if launch.limits.batch else {}),
            **({"stdin": launch.stdin, "tty": launch.tty} if launch.stdin or launch.tty else {}),
        )
        if "failed" in answer:
            self._running.pop(launch.id, None)
            self._kept[launch.uid].discard(launch.id)
            self._groups.remove(name)
            raise LaunchError("RunContainerError", answer["failed"] + _advice(launch, answer["failed"]))
        if "code" in answer["run"]:
            self._running.pop(launch.id, None)  # it was started before, and has ended
        elif launch.id in self._running:
            self._places[launch.id] = _place(answer["run"])

    async def stop(self, run: str, grace_s: float) -> None:
        """See `Runtime.stop`."""
        ended = self._running.get(run)
        if ended is None:
            return
        if grace_s > 0:
            await self._shim.ask("signal", id=run, signal=self.asking_signal(run))
            with contextlib.suppress(TimeoutError):
                await self._clock.wait_for(ended.wait(), grace_s)
        if not ended.is_set():
            await self._shim.ask("signal", id=run, signal=int(signal.SIGKILL))

    def keeps(self, run: str) -> bool:
        """Whether a run was started and not forgotten."""
        return run in self._kept.get(parse_run_id(run)[0], ())

    def asking_signal(self, run: str) -> int:
        """The stop signal of a run."""
        return int(signal.SIGTERM)

    async def execute(self, launch: Launch, command: Sequence[str]) -> tuple[int, bytes]:
        """See `Runtime.execute`."""
        return await command_output.output(self.inside(launch, command))

    async def forget(self, run: str) -> None:
        """See `Runtime.forget`."""
        self._groups.remove(_group_name(run))
        self._kept.get(parse_run_id(run)[0], set()).discard(run)
        await self._shim.ask("forget", id=run)

    async def logs(self, uid: str, container: str, run: int, options: LogOptions) -> AsyncIterator[bytes]:
        """See `Runtime.logs`."""
        running = self._running
        name = run_id(uid, container, run)
        path = self._log(uid, container, run)
        if name not in self._kept.get(uid, ()):
            raise FileNotFoundError(path)
        async for piece in log_files.read(path, options, clock=self._clock, ended=lambda: name not in running):
            yield piece

    async def clean_up(self, uid: str, *, logs: bool) -> None:
        """See `Runtime.clean_up`."""
        home, written = self.home(uid), self._folder / "logs" / uid
        # Most homes are empty, and the shim removes those. A disk may take long for that, so the event loop does not.
        if not (await self._shim.ask("remove", path=str(home)))["removed"]:
            await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)
        if logs:
            self._kept.pop(uid, None)
        if logs and written.exists():
            await asyncio.to_thread(shutil.rmtree, written, ignore_errors=True)

    async def lost(self) -> None:
        """See `Runtime.lost`."""
        await self._shim.lost()

    async def close(self) -> None:
        """See `Runtime.close`."""
        for task in self._tasks:
            task.cancel()
        with contextlib.suppress(ShimGone):
            # The shim exits only if nothing runs.
            await self._shim.ask("end")
        await self._shim.close()
        self._groups.close()

    def remark(self, launch: Launch) -> str:
        """See `Runtime.remark`."""
        return commands.remark(launch)

    def inside(self, launch: Launch, command: Sequence[str], *, tty: bool = False) -> Inside:
        """See `Runtime.inside`."""
        return exec_command.inside(
            launch, command, self._places.get(launch.id), home=self.home(launch.uid), restrictions=self._sandbox
        )

    async def attach(self, run: str) -> Attached:
        """See `Runtime.attach`."""
        try:
            files = await self._shim.ask_for_files("attach", id=run)
        except (ShimGone, RuntimeError) as problem:
            raise LaunchError("ContainerNotRunning", str(problem)) from problem
        if not files:
            raise LaunchError("ContainerNotRunning", "it does not run, or cannot be attached to any more")
        into, terminal = files.get("stdin"), files.get("terminal")
        return Attached(files.get("stdout"), files.get("stderr"), terminal or into, tty=terminal is not None)

    async def end_input(self, run: str) -> None:
        """See `Runtime.end_input`."""
        with contextlib.suppress(ShimGone):
            await self._shim.ask("end_input", id=run)

    def places(self) -> Mapping[str, Place]:
        """See `Runtime.places`."""
        return self._places

    def batch_tier(self) -> BatchTier | None:
        """See `Runtime.batch_tier`."""
        return self._groups.batch_tier()

    def home(self, uid: str) -> Path:
        """See `Runtime.home`."""
        return self._homes / uid

    def folders(self, uid: str) -> Sequence[Path]:
        """See `Runtime.folders`."""
        return [self.home(uid), self._folder / "logs" / uid]

    def _ended(self, record: dict[str, Any]) -> None:
        ended = self._running.pop(record["id"], None)
        self._places.pop(record["id"], None)
        if ended is not None:
            ended.set()
        if "nursery" in record and is_of_the_machine(record):
            self._begin(self._tell_later(record))
        else:
            self._tell_end(record)

    def _tell_end(self, record: dict[str, Any]) -> None:
        if self._on_exit is not None:
            self._on_exit(_exit(record))

    async def _tell_later(self, record: dict[str, Any]) -> None:
        """A machine that is switched off kills in any order: wait, in case this worker is killed next."""
        await self._clock.sleep(_AFTERMATH_S)
        self._tell_end(record)

    async def _watch_lost(self, record: dict[str, Any]) -> None:
        """Wait for the end of a run whose shim was killed; its exit code is unknown."""
        try:
            watched = os.pidfd_open(record["pid"])
        except OSError:
            self._ended({**record, "code": _UNSEEN, "lost": True, "finished_at": self._clock.now()})
            return
        gone = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(watched, gone.set)
        try:
            await gone.wait()
        finally:
            loop.remove_reader(watched)
            os.close(watched)
        self._ended({**record, "code": _UNSEEN, "lost": True, "finished_at": self._clock.now()})

    def _begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _keep(self, run: str) -> None:
        self._kept.setdefault(parse_run_id(run)[0], set()).add(run)

    def _log(self, uid: str, container: str, run: int) -> Path:
        return self._folder / "logs" / uid / f"{container}.{run}.log"


def _advice(launch: Launch, problem: str) -> str:
    """The remedy if a task's user is the problem; empty if it is not."""
    folder = launch.working_dir
    if not launch.user or os.geteuid() or not folder or f'"{folder}"' not in problem:
        return ""
    return f": user {launch.user} must be able to pass through it (chmod o+x), or name another workingDir"


def _give(home: Path, user: int) -> None:
    """Give a pod's home to a user; it is open to all users of the pod if its containers have several."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    owner = home.stat().st_uid
    if owner == os.geteuid():
        os.chown(home, user, -1)
        home.chmod(0o700)
    elif owner != user:
        home.chmod(_ANYBODYS)


def _reachable(mark: int) -> Path:
    """A folder for homes that other users can traverse, where mount namespaces are not available."""
    folder = Path("/var/tmp") / f"rota-{os.geteuid()}-{mark:08x}"  # noqa: S108 - checked to be ours
    folder.mkdir(mode=0o711, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise UserError(f"{folder}, where tasks would have their homes, belongs to another user", "remove it")
    return folder


def _exit(record: Mapping[str, Any]) -> Exit:
    return Exit(
        id=record["id"],
        code=record["code"],
        signal=record.get("signal", 0),
        oom=record.get("oom", False),
        lost=record.get("lost", False),
        finished_at=record.get("finished_at", 0.0),
    )


def _place(record: Mapping[str, Any]) -> Place:
    return Place(pid=record["pid"], started_at=record["started_at"], cgroups=record.get("cgroups") or ())


def _group_name(run: str) -> str:
    """The cgroup name of a run; ids contain no slashes."""
    return run.replace("/", "_")
