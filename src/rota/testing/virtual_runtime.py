"""A runtime of containers in virtual time: a run takes as long as its command says.

The command is `work SECONDS`. Runs outlive the agent, as under the shim, and end with the machine.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rota.testing.clocks import FakeClock
from rota.testing.virtual_machines import Machine
from rota.worker.runtimes.batch_tier import BatchTier
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
)

KILLED: Final = 137


class VirtualRuntime:
    """Implements `Runtime` for one machine."""

    def __init__(self, folder: Path, machine: Machine, base: FakeClock) -> None:
        self._folder: Final = folder
        self._machine: Final = machine
        self._base: Final = base
        self._known: Final[dict[str, Known]] = {}
        self._ends: Final[dict[str, asyncio.Task[None]]] = {}
        self._on_exit: OnExit | None = None
        #: Every start that was not a repetition, by the uid of the pod.
        self.starts: Final[dict[str, list[str]]] = {}
        #: Pods whose container ended by itself with 0.
        self.succeeded: Final[set[str]] = set()

    name: Final = "virtual"
    may_mount: Final = False

    @property
    def conditions(self) -> Sequence[Mapping[str, Any]]:
        """See `Runtime.conditions`."""
        return ()

    async def open(self, on_exit: OnExit) -> Sequence[Known]:
        """See `Runtime.open`."""
        self._on_exit = on_exit
        return tuple(self._known.values())

    async def start(self, launch: Launch) -> None:
        """See `Runtime.start`."""
        if launch.id in self._known:
            return
        if not self._machine.alive:
            raise LaunchError("Dead", "the agent of this machine was killed")
        self.starts.setdefault(launch.uid, []).append(f"{launch.id} on {self._machine.name}")
        self._known[launch.id] = Known(id=launch.id, started_at=self._base.now())
        self._ends[launch.id] = asyncio.ensure_future(self._work(launch.uid, launch.id, float(launch.command[1])))

    async def _work(self, uid: str, run: str, seconds: float) -> None:
        await self._base.sleep(seconds)
        self.succeeded.add(uid)
        self._end(run, Exit(id=run, code=0, finished_at=self._base.now()))

    def _end(self, run: str, ended: Exit) -> None:
        known = self._known[run]
        self._known[run] = Known(id=run, started_at=known.started_at, exit=ended)
        self._ends.pop(run)
        asyncio.ensure_future(self._report(self._on_exit, ended))  # noqa: RUF006 - it ends with the machine's pause

    async def _report(self, to: OnExit | None, ended: Exit) -> None:
        """A paused agent learns it when it is resumed, one that was killed meanwhile never: the next one opens."""
        await self._machine.runs.wait()
        if to is not None and to is self._on_exit and self._machine.alive:
            to(ended)

    async def stop(self, run: str, grace_s: float) -> None:
        """See `Runtime.stop`."""
        del grace_s
        if run in self._ends:
            self._ends[run].cancel()
            self._end(run, Exit(id=run, code=KILLED, signal=9, finished_at=self._base.now()))

    def power_off(self) -> None:
        """The machine loses power: all runs end, and no exit codes are recorded."""
        for run, work in tuple(self._ends.items()):
            work.cancel()
            self._end(run, Exit(id=run, code=KILLED, lost=True, finished_at=self._base.now()))

    def closed(self) -> None:
        """The agent is gone."""
        self._on_exit = None

    async def forget(self, run: str) -> None:
        """See `Runtime.forget`."""
        if self._known.get(run) is not None and self._known[run].exit is not None:
            del self._known[run]

    async def lost(self) -> None:
        """See `Runtime.lost`."""
        await asyncio.Event().wait()

    async def close(self) -> None:
        """See `Runtime.close`."""

    async def clean_up(self, uid: str, *, logs: bool) -> None:
        """See `Runtime.clean_up`."""

    def places(self) -> Mapping[str, Place]:
        """See `Runtime.places`."""
        return {}

    def batch_tier(self) -> BatchTier | None:
        """See `Runtime.batch_tier`."""
        return None

    def home(self, uid: str) -> Path:
        """See `Runtime.home`."""
        return self._folder / uid

    def folders(self, uid: str) -> Sequence[Path]:
        """See `Runtime.folders`."""
        return ()

    def remark(self, launch: Launch) -> str:
        """See `Runtime.remark`."""
        return ""

    def logs(self, uid: str, container: str, run: int, options: LogOptions) -> AsyncIterator[bytes]:
        """See `Runtime.logs`."""
        raise FileNotFoundError(uid)

    async def execute(self, launch: Launch, command: Sequence[str]) -> tuple[int, bytes]:
        """See `Runtime.execute`."""
        return 1, b""

    def inside(self, launch: Launch, command: Sequence[str], *, tty: bool = False) -> Inside:
        """See `Runtime.inside`."""
        raise NotImplementedError

    async def attach(self, run: str) -> Attached:
        """See `Runtime.attach`."""
        raise LaunchError("Virtual", "it cannot be attached to")

    async def end_input(self, run: str) -> None:
        """See `Runtime.end_input`."""
