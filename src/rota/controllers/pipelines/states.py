"""What can become of runs and step runs, and what can be decided about them. Of a whole run, see `progress`."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

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
#: Of a step that had nothing to do, and so has left an empty list of everything.
NO_ITEMS: Final = "NoItems"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepState:
    """One step run."""

    phase: Phase
    reason: str = ""
    message: str = ""
    outputs: Mapping[str, str] = field(default_factory=dict)
    node: str = ""


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
    #: Whether there is more to make than one decision makes, so that the next one should follow soon.
    more: bool = False
