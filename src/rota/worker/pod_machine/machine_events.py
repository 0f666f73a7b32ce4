"""Events and instructions of the pod machine.

An event is something that happened, with its time. An instruction is something that the agent has to do; its result is
another event. Instructions are in order; those for different containers may be carried out concurrently. A container is
restarted under the same name: the *run*, counted from 0, identifies each start, so that a late event of a former run is
recognised.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

Object: TypeAlias = Mapping[str, Any]
ProbeKind: TypeAlias = Literal["startup", "liveness", "readiness"]
HookKind: TypeAlias = Literal["postStart", "preStop"]


class _Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="is", tag=True):
    now: float


class PodSeen(_Event, frozen=True, kw_only=True, tag_field="is", tag=True):
    """A pod of this node, as the API has it."""

    pod: dict[str, Any]


class PodGone(_Event, frozen=True, kw_only=True, tag_field="is", tag=True):
    """A pod is no longer in the API."""

    uid: str


class Synced(_Event, frozen=True, kw_only=True, tag_field="is", tag=True):
    """Every pod that the API has for this node has been seen; an adopted pod that is not among them was deleted."""


class FoundRun(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one run that a runtime found after a restart of the agent."""

    container: str
    run: int
    id: str
    started_at: float
    #: None while it runs.
    code: int | None = None
    signal: int = 0
    oom: bool = False
    #: Whether it ended with the machine or its supervisor, or its end was not observed: it was disrupted and has not
    #: failed.
    lost: bool = False
    finished_at: float = 0.0
    #: Its termination message.
    message: str = ""


class Adopted(_Event, frozen=True, kw_only=True, tag_field="is", tag=True):
    """A pod that this node ran before a restart of the agent, and what became of its containers."""

    pod: dict[str, Any]
    #: The last run of each container, after the one before it if there was one.
    runs: tuple[FoundRun, ...] = ()


class VolumesReady(_Event, frozen=True, kw_only=True, tag_field="is", tag=True):
    """A pod's volumes are ready."""

    uid: str


class VolumesFailed(_Event, frozen=True, kw_only=True, tag_field="is", tag=True):
    """A pod's volumes could not be made; they are tried again."""

    uid: str
    message: str


class Started(_Event, frozen=True, kw_only=True, tag_field="is", tag=True):
    """A container runs."""

    uid: str
    container: str
    run: int
    id: str


class StartFailed(_Event, frozen=True, kw_only=True, tag_field="is", tag=True):
    """A container could not be started: `CreateContainerConfigError`, `RunContainerError` and the like."""

    uid: str
    container: str
    run: int
    reason: str
    message: str


class Exited(_Event, frozen=True, kw_only=True, tag_field="is", tag=True):
    """A container has ended, with all its processes."""

    uid: str
    container: str
    run: int
    code: int
    signal: int = 0
    oom: bool = False
    #: Whether it ended with the machine or its supervisor, or its end was not observed: it was disrupted and has not
    #: failed.
    lost: bool = False
    #: Its termination message, if its spec has one.
    message: str = ""


class Probed(_Event, frozen=True, kw_only=True, tag_field="is", tag=True):
    """The result of a probe."""

    uid: str
    container: str
    run: int
    kind: ProbeKind
    success: bool
    message: str = ""


class HookDone(_Event, frozen=True, kw_only=True, tag_field="is", tag=True):
    """A lifecycle hook has ended."""

    uid: str
    container: str
    run: int
    hook: HookKind
    success: bool
    message: str = ""


class Exceeded(_Event, frozen=True, kw_only=True, tag_field="is", tag=True):
    """A pod has exceeded its storage limits, or the node needs what it has, and is to be evicted."""

    uid: str
    message: str


class Tick(_Event, frozen=True, kw_only=True, tag_field="is", tag=True):
    """The time of `wake_at` has come."""


Event: TypeAlias = (
    PodSeen | PodGone | Synced | Adopted | VolumesReady | VolumesFailed | Started | StartFailed | Exited | Probed
    | HookDone | Exceeded | Tick
)  # fmt: skip


class _Instruction(msgspec.Struct, frozen=True, kw_only=True, tag_field="is", tag=True):
    uid: str


class PrepareVolumes(_Instruction, frozen=True, kw_only=True, tag_field="is", tag=True):
    """Make the pod's volumes; answered by VolumesReady or VolumesFailed."""


class Start(_Instruction, frozen=True, kw_only=True, tag_field="is", tag=True):
    """Start a container; answered by Started or StartFailed, and by Exited once it ends."""

    container: str
    run: int


class Stop(_Instruction, frozen=True, kw_only=True, tag_field="is", tag=True):
    """Stop a container; after the grace period, kill it with all its processes. A later Stop may shorten the period."""

    container: str
    run: int
    grace_s: float


class RunHook(_Instruction, frozen=True, kw_only=True, tag_field="is", tag=True):
    """Run a lifecycle hook; answered by HookDone."""

    container: str
    run: int
    hook: HookKind


class BeginProbe(_Instruction, frozen=True, kw_only=True, tag_field="is", tag=True):
    """Probe periodically, as the container's spec says, until the run ends or EndProbe."""

    container: str
    run: int
    kind: ProbeKind


class EndProbe(_Instruction, frozen=True, kw_only=True, tag_field="is", tag=True):
    """Stop probing."""

    container: str
    run: int
    kind: ProbeKind


class WriteStatus(_Instruction, frozen=True, kw_only=True, tag_field="is", tag=True):
    """Write the status to the API; of several for one pod only the last matters."""

    status: dict[str, Any]


class ConfirmDeletion(_Instruction, frozen=True, kw_only=True, tag_field="is", tag=True):
    """Nothing of the pod runs: delete it from the API, after its last status."""


class CleanUp(_Instruction, frozen=True, kw_only=True, tag_field="is", tag=True):
    """Remove the pod's volumes and other files; its logs only when the pod itself is deleted."""

    logs: bool


class Tell(_Instruction, frozen=True, kw_only=True, tag_field="is", tag=True):
    """Record a Kubernetes event about the pod."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


Instruction: TypeAlias = (
    PrepareVolumes | Start | Stop | RunHook | BeginProbe | EndProbe | WriteStatus | ConfirmDeletion | CleanUp | Tell
)
