"""Handing places over: the successor is told of its place, and then what holds the place goes.

The successor is nominated to the node, which keeps off all that are no more important than it, in any scheduler; the
nomination comes before the place is freed, and both are of one kind, so that nobody hears of them the other way round.
It is told only after its scheduler has looked for a place and found none: a scheduler that is in the middle of that
takes every nomination back when it ends. Where there is room elsewhere, a successor needs no word.

There is one case in which that would be too late. A successor that is looked at while its place is still held finds
none, and where less important pods run, it would have one of those preempted. No place is worth that: there the place
is freed as soon as the old pod is told to go (a StatefulSet's, when it is gone, since its successor comes only then).
"""

import asyncio
import math
from collections.abc import Mapping
from typing import Any, Final

from rota.api import errors, meta, times
from rota.api.errors import ApiError
from rota.client.pods import PODS
from rota.client.transports.contract import TransportError
from rota.client.verbs import Client, Object
from rota.kit import logs
from rota.kit.clock import Clock
from rota.spot_control.following import Following, node_of
from rota.spot_control.holding import Held, Holds
from rota.spot_control.reserving import Reservations

log = logs.get(__name__)

_TIMEOUT_S: Final = 10.0
#: A scheduler that has not said by then that it found nothing never will.
_PATIENCE_S: Final = 2.0
#: Whose pods have names that come again: there is no new one before the old one is gone.
_SAME_NAMES: Final = frozenset({"StatefulSet"})

Document = Mapping[str, Any]


class Handing:
    """Looks out for successors, and gives them what was held for them."""

    def __init__(
        self,
        client: Client,
        following: Following,
        holds: Holds,
        reservations: Reservations,
        *,
        clock: Clock,
        dry_run: bool,
    ) -> None:
        self._client: Final = client.with_settings(timeout_s=_TIMEOUT_S, retry=False)
        self._following: Final = following
        self._holds: Final = holds
        self._reservations: Final = reservations
        self._clock: Final = clock
        self._dry_run: Final = dry_run
        #: When each successor that waits was first seen, by uid.
        self._seen: dict[str, float] = {}

    async def hand_over(self) -> float:
        """Nominate those that have come, and free what need not be held any more; when to look again."""
        now, wake_at, seen = self._clock.now(), math.inf, dict[str, float]()
        held = [one for one in self._holds.held() if one.left_at is not None]
        taken = {one.successor for one in held if one.successor}
        pairs: list[tuple[Held, Object]] = []
        for one in held:
            if one.successor:
                continue
            successor = self._successor(one, taken)
            if successor is not None:
                uid = meta.uid(successor)
                taken.add(uid)
                told_at = self._seen.get(uid, now) + _PATIENCE_S
                if one.freed or now >= told_at or _was_refused(successor):
                    pairs.append((one, successor))
                else:
                    seen[uid] = told_at - _PATIENCE_S
                    wake_at = min(wake_at, told_at)
            elif not one.freed and self._must_be_free(one.document):
                self._holds.free(meta.uid(one.document))
        self._seen = seen
        told = await asyncio.gather(*(self._nominate(successor, one.node) for one, successor in pairs))
        for (one, successor), done in zip(pairs, told, strict=True):
            if done:
                self._holds.free(meta.uid(one.document), successor=meta.uid(successor))
        await self._reservations.give_back([meta.uid(one.document) for one in self._holds.held() if one.freed])
        return wake_at

    def _successor(self, held: Held, taken: set[str]) -> Object | None:
        """The first pod of the owner that waits for a node and was made after the old one was told to go."""
        began = math.floor(held.left_at or 0.0)  # times on the wire have no parts of seconds
        come = [
            pod
            for pod in self._following.of_owner(held.owner)
            if not node_of(pod)
            and not meta.is_deleting(pod)
            and not (pod.get("spec") or {}).get("schedulingGates")
            and meta.uid(pod) not in taken
            and times.parse(pod["metadata"]["creationTimestamp"]) >= began
        ]
        return min(come, key=lambda pod: (pod["metadata"]["creationTimestamp"], meta.uid(pod)), default=None)

    def _must_be_free(self, pod: Document) -> bool:
        """Whether a successor that finds its place held would have somebody preempted."""
        spec = pod.get("spec") or {}
        if spec.get("preemptionPolicy") == "Never" or not self._following.somebody_is_below(spec.get("priority") or 0):
            return False
        owner = meta.controller_of(pod)
        return (owner or {}).get("kind") not in _SAME_NAMES or self._following.same(pod) is None

    async def _nominate(self, pod: Object, node: str) -> bool:
        if (pod.get("status") or {}).get("nominatedNodeName"):
            return True  # its scheduler knows a place
        patch = {"metadata": {"uid": meta.uid(pod)}, "status": {"nominatedNodeName": node}}
        name, namespace = meta.name(pod), meta.namespace(pod)
        try:
            await self._client.patch(
                PODS, name, patch, namespace=namespace, subresource="status", dry_run=self._dry_run
            )
        except (errors.NotFound, errors.Conflict):
            return False
        except (ApiError, TransportError) as problem:
            # without the word it may still go there by itself, but not while the place is held
            log.warning("a pod could not be told of its place", pod=f"{namespace}/{name}", node=node, error=problem)
        return True


def _was_refused(pod: Object) -> bool:
    """Whether a scheduler has said that it found no place."""
    scheduled = meta.condition(pod, "PodScheduled")
    return scheduled is not None and scheduled.get("status") == "False"
