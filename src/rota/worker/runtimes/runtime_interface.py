"""The interface of a runtime: it starts and stops containers, and keeps track of them while the agent is away.

A run is one start of a container. The agent makes its id (`run_id`) beforehand, so that a request whose response was
lost can be repeated without starting anything twice.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import msgspec

from rota.worker.runtimes.batch_tier import BatchTier


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a container; None for no limit."""

    cpu_milli: int | None = None
    #: The request, which determines the cpu weight.
    cpu_request_milli: int = 0
    memory_bytes: int | None = None
    pids: int | None = None
    #: Whether it is a container of a batch pod, which runs in the batch tier.
    batch: bool = False


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """A folder or file of the machine, and its path in the container."""

    source: str
    target: str
    read_only: bool = False
    #: The mounted path below the source; without links, which is checked again when it is mounted.
    inside: str = ""
    #: Whether the worker made the source for this pod: then it may be among the worker's own files.
    own: bool = False
    #: Whether a missing target is created as the container's user, and so only where that user may create it.
    as_user: bool = False


#: Runtime names: processes of the machine, or containers with a root file system of their own.
PROCESS: Final = "process"
CONTAINER: Final = "container"


class Security(msgspec.Struct, frozen=True, kw_only=True):
    """The security settings of a container with its own root file system; processes have only a user."""

    privileged: bool = False
    read_only_root: bool = False
    #: Whether setuid programs and the like may gain privileges.
    may_gain: bool = True
    #: Whether it must not run as root, whatever its image says.
    not_root: bool = False
    #: Capabilities, without `CAP_`; `ALL` for all of them.
    add: Sequence[str] = ()
    drop: Sequence[str] = ()


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """A container, ready to start: everything that it refers to has been looked up."""

    uid: str
    namespace: str
    pod: str
    container: str
    run: int
    image: str
    #: If empty, the image's own, where there is one.
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
    #: Whether it has stdin, and whether that ends with the first client.
    stdin: bool = False
    stdin_once: bool = False
    runtime: str = PROCESS
    #: As the spec says: `Always`, `IfNotPresent` or `Never`.
    pull_policy: str = "IfNotPresent"
    security: Security = Security()
    #: Whether it shares the machine's PID and IPC namespaces.
    host_pid: bool = False
    host_ipc: bool = False
    #: The field of its spec by which it can access the host; empty if none.
    host_access: str = ""
    #: Whether setuid bits and file capabilities have no effect.
    no_new_privileges: bool = False
    #: Whether one of its mounts is the file of its termination message.
    last_words: bool = False
    #: A second name of that file, in the pod's home; empty if there is none.
    words: str = ""

    @property
    def id(self) -> str:
        """The run's id."""
        return run_id(self.uid, self.container, self.run)


class Inside(msgspec.Struct, frozen=True, kw_only=True):
    """A command line of the machine that runs a command in a container."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str


class Attached(NamedTuple):
    """Open files for what a container's process writes from now on, and for its input; the caller closes them.

    None for a stream that does not exist, or no longer exists. At a terminal everything is stdout.
    """

    output: int | None
    errors: int | None
    into: int | None
    tty: bool


class LaunchError(Exception):
    """A container cannot be started; `reason` is the reason in its status."""

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
    #: Whether it ended with the machine or its supervisor, or its end was not observed: it was disrupted and has not
    #: failed.
    lost: bool = False
    finished_at: float = 0.0


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """A run that a runtime has a record of."""

    id: str
    started_at: float
    #: None while it runs.
    exit: Exit | None = None


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """The pid and the cgroups of a run, for measuring it."""

    #: Its first process.
    pid: int
    started_at: float
    #: Its cgroup folders; empty without cgroups.
    cgroups: Sequence[str] = ()


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The requested part of a log."""

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
        """The prefix of container ids in statuses: `rota`, `podman`."""
        ...

    @property
    def conditions(self) -> Sequence[Mapping[str, Any]]:
        """Conditions of a node that uses it, such as limits that it cannot enforce."""
        ...

    @property
    def may_mount(self) -> bool:
        """Whether processes of the machine can have mounts of their own."""
        ...

    async def open(self, on_exit: OnExit) -> Sequence[Known]:
        """Start, or continue after a restart of the agent; returns the known runs. `on_exit` gets later ends."""
        ...

    async def start(self, launch: Launch) -> None:
        """Start a run; LaunchError if that is impossible. Starting a known run again changes nothing."""
        ...

    async def stop(self, run: str, grace_s: float) -> None:
        """Stop a run, and kill it with all its processes after the grace period; its end is reported as usual."""
        ...

    async def execute(self, launch: Launch, command: Sequence[str]) -> tuple[int, bytes]:
        """Run a command in a container; returns its exit code and the beginning of its output."""
        ...

    def remark(self, launch: Launch) -> str:
        """A note for the user about how a container is run, if that is unexpected; else empty."""
        ...

    def inside(self, launch: Launch, command: Sequence[str], *, tty: bool = False) -> Inside:
        """The command line that runs a command in a running container, within its limits; for sessions.

        A root agent starts it in a session of its own; with `tty` its standard input is a terminal.
        """
        ...

    async def attach(self, run: str) -> Attached:
        """Attach to the process of a container; LaunchError if it does not run or cannot be attached to."""
        ...

    async def end_input(self, run: str) -> None:
        """Close the input of a run."""
        ...

    def places(self) -> Mapping[str, Place]:
        """All running runs by id."""
        ...

    def batch_tier(self) -> BatchTier | None:
        """The cgroup of all batch containers, which is made if there is none; None without cgroups."""
        ...

    def home(self, uid: str) -> Path:
        """The working directory of a pod's containers; exists as soon as one of them runs."""
        ...

    def folders(self, uid: str) -> Sequence[Path]:
        """Folders with what a pod's containers wrote outside of their volumes: home, logs, upper layers."""
        ...

    async def forget(self, run: str) -> None:
        """The end of a run has been handled; drop its record."""
        ...

    def logs(self, uid: str, container: str, run: int, options: LogOptions) -> AsyncIterator[bytes]:
        """The log of a run; FileNotFoundError if none is kept."""
        ...

    async def clean_up(self, uid: str, *, logs: bool) -> None:
        """Remove the files of a pod, its logs only if asked to."""
        ...

    async def lost(self) -> None:
        """Return when the runtime has failed, so that it must be opened again."""
        ...

    async def close(self) -> None:
        """Disconnect; containers go on running."""
        ...


def run_id(uid: str, container: str, run: int) -> str:
    """The id of a run."""
    return f"{uid}.{container}.{run}"


def parse_run_id(text: str) -> tuple[str, str, int]:
    """The parts of an id; neither uids nor container names contain a dot."""
    uid, container, run = text.rsplit(".", 2)
    return uid, container, int(run)
