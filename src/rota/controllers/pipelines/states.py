"""Phases of runs and step runs, and decisions about them. For a whole run see `progress`."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

#: A step and one of its items; None for a step without items.
StepKey: TypeAlias = tuple[str, int | None]


class Phase(enum.Enum):
    """The phase of a step run."""

    WAITING = "Waiting"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    SKIPPED = "Skipped"
    #: Its result was taken from an earlier run.
    CACHED = "Cached"
    CANCELLED = "Cancelled"

    @property
    def over(self) -> bool:
        """Whether the phase is final."""
        return self not in {Phase.WAITING, Phase.RUNNING}


class RunPhase(enum.Enum):
    """The phase of a run."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"

    @property
    def over(self) -> bool:
        """Whether the phase is final."""
        return self in {RunPhase.SUCCEEDED, RunPhase.FAILED, RunPhase.CANCELLED}


#: Why a step was skipped although its own condition did not say so.
BLOCKED: Final = "DependencyFailed"
#: The reason of a step with no items; its outputs are empty lists.
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
    """A step run to create; one that is over already is only recorded."""

    key: StepKey
    #: The spec of the StepRun, apart from run, step and index.
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
    #: When to decide again if nothing changes before; None for never.
    wake_at: float | None = None
    #: Whether more step runs have to be created than one decision allows, so that the next one should follow soon.
    more: bool = False
