"""The extender's view of the cluster: signals and load of its nodes, and the nodes of each owner's pods.

It gets every change of a node or pod, and is read in every attempt of a scheduler, so everything possible is computed
at the change. Pure: times are arguments.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from rota.api import resources
from rota.extender.columns import Columns, Near
from rota.extender.facts import NodeFacts
from rota.spot import node_readings, prices
from rota.spot.node_readings import Reading
from rota.spot.node_signals import NodeSignals
from rota.spot.policies import Spread
from rota.spot.risks import Risks

_ZONE: Final = "topology.kubernetes.io/zone"
_REGION: Final = "topology.kubernetes.io/region"
#: Distances from an owner's pods: their own node, their zone, their region, anywhere.
_NEAR, _SAME_ZONE, _SAME_REGION, _FAR = 0.0, 0.25, 0.6, 1.0


@dataclass(frozen=True, slots=True)
class Placed:
    """The facts about a pod that the extender uses."""

    #: Its namespace and name.
    key: str
    #: Empty for a pod that has ended or has no node: it counts nowhere.
    node: str
    owner: str
    requests: Mapping[str, int]


class View:
    """The nodes and pods of the cluster."""

    def __init__(self, marks: NodeSignals | None = None, *, risks: Risks | None = None) -> None:
        self._marks: Final = marks or NodeSignals()
        self.risks: Final = risks or Risks()
        self.nodes: Final[dict[str, NodeFacts]] = {}
        #: The same nodes, for requests about many of them.
        self.columns: Final = Columns()
        self._pods: Final[dict[str, Placed]] = {}
        #: The same pods by node, including unknown nodes.
        self._by_node: Final[dict[str, dict[str, Placed]]] = {}
        #: The number of an owner's pods on each node.
        self._owners: Final[dict[str, dict[str, int]]] = {}
        self._pools: Final[dict[str, int]] = {}

    def put_node(self, node: Mapping[str, Any], *, now: float) -> None:
        """Add or update a node."""
        facts = self.read(node, now=now)
        before = self.nodes.get(facts.name)
        if before is not None:
            facts.used = before.used
            facts.reading = _steady(facts.reading, before.reading)
        if facts.reading.notice is not None and (before is None or before.reading.notice is None):
            self.risks.interrupted(facts.reading.pool, now=now)
        self.nodes[facts.name] = facts
        if before is None or before.reading.pool != facts.reading.pool:
            if before is not None:
                self._count_pool(before.reading.pool, -1, now)
            self._count_pool(facts.reading.pool, +1, now)
        if before is None:
            for placed in self._by_node.get(facts.name, {}).values():
                _add(facts.used, placed.requests, 1)
        self.columns.put(facts)

    def remove_node(self, name: str, *, now: float) -> None:
        """Remove a node."""
        gone = self.nodes.pop(name, None)
        if gone is not None:
            self._count_pool(gone.reading.pool, -1, now)
            self.columns.remove(name)

    def put_pod(self, placed: Placed) -> None:
        """Add or update a pod."""
        self._take_out(placed.key)
        node, owner = placed.node, placed.owner
        if not node:
            return
        self._pods[placed.key] = placed
        self._by_node.setdefault(node, {})[placed.key] = placed
        if owner:
            there = self._owners.setdefault(owner, {})
            there[node] = there.get(node, 0) + 1
        facts = self.nodes.get(node)
        if facts is not None:
            _add(facts.used, placed.requests, 1)
            self.columns.loaded(facts)

    def remove_pod(self, placed: Placed) -> None:
        """Remove a pod."""
        self._take_out(placed.key)

    def read(self, node: Mapping[str, Any], *, now: float) -> NodeFacts:
        """The facts about a node that is sent as a whole."""
        labels = node["metadata"].get("labels") or {}
        return NodeFacts(
            name=node["metadata"]["name"],
            reading=node_readings.read(node, self._marks, now=now),
            price=prices.in_labels(labels),
            zone=labels.get(_ZONE, ""),
            region=labels.get(_REGION, ""),
            allocatable=resources.node_allocatable(node),
        )

    def spread(self, owner: str) -> Spread:
        """The kinds of machines that run an owner's pods."""
        spot = staying = 0
        for name, count in self._owners.get(owner, {}).items():
            facts = self.nodes.get(name)
            if facts is not None and facts.reading.capacity.leaves:
                spot += count
            else:
                staying += count
        return Spread(spot, staying)

    def distances(self, owner: str) -> "Distances":
        """The distances of nodes from an owner's pods."""
        there = [self.nodes[name] for name in self._owners.get(owner, {}) if name in self.nodes]
        return Distances(
            nodes=frozenset(one.name for one in there),
            zones=frozenset(one.zone for one in there if one.zone),
            regions=frozenset(one.region for one in there if one.region),
        )

    def near(self, owner: str) -> Near | None:
        """The same for many nodes; None if an owner has no pods."""
        there = [self.columns.slot(name) for name in self._owners.get(owner, {}) if name in self.nodes]
        return Near(there, (_NEAR, _SAME_ZONE, _SAME_REGION, _FAR)) if there else None

    def _take_out(self, key: str) -> None:
        placed = self._pods.pop(key, None)
        if placed is None:
            return
        there_too = self._by_node[placed.node]
        del there_too[key]
        if not there_too:
            del self._by_node[placed.node]
        facts = self.nodes.get(placed.node)
        if facts is not None:
            _add(facts.used, placed.requests, -1)
            self.columns.loaded(facts)
        if placed.owner:
            there = self._owners[placed.owner]
            there[placed.node] -= 1
            if not there[placed.node]:
                del there[placed.node]
            if not there:
                del self._owners[placed.owner]

    def _count_pool(self, pool: str, change: int, now: float) -> None:
        self._pools[pool] = self._pools.get(pool, 0) + change
        self.risks.machines(pool, self._pools[pool], now=now)
        if not self._pools[pool]:
            del self._pools[pool]


