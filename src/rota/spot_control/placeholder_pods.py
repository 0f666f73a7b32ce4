"""The places that are held in the cluster itself, so that nobody else takes them before the successors come.

Each is a pod that runs nothing (`rota.spot.reservations`). These pods are the truth: a controller that starts finds the
places of the last one by them. A place is only ever taken where there is room, at most so many at once, and given back
as soon as nobody waits for it. Where places may not be made, pods leave by plan alone, and that is told once.
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

#: Places that are held at once. Beyond that pods leave by plan: a mass reclaim has no time for so many more requests.
MOST: Final = 500
#: What was made or taken away is shown by then, or it was not.
_SHOWN_S: Final = 30.0
#: Whoever may make no places asks again after this,
_REFUSED_S: Final = 60.0
#: and after this where a server is away or has too much to do: a machine that goes does not wait.
_AGAIN_S: Final = 2.0
#: How long a place outlives the machine that is left, if nobody takes it away.
_LINGERS_S: Final = 180.0
_AT_ONCE: Final = 32
_TIMEOUT_S: Final = 10.0

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A place that should be held."""

    #: The pod that leaves.
    document: Document
    node: str
    owner: str
    #: When the machine that it leaves ends.
    until: float


@dataclass(slots=True, kw_only=True)
class _Place:
    node: str
    #: When it was asked for; and given back, if it was.
    asked_at: float
    returned_at: float | None = None
    #: As the cluster shows it.
    shown: Document | None = None


class PlaceholderPods:
    """All places that are held, by the uids of the pods that leave."""

    def __init__(self, client: Client, figures: SpotMetrics, *, clock: Clock, namespace: str, dry_run: bool) -> None:
        self._client: Final = client.with_settings(timeout_s=_TIMEOUT_S, retry=False)
        self._figures: Final = figures
        self._clock: Final = clock
        self._namespace: Final = namespace
        self._dry_run: Final = dry_run
        self._places: Final[dict[str, _Place]] = {}
        #: Places that others have taken, or that never were.
        self._lost: Final[set[str]] = set()
        self._turns: Final = asyncio.Semaphore(_AT_ONCE)
        self._refused_until = 0.0
        self._told = ""

    def changed(self, pod: Document, *, gone: bool) -> None:
        """A pod that holds a place was made, has changed, or is gone."""
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
        """The pods that hold places and have not been given back."""
        return [place.shown for place in self._places.values() if place.shown is not None and place.returned_at is None]

    def lost(self) -> list[str]:
        """The places that are held no more, though nobody gave them back; told once."""
        found = sorted(self._lost)
        self._lost.clear()
        if found:
            self._figures.reservations.labels("lost").inc(len(found))
        return found

    async def keep(self, wanted: Sequence[Wanted]) -> float:
        """Hold these places, the first of them if they are too many, and give back all others; when to ask again."""
        now = self._clock.now()
        for uid, place in list(self._places.items()):
            if place.shown is None and now >= place.asked_at + _SHOWN_S and not self._dry_run:
                del self._places[uid]  # it never came to be
        first = {meta.uid(one.document): one for one in wanted[:MOST]}
        others = [
            uid
            for uid, place in self._places.items()
            if uid not in first or first[uid].node != place.node or _is_over(place)
        ]
        await asyncio.gather(*(self._give_back(uid) for uid in others))
        if now >= self._refused_until:
            await asyncio.gather(*(self._make(one) for uid, one in first.items() if uid not in self._places))
        self._figures.reserved.set(sum(place.returned_at is None for place in self._places.values()))
        return self._refused_until if any(uid not in self._places for uid in first) else math.inf

    async def give_back(self, uids: Iterable[str]) -> None:
        """These places are free."""
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
                return  # made before, and shown soon
            except errors.Conflict:
                # a server that checks what fits says that it does not, any more
                self._places.pop(uid, None)
                self._lost.add(uid)
                return
            except (ApiError, TransportError) as problem:
                self._places.pop(uid, None)
                forbidden = isinstance(problem, (errors.Forbidden, errors.NotFound))
                self._refused_until = now + (_REFUSED_S if forbidden else _AGAIN_S)
                self._figures.reservations.labels("refused").inc()
                if str(problem) != self._told:
                    self._told = str(problem)
                    log.warning("places are planned, but cannot be held", namespace=self._namespace, error=problem)
                return
        self._figures.reservations.labels("made").inc()

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
                log.warning("a place could not be given back", place=reservations.name_for(uid), error=problem)
                place.returned_at = now - _SHOWN_S + 1.0
                return
        if self._dry_run:
            self._places.pop(uid, None)
        if not again:
            self._figures.reservations.labels("given_back").inc()


def _is_over(place: _Place) -> bool:
    return place.shown is not None and reservations.read(place.shown).over
