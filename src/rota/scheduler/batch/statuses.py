"""The states of a pod in a session, and the sets of states that rules use."""

from enum import StrEnum
from typing import Final


class TaskStatus(StrEnum):
    """The state of one pod; the values are the names that messages use."""

    PENDING = "Pending"
    #: Has idle resources in this session, binding not sent yet.
    ALLOCATED = "Allocated"
    #: Has reserved future idle resources.
    PIPELINED = "Pipelined"
    #: Was sent to binding in this session.
    BINDING = "Binding"
    #: Has a node and does not run yet.
    BOUND = "Bound"
    RUNNING = "Running"
    #: Terminating.
    RELEASING = "Releasing"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


#: Counted as using resources of their queue.
ALLOCATED: Final = frozenset({TaskStatus.BOUND, TaskStatus.BINDING, TaskStatus.RUNNING, TaskStatus.ALLOCATED})
#: Counted for a group's minimum.
READY: Final = ALLOCATED | {TaskStatus.SUCCEEDED}
#: May be preempted by a pod of their queue.
PREEMPTABLE: Final = frozenset({TaskStatus.BOUND, TaskStatus.RUNNING})
#: Past the scheduler; bound just now does not count.
SCHEDULED: Final = frozenset({TaskStatus.RUNNING, TaskStatus.BOUND, TaskStatus.FAILED, TaskStatus.SUCCEEDED})
COMPLETED: Final = frozenset({TaskStatus.SUCCEEDED, TaskStatus.FAILED})
#: Counted when a group is checked for having enough pods at all.
VALID: Final = READY | {TaskStatus.PIPELINED, TaskStatus.PENDING}


class PodGroupPhase(StrEnum):
    """The phase of a group."""

    NONE = ""
    PENDING = "Pending"
    INQUEUE = "Inqueue"
    RUNNING = "Running"
    COMPLETED = "Completed"
    UNKNOWN = "Unknown"
