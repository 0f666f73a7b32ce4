"""PrioritySort: pods of higher priority first, among equals the one that has waited longest."""

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
        """Order by falling priority, then by the time of arrival."""
        return -pod.priority, queued_at
