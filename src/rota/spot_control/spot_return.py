"""Returns pods to spot machines: periodically, a few at a time, and only if the scheduler would place them there now.

Each candidate is removed from a copy of the cluster, and the scheduler's plugins score all nodes for it; spot
annotations add a score as an extender would. It is evicted only if the best node is a spot machine of a quiet pool, and
strictly better than its present node. Only one pod of an owner moves at a time, none while another of its pods is not
ready, and none before it has run for a while. A workload whose pods are scheduled to on-demand machines again is
retried with growing intervals: its scheduler decides otherwise than the forecast.
"""

import asyncio
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rota.api import meta, times
from rota.client.verbs import Client, Object
from rota.kit import logs
from rota.kit.clock import Clock
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.preemption import victims
from rota.scheduler.rebalancing import cluster_view
from rota.scheduler.rebalancing.protection import Protection
from rota.scheduler.rebalancing.rebalance_plan import Settings as Limits
from rota.scheduler.rebalancing.rebalance_plan import Strategy
from rota.scheduler.snapshot import cluster_snapshot
from rota.scheduler.snapshot.cluster_snapshot import ClusterSnapshot
from rota.spot import return_policy
from rota.spot.node_readings import Reading
from rota.spot.node_signals import NodeSignals
from rota.spot.policies import Policy
from rota.spot.return_policy import Pools, Settings
from rota.spot_control import node_state, placement
from rota.spot_control.cluster_watch import ClusterWatch
from rota.spot_control.event_reporter import EventReporter
from rota.spot_control.eviction_state import policy_of
from rota.spot_control.placement import PlacementRequest
from rota.spot_control.placement_forecast import Appeal, PlacementForecast
from rota.spot_control.reservations import PlaceReservations, owner_of

log = logs.get(__name__)

