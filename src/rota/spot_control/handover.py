"""Releases a reserved place to the successor of an evicted pod, ahead of other pending pods.

While no other pod is pending, the placeholder is deleted when the old pod is evicted (for a StatefulSet, when it is
gone, because its successor is created only then), and the successor finds the place free. If other pods are pending,
the placeholder stays until the successor's scheduler has reported that it found no node. Then the successor is
nominated to the node, which keeps out pods of no higher priority, and the placeholder is deleted. Both writes are of
pods, so that no watcher sees them in the other order. A scheduler that is in the middle of an attempt clears the
nomination at its end; therefore the nomination must stand for a moment, and is written again if it has been cleared.

While pods of lower priority run, a place is not held that long: the successor would preempt one of them, which is worse
than losing the place.
"""

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.api import errors, meta, times
from rota.api.errors import ApiError
from rota.client.pods import PODS
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object
from rota.kit import logs
from rota.kit.clock import Clock
from rota.spot_control.cluster_watch import ClusterWatch, node_of
from rota.spot_control.placeholder_pods import PlaceholderPods
from rota.spot_control.reservations import PlaceReservations, ReservedPlace, owner_of

log = logs.get(__name__)

_TIMEOUT_S: Final = 10.0
#: After this time without a report, the scheduler will not report that it found no node.
_PATIENCE_S: Final = 2.0
#: A nomination that stands for this long was not written during a scheduling attempt.
_STANDS_S: Final = 0.4
#: After this many lost nominations the place is released anyway.
_AT_MOST_S: Final = 6.0
#: Owner kinds whose pods keep their names: a new pod is created only after the old one is gone.
_SAME_NAMES: Final = frozenset({"StatefulSet"})

Document = Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class _Seen:
    """A pending successor whose place is held."""

    first_at: float
    #: When it was last nominated.
    told_at: float | None = None

    def should_be_told(self, pod: Object, *, now: float) -> bool:
        """Whether its scheduler found no node, and it has no nomination, or lost it."""
        if self.told_at is None:
            return _was_refused(pod) or now >= self.first_at + _PATIENCE_S
        return now >= self.told_at + _STANDS_S and not _nomination(pod)

    def may_have_it(self, pod: Object, node: str, *, now: float) -> bool:
        """Whether it will get the place when that is released."""
        if self.told_at is None:
            return False
        stands = now >= self.told_at + _STANDS_S and _nomination(pod) == node
        return stands or now >= self.first_at + _AT_MOST_S

    def look_at(self, *, now: float) -> float:
        """When to check again."""
        return max(now, self.first_at + _PATIENCE_S if self.told_at is None else self.told_at + _STANDS_S)


