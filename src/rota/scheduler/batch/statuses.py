"""Where a pod of a group stands in a session, and the sets of states that rules speak of."""

from enum import StrEnum
from typing import Final


class TaskStatus(StrEnum):
    """The state of one pod; the values are the names that messages use."""

    PENDING = "Pending"
    #: Has a free place in this session, is not sent to binding yet.
    ALLOCATED = "Allocated"
    #: Holds a place that is not free yet.
    PIPELINED = "Pipelined"
    #: Was sent to binding in this session.
    BINDING = "Binding"
    #: Has a node and does not run yet.
    BOUND = "Bound"
    RUNNING = "Running"
    #: On its way out.
    RELEASING = "Releasing"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


#: Counted as using resources of their queue.
ALLOCATED: Final = frozenset({TaskStatus.BOUND, TaskStatus.BINDING, TaskStatus.RUNNING, TaskStatus.ALLOCATED})
#: Counted for a group's minimum.
READY: Final = ALLOCATED | {TaskStatus.SUCCEEDED}
#: May be asked to leave by a preemptor of their queue.
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
