"""The places that were found for successors, from when they are found until the successors are there.

A place is let go when a pod of the same owner, made after the old one was told to go, has a node, and when nobody came
for long. When its node goes itself, or another pod has taken it, another is looked for: before all others, if the old
pod has gone already. What is known here is written down in the cluster by `placeholder_pods`, and read from there
again.
"""

import bisect
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.api import meta, times
from rota.spot_control.placement import PlacementResult

#: Whoever has not come by then comes no more, or has gone elsewhere.
PATIENCE_S: Final = 120.0

Document = Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class _Reservation:
    document: Document
    #: Empty when it was lost, and another is looked for.
    node: str
    owner: str
    #: When the old pod was seen to go; None while it is there.
    left_at: float | None = None
    #: The uid of the pod that was told of the place; empty if there is none yet.
    successor: str = ""
    #: Whether the place is given free, since the successor comes for it.
    freed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservedPlace:
    """A place, as others see it."""

    #: The pod that leaves, or has left.
    document: Document
    node: str
    owner: str
    left_at: float | None
    successor: str
    freed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A successor that has come."""

    #: The pod that has left.
    document: Document
    #: Where the successor is: not always where its place was.
    node: str
    waited_s: float


class PlaceReservations:
    """All places that are held, by the uids of the pods whose successors they are for."""

    def __init__(self) -> None:
        self._place_reservations: Final[dict[str, _Reservation]] = {}
        #: Pods that have come for a place, so that none is taken for two.
        self._arrived: Final[set[str]] = set()

    def __contains__(self, uid: object) -> bool:
        return uid in self._place_reservations

    def __iter__(self) -> Iterator[PlacementResult]:
        return (
            PlacementResult(document=hold.document, node=hold.node, successor=hold.successor)
            for hold in self._place_reservations.values()
            if hold.node
        )

    def __len__(self) -> int:
        return len(self._place_reservations)

    def patient_until(self) -> float:
        """When the first of those that were waited for is given up; infinity if nobody is waited for."""
        return min(
            (hold.left_at + PATIENCE_S for hold in self._place_reservations.values() if hold.left_at is not None),
            default=math.inf,
        )

    def unassigned(self) -> list[Document]:
        """Pods that have gone, and whose successors have lost the place that was theirs."""
        return [hold.document for hold in self._place_reservations.values() if not hold.node]

    def expected(self) -> Counter[str]:
        """How many successors are to come, by the uids of their owners."""
        return Counter(hold.owner for hold in self._place_reservations.values() if hold.left_at is not None)

    def held(self) -> list[ReservedPlace]:
        """All places that there are, by the importance of those that leave."""
        found = [
            ReservedPlace(
                document=hold.document,
                node=hold.node,
                owner=hold.owner,
                left_at=hold.left_at,
                successor=hold.successor,
                freed=hold.freed,
            )
            for hold in self._place_reservations.values()
            if hold.node
        ]
        return sorted(found, key=lambda one: -((one.document.get("spec") or {}).get("priority") or 0))

    def add(self, document: Document, node: str, *, left_at: float | None = None) -> None:
        """A place was found."""
        known = self._place_reservations.get(meta.uid(document))
        if known is not None:
            known.node, known.successor, known.freed = node, "", False
        else:
            self._place_reservations[meta.uid(document)] = _Reservation(
                document=document, node=node, owner=owner_of(document), left_at=left_at
            )

    def free(self, uid: str, *, successor: str = "") -> None:
        """Nothing has to hold the place any more; `successor` has been told of it."""
        hold = self._place_reservations.get(uid)
        if hold is not None:
            hold.freed = True
            hold.successor = successor or hold.successor

    def lose(self, uid: str) -> None:
        """Somebody else has taken the place; another is looked for."""
        hold = self._place_reservations.get(uid)
        if hold is None:
            return
        if hold.left_at is None:
            del self._place_reservations[uid]
        else:
            hold.node = ""

    def node(self, uid: str) -> str:
        """Where the successor of a pod would go; empty if nobody knows."""
        hold = self._place_reservations.get(uid)
        return hold.node if hold is not None else ""

    def owners(self) -> set[str]:
        """Whose successors are waited for."""
        return {hold.owner for hold in self._place_reservations.values()}

    def drop(self, uid: str) -> None:
        """The pod stays after all."""
        self._place_reservations.pop(uid, None)

    def left(self, uid: str, at: float) -> None:
        """A pod was seen to go, since a time: whoever was made after that may be its successor."""
        hold = self._place_reservations.get(uid)
        if hold is not None and hold.left_at is None:
            hold.left_at = at

    def forget(self, uid: str) -> None:
        """A pod is gone for good."""
        self._arrived.discard(uid)

    def settle(
        self,
        *,
        now: float,
        there: Callable[[Document], bool],
        usable: Callable[[str], bool],
        of_owner: Callable[[str], Iterable[Document]],
        leaving: Collection[str],
    ) -> list[Arrival]:
        """Let go of what is no longer needed; the successors that have come.

        `there` tells whether a pod still runs where it was, `usable` whether a node is a place at all.
        """
        gone: list[tuple[float, str, _Reservation]] = []
        for uid, hold in list(self._place_reservations.items()):
            if hold.left_at is None and not there(hold.document):
                hold.left_at = now
            if hold.node and not usable(hold.node):
                if hold.left_at is None:
                    del self._place_reservations[uid]
                    continue
                hold.node = ""
            if hold.left_at is not None:
                gone.append((hold.left_at, uid, hold))
        arrivals: list[Arrival] = []
        newcomers: dict[str, list[tuple[float, str, str]]] = {}
        for left_at, uid, hold in sorted(gone, key=lambda one: one[:2]):
            if hold.owner not in newcomers:
                newcomers[hold.owner] = self._newcomers(of_owner(hold.owner), leaving)
            come = newcomers[hold.owner]
            # times on the wire have no parts of seconds
            first = bisect.bisect_left(come, (math.floor(left_at), "", ""))
            if first < len(come):
                _, successor, node = come.pop(first)
                self._arrived.add(successor)
                arrivals.append(Arrival(document=hold.document, node=node, waited_s=now - left_at))
                del self._place_reservations[uid]
            elif now >= left_at + PATIENCE_S:
                del self._place_reservations[uid]
        return arrivals

    def _newcomers(self, siblings: Iterable[Document], leaving: Collection[str]) -> list[tuple[float, str, str]]:
        """Pods with a node that stays and that have come for no place yet: when each was made, its uid, its node."""
        return sorted(
            (times.parse(pod["metadata"]["creationTimestamp"]), meta.uid(pod), str(node))
            for pod in siblings
            if meta.uid(pod) not in self._arrived
            and not meta.is_deleting(pod)
            and (node := (pod.get("spec") or {}).get("nodeName"))
            and node not in leaving
        )


def going_since(pod: Document) -> float | None:
    """When a pod was told to go, by the clock that stamps its successor; None if it was not."""
    ends = pod["metadata"].get("deletionTimestamp")
    grace = pod["metadata"].get("deletionGracePeriodSeconds") or 0
    return times.parse(ends) - grace if ends else None


def owner_of(pod: Document) -> str:
    """The uid of what makes another pod when this one goes; empty if nothing does."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((str(one["uid"]) for one in owners if one.get("controller")), "")
