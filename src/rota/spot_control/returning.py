"""Back to spot machines: now and then, a few at a time, and only where the scheduler itself would put them there today.

Every candidate is taken off a copy of the cluster, and the scheduler's plugins score all nodes for it; what a workload
says by annotations counts as an extender's score would. It goes only if the best node is a spot machine of a pool that
is quiet, and strictly better than where it is. One pod of an owner goes at a time, and none while another of its pods
is not ready; none goes before it has been somewhere for a while. A workload whose pods come back to machines that stay
all the same is tried more and more rarely: then somebody else decides, and no guess of ours is better.
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
from rota.scheduler import preemption
from rota.scheduler.explaining import pictures
from rota.scheduler.explaining.pictures import Picture
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.rebalancing import observing
from rota.scheduler.rebalancing.contract import Settings as Limits
from rota.scheduler.rebalancing.contract import Strategy
from rota.scheduler.rebalancing.protecting import Protection
from rota.spot import returning
from rota.spot.marks import Marks
from rota.spot.nodes import Reading
from rota.spot.policies import Policy
from rota.spot.returning import Pools, Settings
from rota.spot_control import marking, placing
from rota.spot_control.following import Following
from rota.spot_control.forecasting import Appeal, Forecast
from rota.spot_control.guests import policy_of
from rota.spot_control.holding import Holds, owner_of
from rota.spot_control.placing import Seeker
from rota.spot_control.telling import Teller

log = logs.get(__name__)

#: How many are asked about at a time: whoever is better off is found at the next look, too.
_MOST_ASKED: Final = 50
#: A workload is never tried more rarely than this.
_RAREST_S: Final = 24 * 3600.0

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A pod that would be better off on a spot machine."""

    document: Object
    source: str
    target: str
    why: str


@dataclass(slots=True)
class _Attempts:
    """How often a workload was sent back in vain, and when it may be tried again."""

    failures: int = 0
    not_before: float = -math.inf


