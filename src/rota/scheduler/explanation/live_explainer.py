"""Explains pods inside a running scheduler, with its cache, profiles and extenders.

A standby has the same cache as the leader and explains as well. At most a hundred nodes are examined in detail, so that
a request delays the scheduler for a fraction of a second at most.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from rota.api import errors
from rota.columns import members
from rota.columns.objects import MalformedObjectError
from rota.columns.pods import PodInfo
from rota.scheduler.cache.scheduler_cache import SchedulerCache
from rota.scheduler.explanation import analysis, explain_client
from rota.scheduler.explanation.analysis import NO_OPINIONS, Opinions
from rota.scheduler.extenders.chain import ExtenderChain
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.hints import explanation_report
from rota.scheduler.hints.explanation_report import Explanation
from rota.scheduler.queue.scheduling_queue import SchedulingQueue


class ExplainableScheduler(Protocol):
    """The parts of a scheduler that explanations need; `service.Scheduler` has them."""

    @property
    def synced(self) -> bool:
        """Whether its cache is complete."""

    @property
    def cache(self) -> SchedulerCache:
        """Its cache."""

    @property
    def queue(self) -> SchedulingQueue:
        """Its queue."""

    @property
    def extender_chain(self) -> ExtenderChain:
        """Its extenders."""

    @property
    def scheduler_names(self) -> tuple[str, ...]:
        """The scheduler names that it serves."""

    def framework(self, scheduler_name: str, /) -> Framework | None:
        """Its plugins for pods of this scheduler name."""

    def waiting_reason(self, scheduler_name: str, group: str, /) -> str | None:
        """Why a group of pods waits ("" if nothing is known); None if no batch profile serves the name."""


class LiveExplainer:
    """Explains pods for clients of the scheduler."""

    def __init__(self, scheduler: ExplainableScheduler) -> None:
        self._scheduler: Final = scheduler

    async def explain(self, document: Mapping[str, Any], /, *, node: str, limit: int | None) -> dict[str, Any]:
        """Explain a pod, given as a document; raises an ApiError if that is impossible."""
        scheduler = self._scheduler
        if not scheduler.synced:
            raise errors.ServiceUnavailable("the scheduler does not know the cluster yet; ask again in a moment")
        try:
            pod = scheduler.cache.interner.pod(document)
        except MalformedObjectError as error:
            raise errors.bad_request(f"the pod cannot be understood: {error}") from error
        if node and node not in scheduler.cache.cluster.by_name:
            raise errors.bad_request(f'the cluster has no node "{node}"')
        framework = scheduler.framework(pod.shape.scheduler_name)
        if framework is None and (explained := self._of_group(pod, document)) is not None:
            return explanation_report.to_wire(explained)
        if framework is None:
            return explanation_report.to_wire(analysis.unserved(pod, scheduler.scheduler_names))
        opinions = await self._opinions(framework, pod, document)
        explanation = analysis.explain(
            framework,
            scheduler.cache.cluster,
            pod,
            node_name=node,
            most=min(limit or analysis.MOST_NODES, analysis.MOST_NODES),
            nominations=scheduler.queue.nominations() or None,
            opinions=opinions,
        )
        return explanation_report.to_wire(explanation)

    def _of_group(self, pod: PodInfo, document: Mapping[str, Any]) -> Explanation | None:
        """Explain a pod that is decided with its group; None if it is not."""
        group = members.of_document(document).group
        key = f"{pod.namespace}/{group}"
        reason = self._scheduler.waiting_reason(pod.shape.scheduler_name, key) if group else None
        return None if reason is None else analysis.with_group(pod, key, reason)

    async def _opinions(self, framework: Framework, pod: PodInfo, document: Mapping[str, Any]) -> Opinions:
        extender_chain = self._scheduler.extender_chain
        if not extender_chain:
            return NO_OPINIONS
        cluster = self._scheduler.cache.cluster
        with analysis.without(cluster, pod):
            evaluation = analysis.evaluate(framework, cluster, pod).evaluation
            feasible = [
                node.name
                for node in cluster.node_infos()
                if evaluation.failure is None and evaluation.feasible[node.row]
            ]
        return await explain_client.opinions(extender_chain, document, feasible)
