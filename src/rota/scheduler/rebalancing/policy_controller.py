"""The rebalancing controller: the leader rebalances by the cluster's RebalancePolicy; without one, nothing happens.

Moves are written to the policy's status before the first eviction, in one write that conflicts with another leader's.
So limits hold and the next plan is due at the same time under any leader, and a leader that dies in between has moved
less. Every write names the leader's term and is refused once that is over.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final

from rota.api import errors
from rota.api.meta import Object
from rota.client.informers import shared_decoding
from rota.client.informers.cache import Key
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client
from rota.kit import logs, tasks
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.rebalancing import policies
from rota.scheduler.rebalancing.policies import NAME, POLICIES
from rota.scheduler.rebalancing.rebalancer import Aside, NoUsageMetricsError, Rebalancer

log = logs.get(__name__)

#: Pause after a server did not answer.
_PAUSE_S: Final = 10.0


class RebalancingController:
    """Rebalances while its master is the leader."""

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
        self.metrics: Final = metrics or Metrics("rebalancer")
        self._runs: Final = self.metrics.counter("runs_total", "Plans, by what they came to.", ("outcome",))
        self._rebalancer: Final = Rebalancer(
            client, frameworks, clock=clock, rng=rng, metrics=self.metrics, aside=aside
        )
        self._changed: Final = asyncio.Event()
        self._policies: Final = Informer[Object](
            Source(client=client, target=POLICIES),
            decode=shared_decoding.shared,
            clock=clock,
            rng=rng,
            metrics=self.metrics,
        )
        self._policies.add_handler(self._on_change)

    async def run(self) -> None:
        """Run until cancelled."""
        async with tasks.Supervisor("rebalancing", clock=self._clock, rng=self._rng) as running:
            running.start("policies", self._policies.run)
            running.start("events", self._rebalancer.report)
            running.start("work", self._work)
            await running.wait()

    def _on_change(self, _key: Key, _old: Object | None, _new: Object | None) -> None:
        self._changed.set()

    async def _work(self) -> None:
        await self._policies.wait_synced()
        while True:
            self._changed.clear()
            try:
                pause_s = await self._turn()
            except (errors.ApiError, TransportError) as problem:
                # Another master leads, the policy was changed meanwhile, or the server does not answer.
                log.warning("rebalancing postponed", error=problem)
                pause_s = _PAUSE_S
            if pause_s is None:
                await self._changed.wait()
                continue
            with contextlib.suppress(TimeoutError):
                await self._clock.wait_for(self._changed.wait(), pause_s)

    async def _turn(self) -> float | None:
        """Rebalance if it is due; returns the seconds until then, None if that depends on a change of the policy."""
        policy = self._policies.cache.get(NAME)
        if policy is None or policies.is_at_rest(policy):
            return None
        pause_s = policies.wait_s(policy, now=self._clock.now())
        if pause_s:
            return pause_s
        try:
            # From the server: the cache may not have the latest write, of this leader or a former one.
            policy = await self._client.get(POLICIES, NAME)
        except errors.NotFound:
            return None
        pause_s = policies.wait_s(policy, now=self._clock.now())
        if policies.is_at_rest(policy) or pause_s:
            return pause_s or None
        return policies.wait_s(await self._rebalance(policy), now=self._clock.now())

    async def _rebalance(self, policy: Object) -> Object:
        """Plan and move; returns the policy as written."""
        now, settings = self._clock.now(), policies.settings_of(policy)
        try:
            plan = await self._rebalancer.plan(settings, moved=len(policies.recent(policy, now=now)))
        except NoUsageMetricsError as problem:
            self._runs.labels("failed").inc()
            return await self._write(policies.failed(policy, "NobodyMeasures", str(problem), now=now))
        policy = await self._write(policies.planned(policy, plan, settings=settings, now=now))
        self._runs.labels("planned").inc()
        if policies.is_dry(policy):
            for move in plan.moves:
                self._rebalancer.announce(move)
            return policy
        refusals: dict[str, str] = {}
        async for outcome in self._rebalancer.carry_out(plan.moves):
            if outcome.refusal:
                refusals[outcome.move.uid] = outcome.refusal
        return await self._note(policy, refusals) if plan.moves else policy

    async def _note(self, policy: Object, refusals: dict[str, str]) -> Object:
        """Record the moves that failed; if that write is refused, they count as made."""
        try:
            return await self._write(policies.refused(policy, refusals, now=self._clock.now()))
        except errors.Conflict:
            # The policy was changed meanwhile; or another master leads, and then this is refused as well.
            fresh = await self._client.get(POLICIES, NAME)
            return await self._write(policies.refused(fresh, refusals, now=self._clock.now()))

    async def _write(self, policy: Object) -> Object:
        return await self._client.update(POLICIES, dict(policy), subresource="status")