class Handover:
    """Finds successors, and releases the places that are held for them."""

    def __init__(
        self,
        client: Client,
        cluster_watch: ClusterWatch,
        place_reservations: PlaceReservations,
        reservations: PlaceholderPods,
        *,
        clock: Clock,
        dry_run: bool,
    ) -> None:
        self._client: Final = client.with_settings(timeout_s=_TIMEOUT_S, retry=False)
        self._cluster_watch: Final = cluster_watch
        self._place_reservations: Final = place_reservations
        self._reservations: Final = reservations
        self._clock: Final = clock
        self._dry_run: Final = dry_run
        #: Pending successors whose places are held, by uid.
        self._seen: dict[str, _Seen] = {}

    async def hand_over(self) -> float:
        """Nominate successors that exist, and release places that need not be held any more; when to check next."""
        now, wake_at, seen = self._clock.now(), math.inf, dict[str, _Seen]()
        held = [one for one in self._place_reservations.held() if one.left_at is not None]
        contended = bool(held) and self._somebody_else_waits()
        taken = {one.successor for one in held if one.successor}
        telling: list[tuple[ReservedPlace, Object, _Seen | None]] = []
        for one in held:
            if one.successor:
                continue
            successor = self._successor(one, taken)
            freed = one.freed or self._must_be_free(one.document, contended=contended)
            if successor is None:
                if freed:
                    self._place_reservations.free(meta.uid(one.document))
                continue
            uid = meta.uid(successor)
            taken.add(uid)
            known = self._seen.get(uid) or _Seen(first_at=now)
            if freed:
                telling.append((one, successor, None))
            elif known.may_have_it(successor, one.node, now=now):
                self._place_reservations.free(meta.uid(one.document), successor=uid)
            else:
                seen[uid] = known
                if known.should_be_told(successor, now=now):
                    telling.append((one, successor, known))
                wake_at = min(wake_at, known.look_at(now=now))
        self._seen = seen
        told = await asyncio.gather(*(self._nominate(successor, one.node) for one, successor, _ in telling))
        for (one, successor, held_back), done in zip(telling, told, strict=True):
            if held_back is not None:
                held_back.told_at = self._clock.now()
                wake_at = min(wake_at, held_back.told_at + _STANDS_S)
            elif done:
                self._place_reservations.free(meta.uid(one.document), successor=meta.uid(successor))
        await self._reservations.give_back(
            [meta.uid(one.document) for one in self._place_reservations.held() if one.freed]
        )
        return wake_at

    def _successor(self, held: ReservedPlace, taken: set[str]) -> Object | None:
        """The first pending pod of the owner that was created after the eviction of the old one."""
        began = math.floor(held.left_at or 0.0)  # timestamps in the API have whole seconds
        come = [
            pod
            for pod in self._cluster_watch.of_owner(held.owner)
            if not node_of(pod)
            and not meta.is_deleting(pod)
            and not (pod.get("spec") or {}).get("schedulingGates")
            and meta.uid(pod) not in taken
            and times.parse(pod["metadata"]["creationTimestamp"]) >= began
        ]
        return min(come, key=lambda pod: (pod["metadata"]["creationTimestamp"], meta.uid(pod)), default=None)

    def _somebody_else_waits(self) -> bool:
        """Whether pods are pending that are not successors of evicted pods."""
        expected = self._place_reservations.expected()
        for pod in self._cluster_watch.waiting():
            owner = owner_of(pod)
            if expected[owner] <= 0:
                return True
            expected[owner] -= 1
        return False

    def _must_be_free(self, pod: Document, *, contended: bool) -> bool:
        """Whether a successor should find its place free at its first scheduling attempt."""
        spec = pod.get("spec") or {}
        preempts = spec.get("preemptionPolicy") != "Never" and self._cluster_watch.somebody_is_below(
            spec.get("priority") or 0
        )
        if contended and not preempts:
            return False
        owner = meta.controller_of(pod)
        return (owner or {}).get("kind") not in _SAME_NAMES or self._cluster_watch.same(pod) is None

    async def _nominate(self, pod: Object, node: str) -> bool:
        if _nomination(pod):
            return True  # it has a nominated node already
        patch = {"metadata": {"uid": meta.uid(pod)}, "status": {"nominatedNodeName": node}}
        name, namespace = meta.name(pod), meta.namespace(pod)
        try:
            await self._client.patch(
                PODS, name, patch, namespace=namespace, subresource="status", dry_run=self._dry_run
            )
        except (errors.NotFound, errors.Conflict):
            return False
        except (ApiError, TransportError) as problem:
            # without the nomination it may still get there, but not while the place is held
            log.warning("pod not nominated to its reserved node", pod=f"{namespace}/{name}", node=node, error=problem)
        return True


def _nomination(pod: Object) -> str:
    return (pod.get("status") or {}).get("nominatedNodeName") or ""


def _was_refused(pod: Object) -> bool:
    """Whether a scheduler has reported that it found no node."""
    scheduled = meta.condition(pod, "PodScheduled")
    return scheduled is not None and scheduled.get("status") == "False"
