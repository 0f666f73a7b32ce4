"""One pod of a group, as a session moves it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rota.api.gpu_devices import Devices
from rota.columns.members import GroupMember
from rota.columns.pods import PodInfo
from rota.scheduler.batch import amounts
from rota.scheduler.batch.amounts import Amounts
from rota.scheduler.batch.statuses import TaskStatus

PREEMPTABLE: Final = "volcano.sh/preemptable"
REVOCABLE_ZONE: Final = "volcano.sh/revocable-zone"
ROLE: Final = "volcano.sh/task-spec"
PRIORITY: Final = "volcano.sh/task-priority"
#: The only scheduling gate that batch scheduling removes.
QUEUE_GATE: Final = "scheduling.volcano.sh/queue-allocation-gate"

_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})
#: The number at the end of a name counts if the name has at least so many parts.
_NAME_PARTS: Final = 3


@dataclass(slots=True)
class Attempt:
    """The state of a pod in an operation that was undone."""

    node: str
    status: TaskStatus
    evicted: bool


class Task:
    """A pod with its place in the session."""

    __slots__ = (
        "annotations",
        "best_effort",
        "created",
        "devices",
        "evicted_others",
        "gated",
        "gates",
        "index",
        "info",
        "job",
        "key",
        "labels",
        "last",
        "member",
        "name",
        "namespace",
        "node",
        "preemptable",
        "priority",
        "request",
        "revocable_zone",
        "role",
        "status",
        "subjob",
        "topology_node",
        "uid",
    )

    def __init__(self, member: GroupMember, info: PodInfo, job: str) -> None:
        self.member: Final = member
        self.info: Final = info
        self.uid: Final[str] = info.uid
        self.name: Final[str] = info.name
        self.namespace: Final[str] = info.namespace
        self.key: Final = info.key
        #: The key of the group, "" for a pod without a group.
        self.job: Final = job
        self.annotations: Final[Mapping[str, str]] = member.annotations
        self.labels: Final[Mapping[str, str]] = info.labels
        self.created: Final[str] = member.created
        self.role: Final = self.annotations.get(ROLE) or self.labels.get(ROLE) or ""
        self.request: Final = amounts.of_requests(info.shape.requests)
        self.best_effort: Final = self.request.empty
        self.gates: Final = info.shape.scheduling_gates
        self.gated: Final = bool(self.gates)
        self.preemptable: Final = _preemptable(self.annotations, self.labels)
        self.revocable_zone: Final = revocable_zone(self.annotations)
        self.priority: int = _priority(member)
        self.index: Final = _index(self.name)
        self.status = status_of(member, info.node_name)
        self.node = info.node_name
        #: The sub-group that the pod is part of; the group sets it.
        self.subjob = ""
        #: Where the rest of the group is when nodes are rated for this pod.
        self.topology_node = ""
        #: Whether the pod's reservation depends on evictions.
        self.evicted_others = False
        self.last: Attempt | None = None
        #: The GPU devices that the pod gets on its node; empty if the API server or the worker chooses.
        self.devices: Devices = ()

    def __repr__(self) -> str:
        return f"<Task {self.key} {self.status} {self.node}>"

    @property
    def foreign_gates(self) -> bool:
        """Whether the pod waits for something that is not the queue's own gate."""
        return any(gate != QUEUE_GATE for gate in self.gates)

    @property
    def preempts(self) -> bool:
        """Whether the pod may preempt others."""
        return self.info.shape.preemption_policy != "Never"


def status_of(member: GroupMember, node: str) -> TaskStatus:
    """Give the state of a pod as the API server has it."""
    match member.phase:
        case "Running":
            return TaskStatus.RELEASING if member.leaving else TaskStatus.RUNNING
        case "Pending":
            if member.leaving:
                return TaskStatus.RELEASING
            return TaskStatus.BOUND if node else TaskStatus.PENDING
        case "Succeeded":
            return TaskStatus.SUCCEEDED
        case "Failed":
            return TaskStatus.FAILED
        case _:
            return TaskStatus.UNKNOWN


def precedes(left: Task, right: Task) -> bool:
    """Order pods that plugins find equal: by the number at the end of the name, then by age, then by uid."""
    if left.index is None or right.index is None or left.index == right.index:
        if left.created == right.created:
            return left.uid < right.uid
        return left.created < right.created
    return left.index < right.index


def truth(text: str) -> bool | None:
    """Read a boolean as annotations carry it; None if it is none."""
    if text in _TRUE:
        return True
    return False if text in _FALSE else None


def revocable_zone(annotations: Mapping[str, str]) -> str:
    """Give "*" for what may use nodes that are lent out, else ""."""
    zone = annotations.get(REVOCABLE_ZONE)
    if zone is not None:
        return zone if zone == "*" else ""
    return "*" if truth(annotations.get(PREEMPTABLE, "")) else ""


def _preemptable(annotations: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    for source in (annotations, labels):
        if PREEMPTABLE in source:
            return truth(source[PREEMPTABLE]) is True
    return True


def _priority(member: GroupMember) -> int:
    try:
        return int(member.annotations.get(PRIORITY, ""))
    except ValueError:
        return 1 if member.priority is None else member.priority


def _index(name: str) -> int | None:
    parts = name.split("-")
    if len(parts) < _NAME_PARTS:
        return None
    try:
        return int(parts[-1])
    except ValueError:
        return None


EMPTY: Final = Amounts()
