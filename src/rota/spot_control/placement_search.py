"""Searches nodes for the successors of pods that must leave: for which pods, when, and with which result.

All pods that leave are planned together, highest priority first, together with pods that are pending anyway. An error
in planning never delays an eviction. Results go into `PlaceReservations`.
"""

import asyncio
import math
from collections.abc import Iterable, Mapping
from typing import Final

from rota.api import meta
from rota.client.verbs import Client, Object
from rota.kit import logs
from rota.kit.clock import Clock
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.snapshot import cluster_snapshot
from rota.spot.evacuation import EvictedPod
from rota.spot.node_signals import NodeSignals
from rota.spot_control import node_state, placement
from rota.spot_control.cluster_watch import ClusterWatch
from rota.spot_control.event_reporter import EventReporter
from rota.spot_control.eviction_state import EvictionStates, policy_of
from rota.spot_control.placement import PlacementRequest
from rota.spot_control.reservations import PlaceReservations, owner_of
from rota.spot_control.spot_metrics import SpotMetrics

log = logs.get(__name__)

#: Retry interval if no node was found; a new notice also triggers a search.
_LOOK_AGAIN_S: Final = 5.0
#: Retry interval after temporary errors.
_AGAIN_S: Final = 1.0
#: Searches between two pauses for the event loop.
_AT_A_TIME: Final = 50


class PlacementSearch:
    """Searches for places."""

    def __init__(
        self,
        client: Client,
        frameworks: Mapping[str, Framework],
        cluster_watch: ClusterWatch,
        guests: EvictionStates,
        place_reservations: PlaceReservations,
        event_reporter: EventReporter,
        metrics: SpotMetrics,
        *,
        clock: Clock,
        marks: NodeSignals,
        tainted_nodes: set[str],
    ) -> None:
        self._client: Final = client
        self._frameworks: Final = frameworks
        self._cluster_watch: Final = cluster_watch
        self._guests: Final = guests
        self._place_reservations: Final = place_reservations
        self._event_reporter: Final = event_reporter
        self._metrics: Final = metrics
        self._clock: Final = clock
        self._marks: Final = marks
        self._tainted_nodes: Final = tainted_nodes
        self._looked_for: frozenset[str] = frozenset()
        self._looked_at = -math.inf

    async def find(self, leaving: Iterable[Object]) -> float:
        """Search nodes for the successors of the pods on these nodes; when to search next."""
        now = self._clock.now()
        seekers: dict[str, tuple[EvictedPod, PlacementRequest]] = {}
        for node in leaving:
            for pod in self._cluster_watch.leavers(meta.name(node)):
                uid = meta.uid(pod)
                policy, problem = policy_of(pod)
                if problem:
                    self._event_reporter.misread(pod, problem)
                # a pod without an owner has no successor: it runs as long as it can
                if uid not in self._place_reservations and owner_of(pod) and not self._guests.is_going(uid, now=now):
                    seekers[uid] = (
                        self._guests.guest(pod, reserved=False, now=now),
                        PlacementRequest(document=pod, policy=policy),
                    )
        urgent = [
            PlacementRequest(document=pod, policy=policy_of(pod)[0]) for pod in self._place_reservations.unassigned()
        ]
        wanted = frozenset(seekers).union(meta.uid(one.document) for one in urgent)
        if wanted and (not wanted <= self._looked_for or now >= self._looked_at + _LOOK_AGAIN_S):
            try:
                await self._look(urgent, list(seekers.values()))
            except Exception as problem:  # an error in planning must not delay evictions
                log.exception("placement search failed", error=problem)
                return now + _AGAIN_S
            self._looked_for, self._looked_at = wanted, now
        missing = sum(not self._place_reservations.node(uid) for uid in wanted)
        self._metrics.placeless.set(missing)
        self._metrics.held.set(len(self._place_reservations))
        return self._looked_at + _LOOK_AGAIN_S if missing else math.inf

    async def _look(self, urgent: list[PlacementRequest], leavers: list[tuple[EvictedPod, PlacementRequest]]) -> None:
        snapshot = await cluster_snapshot.take(self._client, self._frameworks.values())
        seekers = [*urgent, *_by_importance([*self._waiting(), *leavers])]
        leaving = {meta.uid(one.document) for one in (*urgent, *(seeker for _, seeker in leavers))}
        search = placement.places(
            snapshot,
            self._frameworks,
            leaving=frozenset(self._tainted_nodes),
            given=list(self._place_reservations),
            seekers=seekers,
            capacities=node_state.capacities(self._cluster_watch.nodes.values(), self._marks, now=self._clock.now()),
        )
        found: dict[str, str] = {}
        for count, (uid, node) in enumerate(search, start=1):
            found[uid] = node
            if not count % _AT_A_TIME:
                await asyncio.sleep(0)  # lease renewals and watches continue
        for seeker in seekers:
            uid = meta.uid(seeker.document)
            if uid in leaving and found[uid]:
                self._place_reservations.add(seeker.document, found[uid])

    def _waiting(self) -> list[tuple[EvictedPod, PlacementRequest]]:
        """Pending pods without a reservation: they will take places too.

        They include successors of pods that a former controller evicted.
        """
        now, found, expected = (
            self._clock.now(),
            list[tuple[EvictedPod, PlacementRequest]](),
            self._place_reservations.expected(),
        )
        for pod in self._cluster_watch.waiting():
            owner = owner_of(pod)
            if expected[owner] > 0:
                expected[owner] -= 1
            else:
                seeker = PlacementRequest(document=pod, policy=policy_of(pod)[0])
                found.append((self._guests.guest(pod, reserved=False, now=now), seeker))
        return found


def _by_importance(seekers: Iterable[tuple[EvictedPod, PlacementRequest]]) -> list[PlacementRequest]:
    ordered = sorted(seekers, key=lambda one: (-one[0].priority, -one[0].grace_s, one[0].key))
    return [seeker for _, seeker in ordered]
