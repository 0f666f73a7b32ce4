"""The controller that leaves spot machines in time: hears notices, marks nodes, finds places, tells pods to go.

All notices are worked on together, in one round after the other, so that no place is given twice and the most
important pods of all nodes go first; there is no number of notices that is too many. What was done is read from the
objects again: a round after a restart goes on where the last one ended. Only a leader should run it.
"""

import asyncio
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from rota.api import meta
from rota.client.informers.cache import Key, by_node, by_owner
from rota.client.pods import PODS
from rota.client.verbs import Client, Object
from rota.controllers.reconciling import Reconciler
from rota.kit import logs
from rota.kit.backoff import Chance
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics
from rota.scheduler.explaining import pictures
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.loading import Loaded
from rota.spot import evacuation
from rota.spot.evacuation import Guest, Step
from rota.spot.marks import Marks
from rota.spot.nodes import Notice
from rota.spot_control import losses, marking, placing
from rota.spot_control.acting import NODES, Hands
from rota.spot_control.figures import Figures
from rota.spot_control.guests import Guests, policy_of
from rota.spot_control.holding import Holds, owner_of
from rota.spot_control.losses import Losses
from rota.spot_control.placing import Seeker
from rota.spot_control.telling import Teller

log = logs.get(__name__)

#: How long a notice must have been away before a node is used again.
CALM_S: Final = 60.0
#: Who has found no place looks again after this, or when another notice comes.
_LOOK_AGAIN_S: Final = 5.0
#: What failed for a reason that may pass is tried again after this.
_AGAIN_S: Final = 1.0
#: What was written on a node has come back to us by then, or somebody has taken it off.
_SHOWN_S: Final = 30.0
#: Rounds do not follow each other closer.
_BREATH_S: Final = 0.01
#: Places that are looked for without a pause.
_AT_A_TIME: Final = 50
_ROUND: Final = "round"
_BY_NODE: Final = "node"
_BY_OWNER: Final = "owner"
#: No node has such a name.
_NOWHERE: Final = ""


@dataclass(slots=True)
class _Departure:
    """One machine that goes."""

    notice: Notice
    #: Whether the node says so.
    marked: bool
    #: Whether somebody was told to go.
    begun: bool
    emptied: bool = False
    marked_at: float = -math.inf


