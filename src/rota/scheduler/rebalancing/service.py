"""The rebalancer at work: looks at the cluster now and then, plans, and evicts.

Pods leave through the eviction API with their uid, so that budgets are kept and no namesake is hit; whoever owns a pod
makes another, and the scheduler puts it where the plan said it would. Several at once do no harm, but only a leader
should run it.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rota.api import errors
from rota.client import pods
from rota.client.events.correlation import Source
from rota.client.events.recorder import EventRecorder
from rota.client.transports.contract import TransportError
from rota.client.verbs import Client
from rota.kit import logs, tasks
from rota.kit.backoff import Chance
from rota.kit.clock import Clock
from rota.kit.errors import UserError
from rota.kit.metrics import Metrics
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.loading import Loaded
from rota.scheduler.rebalancing import observing, planning
from rota.scheduler.rebalancing.contract import Move, Plan, Settings

log = logs.get(__name__)

_HOUR_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one move."""

    move: Move
    #: Why the pod was not evicted; empty if it was.
    refusal: str


class Rebalancer:
    """Rebalances one cluster, by the profiles of a scheduler's configuration."""

    def __init__(
        self,
        client: Client,
        loaded: Loaded,
        settings: Settings,
        *,
        clock: Clock,
        chance: Chance,
        by_usage: bool = False,
    ) -> None:
        self._client: Final = client
        self._settings: Final = settings
        self._by_usage: Final = by_usage
        self._clock: Final = clock
        self._chance: Final = chance
        self._frameworks: Final = {
            name: Framework(profile, loaded.registry) for name, profile in loaded.configuration.profiles.items()
        }
        self.metrics: Final = Metrics("rebalancer")
        self._moves: Final = self.metrics.counter("moves_total", "Pods evicted, by drift.", ("strategy",))
        self._refusals: Final = self.metrics.counter("refusals_total", "Pods that stayed after all.", ("code",))
        self._unevenness: Final = self.metrics.gauge("unevenness", "The sum of the squares of nodes' shares.")
        self._violations: Final = self.metrics.gauge("misplaced_pods", "Pods where no scheduler would put them.")
        self._recorder: Final = EventRecorder(
            client, Source(component="rota-rebalancer"), clock=clock, chance=chance, metrics=self.metrics
        )
        #: When pods were evicted lately.
        self._lately: Final[deque[float]] = deque()

    async def plan(self) -> Plan:
        """What would be moved now; nothing is."""
        picture, facts = await observing.take(self._client, now=self._clock.now())
        usage = None
        if self._by_usage:
            uids = {(pod.namespace, pod.name): pod.uid for pod in picture.cluster.pods.values()}
            usage = await observing.usage(self._client, uids)
            if usage is None:
                # a plan by requests would look the same, and be another
                raise UserError("nobody measures what nodes use here", "go by requests: leave out --by usage")
        found = planning.plan(picture.cluster, self._frameworks, facts, settings=self._settings, usage=usage)
        self._unevenness.set(found.before.unevenness)
        self._violations.set(found.before.violations)
        return found

    async def carry_out(self, moves: Sequence[Move]) -> list[Outcome]:
        """Evict pods one after the other, as many as the hour still allows."""
        return [Outcome(move, await self._evicted(move)) for move in moves]

    async def run(self, *, every_s: float) -> None:
        """Rebalance now and then, until cancelled."""
        async with tasks.Supervisor("rebalancer", clock=self._clock, chance=self._chance) as supervisor:
            supervisor.start("events", self._recorder.run)
            while True:
                try:
                    await self.carry_out((await self.plan()).moves)
                except (errors.ApiError, TransportError, UserError) as problem:
                    log.warning("rebalancing put off", error=problem)
                await self._clock.sleep(every_s)

    async def _evicted(self, move: Move) -> str:
        now = self._clock.monotonic()
        while self._lately and now - self._lately[0] >= _HOUR_S:
            self._lately.popleft()
        if len(self._lately) >= self._settings.most_per_hour:
            return f"{self._settings.most_per_hour} pods have moved within an hour"
        try:
            await pods.evict(self._client, move.name, namespace=move.namespace, uid=move.uid)
        except errors.ApiError as problem:
            self._refusals.labels(str(problem.code)).inc()
            return str(problem)
        except TransportError as problem:
            self._refusals.labels("none").inc()
            return f"the server could not be asked: {problem}"
        self._lately.append(now)
        self._moves.labels(move.strategy.value).inc()
        log.info("pod moves", pod=f"{move.namespace}/{move.name}", source=move.source, target=move.target, why=move.why)
        about = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"namespace": move.namespace, "name": move.name, "uid": move.uid},
        }
        message = f"Moves from {move.source}, to {move.target} as things are: {move.why}"
        self._recorder.event(about, "Normal", "Rebalanced", message, action="Rebalancing")
        return ""