@dataclass(frozen=True, slots=True)
class Distances:
    """The places of an owner's pods."""

    nodes: frozenset[str]
    zones: frozenset[str]
    regions: frozenset[str]

    def to(self, facts: NodeFacts) -> float | None:
        """The distance of a node, from 0 to 1; None if it is unknown."""
        if not self.nodes:
            return None
        if facts.name in self.nodes:
            return _NEAR
        if facts.zone in self.zones:
            return _SAME_ZONE
        return _SAME_REGION if facts.region in self.regions else _FAR


def read_pod(pod: Mapping[str, Any]) -> Placed:
    """The facts about a pod, so that the rest of it need not be kept."""
    metadata = pod["metadata"]
    key = f"{metadata.get('namespace', '')}/{metadata['name']}"
    node = (pod.get("spec") or {}).get("nodeName", "")
    if not node or (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}:
        return Placed(key, "", "", {})
    # a terminating pod holds its resources, but does not count for its owner's placement
    owner = "" if metadata.get("deletionTimestamp") else owner_of(pod)
    return Placed(key, node, owner, resources.pod_requests(pod))


def owner_of(pod: Mapping[str, Any]) -> str:
    """The uid of the controller, by which pods are counted; empty for a pod without one."""
    for owner in pod["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner.get("uid", ""))
    return ""


def _steady(now: Reading, before: Reading) -> Reading:
    """The reading with the first notice: a notice without a time of its own must not move."""
    if now.notice is None or before.notice is None:
        return now
    if (now.notice.uid, now.notice.mark) != (before.notice.uid, before.notice.mark):
        return now
    # a later notice can only shorten the time
    deadline = min(now.notice.deadline, before.notice.deadline)
    return replace(now, notice=replace(now.notice, since=before.notice.since, deadline=deadline))


def _add(total: dict[str, int], more: Mapping[str, int], sign: int) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + sign * amount