class SpotController:
    """Leaves the spot machines of one cluster, by the marks of a table and the profiles of a scheduler."""

    def __init__(
        self,
        client: Client,
        loaded: Loaded,
        *,
        clock: Clock,
        chance: Chance,
        marks: Marks | None = None,
        metrics: Metrics | None = None,
        dry_run: bool = False,
    ) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._marks: Final = marks or Marks()
        self._dry_run: Final = dry_run
        self.metrics: Final = metrics or Metrics("spot")
        self._figures: Final = Figures(self.metrics)
        self._frameworks: Final = {
            name: Framework(profile, loaded.registry) for name, profile in loaded.configuration.profiles.items()
        }
        self._frame: Final = Reconciler[str](
            client, "spot", self._round, clock=clock, chance=chance, workers=1, metrics=self.metrics
        )
        self._teller: Final = Teller(None if dry_run else self._frame.report_as("rota-spot-controller"))
        self._guests: Final = Guests(dry_run=dry_run)
        self._holds: Final = Holds()
        self._hands: Final = Hands(client, self._guests, self._teller, self._figures, clock=clock, dry_run=dry_run)
        self._losses: Final = Losses(self._teller, self._figures)
        #: Nodes with a notice or with our taint, by name.
        self._touched: Final[set[str]] = set()
        #: By the uids of nodes: a new machine under an old name is another one.
        self._departures: Final[dict[str, _Departure]] = {}
        self._misread: Final[set[str]] = set()
        self._looked_for: frozenset[str] = frozenset()
        self._looked_at = -math.inf
        self._nodes: Final = self._frame.follow(NODES, self._node_changed)
        self._pods: Final = self._frame.follow(
            PODS, self._pod_changed, indexers={_BY_NODE: _by_place, _BY_OWNER: by_owner}
        )

    async def run(self) -> None:
        """Heed notices until cancelled."""
        await self._frame.run()

    # --- what is heard ----------------------------------------------------------------------------------------------

    def _node_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        now = self._clock.now()
        if old is not None and (new is None or meta.uid(new) != meta.uid(old)):
            self._node_gone(old, now)
            old = None
        if new is None:
            return
        reading = marking.read(new, self._marks, now=now)
        self._losses.watch(old, new, reading, self._staying_on(key.name))
        if reading.notice is not None or marking.since(new) is not None:
            self._touched.add(key.name)
        elif key.name in self._touched and meta.uid(new) not in self._departures:
            self._touched.discard(key.name)
            return
        if key.name in self._touched:
            self._frame.queue.add(_ROUND)

    def _node_gone(self, node: Object, now: float) -> None:
        departure = self._departures.pop(meta.uid(node), None)
        reading = marking.read(node, self._marks, now=now)
        noticed = departure is not None or reading.notice is not None
        self._losses.gone(node, reading, self._staying_on(meta.name(node)), noticed=noticed)
        self._touched.discard(meta.name(node))
        self._frame.queue.add(_ROUND)

    def _pod_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None and old is not None:
            self._guests.forget(meta.uid(old))
            self._holds.forget(meta.uid(old))
            self._misread.discard(meta.uid(old))
        node = _node_of(new if new is not None else old)
        if node in self._touched or len(self._holds):
            self._frame.queue.add(_ROUND)

    def _staying_on(self, name: str) -> list[Object]:
        """The pods on a node that are not to be left alone, told to go or not."""
        return [pod for pod in self._pods.cache.indexed(_BY_NODE, name) if losses.counts(pod)]

    # --- a round ----------------------------------------------------------------------------------------------------

    async def _round(self, _: str) -> float | None:
        wake_at = await self._mark_all()
        now = self._clock.now()
        leaving = self._leaving()
        waited = self._holds.settle(
            now=now,
            there=self._is_there,
            usable=lambda name: name not in self._touched and self._nodes.cache.get(name) is not None,
            of_owner=lambda owner: self._pods.cache.indexed(_BY_OWNER, owner),
            leaving=self._touched,
        )
        for seconds in waited:
            self._figures.arrival.observe(seconds)
        wake_at = min(wake_at, await self._find_places(leaving))
        await self._hands.do(self._due(leaving)[0])
        self._account(leaving)
        again, due_at = self._due(self._leaving())
        wake_at = min(wake_at, due_at, self._clock.now() if again else math.inf)
        if wake_at == math.inf:
            return None
        return max(wake_at - self._clock.now(), _BREATH_S)

    async def _mark_all(self) -> float:
        """Make every touched node show what holds for it; when to look again."""
        found = [node for name in sorted(self._touched) if (node := self._nodes.cache.get(name)) is not None]
        return min(await asyncio.gather(*(self._mark(node) for node in found)), default=math.inf)

    async def _mark(self, node: Object) -> float:
        now, uid = self._clock.now(), meta.uid(node)
        notice = marking.read(node, self._marks, now=now).notice
        known = self._departures.get(uid)
        if notice is None:
            return await self._withdraw(node, now)
        if known is None or known.notice.mark != notice.mark:
            marked = marking.handled(node) == notice.mark
            known = self._departures[uid] = _Departure(notice, marked=marked, begun=marked)
            # who was done before a restart is not done again
            known.emptied = marked and not self._staying_on(meta.name(node))
        else:
            # a deadline is only ever made tighter
            known.notice = replace(
                notice,
                since=min(notice.since, known.notice.since),
                deadline=min(notice.deadline, known.notice.deadline),
            )
        if known.marked:
            return math.inf
        if not await self._hands.patch(node, lambda fresh: marking.leaves(fresh, notice)):
            return now + _AGAIN_S
        done = self._clock.now()
        known.marked, known.marked_at = True, done
        self._figures.notices.labels(notice.provider, notice.mark).inc()
        self._figures.lead.observe(notice.left(now))
        self._figures.marked.observe(max(0.0, done - notice.since))
        told = f"goes in {notice.left(now):.0f} s ({notice.mark}); its pods leave"
        self._teller.node(node, "SpotNotice", told)
        return math.inf

    async def _withdraw(self, node: Object, now: float) -> float:
        known, since = self._departures.pop(meta.uid(node), None), marking.since(node)
        if known is not None:
            for pod in self._pods.cache.indexed(_BY_NODE, meta.name(node)):
                if not self._guests.is_going(meta.uid(pod), now=now):
                    self._holds.drop(meta.uid(pod))
                    self._guests.forget(meta.uid(pod))
        if since is None:
            if known is None or self._dry_run or now >= known.marked_at + _SHOWN_S:
                self._touched.discard(meta.name(node))
                return math.inf
            self._departures[meta.uid(node)] = known  # our own mark has not come back to us yet
            return now + _AGAIN_S
        if marking.handled(node):
            if await self._hands.patch(node, self._calming):
                self._figures.withdrawn.inc()
                self._teller.node(
                    node, "SpotNoticeWithdrawn", f"stays after all, if no notice comes for {CALM_S:.0f} s"
                )
            return now + _AGAIN_S
        if now < since + CALM_S:
            return since + CALM_S
        if await self._hands.patch(node, marking.stays):
            self._teller.node(node, "SpotNodeStays", "takes pods and traffic again: its notice was withdrawn")
        return now + _AGAIN_S

    def _calming(self, node: Mapping[str, Any]) -> dict[str, Any] | None:
        now = self._clock.now()
        back = marking.read(node, self._marks, now=now).notice is not None
        return None if back else marking.calms(node, now=now)

    def _leaving(self) -> list[tuple[Object, _Departure]]:
        found = []
        for name in sorted(self._touched):
            node = self._nodes.cache.get(name)
            departure = self._departures.get(meta.uid(node)) if node is not None else None
            if node is not None and departure is not None:
                found.append((node, departure))
        return found

    def _leavers(self, node: Object) -> list[Object]:
        return [pod for pod in self._pods.cache.indexed(_BY_NODE, meta.name(node)) if evacuation.must_leave(pod)]

    def _is_there(self, pod: Mapping[str, Any]) -> bool:
        known = self._pods.cache.get(meta.name(pod), meta.namespace(pod))
        if known is None or meta.uid(known) != meta.uid(pod) or meta.is_deleting(known):
            return False
        return not self._guests.is_going(meta.uid(pod), now=self._clock.now())

    async def _find_places(self, leaving: list[tuple[Object, _Departure]]) -> float:
        """Look where the successors of those that leave would go; when to look again."""
        now = self._clock.now()
        seekers: dict[str, tuple[Guest, Seeker]] = {}
        for node, _ in leaving:
            for pod in self._leavers(node):
                uid = meta.uid(pod)
                policy, problem = policy_of(pod)
                if problem and uid not in self._misread:
                    self._misread.add(uid)
                    self._teller.pod(pod, "SpotPolicyUnusable", problem, warning=True)
                # nobody makes another of a pod without an owner: it runs as long as it can
                if uid not in self._holds and owner_of(pod) and not self._guests.is_going(uid, now=now):
                    seekers[uid] = self._guests.guest(pod, reserved=False, now=now), Seeker(document=pod, policy=policy)
        urgent = [Seeker(document=pod, policy=policy_of(pod)[0]) for pod in self._holds.homeless()]
        wanted = frozenset(seekers).union(meta.uid(one.document) for one in urgent)
        if wanted and (not wanted <= self._looked_for or now >= self._looked_at + _LOOK_AGAIN_S):
            try:
                await self._look(urgent, list(seekers.values()))
            except Exception as problem:  # noqa: BLE001 - whatever is wrong with plans, pods leave in time
                log.warning("places could not be looked for", error=problem)
                return now + _AGAIN_S
            self._looked_for, self._looked_at = wanted, now
        missing = sum(not self._holds.node(uid) for uid in wanted)
        self._figures.placeless.set(missing)
        self._figures.held.set(len(self._holds))
        return self._looked_at + _LOOK_AGAIN_S if missing else math.inf

    async def _look(self, urgent: list[Seeker], leavers: list[tuple[Guest, Seeker]]) -> None:
        picture = await pictures.take(self._client)
        seekers = [*urgent, *_by_importance([*self._waiting(), *leavers])]
        leaving = {meta.uid(one.document) for one in (*urgent, *(seeker for _, seeker in leavers))}
        now = self._clock.now()
        search = placing.places(
            picture,
            self._frameworks,
            leaving=frozenset(self._touched),
            given=list(self._holds),
            seekers=seekers,
            capacities={
                meta.name(node): marking.read(node, self._marks, now=now).capacity
                for node in self._nodes.cache.values()
            },
        )
        found: dict[str, str] = {}
        for count, (uid, node) in enumerate(search, start=1):
            found[uid] = node
            if not count % _AT_A_TIME:
                await asyncio.sleep(0)  # a lease has to be renewed, and watches go on
        for seeker in seekers:
            uid = meta.uid(seeker.document)
            if uid in leaving and found[uid]:
                self._holds.add(seeker.document, found[uid])

    def _waiting(self) -> list[tuple[Guest, Seeker]]:
        """Pods without a node that no place is held for: they will take places, whoever they are.

        Among them are the successors of those that another controller told to go, before this one was started.
        """
        now, found, expected = self._clock.now(), list[tuple[Guest, Seeker]](), self._holds.expected()
        for pod in self._pods.cache.indexed(_BY_NODE, _NOWHERE):
            owner = owner_of(pod)
            if expected[owner] > 0:
                expected[owner] -= 1
            else:
                seeker = Seeker(document=pod, policy=policy_of(pod)[0])
                found.append((self._guests.guest(pod, reserved=False, now=now), seeker))
        return found

    def _due(self, leaving: list[tuple[Object, _Departure]]) -> tuple[list[tuple[Step, Object, str]], float]:
        """The steps that are due on all nodes, each with its pod and the place of the successor; when to look again."""
        now, steps, wake_at = self._clock.now(), list[tuple[Step, Object, str]](), math.inf
        for node, departure in leaving:
            pods = {meta.uid(pod): pod for pod in self._leavers(node)}
            guests = [self._guests.guest(pod, reserved=uid in self._holds, now=now) for uid, pod in pods.items()]
            plan = self._guests.plan(guests, departure.notice, now=now)
            wake_at = min(wake_at, plan.wake_at)
            steps += [(step, pods[step.guest.uid], self._holds.node(step.guest.uid)) for step in plan.steps]
        return steps, wake_at

    def _account(self, leaving: list[tuple[Object, _Departure]]) -> None:
        """Say how far the evacuations are."""
        now = self._clock.now()
        self._figures.leaving.set(len(leaving))
        for node, departure in leaving:
            staying, took = self._staying_on(meta.name(node)), max(0.0, now - departure.notice.since)
            if not departure.begun and any(self._guests.is_going(meta.uid(pod), now=now) for pod in staying):
                departure.begun = True
                self._figures.first.observe(took)
            if not staying and not departure.emptied:
                departure.emptied = True
                self._figures.emptied.observe(took)
                self._teller.node(node, "SpotNodeEvacuated", f"its pods have left, {took:.0f} s after the notice")


def _by_place(pod: Object) -> Iterable[str]:
    """File a pod under its node, and one that waits for a node under none; those that never will, nowhere."""
    spec = pod.get("spec") or {}
    waits = not spec.get("nodeName") and not spec.get("schedulingGates") and evacuation.must_leave(pod)
    return (_NOWHERE,) if waits else by_node(pod)


def _by_importance(seekers: Iterable[tuple[Guest, Seeker]]) -> list[Seeker]:
    ordered = sorted(seekers, key=lambda one: (-one[0].priority, -one[0].grace_s, one[0].key))
    return [seeker for _, seeker in ordered]


def _node_of(pod: Object | None) -> str:
    return ((pod or {}).get("spec") or {}).get("nodeName") or ""
