"""Hypernodes: a tree of network domains over the nodes, with a root that contains all nodes.

Tier 1 is nearest to the nodes; the higher the tier, the larger the network distance inside a domain.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from rota.api import re2_matcher, selectors
from rota.scheduler.batch.nodes import NodeTable

CLUSTER: Final = "<cluster-top-hypernode>"


class HyperNode:
    """One domain."""

    __slots__ = ("children", "name", "nodes", "parent", "tier")

    def __init__(self, name: str, tier: int) -> None:
        self.name: Final = name
        self.tier: Final = tier
        self.parent = ""
        self.children: list[str] = []
        #: The rows of the nodes inside, in order.
        self.nodes: list[int] = []


class HyperNodes:
    """All domains of a session."""

    def __init__(self, documents: Iterable[Mapping[str, Any]], nodes: NodeTable) -> None:
        listed = {document["metadata"]["name"]: document for document in documents}
        self.by_name: dict[str, HyperNode] = {}
        self.tiers_by_name: dict[str, int] = {}
        #: Whether the tree is valid; otherwise no pod with a topology requirement is placed.
        self.ready = True
        for name, document in listed.items():
            spec = document.get("spec") or {}
            tier = int(spec.get("tier") or 0)
            self.by_name[name] = HyperNode(name, tier)
            if spec.get("tierName"):
                self.tiers_by_name.setdefault(spec["tierName"], tier)
        inside: dict[str, set[int]] = {}
        for name in listed:
            self._collect(name, listed, nodes, inside, ())
        for name, hypernode in self.by_name.items():
            hypernode.nodes = sorted(inside.get(name, ()))
            hypernode.children.sort()
        top = HyperNode(CLUSTER, max((each.tier for each in self.by_name.values()), default=0) + 1)
        for each in self.by_name.values():
            if not each.parent:
                each.parent = CLUSTER
                top.children.append(each.name)
        top.children.sort()
        top.nodes = np.flatnonzero(nodes.usable).tolist()
        self.by_name[CLUSTER] = top
        self.tiers: Final = sorted({each.tier for each in self.by_name.values()})
        self.by_tier: Final = {
            tier: sorted(each.name for each in self.by_name.values() if each.tier == tier) for tier in self.tiers
        }
        self._leaf_of: Final[dict[int, str]] = {}
        for name in self.by_tier[self.tiers[0]]:
            for row in self.by_name[name].nodes:
                self._leaf_of.setdefault(row, name)

    def _collect(
        self,
        name: str,
        listed: Mapping[str, Mapping[str, Any]],
        nodes: NodeTable,
        inside: dict[str, set[int]],
        path: tuple[str, ...],
    ) -> set[int]:
        if name in path:
            self.ready = False
            return set()
        if name in inside:
            return inside[name]
        found: set[int] = set()
        for member in (listed[name].get("spec") or {}).get("members") or ():
            selector = member.get("selector") or {}
            if member.get("type") == "HyperNode":
                child = (selector.get("exactMatch") or {}).get("name") or ""
                if child not in self.by_name:
                    continue
                below = self.by_name[child]
                if below.parent and below.parent != name:
                    self.ready = False
                    continue
                if child not in self.by_name[name].children:
                    self.by_name[name].children.append(child)
                below.parent = name
                found |= self._collect(child, listed, nodes, inside, (*path, name))
            else:
                found |= _members(selector, nodes)
        inside[name] = found
        return found

    def __getitem__(self, name: str) -> HyperNode:
        return self.by_name[name]

    @property
    def top(self) -> HyperNode:
        """The root domain."""
        return self.by_name[CLUSTER]

    def ancestors(self, name: str) -> list[str]:
        """Give a domain and everything above it, nearest first."""
        found: list[str] = []
        while name and name not in found:
            found.append(name)
            hypernode = self.by_name.get(name)
            name = hypernode.parent if hypernode is not None else ""
        return found

    def common(self, left: str, right: str) -> str:
        """Give the lowest domain that contains both; "" stands for no domain yet."""
        if not left or not right:
            return left or right
        above = set(self.ancestors(left))
        return next((name for name in self.ancestors(right) if name in above), "")

    def leaf_of(self, row: int) -> str:
        """Give the domain of the lowest tier that a node is in, or ""."""
        return self._leaf_of.get(row, "")

    def containing(self, row: int) -> list[str]:
        """Give all domains that contain a node."""
        return [name for name, each in self.by_name.items() if row in each.nodes]


def _members(selector: Mapping[str, Any], nodes: NodeTable) -> set[int]:
    found: set[int] = set()
    exact, pattern, labels = (selector.get(key) for key in ("exactMatch", "regexMatch", "labelMatch"))
    if exact is not None and exact.get("name") in nodes.rows:
        found.add(nodes.rows[exact["name"]])
    if pattern is not None:
        compiled = re2_matcher.compile_pattern(pattern.get("pattern") or "")
        found |= {row for name, row in nodes.rows.items() if compiled.search(name)}
    if labels is not None and (labels.get("matchLabels") or labels.get("matchExpressions")):
        chosen = selectors.from_object(labels)
        found |= {row for row in nodes.rows.values() if chosen.matches(nodes.labels[row])}
    return found
