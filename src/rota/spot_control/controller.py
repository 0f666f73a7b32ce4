"""The spot controller: watches notices, taints nodes, finds nodes for successors, evicts pods.

All notices are handled together, in rounds, so that no place is assigned twice and the pods of highest priority leave
first, from all nodes. All state is read back from objects: after a restart the next round continues. Only a leader
should run it.
"""

import math
from collections.abc import Collection, Mapping
from typing import Any, Final

from rota.api import meta
from rota.client.informers.cache import Key
from rota.client.pods import PODS
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics
from rota.scheduler.framework.runtime import Framework
from rota.spot import reservations
from rota.spot.evacuation import EvictedPod, Step
from rota.spot.node_signals import NodeSignals
from rota.spot.return_policy import USUAL, Settings
from rota.spot_control import cluster_watch, node_state
from rota.spot_control import reservations as spot_control_reservations
from rota.spot_control.api_writer import NODES, ApiWriter
from rota.spot_control.cluster_watch import ClusterWatch
from rota.spot_control.departures import Departure, Departures
from rota.spot_control.event_reporter import EventReporter
from rota.spot_control.eviction_state import EvictionStates
from rota.spot_control.handover import Handover
from rota.spot_control.losses import Losses
from rota.spot_control.placeholder_pods import PlaceholderPods, Wanted
from rota.spot_control.placement_search import PlacementSearch
from rota.spot_control.reservations import PATIENCE_S, Arrival, PlaceReservations
from rota.spot_control.savings_report import SavingsReport
from rota.spot_control.spot_metrics import SpotMetrics
from rota.spot_control.spot_return import Move, SpotReturn

log = logs.get(__name__)

#: Minimum time between rounds.
_BREATH_S: Final = 0.01
#: With less time left, pods are evicted before places are reserved for them.
_HURRY_S: Final = 15.0
_ROUND: Final = "round"
#: The default namespace of placeholder pods: that of the controller's lease.
NAMESPACE: Final = "kube-system"

_Leaving = list[tuple[Object, Departure]]


