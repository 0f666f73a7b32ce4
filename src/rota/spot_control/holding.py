"""The places that were found for successors, from when they are found until the successors are there.

A place is let go when a pod of the same owner, made after the old one was told to go, has a node, and when nobody came
for long. When its node goes itself, another is looked for: before all others, if the old pod has gone already. Nothing
here is written down: after a restart places are looked for anew, with the successors that have come meanwhile counted
where they are.
"""

import bisect
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.api import meta, times
from rota.spot_control.placing import Given

#: Whoever has not come by then comes no more, or has gone elsewhere.
_PATIENCE_S: Final = 120.0

Document = Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class _Hold:
    document: Document
    #: Empty when it was lost, and another is looked for.
    node: str
    owner: str
    #: When the old pod was seen to go; None while it is there.
    left_at: float | None = None


class Holds:
    """All places that are held, by the uids of the pods whose successors they are for."""

    def __init__(self) -> None:
        self._holds: Final[dict[str, _Hold]] = {}
        #: Pods that have come for a place, so that none is taken for two.
        self._arrived: Final[set[str]] = set()

    def __contains__(self, uid: object) -> bool:
        return uid in self._holds

    def __iter__(self) -> Iterator[Given]:
        return (Given(document=hold.document, node=hold.node) for hold in self._holds.values() if hold.node)

    def __len__(self) -> int:
        return len(self._holds)

    def homeless(self) -> list[Document]:
        """Pods that have gone, and whose successors have lost the place that was theirs."""
        return [hold.document for hold in self._holds.values() if not hold.node]

    def expected(self) -> Counter[str]:
        """How many successors are to come, by the uids of their owners."""
        return Counter(hold.owner for hold in self._holds.values() if hold.left_at is not None)

    def add(self, document: Document, node: str) -> None:
        """A place was found."""
        known = self._holds.get(meta.uid(document))
        if known is not None:
            known.node = node
        else:
            self._holds[meta.uid(document)] = _Hold(document=document, node=node, owner=owner_of(document))

    def node(self, uid: str) -> str:
        """Where the successor of a pod would go; empty if nobody knows."""
        hold = self._holds.get(uid)
        return hold.node if hold is not None else ""

    def drop(self, uid: str) -> None:
        """The pod stays after all."""
        self._holds.pop(uid, None)

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
    ) -> list[float]:
        """Let go of what is no longer needed; how long each successor that has come was waited for.

        `there` tells whether a pod still runs where it was, `usable` whether a node is a place at all.
        """
        gone: list[tuple[float, str, _Hold]] = []
        for uid, hold in list(self._holds.items()):
            if hold.left_at is None and not there(hold.document):
                hold.left_at = now
            if hold.node and not usable(hold.node):
                if hold.left_at is None:
                    del self._holds[uid]
                    continue
                hold.node = ""
            if hold.left_at is not None:
                gone.append((hold.left_at, uid, hold))
        waited: list[float] = []
        newcomers: dict[str, list[tuple[float, str]]] = {}
        for left_at, uid, hold in sorted(gone, key=lambda one: one[:2]):
            if hold.owner not in newcomers:
                newcomers[hold.owner] = self._newcomers(of_owner(hold.owner), leaving)
            come = newcomers[hold.owner]
            # times on the wire have no parts of seconds
            first = bisect.bisect_left(come, (math.floor(left_at), ""))
            if first < len(come):
                self._arrived.add(come.pop(first)[1])
                waited.append(now - left_at)
                del self._holds[uid]
            elif now >= left_at + _PATIENCE_S:
                del self._holds[uid]
        return waited

    def _newcomers(self, siblings: Iterable[Document], leaving: Collection[str]) -> list[tuple[float, str]]:
        """Pods with a node that stays and that have come for no place yet: when each was made, and its uid."""
        return sorted(
            (times.parse(pod["metadata"]["creationTimestamp"]), meta.uid(pod))
            for pod in siblings
            if meta.uid(pod) not in self._arrived
            and not meta.is_deleting(pod)
            and (node := (pod.get("spec") or {}).get("nodeName"))
            and node not in leaving
        )


def owner_of(pod: Document) -> str:
    """The uid of what makes another pod when this one goes; empty if nothing does."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((str(one["uid"]) for one in owners if one.get("controller")), "")
