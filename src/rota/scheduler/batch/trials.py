"""A trial: what all plugins say of one node while other pods are counted out and in."""

from collections.abc import Mapping, Sequence

from rota.scheduler.batch.plugin import Trial
from rota.scheduler.batch.queues import Queue
from rota.scheduler.batch.tasks import Task


class SessionTrial:
    """A trial of all plugins on one node."""

    def __init__(self, parts: Sequence[tuple[Trial, Mapping[str, bool]]]) -> None:
        self._counting = [
            part for part, switches in parts if switches["enablePreemptable"] or switches["enabledAllocatable"]
        ]
        self._allocating = [part for part, switches in parts if switches["enabledAllocatable"]]
        self._judging = [part for part, switches in parts if switches["enablePredicate"]]

    def remove(self, other: Task) -> bool:
        """Count another pod out."""
        return all(part.remove(other) for part in self._counting)

    def add(self, other: Task) -> bool:
        """Count another pod in again."""
        return all(part.add(other) for part in self._counting)

    def allocatable(self, queue: Queue, task: Task) -> bool:
        """Whether the queue may give the pod what it asks for."""
        return all(part.allocatable(queue, task) for part in self._allocating)

    def fits(self, task: Task) -> bool:
        """Whether the node will do."""
        return all(part.fits(task) for part in self._judging)
