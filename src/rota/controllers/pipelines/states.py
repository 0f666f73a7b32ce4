"""A run as its objects tell it: the pipeline that it began with, and what became of each of its step runs."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from rota.api.pipelines.graphs import Graph

#: A step, and which of its items; None where it has none.
StepKey: TypeAlias = tuple[str, int | None]


class Phase(enum.Enum):
    """What became of a step run."""

    WAITING = "Waiting"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    SKIPPED = "Skipped"
    #: Its work was done by an earlier run.
    CACHED = "Cached"
    CANCELLED = "Cancelled"

    @property
    def over(self) -> bool:
        """Whether nothing more becomes of it."""
        return self not in {Phase.WAITING, Phase.RUNNING}


class RunPhase(enum.Enum):
    """What became of a run."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"

    @property
    def over(self) -> bool:
        """Whether nothing more becomes of it."""
        return self in {RunPhase.SUCCEEDED, RunPhase.FAILED, RunPhase.CANCELLED}


#: Why a step was left out though its own condition did not say so.
BLOCKED: Final = "DependencyFailed"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepState:
    """One step run."""

    phase: Phase
    reason: str = ""
    message: str = ""
    outputs: Mapping[str, str] = field(default_factory=dict)
    node: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """One run."""

    name: str
    namespace: str
    uid: str
    #: The pipeline as it was when the run began.
    spec: Mapping[str, Any]
    parameters: Mapping[str, str]
    steps: Mapping[StepKey, StepState]
    started_at: float
    #: Who waits for whom, as `graphs.graph` says of all its steps: it follows from `spec`, and takes long to work out.
    waits: Graph
    suspend: bool = False
    cancel: bool = False

    @property
    def main(self) -> Sequence[Mapping[str, Any]]:
        """The steps proper."""
        return self.spec.get("steps") or ()

    @property
    def last(self) -> Sequence[Mapping[str, Any]]:
        """The steps at the end."""
        return self.spec.get("onExit") or ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewStep:
    """A step run to be made; one that is over already is only taken down."""

    key: StepKey
    #: What a StepRun's spec holds, apart from run, step and index.
    spec: Mapping[str, Any]
    phase: Phase = Phase.WAITING
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do about a run now."""

    make: Sequence[NewStep]
    stop: Sequence[StepKey]
    phase: RunPhase
    reason: str = ""
    message: str = ""
    #: When to look again though nothing has happened; None for never.
    wake_at: float | None = None
