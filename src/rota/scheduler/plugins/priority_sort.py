"""PrioritySort: pods of higher priority first, then in the order in which they were queued."""

from typing import ClassVar

from rota.columns.pods import PodInfo
from rota.scheduler.framework.registry import Handle, NoArgs


class PrioritySort:
    """QueueSort by priority and age."""

    name: ClassVar[str] = "PrioritySort"
    Args = NoArgs

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        pass

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[int, float]:
        """Order by descending priority, then by queueing time."""
        return -pod.priority, queued_at
