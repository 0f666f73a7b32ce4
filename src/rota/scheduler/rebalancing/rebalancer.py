"""The rebalancer: snapshots the cluster, plans, and evicts.

Pods are evicted through the eviction API with their uid, so that budgets are respected and no other pod of that name is
evicted. The owner of a pod creates a replacement, and the scheduler places it as the plan expects. Limits and the time
of the next plan are the caller's: a command (`run`), or the leader by the cluster's policy (`policy_controller`).
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from rota.api import errors
from rota.client import pods
from rota.client.events.correlation import Source
from rota.client.events.recorder import EventRecorder
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client
from rota.kit import logs, tasks
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.errors import UserError
from rota.kit.metrics import Metrics
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.rebalancing import cluster_view, planner
from rota.scheduler.rebalancing.rebalance_plan import DriftMeasurement, Move, Plan, Settings

log = logs.get(__name__)

#: Runs the planner beside other work; called as `asyncio.to_thread` is.
Aside: TypeAlias = Callable[..., Awaitable[Plan]]

_HOUR_S: Final = 3600.0
#: Meaning of the codes of a refused eviction.
_REFUSALS: Final = {403: "forbidden", 404: "gone", 409: "changed", 429: "budget"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one move."""

    move: Move
    #: Why the pod was not evicted; empty if it was.
    refusal: str


class NoUsageMetricsError(UserError):
    """A plan by usage was requested but there are no metrics."""


class Rebalancer:
    """Rebalances one cluster, by the frameworks of a scheduler's profiles."""

    def __init__(
        self,
        client: Client,
        frameworks: Mapping[str, Framework],
        *,
        clock: Clock,
        rng: Rng,
        metrics: Metrics | None = None,
        aside: Aside = asyncio.to_thread,
    ) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._rng: Final = rng
        self._aside: Final = aside
        self._frameworks: Final = frameworks
        self.metrics: Final = metrics or Metrics("rebalancer")
        self._moves: Final = self.metrics.counter("moves_total", "Pods evicted, by drift.", ("strategy",))
        self._refusals: Final = self.metrics.counter("refusals_total", "Pods that stayed after all.", ("reason",))
        self._planning: Final = self.metrics.histogram("planning_seconds", "How long plans took.")
        self._figures: Final = {
            name: self.metrics.gauge(name, meaning, ("when",))
            for name, meaning in (
                ("misplaced_pods", "Pods where no scheduler would put them, before and after the latest plan."),
                ("duplicates", "Pairs of one owner on a node, before and after the latest plan."),
                ("unevenness", "The sum of the squares of nodes' shares, before and after the latest plan."),
            )
        }
        self._recorder: Final = EventRecorder(
            client, Source(component="rota-rebalancer"), clock=clock, rng=rng, metrics=self.metrics
        )

    async def plan(self, settings: Settings, *, moved: int = 0) -> Plan:
        """The moves that would be made now, after so many moves within the hour; nothing is moved."""
        snapshot, facts = await cluster_view.take(self._client, self._frameworks.values(), now=self._clock.now())
        usage = None
        if settings.by_usage:
            uids = {(pod.namespace, pod.name): pod.uid for pod in snapshot.cluster.pods.values()}
            usage = await cluster_view.usage(self._client, uids)
            if usage is None:
                # a plan by requests would look the same, but would be a different one
                raise NoUsageMetricsError("this cluster has no usage metrics", "go by requests instead")
        allowed = min(settings.most_at_once, max(0, settings.most_per_hour - moved))
        began = self._clock.monotonic()
        # the snapshot belongs to this plan; in a leader, other tasks need the event loop meanwhile
        found = await self._aside(
            planner.plan,
            snapshot.cluster,
            dict(self._frameworks),
            facts,
            settings=replace(settings, most_at_once=allowed),
            usage=usage,
            waiting=snapshot.waiting,
        )
        self._planning.observe(self._clock.monotonic() - began)
        self._tell(before=found.before, after=found.after)
        return found

    async def carry_out(self, moves: Iterable[Move]) -> AsyncIterator[Outcome]:
        """Evict pods one after the other; yields the result of each."""
        for move in moves:
            yield Outcome(move, await self._evicted(move))

    def announce(self, move: Move) -> None:
        """Report a move that is not carried out."""
        message = f"Would move from {move.source}, to {move.target} as things are: {move.why}"
        self._recorder.event(_about(move), "Normal", "RebalancePlanned", message, action="Rebalancing")

    async def report(self) -> None:
        """Write events until cancelled."""
        await self._recorder.run()

    async def run(self, settings: Settings, *, every_s: float) -> None:
        """Rebalance periodically until cancelled."""
        lately: deque[float] = deque()
        async with tasks.Supervisor("rebalancer", clock=self._clock, rng=self._rng) as supervisor:
            supervisor.start("events", self.report)
            while True:
                while lately and self._clock.monotonic() - lately[0] >= _HOUR_S:
                    lately.popleft()
                try:
                    plan = await self.plan(settings, moved=len(lately))
                    async for outcome in self.carry_out(plan.moves):
                        if not outcome.refusal:
                            lately.append(self._clock.monotonic())
                except (errors.ApiError, TransportError, UserError) as problem:
                    log.warning("rebalancing postponed", error=problem)
                await self._clock.sleep(every_s)

    async def _evicted(self, move: Move) -> str:
        try:
            await pods.evict(self._client, move.name, namespace=move.namespace, uid=move.uid)
        except errors.ApiError as problem:
            self._refusals.labels(_REFUSALS.get(problem.code, str(problem.code))).inc()
            return str(problem)
        except TransportError as problem:
            self._refusals.labels("unreachable").inc()
            return f"the server could not be asked: {problem}"
        self._moves.labels(move.strategy.value).inc()
        log.info("pod moves", pod=f"{move.namespace}/{move.name}", source=move.source, target=move.target, why=move.why)
        message = f"Moves from {move.source}, to {move.target} as things are: {move.why}"
        self._recorder.event(_about(move), "Normal", "Rebalanced", message, action="Rebalancing")
        return ""

    def _tell(self, **measured: DriftMeasurement) -> None:
        for when, one in measured.items():
            self._figures["misplaced_pods"].labels(when).set(one.violations)
            self._figures["duplicates"].labels(when).set(one.duplicates)
            self._figures["unevenness"].labels(when).set(one.unevenness)


def _about(move: Move) -> dict[str, object]:
    metadata = {"namespace": move.namespace, "name": move.name, "uid": move.uid}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
