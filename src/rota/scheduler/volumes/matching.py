"""Which existing volume suits a claim: prebound ones first, then the smallest that is large enough.

What does not depend on the node is settled once per claim (`Candidates`); a node then looks only at volumes that may be
reachable from it. Volumes that demand a value of one node label, as local volumes do, are found by that value.
"""

import heapq
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rota.api import nodeselectors, quantities, selectors
from rota.api.nodeselectors import NodeSelector
from rota.api.quantities import Quantity
from rota.api.selectors import Operator
from rota.scheduler.volumes import claims
from rota.scheduler.volumes.claims import Document

NOTHING = quantities.from_value(0)


@dataclass(frozen=True, slots=True)
class Reachable:
    """A volume and the nodes from which it can be used (None: all)."""

    volume: Document
    nodes: NodeSelector | None

    @property
    def name(self) -> str:
        """The volume's name."""
        name: str = self.volume["metadata"]["name"]
        return name

    def from_node(self, labels: Mapping[str, str]) -> bool:
        """Whether a node of these labels can use the volume; names of nodes do not count."""
        return self.nodes is None or self.nodes.matches(labels, "")


def reachable(volume: Document) -> Reachable:
    """Compile a volume's node affinity."""
    affinity = (volume.get("spec") or {}).get("nodeAffinity") or {}
    required = affinity.get("required")
    return Reachable(volume, None if required is None else nodeselectors.compile_selector(required))


class Candidates:
    """Volumes that suit a claim wherever they are reachable, best first."""

    __slots__ = ("_anywhere", "_by_label", "_ranked", "prebound")

    def __init__(self, ranked: Iterable[Reachable], prebound: Reachable | None = None) -> None:
        #: The volume that is meant for the claim already: this one or none.
        self.prebound = prebound
        self._ranked = list(ranked)
        self._anywhere: list[int] = []
        self._by_label: dict[str, dict[str, list[int]]] = {}
        for rank, candidate in enumerate(self._ranked):
            demand = _demanded_label(candidate.nodes)
            if demand is None:
                self._anywhere.append(rank)
                continue
            label, values = demand
            for value in values:
                self._by_label.setdefault(label, {}).setdefault(value, []).append(rank)

    def best(self, labels: Mapping[str, str], taken: Collection[str]) -> Document | None:
        """Give the best volume for a node of these labels that is not taken yet."""
        if self.prebound is not None:
            return self.prebound.volume if self.prebound.from_node(labels) else None
        near = [by_value.get(labels.get(label, ""), []) for label, by_value in self._by_label.items()]
        for rank in heapq.merge(self._anywhere, *near):
            candidate = self._ranked[rank]
            if candidate.name not in taken and candidate.from_node(labels):
                return candidate.volume
        return None


def candidates(claim: Document, volumes: Iterable[Document]) -> Candidates:
    """Find the volumes that suit a claim, nodes aside. Bad selectors match nothing."""
    wanted = claims.request(claim) or NOTHING
    suitable = [volume for volume in volumes if _fits(volume, claim, wanted)]
    for volume in suitable:
        if bound_to(volume, claim):
            return Candidates((), prebound=reachable(volume))
    spec: Mapping[str, Any] = claim.get("spec") or {}
    selector = selectors.from_object(spec["selector"]) if spec.get("selector") is not None else None
    modes, wanted_class = claims.access_modes(claim), claims.class_name(claim)
    free = [
        volume
        for volume in suitable
        if (volume.get("status") or {}).get("phase") == "Available"
        and (selector is None or selector.matches(volume["metadata"].get("labels")))
        and claims.class_name(volume) == wanted_class
        and modes <= claims.access_modes(volume)
    ]
    return Candidates(reachable(volume) for volume in sorted(free, key=capacity))


def capacity(volume: Document) -> Quantity:
    """Give the size of a volume."""
    amount = ((volume.get("spec") or {}).get("capacity") or {}).get("storage")
    return NOTHING if amount is None else quantities.from_wire(amount)


def bound_to(volume: Document, claim: Document) -> bool:
    """Whether a volume is reserved for this claim, by the user or by a controller."""
    reference = (volume.get("spec") or {}).get("claimRef")
    if reference is None:
        return False
    meta = claim["metadata"]
    same = reference.get("name") == meta["name"] and reference.get("namespace") == meta.get("namespace")
    return same and reference.get("uid") in {None, "", meta.get("uid")}


def _fits(volume: Document, claim: Document, wanted: Quantity) -> bool:
    offer, demand = volume.get("spec") or {}, claim.get("spec") or {}
    if offer.get("claimRef") is not None and not bound_to(volume, claim):
        return False
    same_mode = (offer.get("volumeMode") or "Filesystem") == (demand.get("volumeMode") or "Filesystem")
    attributes = "volumeAttributesClassName"
    return (
        same_mode
        and (offer.get(attributes) or "") == (demand.get(attributes) or "")
        and volume["metadata"].get("deletionTimestamp") is None
        and capacity(volume) >= wanted
    )


def _demanded_label(nodes: NodeSelector | None) -> tuple[str, frozenset[str]] | None:
    """Find a label of which a node must have one of some values, if the selector is of that simple kind."""
    if nodes is None or len(nodes.terms) != 1 or nodes.terms[0].labels is None:
        return None
    for requirement in nodes.terms[0].labels.requirements:
        if requirement.operator is Operator.IN:
            return requirement.key, frozenset(requirement.values)
    return None
