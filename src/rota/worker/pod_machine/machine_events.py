"""What the machine is told and what it answers: events in, instructions out.

An event is something that happened, with the time at which it did. An instruction is something that the shell now has
to do; whatever comes of it is an event again. Instructions are in the order in which they were thought of; those for
different containers may be carried out at the same time. A container is started over and over under the same name: its
*run* says which time it is, from 0, and whatever arrives late about a former run is recognised by it.
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
    """Every pod that the API has for this node has been told; what was adopted and is not among them has no owner."""


class FoundRun(msgspec.Struct, frozen=True, kw_only=True):
    """What a runtime found of one run after the agent was away."""

    container: str
    run: int
    id: str
    started_at: float
    #: None while it still runs.
    code: int | None = None
    signal: int = 0
    oom: bool = False
    #: Whether it ended with the machine or with what supervised it, or nobody saw how: it is not to blame.
    lost: bool = False
    finished_at: float = 0.0
    #: Its termination message.
    message: str = ""


class Adopted(_Event, frozen=True, kw_only=True, tag_field="is", tag=True):
    """A pod that this node ran when the agent went away, as it was then, and what has become of its containers."""

    pod: dict[str, Any]
    #: Of each container the last run, after the one before that if there was one.
    runs: tuple[FoundRun, ...] = ()


class VolumesReady(_Event, frozen=True, kw_only=True, tag_field="is", tag=True):
    """A pod's folders are there."""

    uid: str


class VolumesFailed(_Event, frozen=True, kw_only=True, tag_field="is", tag=True):
    """A pod's folders could not be made; it is tried again."""

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
    """A container has ended, and nothing of it is left."""

    uid: str
    container: str
    run: int
    code: int
    signal: int = 0
    oom: bool = False
    #: Whether it ended with the machine or with what supervised it, or nobody saw how: it is not to blame.
    lost: bool = False
    #: What it left behind for people, if its spec says where to look.
    message: str = ""


class Probed(_Event, frozen=True, kw_only=True, tag_field="is", tag=True):
    """A probe has an answer."""

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
    """A pod has taken more of the machine than it may, and has to go."""

    uid: str
    message: str


class Tick(_Event, frozen=True, kw_only=True, tag_field="is", tag=True):
    """The time that the machine asked to be woken at has come, or passed."""


Event: TypeAlias = (
    PodSeen | PodGone | Synced | Adopted | VolumesReady | VolumesFailed | Started | StartFailed | Exited | Probed
    | HookDone | Exceeded | Tick
)  # fmt: skip


class _Instruction(msgspec.Struct, frozen=True, kw_only=True, tag_field="is", tag=True):
    uid: str


class PrepareVolumes(_Instruction, frozen=True, kw_only=True, tag_field="is", tag=True):
    """Make the pod's folders; answered by VolumesReady or VolumesFailed."""


class Start(_Instruction, frozen=True, kw_only=True, tag_field="is", tag=True):
    """Start a container; answered by Started or StartFailed, and by Exited once it ends."""

    container: str
    run: int


class Stop(_Instruction, frozen=True, kw_only=True, tag_field="is", tag=True):
    """Ask a container to end; when the grace is over, end it with all that it started. Another one may hasten it."""

    container: str
    run: int
    grace_s: float


class RunHook(_Instruction, frozen=True, kw_only=True, tag_field="is", tag=True):
    """Run a lifecycle hook; answered by HookDone."""

    container: str
    run: int
    hook: HookKind


class BeginProbe(_Instruction, frozen=True, kw_only=True, tag_field="is", tag=True):
    """Ask again and again, as the container's spec says, until the run ends or EndProbe."""

    container: str
    run: int
    kind: ProbeKind


class EndProbe(_Instruction, frozen=True, kw_only=True, tag_field="is", tag=True):
    """Ask no more."""

    container: str
    run: int
    kind: ProbeKind


class WriteStatus(_Instruction, frozen=True, kw_only=True, tag_field="is", tag=True):
    """Tell the API; of several for one pod only the last matters."""

    status: dict[str, Any]


class ConfirmDeletion(_Instruction, frozen=True, kw_only=True, tag_field="is", tag=True):
    """Nothing of the pod runs any more: let the API forget it, after its last status."""


class CleanUp(_Instruction, frozen=True, kw_only=True, tag_field="is", tag=True):
    """Remove the pod's folders and whatever else was made for it; its logs only when the pod itself is gone."""

    logs: bool


class Tell(_Instruction, frozen=True, kw_only=True, tag_field="is", tag=True):
    """Record an event about the pod, for people."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


Instruction: TypeAlias = (
    PrepareVolumes | Start | Stop | RunHook | BeginProbe | EndProbe | WriteStatus | ConfirmDeletion | CleanUp | Tell
)
