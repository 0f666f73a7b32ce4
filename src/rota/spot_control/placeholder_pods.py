"""Placeholder pods: they hold places on nodes until the successors of evicted pods arrive.

A placeholder runs nothing (`rota.spot.reservations`). The pods are the record: a restarted controller finds the places
of the former one by them. A place is held only where resources are free, up to a limit, and released as soon as no
successor needs it. Where placeholders cannot be created, pods leave by plan only, and that is reported once.
"""

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rota.api import errors, meta
from rota.api.errors import ApiError
from rota.client.pods import PODS
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client
from rota.kit import logs
from rota.kit.clock import Clock
from rota.spot import reservations
from rota.spot_control.spot_metrics import SpotMetrics

log = logs.get(__name__)

#: Places that are held at once. Further pods leave by plan only: a mass reclaim leaves no time for more requests.
MOST: Final = 500
#: After this time the watch has shown a creation or deletion; otherwise it did not happen.
_SHOWN_S: Final = 30.0
#: Retry interval if the controller is not permitted to create placeholders,
_REFUSED_S: Final = 60.0
#: and if the server is unavailable or overloaded: a deadline does not wait.
_AGAIN_S: Final = 2.0
#: How long a placeholder outlives the machine that is left, if no controller deletes it.
_LINGERS_S: Final = 180.0
_AT_ONCE: Final = 32
_TIMEOUT_S: Final = 10.0

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A place to hold."""

    #: The pod that leaves.
    document: Document
    node: str
    owner: str
    #: When the machine that it leaves ends.
    until: float


@dataclass(slots=True, kw_only=True)
class _Place:
    node: str
    #: When it was created, and when it was released, if it was.
    asked_at: float
    returned_at: float | None = None
    #: Its state in the cluster.
    shown: Document | None = None


class PlaceholderPods:
    """All held places, by the uid of the pod that leaves."""

    def __init__(self, client: Client, metrics: SpotMetrics, *, clock: Clock, namespace: str, dry_run: bool) -> None:
        self._client: Final = client.with_settings(timeout_s=_TIMEOUT_S, retry=False)
        self._metrics: Final = metrics
        self._clock: Final = clock
        self._namespace: Final = namespace
        self._dry_run: Final = dry_run
        self._places: Final[dict[str, _Place]] = {}
        #: Places that other pods have taken, or whose creation failed.
        self._lost: Final[set[str]] = set()
        self._turns: Final = asyncio.Semaphore(_AT_ONCE)
        self._refused_until = 0.0
        self._told = ""

    def changed(self, pod: Document, *, gone: bool) -> None:
        """A placeholder was added, updated or deleted."""
        held = reservations.read(pod)
        known = self._places.get(held.leaver)
        if gone:
            if known is not None and (known.shown is None or meta.uid(known.shown) == held.uid):
                del self._places[held.leaver]
                if known.returned_at is None:
                    self._lost.add(held.leaver)
            return
        if known is None:
            known = self._places[held.leaver] = _Place(node=held.node, asked_at=self._clock.now())
        known.shown, known.node = pod, held.node
        if held.over and known.returned_at is None:
            self._lost.add(held.leaver)

    def shown(self) -> list[Document]:
        """The placeholders that exist and were not released."""
        return [place.shown for place in self._places.values() if place.shown is not None and place.returned_at is None]

    def lost(self) -> list[str]:
        """The places that were lost without being released; reported once."""
        found = sorted(self._lost)
        self._lost.clear()
        if found:
            self._metrics.reservations.labels("lost").inc(len(found))
        return found

    async def keep(self, wanted: Sequence[Wanted]) -> float:
        """Hold these places, up to the limit, and release all others; when to try next."""
        now = self._clock.now()
        for uid, place in list(self._places.items()):
            if place.shown is None and now >= place.asked_at + _SHOWN_S and not self._dry_run:
                del self._places[uid]  # it was not created
        first = {meta.uid(one.document): one for one in wanted[:MOST]}
        others = [
            uid
            for uid, place in self._places.items()
            if uid not in first or first[uid].node != place.node or _is_over(place)
        ]
        await asyncio.gather(*(self._give_back(uid) for uid in others))
        if now >= self._refused_until:
            await asyncio.gather(*(self._make(one) for uid, one in first.items() if uid not in self._places))
        self._metrics.reserved.set(sum(place.returned_at is None for place in self._places.values()))
        return self._refused_until if any(uid not in self._places for uid in first) else math.inf

    async def give_back(self, uids: Iterable[str]) -> None:
        """Release these places."""
        await asyncio.gather(*(self._give_back(uid) for uid in uids))

    async def _make(self, one: Wanted) -> None:
        uid, now = meta.uid(one.document), self._clock.now()
        async with self._turns:
            if now < self._refused_until:
                return
            body = reservations.manifest(
                one.document,
                node=one.node,
                owner=one.owner,
                namespace=self._namespace,
                lasts_s=max(0.0, one.until - now) + _LINGERS_S,
            )
            self._places[uid] = _Place(node=one.node, asked_at=now)
            try:
                await self._client.create(PODS, body, namespace=self._namespace, dry_run=self._dry_run)
            except errors.AlreadyExists:
                return  # created before; the watch will show it
            except errors.Conflict:
                # a server that checks resources refuses it: the place is no longer free
                self._places.pop(uid, None)
                self._lost.add(uid)
                return
            except (ApiError, TransportError) as problem:
                self._places.pop(uid, None)
                forbidden = isinstance(problem, (errors.Forbidden, errors.NotFound))
                self._refused_until = now + (_REFUSED_S if forbidden else _AGAIN_S)
                self._metrics.reservations.labels("refused").inc()
                if str(problem) != self._told:
                    self._told = str(problem)
                    log.warning("placeholder pods cannot be created", namespace=self._namespace, error=problem)
                return
        self._metrics.reservations.labels("made").inc()

    async def _give_back(self, uid: str) -> None:
        place, now = self._places.get(uid), self._clock.now()
        if place is None or (place.returned_at is not None and now < place.returned_at + _SHOWN_S):
            return
        again, place.returned_at = place.returned_at is not None, now
        own = "" if place.shown is None else meta.uid(place.shown)
        async with self._turns:
            try:
                await self._client.delete(
                    PODS,
                    reservations.name_for(uid),
                    namespace=self._namespace if place.shown is None else meta.namespace(place.shown),
                    grace_period_s=0,
                    dry_run=self._dry_run,
                    uid=own,
                )
            except (errors.NotFound, errors.Conflict):
                self._places.pop(uid, None)
            except (ApiError, TransportError) as problem:
                log.warning("placeholder pod not deleted", place=reservations.name_for(uid), error=problem)
                place.returned_at = now - _SHOWN_S + 1.0
                return
        if self._dry_run:
            self._places.pop(uid, None)
        if not again:
            self._metrics.reservations.labels("given_back").inc()


def _is_over(place: _Place) -> bool:
    return place.shown is not None and reservations.read(place.shown).over
