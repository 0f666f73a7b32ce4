"""conformance: pods that the cluster itself depends on are not evicted."""

from typing import ClassVar, Final

from rota.scheduler.batch.plugin import BatchPlugin, Eviction, Victims
from rota.scheduler.batch.tasks import Task

CRITICAL: Final = frozenset({"system-cluster-critical", "system-node-critical"})
SYSTEM: Final = "kube-system"


class Conformance(BatchPlugin):
    """Protect what is critical."""

    name: ClassVar[str] = "conformance"

    def preemptable(self, preemptor: Task, candidates: list[Task]) -> Victims:
        """Anything may go that is not critical."""
        return _ordinary(candidates)

    def reclaimable(self, reclaimer: Task, candidates: list[Task]) -> Victims:
        """The same holds between queues."""
        return self.preemptable(reclaimer, candidates)

    def evictable(self, kind: Eviction, candidates: list[Task]) -> Victims:
        """Anything may go that is not critical."""
        return _ordinary(candidates)


def protected(task: Task) -> bool:
    """Whether the cluster itself depends on a pod."""
    return task.namespace == SYSTEM or task.member.priority_class in CRITICAL


def _ordinary(candidates: list[Task]) -> list[Task]:
    return [task for task in candidates if not protected(task)]