class SpotController:
    """Evacuates the spot machines of one cluster, by a table of node signals and the profiles of a scheduler."""

    def __init__(
        self,
        client: Client,
        frameworks: Mapping[str, Framework],
        *,
        clock: Clock,
        rng: Rng,
        marks: NodeSignals | None = None,
        metrics: Metrics | None = None,
        namespace: str = NAMESPACE,
        back: Settings = USUAL,
        dry_run: bool = False,
    ) -> None:
        """`back` configures the return to spot machines; `namespace` is that of placeholder pods."""
        self._clock: Final = clock
        self._marks: Final = marks or NodeSignals()
        self.metrics: Final = metrics or Metrics("spot")
        self._spot_metrics: Final = SpotMetrics(self.metrics)
        self._frame: Final = Reconciler[str](
            client, "spot", self._round, clock=clock, rng=rng, workers=1, metrics=self.metrics
        )
        self._event_reporter: Final = EventReporter(None if dry_run else self._frame.report_as("rota-spot-controller"))
        self._guests: Final = EvictionStates(dry_run=dry_run)
        self._place_reservations: Final = PlaceReservations()
        self._api_writer: Final = ApiWriter(
            client, self._guests, self._event_reporter, self._spot_metrics, clock=clock, dry_run=dry_run
        )
        self._losses: Final = Losses(self._event_reporter, self._spot_metrics)
        self._reservations: Final = PlaceholderPods(
            client, self._spot_metrics, clock=clock, namespace=namespace, dry_run=dry_run
        )
        self._cluster_watch: Final = ClusterWatch(
            self._frame.follow(NODES, self._node_changed).cache,
            self._frame.follow(PODS, self._pod_changed, indexers=cluster_watch.INDEXERS).cache,
        )
        self._departures: Final = Departures(
            self._api_writer,
            self._event_reporter,
            self._spot_metrics,
            clock=clock,
            marks=self._marks,
            dry_run=dry_run,
            staying_on=self._cluster_watch.staying_on,
            stays=self._stays,
        )
        self._placement_search: Final = PlacementSearch(
            client,
            frameworks,
            self._cluster_watch,
            self._guests,
            self._place_reservations,
            self._event_reporter,
            self._spot_metrics,
            clock=clock,
            marks=self._marks,
            tainted_nodes=self._departures.tainted_nodes,
        )
        self._handover: Final = Handover(
            client, self._cluster_watch, self._place_reservations, self._reservations, clock=clock, dry_run=dry_run
        )
        self._returning: Final = SpotReturn(
            client,
            frameworks,
            self._cluster_watch,
            self._place_reservations,
            self._event_reporter,
            clock=clock,
            marks=self._marks,
            settings=back,
            tainted_nodes=self._departures.tainted_nodes,
            dry_run=dry_run,
        )
        self._accounts: Final = SavingsReport(self._cluster_watch, self._spot_metrics, clock=clock, marks=self._marks)
        self._namespace: Final = namespace
        self._found_again = False

    async def run(self) -> None:
        """Act on notices until cancelled."""
        # finds placeholder pods of a former controller even if nothing changes
        self._frame.queue.add(_ROUND)
        await self._frame.run()

    # --- watch handlers ---------------------------------------------------------------------------------------------

    def _node_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        now, tainted_nodes = self._clock.now(), self._departures.tainted_nodes
        if old is not None and (new is None or meta.uid(new) != meta.uid(old)):
            self._node_gone(old, now)
            old = None
        if new is None:
            return
        reading = node_state.read(new, self._marks, now=now)
        if (
            self._losses.watch(old, new, reading, self._cluster_watch.staying_on(key.name))
            or reading.notice is not None
        ):
            self._returning.record_interruption(reading.pool)
        if reading.notice is not None or node_state.since(new) is not None:
            tainted_nodes.add(key.name)
        elif key.name in tainted_nodes and meta.uid(new) not in self._departures:
            tainted_nodes.discard(key.name)
            return
        # new machines are counted, even if the return to spot machines is off
        if key.name in tainted_nodes or old is None:
            self._frame.queue.add(_ROUND)

    def _node_gone(self, node: Object, now: float) -> None:
        reading = node_state.read(node, self._marks, now=now)
        noticed = self._departures.gone(node) or reading.notice is not None
        self._losses.gone(node, reading, self._cluster_watch.staying_on(meta.name(node)), noticed=noticed)
        if noticed or reading.capacity.leaves:
            self._returning.record_interruption(reading.pool)
        self._frame.queue.add(_ROUND)

    def _pod_changed(self, _: Key, old: Object | None, new: Object | None) -> None:
        self._cluster_watch.count(old, new)
        known = new if new is not None else old
        # in other namespaces any user could declare a pod to be a placeholder
        if known is not None and reservations.is_one(known) and meta.namespace(known) == self._namespace:
            self._reservations.changed(known, gone=new is None)
            self._frame.queue.add(_ROUND)
            return
        # at once, not in the next round: by then its successor may have been created already
        if known is not None and (since := spot_control_reservations.going_since(known)) is not None:
            self._place_reservations.left(meta.uid(known), since)
        if new is None and old is not None:
            self._guests.forget(meta.uid(old))
            self._place_reservations.forget(meta.uid(old))
            self._event_reporter.forget(meta.uid(old))
        if cluster_watch.node_of(known) in self._departures.tainted_nodes or len(self._place_reservations):
            self._frame.queue.add(_ROUND)

    def _stays(self, node: Object) -> None:
        """A node's notice is withdrawn: pods that were not evicted stay."""
        for pod in self._cluster_watch.on(meta.name(node)):
            if not self._guests.is_going(meta.uid(pod), now=self._clock.now()):
                self._place_reservations.drop(meta.uid(pod))
                self._guests.forget(meta.uid(pod))

    # --- rounds -----------------------------------------------------------------------------------------------------

    async def _round(self, _: str) -> float | None:
        nodes, tainted_nodes = self._cluster_watch.nodes, self._departures.tainted_nodes
        marked = [node for name in sorted(tainted_nodes) if (node := nodes.get(name)) is not None]
        wake_at = await self._departures.mark_all(marked)
        leaving = self._leaving()
        self._find_again({meta.name(node) for node, _ in leaving})
        for uid in self._reservations.lost():
            self._place_reservations.lose(uid)
        arrivals = self._place_reservations.settle(
            now=self._clock.now(),
            there=self._is_there,
            usable=lambda name: name not in tainted_nodes and nodes.get(name) is not None,
            of_owner=self._cluster_watch.of_owner,
            leaving=tainted_nodes,
        )
        for arrival in arrivals:
            self._arrived(arrival)
        wake_at = min(wake_at, await self._placement_search.find(node for node, _ in leaving))
        wake_at = min(wake_at, await self._reservations.keep(self._wanted(leaving)))
        await self._api_writer.do(self._due(self._leaving())[0], still=self._must_go)
        wake_at = min(wake_at, await self._handover.hand_over())
        self._account(leaving)
        again, due_at = self._due(self._leaving())
        wake_at = min(wake_at, due_at, self._clock.now() if again else math.inf)
        wake_at = min(
            wake_at, await self._go_back(leaving), self._place_reservations.patient_until(), self._accounts.take_stock()
        )
        if wake_at == math.inf:
            return None
        return max(wake_at - self._clock.now(), _BREATH_S)

    async def _go_back(self, leaving: _Leaving) -> float:
        """Evict a few pods that should return to spot machines, if it is time and no evacuation runs; when to check
        next.
        """
        moves: list[Move] = []
        try:
            moves = [] if leaving else await self._returning.look()
            # planning for a large cluster takes a while
            moves = [one for one in moves if one.target not in self._departures.tainted_nodes]
        except Exception as problem:  # an error here must not keep notices from being handled
            log.exception("pods not returned to spot nodes", error=problem)
        for move in moves:
            self._place_reservations.add(move.document, move.target)
        if moves:
            await self._reservations.keep(self._wanted(leaving))
        for move in moves:
            if await self._api_writer.send_back(move.document, place=move.target, why=move.why):
                self._returning.sent(move)
            else:
                self._spot_metrics.fallforwards.labels("refused").inc()
                self._place_reservations.drop(meta.uid(move.document))
                self._returning.refused(move)
        told_at = await self._handover.hand_over() if moves else math.inf
        return min(told_at, math.inf if leaving else self._returning.look_at)

    def _arrived(self, arrival: Arrival) -> None:
        """A successor was scheduled: report whether it came from and went to a spot machine."""
        self._spot_metrics.arrival.observe(arrival.waited_s)
        now, before, after = self._clock.now(), cluster_watch.node_of(dict(arrival.document)), arrival.node
        was, on_spot = (
            node is not None and node_state.read(node, self._marks, now=now).capacity.leaves
            for node in (self._cluster_watch.nodes.get(before), self._cluster_watch.nodes.get(after))
        )
        if self._returning.arrived(meta.uid(arrival.document), on_spot=on_spot):
            self._spot_metrics.fallforwards.labels("arrived" if on_spot else "elsewhere").inc()
        elif was and not on_spot:
            self._spot_metrics.fallbacks.inc()

    def _leaving(self) -> _Leaving:
        found = []
        for name in sorted(self._departures.tainted_nodes):
            node = self._cluster_watch.nodes.get(name)
            departure = self._departures.of(node) if node is not None else None
            if node is not None and departure is not None and self._has_notice(node):
                found.append((node, departure))
        return found

    def _has_notice(self, node: Object) -> bool:
        return node_state.read(node, self._marks, now=self._clock.now()).notice is not None

    def _must_go(self, pod: Mapping[str, Any]) -> bool:
        """Whether a pod is unchanged since the decision, and its machine still has a notice."""
        known = self._cluster_watch.same(pod)
        if known is None or meta.is_deleting(known):
            return False
        node = self._cluster_watch.nodes.get(cluster_watch.node_of(known))
        return node is not None and self._has_notice(node)

    def _is_there(self, pod: Mapping[str, Any]) -> bool:
        known = self._cluster_watch.same(pod)
        if known is None or meta.is_deleting(known):
            return False
        return not self._guests.is_going(meta.uid(pod), now=self._clock.now())

    def _find_again(self, leaving: Collection[str]) -> None:
        """Adopt placeholder pods of a former controller that are still needed, once."""
        if self._found_again:
            return
        self._found_again = True
        for pod in self._reservations.shown():
            held = reservations.read(pod)
            old = self._cluster_watch.pods.get(*reversed(held.pod.split("/", 1))) if "/" in held.pod else None
            if old is None or meta.uid(old) != held.leaver or meta.is_deleting(old):
                if self._clock.now() < held.since + PATIENCE_S and held.owner:
                    self._place_reservations.add(reservations.stand_in(pod), held.node, left_at=held.since)
            elif cluster_watch.node_of(old) in leaving:
                self._place_reservations.add(old, held.node)

    def _wanted(self, leaving: _Leaving) -> list[Wanted]:
        """The places to hold, highest priority first; pods without enough time leave by plan only."""
        now = self._clock.now()
        ends = {meta.name(node): departure.notice.deadline for node, departure in leaving}
        found: list[Wanted] = []
        for held in self._place_reservations.held():
            until = ends.get(cluster_watch.node_of(dict(held.document)))
            hurried = until is not None and held.left_at is None and until < now + _HURRY_S
            if not held.freed and not hurried:
                found.append(Wanted(document=held.document, node=held.node, owner=held.owner, until=until or now))
        return found

    def _due(self, leaving: _Leaving) -> tuple[list[tuple[Step, Object, str]], float]:
        """The steps that are due on all nodes, each with its pod and the successor's node; when to check next."""
        now, wake_at = self._clock.now(), math.inf
        steps, guests, pods = list[Step](), list[EvictedPod](), dict[str, Object]()
        for node, departure in leaving:
            here = {meta.uid(pod): pod for pod in self._cluster_watch.leavers(meta.name(node))}
            asked = [
                self._guests.guest(pod, reserved=uid in self._place_reservations, now=now) for uid, pod in here.items()
            ]
            plan = self._guests.plan(asked, departure.notice, now=now)
            wake_at = min(wake_at, plan.wake_at)
            steps += plan.steps
            guests += asked
            pods |= here
        steps += self._guests.overtaken(guests, steps, now=now)
        return [(step, pods[step.guest.uid], self._place_reservations.node(step.guest.uid)) for step in steps], wake_at

    def _account(self, leaving: _Leaving) -> None:
        """Report the progress of evacuations."""
        now = self._clock.now()
        self._spot_metrics.leaving.set(len(leaving))
        for node, departure in leaving:
            staying = self._cluster_watch.staying_on(meta.name(node))
            took = max(0.0, now - departure.notice.since)
            if not departure.begun and any(self._guests.is_going(meta.uid(pod), now=now) for pod in staying):
                departure.begun = True
                self._spot_metrics.first.observe(took)
            if not staying and not departure.emptied:
                departure.emptied = True
                self._spot_metrics.emptied.observe(took)
                self._event_reporter.node(
                    node, "SpotNodeEvacuated", f"its pods have left, {took:.0f} s after the notice"
                )
