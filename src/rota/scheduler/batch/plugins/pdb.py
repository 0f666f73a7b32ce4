"""pdb: evictions stay within what PodDisruptionBudgets allow.

Budgets are counted anew for every list of candidates. As in Volcano, a pod without labels, which no budget can speak
of, is not evicted. Unlike in Volcano, the plugin names no victims for shuffle: all pods within their budgets would be.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from rota.api import selectors
from rota.scheduler.batch.plugin import BatchPlugin, Eviction, Victims
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.tasks import Task


class DisruptionBudgets(BatchPlugin):
    """Keep to budgets."""

    name: ClassVar[str] = "pdb"

    def __init__(self, session: Session, arguments: object, *, hierarchy: bool) -> None:
        self._budgets: Final = [_Budget(document) for document in session.state.budgets]

    def preemptable(self, preemptor: Task, candidates: list[Task]) -> Victims:
        """Choose pods while their budgets last."""
        return self._within(candidates)

    def reclaimable(self, reclaimer: Task, candidates: list[Task]) -> Victims:
        """The same holds between queues."""
        return self._within(candidates)

    def evictable(self, kind: Eviction, candidates: list[Task]) -> Victims:
        """The same holds for gangs."""
        return self._within(candidates)

    def _within(self, candidates: list[Task]) -> list[Task]:
        left = [budget.allowed for budget in self._budgets]
        victims = []
        for task in candidates:
            if not task.labels:
                continue
            concerned = [number for number, budget in enumerate(self._budgets) if budget.covers(task)]
            for number in concerned:
                left[number] -= 1
            if all(left[number] >= 0 for number in concerned):
                victims.append(task)
        return victims


class _Budget:
    def __init__(self, document: Mapping[str, Any]) -> None:
        meta, spec, status = document["metadata"], document.get("spec") or {}, document.get("status") or {}
        self._namespace: Final[str] = meta.get("namespace") or "default"
        self._selector: Final = selectors.from_object(spec.get("selector"))
        self._gone: Final = frozenset(status.get("disruptedPods") or ())
        self.allowed: Final[int] = status.get("disruptionsAllowed") or 0

    def covers(self, task: Task) -> bool:
        """Whether the eviction of a pod would count; a budget that selects everything covers nothing."""
        if task.namespace != self._namespace or task.name in self._gone or self._selector.empty:
            return False
        return self._selector.matches(task.labels)
