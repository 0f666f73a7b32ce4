"""One container of a pod: its present state, its last state, and its status in the API.

Only state is kept here; `pods` decides what to do. The delay before a restart (CrashLoopBackOff) is the kubelet's: the
first restart is immediate, then after ten seconds, doubling up to five minutes; a run of ten minutes resets it.
"""

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final

from rota.api import times
from rota.worker.pod_machine.machine_events import ProbeKind
from rota.worker.pod_machine.specs import ContainerSpec

FIRST_S: Final = 10.0
LONGEST_S: Final = 300.0
#: A run of this length resets the backoff.
LONG_RUN_S: Final = 600.0


@dataclass(slots=True)
class Backoff:
    """The backoff of one container."""

    #: The delay after the next end.
    next_s: float = 0.0
    #: The present delay, or the last one.
    pause_s: float = 0.0
    #: No start before this time.
    until: float = 0.0

    def ended(self, *, now: float, ran_s: float) -> None:
        """A run has ended after so many seconds, and another is to follow."""
        self.pause_s = 0.0 if ran_s >= LONG_RUN_S else self.next_s
        self.until = now + self.pause_s
        self.next_s = min(max(self.pause_s * 2, FIRST_S), LONGEST_S)

    def failed(self, *, now: float) -> None:
        """A start has failed."""
        self.next_s = max(self.next_s, FIRST_S)
        self.ended(now=now, ran_s=0.0)

    def waits(self, now: float) -> bool:
        """Whether the delay is not over."""
        return now < self.until

    @property
    def shown(self) -> str:
        """The present delay as text: `20s`, `1m20s`, `5m0s`."""
        minutes, seconds = divmod(int(self.pause_s), 60)
        return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"


COMPLETED: Final = "Completed"
ERROR: Final = "Error"
OOM_KILLED: Final = "OOMKilled"
UNKNOWN: Final = "ContainerStatusUnknown"
CREATING: Final = "ContainerCreating"
INITIALIZING: Final = "PodInitializing"
CRASHING: Final = "CrashLoopBackOff"
#: The exit code of a run whose end was not observed.
UNKNOWN_CODE: Final = 137
_RUNTIME: Final = "rota://"


class Stage(Enum):
    """The stage of a container."""

    #: Never started, or between two runs.
    IDLE = auto()
    #: The agent was instructed to start it.
    STARTING = auto()
    RUNNING = auto()
    #: Ended, and not to be restarted as far as is known.
    ENDED = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ended."""

    code: int
    signal: int = 0
    reason: str = COMPLETED
    message: str = ""
    id: str = ""
    #: None if unknown.
    started_at: float | None = None
    finished_at: float | None = None

    def on_wire(self) -> dict[str, Any]:
        """As `state.terminated`."""
        found: dict[str, Any] = {"exitCode": self.code, "reason": self.reason}
        if self.signal:
            found["signal"] = self.signal
        if self.message:
            found["message"] = self.message
        if self.started_at is not None:
            found["startedAt"] = times.format_time(self.started_at)
        if self.finished_at is not None:
            found["finishedAt"] = times.format_time(self.finished_at)
        if self.id:
            found["containerID"] = _RUNTIME + self.id
        return found


@dataclass(slots=True)
class Streak:
    """Consecutive equal results of a probe."""

    successes: int = 0
    failures: int = 0

    def add(self, success: bool) -> None:
        """Add a result."""
        self.successes = self.successes + 1 if success else 0
        self.failures = 0 if success else self.failures + 1


@dataclass(slots=True)
class Container:
    """The state of one container."""

    spec: ContainerSpec
    stage: Stage = Stage.IDLE
    #: The number of the present or the next run, from 0.
    run: int = 0
    restarts: int = 0
    id: str = ""
    started_at: float = 0.0
    #: Whether the startup probe and the postStart hook have succeeded.
    started: bool = False
    ready: bool = False
    #: The reason while it is waiting.
    reason: str = CREATING
    message: str = ""
    #: How the run ended, if the stage is ENDED; and how the previous one did.
    ending: Ending | None = None
    before: Ending | None = None
    backoff: Backoff = field(default_factory=Backoff)
    streaks: dict[ProbeKind, Streak] = field(default_factory=dict)
    probing: set[ProbeKind] = field(default_factory=set)
    hook_pending: bool = False
    #: When it was told to stop, and its deadline; None if it was not.
    stopping: float | None = None
    #: Whether the preStop hook is running.
    pre_stopping: bool = False

    @property
    def name(self) -> str:
        """Its name within the pod."""
        return self.spec.name

    @property
    def live(self) -> bool:
        """Whether it runs or is about to."""
        return self.stage in {Stage.STARTING, Stage.RUNNING}

    @property
    def succeeded(self) -> bool:
        """Whether it has ended successfully."""
        return self.stage is Stage.ENDED and self.ending is not None and self.ending.code == 0

    @property
    def failed(self) -> bool:
        """Whether it has ended with a failure."""
        return self.stage is Stage.ENDED and not self.succeeded

    def begin(self) -> None:
        """A run is about to start."""
        self.stage = Stage.STARTING
        if self.ending is not None:
            self.before, self.ending = self.ending, None
        self.reason, self.message = CREATING, ""

    def began(self, run_id: str, now: float) -> None:
        """The run has started."""
        self.stage, self.id, self.started_at = Stage.RUNNING, run_id, now
        self.hook_pending = self.spec.has_post_start
        self.streaks = {}
        self.stopping, self.pre_stopping = None, False

    def wait(self, reason: str, message: str = "") -> None:
        """It does not run, for this reason."""
        self.stage, self.reason, self.message = Stage.IDLE, reason, message
        self.started = self.ready = False

    def end(self, ending: Ending) -> None:
        """The run has ended."""
        self.stage, self.ending = Stage.ENDED, ending
        self.started = self.ready = False
        self.hook_pending = self.pre_stopping = False
        self.probing.clear()
        self.run += 1

    def again(self) -> None:
        """Prepare another run after the one that ended."""
        self.restarts += 1
        self.before = self.ending

    def on_wire(self) -> dict[str, Any]:
        """As in `containerStatuses`."""
        found: dict[str, Any] = {
            "name": self.name,
            "image": self.spec.image,
            "imageID": "",
            "ready": self.ready,
            "restartCount": self.restarts,
            "started": self.started,
            "state": self._state(),
            "lastState": {} if self.before is None else {"terminated": self.before.on_wire()},
        }
        known = self.id or (self.ending.id if self.ending is not None else "")
        if known:
            found["containerID"] = _RUNTIME + known
        return found

    def _state(self) -> dict[str, Any]:
        match self.stage:
            case Stage.RUNNING:
                return {"running": {"startedAt": times.format_time(self.started_at)}}
            case Stage.ENDED if self.ending is not None:
                return {"terminated": self.ending.on_wire()}
            case _:
                waiting = {"reason": self.reason, **({"message": self.message} if self.message else {})}
                return {"waiting": waiting}