#: Candidates per check; the others follow in later checks.
_MOST_ASKED: Final = 50
#: The longest retry interval of a workload.
_RAREST_S: Final = 24 * 3600.0

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A pod that the scheduler would place on a spot machine."""

    document: Object
    source: str
    target: str
    why: str


@dataclass(slots=True)
class _Attempts:
    """Failed returns of a workload, and when it may be retried."""

    failures: int = 0
    not_before: float = -math.inf


class SpotReturn:
    """Selects pods that should return."""

    def __init__(
        self,
        client: Client,
        frameworks: Mapping[str, Framework],
        cluster_watch: ClusterWatch,
        place_reservations: PlaceReservations,
        event_reporter: EventReporter,
        *,
        clock: Clock,
        marks: NodeSignals,
        settings: Settings,
        tainted_nodes: Collection[str],
        dry_run: bool,
    ) -> None:
        self._client: Final = client
        self._frameworks: Final = frameworks
        self._cluster_watch: Final = cluster_watch
        self._place_reservations: Final = place_reservations
        self._event_reporter: Final = event_reporter
        self._clock: Final = clock
        self._marks: Final = marks
        self._settings: Final = settings
        self._tainted_nodes: Final = tainted_nodes
        self._dry_run: Final = dry_run
        self._pools: Final = Pools(since=clock.now())
        self._attempts: Final[dict[str, _Attempts]] = {}
        #: Pods that were evicted for a return, by uid, and their owners.
        self._under_way: Final[dict[str, str]] = {}
        self._look_at = clock.now() + settings.every_s
        #: Why each candidate stays, as of the last check, by namespace/name.
        self._stays: dict[str, str] = {}

    @property
    def look_at(self) -> float:
        """When to check next; infinity for never."""
        return self._look_at if self._settings.stable_s > 0 else math.inf

    def record_interruption(self, pool: str) -> None:
        """A machine of a pool was reclaimed or lost."""
        self._pools.record_interruption(pool, now=self._clock.now())

    def arrived(self, uid: str, *, on_spot: bool) -> bool:
        """The successor of a pod was scheduled; whether that pod was evicted for a return."""
        owner = self._under_way.pop(uid, "")
        if not owner:
            return False
        if on_spot:
            self._attempts.pop(owner, None)
        else:
            self._failed(owner)
        return True

    def sent(self, move: Move) -> None:
        """A pod was evicted."""
        self._under_way[meta.uid(move.document)] = owner_of(move.document)

    def refused(self, move: Move) -> None:
        """A budget or the server refused an eviction: its workload is retried later."""
        self._failed(owner_of(move.document))

    async def look(self) -> list[Move]:
        """The pods that should return now, if it is time to check."""
        now = self._clock.now()
        if now < self.look_at:
            return []
        self._look_at = now + self._settings.every_s
        for uid in [uid for uid in self._under_way if uid not in self._place_reservations]:
            del self._under_way[uid]  # no successor came in time
        for owner in [owner for owner in self._attempts if not self._cluster_watch.of_owner(owner)]:
            del self._attempts[owner]  # the owner is gone: rollouts create new owners all the time
        readings = {
            meta.name(node): node_state.read(node, self._marks, now=now) for node in self._cluster_watch.nodes.values()
        }
        if not any(reading.capacity.leaves for reading in readings.values()):
            return []
        before, self._stays = self._stays, {}
        candidates = self._candidates(readings, now)
        good = {
            meta.name(node)
            for node in self._cluster_watch.nodes.values()
            if self._is_trusted(node, readings[meta.name(node)], now)
        }
        moves: list[Move] = []
        if good and candidates:
            moves = await self._tried(
                await cluster_snapshot.take(self._client, self._frameworks.values()), candidates, good, readings, now
            )
        else:
            why = "no pool of spot machines has been quiet for long enough"
            self._stays |= dict.fromkeys((_key(pod) for pod, _ in candidates), why)
        for key, why in self._stays.items() if self._dry_run else ():
            if before.get(key) != why:
                log.info("stays where it is", pod=key, why=why)
        return moves

    def _failed(self, owner: str) -> None:
        attempts = self._attempts.setdefault(owner, _Attempts())
        attempts.failures += 1
        rest = min(_RAREST_S, self._settings.cooldown_s * 2 ** min(attempts.failures, 20))
        attempts.not_before = self._clock.now() + rest

    def _is_trusted(self, node: Object, reading: Reading, now: float) -> bool:
        if not reading.capacity.leaves or reading.notice is not None or reading.risky:
            return False
        if meta.name(node) in self._tainted_nodes or not meta.is_condition_true(node, "Ready"):
            return False
        made = node["metadata"].get("creationTimestamp")
        young = made is not None and now < times.parse(made) + self._settings.stable_s
        return not young and self._pools.quiet_for(reading.pool, now=now) >= self._settings.stable_s

    def _candidates(self, readings: Mapping[str, Reading], now: float) -> list[tuple[Object, Policy]]:
        """One pod of each workload that wants spot machines and has pods elsewhere; lowest priority first."""
        found: dict[str, tuple[Object, Policy]] = {}
        awaited = self._place_reservations.owners()
        staying = [name for name, reading in readings.items() if not reading.capacity.leaves]
        for pod in sorted((pod for name in staying for pod in self._cluster_watch.leavers(name)), key=_importance):
            owner = owner_of(pod)
            if not owner:
                continue
            policy, problem = policy_of(pod)
            if problem:
                self._event_reporter.misread(pod, problem)
                continue
            if not return_policy.wants(pod, policy, self._marks):
                continue
            why = self._objection(owner, awaited, now) if owner not in found else "another of its workload goes first"
            if why:
                self._stays[_key(pod)] = why
            elif len(found) < _MOST_ASKED:
                found[owner] = pod, policy
        return list(found.values())

    def _objection(self, owner: str, awaited: Collection[str], now: float) -> str:
        """Why no pod of a workload may move at present; empty if there is no reason."""
        if owner in awaited:
            return "another pod of its workload moves"
        attempts = self._attempts.get(owner)
        if attempts is not None and now < attempts.not_before:
            return f"its workload did not go back when tried, and is left alone for {attempts.not_before - now:.0f} s"
        if any(
            meta.is_deleting(pod) or not meta.is_condition_true(pod, "Ready")
            for pod in self._cluster_watch.of_owner(owner)
            if (pod.get("status") or {}).get("phase") not in {"Succeeded", "Failed"}
        ):
            return "another pod of its workload is not ready"
        return ""

    async def _tried(
        self,
        snapshot: ClusterSnapshot,
        candidates: Sequence[tuple[Object, Policy]],
        good: Collection[str],
        readings: Mapping[str, Reading],
        now: float,
    ) -> list[Move]:
        capacities = {name: reading.capacity for name, reading in readings.items()}
        waiting = [PlacementRequest(document=pod, policy=policy_of(pod)[0]) for pod in self._cluster_watch.waiting()]
        # pending pods come first
        for _ in placement.places(
            snapshot,
            self._frameworks,
            leaving=frozenset(self._tainted_nodes),
            given=list(self._place_reservations),
            seekers=waiting,
            capacities=capacities,
        ):
            await asyncio.sleep(0)  # lets other tasks of the event loop run
        facts = {meta.uid(pod): cluster_view.facts(pod, now=now) for pod, _ in candidates}
        limits = Limits(
            youngest_s=self._settings.cooldown_s,
            most_at_once=self._settings.most_at_once,
            most_per_node=self._settings.most_at_once,
            most_per_namespace=self._settings.most_at_once,
        )
        protection = Protection(limits, facts, victims.budgets(snapshot.cluster.catalog))
        forecast = PlacementForecast(
            snapshot,
            self._frameworks,
            capacities=capacities,
            good=good,
            appeal=Appeal(self._cluster_watch.nodes.values(), readings, weight=self._settings.weight),
        )
        moves: list[Move] = []
        for pod, policy in candidates:
            await asyncio.sleep(0)
            known = snapshot.cluster.pods.get(meta.uid(pod))
            if known is None or known.node_name not in snapshot.cluster.by_name:
                continue
            why = "enough others go" if protection.exhausted else protection.objection(known, Strategy.BALANCE)
            found = why or forecast.better(pod, policy)
            if isinstance(found, str):
                self._stays[_key(pod)] = found
                continue
            protection.count(known)
            why = f"it scores {found.after} there, {found.before} on {known.node_name}"
            moves.append(Move(document=pod, source=known.node_name, target=found.node, why=why))
        return moves


def _importance(pod: Object) -> tuple[int, str]:
    return (pod.get("spec") or {}).get("priority") or 0, _key(pod)


def _key(pod: Object) -> str:
    return f"{meta.namespace(pod)}/{meta.name(pod)}"
