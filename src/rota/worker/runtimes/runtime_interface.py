"""What the worker knows of a runtime: it starts containers, ends them, and remembers them while the agent is away.

A run is one start of a container; its id is made by the agent (`run_id`) before anything happens, so that a request
whose answer got lost can be repeated without starting anything twice.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a container may use at most; None for as much as there is."""

    cpu_milli: int | None = None
    #: What it asks for, which decides when cpu is short.
    cpu_request_milli: int = 0
    memory_bytes: int | None = None
    pids: int | None = None


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """A folder or file of the machine, and where the container finds it."""

    source: str
    target: str
    read_only: bool = False
    #: What of the source is mounted: a path below it without links, which must still be without them at that time.
    inside: str = ""
    #: Whether the worker made the source for this pod: then it may lie among the worker's own files.
    own: bool = False
    #: Whether a missing target is made as the container's user, and so only where that one could have made it.
    as_user: bool = False


#: Where containers run: as processes of the machine, or in root file systems of their own.
PROCESS: Final = "process"
CONTAINER: Final = "container"


class Security(msgspec.Struct, frozen=True, kw_only=True):
    """What a container in a root file system of its own may do; processes of the machine may do what their user may."""

    privileged: bool = False
    read_only_root: bool = False
    #: Whether programs may give it more rights than it has, as those with the set-user-id bit do.
    may_gain: bool = True
    #: Whether it must not be root, whatever its image says.
    not_root: bool = False
    #: Capabilities, without `CAP_`; `ALL` for all of them.
    add: Sequence[str] = ()
    drop: Sequence[str] = ()


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """A container, ready to run: everything that it refers to has been looked up."""

    uid: str
    namespace: str
    pod: str
    container: str
    run: int
    image: str
    #: Empty parts are the image's own, where there is one.
    command: Sequence[str]
    args: Sequence[str]
    env: Mapping[str, str]
    working_dir: str = ""
    user: int | None = None
    group: int | None = None
    groups: Sequence[int] = ()
    limits: Limits = Limits()
    mounts: Sequence[Mount] = ()
    tty: bool = False
    #: Whether it has an input that others can write to, and whether that ends with the first of them.
    stdin: bool = False
    stdin_once: bool = False
    runtime: str = PROCESS
    #: As the spec says: `Always`, `IfNotPresent` or `Never`.
    pull_policy: str = "IfNotPresent"
    security: Security = Security()
    #: Whether it sees the machine's processes, and whether it shares messages and memory with them.
    host_pid: bool = False
    host_ipc: bool = False
    #: By what it reaches the machine behind its image, as its spec calls it; empty if by nothing.
    host_access: str = ""
    #: Whether programs with the set-user-id bit or capabilities of their own run without them.
    no_new_privileges: bool = False
    #: Whether one of its mounts is a file for what it wants people to know when it ends.
    last_words: bool = False
    #: A second name of that file, in the pod's home; empty if there is none.
    words: str = ""

    @property
    def id(self) -> str:
        """The run's id."""
        return run_id(self.uid, self.container, self.run)


class Inside(msgspec.Struct, frozen=True, kw_only=True):
    """A command line of the machine that runs a command in a container, as the container."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str


class Attached(NamedTuple):
    """Open files that lead to what a container's process writes from now on, and to what it reads; ours to close.

    None for what there is not, or not any more. At a terminal everything is output.
    """

    output: int | None
    errors: int | None
    into: int | None
    tty: bool


class LaunchError(Exception):
    """A container cannot be started; `reason` is what its status says."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended."""

    id: str
    code: int
    signal: int = 0
    oom: bool = False
    #: Whether it ended with the machine or with what supervised it, or nobody saw how: it is not to blame.
    lost: bool = False
    finished_at: float = 0.0


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """A run that a runtime remembers."""

    id: str
    started_at: float
    #: None while it runs.
    exit: Exit | None = None


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run is on the machine, for those who measure it."""

    #: Its first process.
    pid: int
    started_at: float
    #: Folders of its control groups; none where there are no groups.
    cgroups: Sequence[str] = ()


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of a log."""

    follow: bool = False
    timestamps: bool = False
    #: Seconds since the epoch.
    since: float | None = None
    tail_lines: int | None = None
    limit_bytes: int | None = None
    #: `stdout` or `stderr`; both if empty.
    stream: str = ""


OnExit: TypeAlias = Callable[[Exit], None]


class Runtime(Protocol):
    """Runs containers."""

    @property
    def name(self) -> str:
        """As it stands before ids in statuses: `rota`, `podman`."""
        ...

    @property
    def conditions(self) -> Sequence[Mapping[str, Any]]:
        """What a node that uses it should tell about itself, such as limits that it cannot enforce."""
        ...

    @property
    def may_mount(self) -> bool:
        """Whether processes of the machine can have files in places of their own."""
        ...

    async def open(self, on_exit: OnExit) -> Sequence[Known]:
        """Begin, or go on after the agent was away; what is remembered. Ends from now on are told."""
        ...

    async def start(self, launch: Launch) -> None:
        """Start a run; LaunchError if that cannot be. Starting one that is known already changes nothing."""
        ...

    async def stop(self, run: str, grace_s: float) -> None:
        """Ask a run to end, and end it with all that it started when the grace is over; its end is told as usual."""
        ...

    async def execute(self, launch: Launch, command: Sequence[str]) -> tuple[int, bytes]:
        """Run a command beside a container, as the container; its exit code and the beginning of what it said."""
        ...

    def remark(self, launch: Launch) -> str:
        """What people should know about how a container is run that they would not expect; empty if nothing."""
        ...

    def inside(self, launch: Launch, command: Sequence[str], *, tty: bool = False) -> Inside:
        """How to run a command in a container that runs, within its limits; for those who want to talk to it.

        The command line is to be started by root's agent in a session of its own; with `tty` its standard input is a
        terminal.
        """
        ...

    async def attach(self, run: str) -> Attached:
        """Talk to the process of a container itself; LaunchError if it does not run, or nobody can talk to it."""
        ...

    async def end_input(self, run: str) -> None:
        """There is no more input for a run."""
        ...

    def places(self) -> Mapping[str, Place]:
        """Everything that runs, by the ids of the runs."""
        ...

    def home(self, uid: str) -> Path:
        """The folder in which a pod's containers find themselves; there as soon as one of them runs."""
        ...

    def folders(self, uid: str) -> Sequence[Path]:
        """What a pod's containers wrote outside of their volumes: home, logs, changes in images."""
        ...

    async def forget(self, run: str) -> None:
        """The end of a run has been taken note of."""
        ...

    def logs(self, uid: str, container: str, run: int, options: LogOptions) -> AsyncIterator[bytes]:
        """What a run wrote; FileNotFoundError if nothing is kept of it."""
        ...

    async def clean_up(self, uid: str, *, logs: bool) -> None:
        """Remove what was made for a pod, its logs only if asked to."""
        ...

    async def lost(self) -> None:
        """Return when the runtime has failed, so that it must be opened anew."""
        ...

    async def close(self) -> None:
        """Let go; what runs goes on."""
        ...


def run_id(uid: str, container: str, run: int) -> str:
    """The id of a run."""
    return f"{uid}.{container}.{run}"


def parse_run_id(text: str) -> tuple[str, str, int]:
    """The parts of an id; neither uids nor containers' names hold a dot."""
    uid, container, run = text.rsplit(".", 2)
    return uid, container, int(run)
