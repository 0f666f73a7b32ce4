"""Moves in a federation: which resource was placed in other clusters, from where to where, and why. Pure.

Bindings hold where a resource is, not where it was. This view compares each binding with what it was before, from the
first tab on that was opened at this server, and keeps the last moves.
"""

import collections
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from rota.client.informers.cache import Key
from rota.web.views.view import Table

#: Moves that are kept.
MOST: Final = 200


class Move(msgspec.Struct, frozen=True, array_like=True):
    """One change of a placement."""

    at: float
    kind: str
    namespace: str
    name: str
    #: Clusters and their replicas; none for a resource without replicas.
    before: tuple[tuple[str, int], ...]
    after: tuple[tuple[str, int], ...]
    why: str


class MoveTable:
    """The last moves."""

    def __init__(self) -> None:
        self._table: Final = Table[Move](Move.__struct_fields__)
        self._clusters: Final[dict[str, dict[str, Any]]] = {}
        #: Each binding's spec when its placement last changed: what caused a change was written before the change.
        self._settled: Final[dict[Key, Mapping[str, Any]]] = {}
        #: Bindings that had a cluster at some time.
        self._placed_once: Final[set[Key]] = set()
        self._keys: Final[collections.deque[str]] = collections.deque()
        self._number = 0

    def apply(self, collection: str, key: Key, old: Any, new: Any, now: float, /) -> None:
        """See `View.apply`."""
        if collection == "clusters":
            if new is None:
                self._clusters.pop(key.name, None)
            else:
                self._clusters[key.name] = new
            return
        if new is None:
            self._settled.pop(key, None)
            self._placed_once.discard(key)
            return
        is_first = key not in self._placed_once
        if _placed(new):
            self._placed_once.add(key)
        # A binding that is seen for the first time may have been placed long ago.
        if old is None or _placed(old) == _placed(new):
            self._settled.setdefault(key, new.get("spec") or {})
            return
        was = {"spec": {**self._settled.get(key, {}), "clusters": (old.get("spec") or {}).get("clusters")}}
        self._settled[key] = new.get("spec") or {}
        resource = self._settled[key].get("resource") or {}
        self._number += 1
        name = str(self._number)
        self._keys.append(name)
        self._table.put(
            name,
            Move(
                at=now,
                kind=str(resource.get("kind") or ""),
                namespace=str(resource.get("namespace") or ""),
                name=str(resource.get("name") or ""),
                before=_placed(old),
                after=_placed(new),
                why="it was placed for the first time" if is_first else reason(was, new, self._clusters),
            ),
        )
        if len(self._keys) > MOST:
            self._table.drop(self._keys.popleft())

    def begin(self) -> Sequence[object]:
        """See `View.begin`."""
        return self._table.begin()

    def delta(self, now: float, /) -> object | None:
        """See `View.delta`."""
        return self._table.delta(now)


def reason(old: Mapping[str, Any], new: Mapping[str, Any], clusters: Mapping[str, Mapping[str, Any]]) -> str:
    """Why a binding has other clusters than before, as far as the objects say.

    `old` has the clusters of before, and otherwise the spec with which they were chosen.
    """
    was, now = old.get("spec") or {}, new.get("spec") or {}
    before, after = dict(_placed(old)), dict(_placed(new))
    lost = [name for name, replicas in before.items() if name not in after or after[name] < replicas]
    found = [text for one in now.get("gracefulEvictionTasks") or () if (text := _eviction(one, lost))]
    found += [text for name in lost if (text := _trouble(name, clusters.get(name)))]
    missing = (now.get("replicas") or 0) - sum(before.values())
    if was.get("replicas") != now.get("replicas"):
        found.append(f"the number of replicas changed from {was.get('replicas') or 0} to {now.get('replicas') or 0}")
    elif missing > 0:
        found.append(f"{missing} of its replicas had no cluster")
    elif not before:
        found.append("it had no cluster")
    if was.get("placement") != now.get("placement"):
        found.append("its policy changed")
    if was.get("rescheduleTriggeredAt") != now.get("rescheduleTriggeredAt"):
        found.append("a rebalancer asked for it")
    return "; ".join(dict.fromkeys(found)) or "the scheduler of the federation decided again"


def _eviction(task: Mapping[str, Any], lost: Sequence[str]) -> str:
    cluster = task.get("fromCluster") or ""
    if cluster not in lost:
        return ""
    return f"evicted from {cluster}: {task.get('message') or task.get('reason') or 'no reason is given'}"


def _trouble(name: str, cluster: Mapping[str, Any] | None) -> str:
    if cluster is None:
        return f"{name} has left the federation"
    ready = [one for one in (cluster.get("status") or {}).get("conditions") or () if one.get("type") == "Ready"]
    if ready and ready[0].get("status") != "True":
        return f"{name} is not ready"
    taints = [one.get("key") or "" for one in (cluster.get("spec") or {}).get("taints") or ()]
    return f"{name} has the taint {', '.join(taints)}" if taints else ""


def _placed(binding: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    spec = binding.get("spec") or {}
    return tuple(sorted((one["name"], int(one.get("replicas") or 0)) for one in spec.get("clusters") or ()))