class Returning:
    """Looks for pods that would go back."""

    def __init__(
        self,
        client: Client,
        frameworks: Mapping[str, Framework],
        following: Following,
        holds: Holds,
        teller: Teller,
        *,
        clock: Clock,
        marks: Marks,
        settings: Settings,
        touched: Collection[str],
        dry_run: bool,
    ) -> None:
        self._client: Final = client
        self._frameworks: Final = frameworks
        self._following: Final = following
        self._holds: Final = holds
        self._teller: Final = teller
        self._clock: Final = clock
        self._marks: Final = marks
        self._settings: Final = settings
        self._touched: Final = touched
        self._dry_run: Final = dry_run
        self._pools: Final = Pools(since=clock.now())
        self._attempts: Final[dict[str, _Attempts]] = {}
        #: Pods that were sent back, by uid, and their owners.
        self._under_way: Final[dict[str, str]] = {}
        self._look_at = clock.now() + settings.every_s
        #: Why each candidate stays, as of the last look, by namespace/name.
        self._stays: dict[str, str] = {}

    @property
    def look_at(self) -> float:
        """When to look next; infinity for never."""
        return self._look_at if self._settings.stable_s > 0 else math.inf

    def stir(self, pool: str) -> None:
        """A machine of a pool is taken away, or lost."""
        self._pools.stir(pool, now=self._clock.now())

    def arrived(self, uid: str, *, on_spot: bool) -> bool:
        """The successor of a pod has come; whether that was one that was sent back."""
        owner = self._under_way.pop(uid, "")
        if not owner:
            return False
        if on_spot:
            self._attempts.pop(owner, None)
        else:
            self._failed(owner)
        return True

    def sent(self, move: Move) -> None:
        """A pod was told to go."""
        self._under_way[meta.uid(move.document)] = owner_of(move.document)

    def refused(self, move: Move) -> None:
        """A budget, or somebody else, has kept a pod: its workload is tried again later."""
        self._failed(owner_of(move.document))

    async def look(self) -> list[Move]:
        """Those that would go back now, if it is time to look."""
        now = self._clock.now()
        if now < self.look_at:
            return []
        self._look_at = now + self._settings.every_s
        for uid in [uid for uid in self._under_way if uid not in self._holds]:
            del self._under_way[uid]  # nobody came for long
        for owner in [owner for owner in self._attempts if not self._following.of_owner(owner)]:
            del self._attempts[owner]  # it is gone: rollouts make owners again and again
        readings = {
            meta.name(node): marking.read(node, self._marks, now=now) for node in self._following.nodes.values()
        }
        if not any(reading.capacity.leaves for reading in readings.values()):
            return []
        before, self._stays = self._stays, {}
        candidates = self._candidates(readings, now)
        good = {
            meta.name(node)
            for node in self._following.nodes.values()
            if self._is_trusted(node, readings[meta.name(node)], now)
        }
        moves: list[Move] = []
        if good and candidates:
            moves = await self._tried(
                await pictures.take(self._client, self._frameworks.values()), candidates, good, readings, now
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
        if meta.name(node) in self._touched or not meta.is_condition_true(node, "Ready"):
            return False
        made = node["metadata"].get("creationTimestamp")
        young = made is not None and now < times.parse(made) + self._settings.stable_s
        return not young and self._pools.quiet_for(reading.pool, now=now) >= self._settings.stable_s

    def _candidates(self, readings: Mapping[str, Reading], now: float) -> list[tuple[Object, Policy]]:
        """One pod of each workload that wants spot machines and has pods elsewhere; the least important first."""
        found: dict[str, tuple[Object, Policy]] = {}
        awaited = self._holds.owners()
        staying = [name for name, reading in readings.items() if not reading.capacity.leaves]
        for pod in sorted((pod for name in staying for pod in self._following.leavers(name)), key=_importance):
            owner = owner_of(pod)
            if not owner:
                continue
            policy, problem = policy_of(pod)
            if problem:
                self._teller.misread(pod, problem)
                continue
            if not returning.wants(pod, policy, self._marks):
                continue
            why = self._objection(owner, awaited, now) if owner not in found else "another of its workload goes first"
            if why:
                self._stays[_key(pod)] = why
            elif len(found) < _MOST_ASKED:
                found[owner] = pod, policy
        return list(found.values())

    def _objection(self, owner: str, awaited: Collection[str], now: float) -> str:
        """What speaks against moving any pod of a workload just now; empty if nothing does."""
        if owner in awaited:
            return "another pod of its workload moves"
        attempts = self._attempts.get(owner)
        if attempts is not None and now < attempts.not_before:
            return f"its workload did not go back when tried, and is left alone for {attempts.not_before - now:.0f} s"
        if any(
            meta.is_deleting(pod) or not meta.is_condition_true(pod, "Ready")
            for pod in self._following.of_owner(owner)
            if (pod.get("status") or {}).get("phase") not in {"Succeeded", "Failed"}
        ):
            return "another pod of its workload is not ready"
        return ""

    async def _tried(
        self,
        picture: Picture,
        candidates: Sequence[tuple[Object, Policy]],
        good: Collection[str],
        readings: Mapping[str, Reading],
        now: float,
    ) -> list[Move]:
        capacities = {name: reading.capacity for name, reading in readings.items()}
        waiting = [Seeker(document=pod, policy=policy_of(pod)[0]) for pod in self._following.waiting()]
        # whoever waits for a node comes first
        for _ in placing.places(
            picture,
            self._frameworks,
            leaving=frozenset(self._touched),
            given=list(self._holds),
            seekers=waiting,
            capacities=capacities,
        ):
            await asyncio.sleep(0)  # whoever runs this has other things to do
        facts = {meta.uid(pod): observing.facts(pod, now=now) for pod, _ in candidates}
        limits = Limits(
            youngest_s=self._settings.cooldown_s,
            most_at_once=self._settings.most_at_once,
            most_per_node=self._settings.most_at_once,
            most_per_namespace=self._settings.most_at_once,
        )
        protection = Protection(limits, facts, preemption.budgets(picture.cluster.catalog))
        forecast = Forecast(
            picture,
            self._frameworks,
            capacities=capacities,
            good=good,
            appeal=Appeal(self._following.nodes.values(), readings, weight=self._settings.weight),
        )
        moves: list[Move] = []
        for pod, policy in candidates:
            await asyncio.sleep(0)
            known = picture.cluster.pods.get(meta.uid(pod))
            if known is None or known.node_name not in picture.cluster.by_name:
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
