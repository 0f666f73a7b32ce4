"""Matches existing volumes to a claim: prebound ones first, then the smallest that is large enough.

A volume is compiled into an `Offer` once per version. What does not depend on the node is computed once per claim
(`Candidates`); for a node only volumes that may be reachable are examined. Volumes that require a value of one node
label, as local volumes do, are indexed by that value.
"""

import heapq
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rota.api import attachable_volumes, nodeselectors, quantities, selectors
from rota.api.nodeselectors import NodeSelector
from rota.api.quantities import Quantity
from rota.api.selectors import Operator
from rota.scheduler.volumes import volume_claims
from rota.scheduler.volumes.volume_claims import Document

NOTHING = quantities.from_value(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A volume with the fields that matching needs."""

    volume: Document
    name: str
    class_name: str
    size: Quantity
    access_modes: frozenset[str]
    #: Filesystem or block, and the volume attributes class: both must equal the claim's.
    kind: tuple[str, str]
    #: The nodes that can reach the volume (None: all).
    nodes: NodeSelector | None
    #: A label and the values of which a node must have one, if `nodes` contains such a requirement.
    demand: tuple[str, frozenset[str]] | None

    def reachable(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels can reach the volume; node names are not considered."""
        return self.nodes is None or self.nodes.matches(labels, "")


def offer(volume: Document) -> Offer:
    """Compile a volume."""
    spec: Mapping[str, Any] = volume.get("spec") or {}
    required = (spec.get("nodeAffinity") or {}).get("required")
    nodes = None if required is None else nodeselectors.compile_selector(required)
    return Offer(
        volume=volume,
        name=volume["metadata"]["name"],
        class_name=attachable_volumes.class_name(volume),
        size=capacity(volume),
        access_modes=attachable_volumes.access_modes(volume),
        kind=_kind(spec),
        nodes=nodes,
        demand=_demanded_label(nodes),
    )


class Shelf:
    """The offers of all volumes, kept while the volumes stay the same."""

    __slots__ = ("_offers",)

    def __init__(self) -> None:
        self._offers: dict[str, Offer] = {}

    def stock(self, volumes: Iterable[Document]) -> list[Offer]:
        """The offers of these volumes; all others are dropped."""
        known, kept = self._offers, {}
        for volume in volumes:
            name = volume["metadata"]["name"]
            found = known.get(name)
            kept[name] = found if found is not None and found.volume is volume else offer(volume)
        self._offers = kept
        return list(kept.values())


class Candidates:
    """Volumes that match a claim where they are reachable, best first."""

    __slots__ = ("_anywhere", "_by_label", "_ranked", "prebound")

    def __init__(self, ranked: Iterable[Offer], prebound: Offer | None = None) -> None:
        #: The volume that is prebound to the claim: this one or none.
        self.prebound = prebound
        self._ranked = list(ranked)
        self._anywhere: list[int] = []
        self._by_label: dict[str, dict[str, list[int]]] = {}
        for rank, candidate in enumerate(self._ranked):
            if candidate.demand is None:
                self._anywhere.append(rank)
                continue
            label, values = candidate.demand
            by_value = self._by_label.setdefault(label, {})
            for value in values:
                by_value.setdefault(value, []).append(rank)

    def best(self, labels: Mapping[str, str], taken: Collection[str]) -> Document | None:
        """The best volume for a node with these labels that is not taken yet."""
        if self.prebound is not None:
            return self.prebound.volume if self.prebound.reachable(labels) else None
        near = [by_value.get(labels.get(label, ""), []) for label, by_value in self._by_label.items()]
        for rank in heapq.merge(self._anywhere, *near):
            candidate = self._ranked[rank]
            if candidate.name not in taken and candidate.reachable(labels):
                return candidate.volume
        return None


def candidates(claim: Document, offers: Iterable[Offer]) -> Candidates:
    """The volumes that match a claim, regardless of nodes."""
    wanted, kind = volume_claims.request(claim) or NOTHING, _kind(claim.get("spec") or {})
    suitable = [each for each in offers if each.kind == kind and each.size >= wanted and _free_for(each.volume, claim)]
    for each in suitable:
        if bound_to(each.volume, claim):
            return Candidates((), prebound=each)
    spec: Mapping[str, Any] = claim.get("spec") or {}
    selector = selectors.from_object(spec["selector"]) if spec.get("selector") is not None else None
    modes, class_name = attachable_volumes.access_modes(claim), attachable_volumes.class_name(claim)
    free = [
        each
        for each in suitable
        if each.class_name == class_name
        and (each.volume.get("status") or {}).get("phase") == "Available"
        and (selector is None or selector.matches(each.volume["metadata"].get("labels")))
        and modes <= each.access_modes
    ]
    return Candidates(sorted(free, key=lambda each: each.size))


def capacity(volume: Document) -> Quantity:
    """The size of a volume."""
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


def _free_for(volume: Document, claim: Document) -> bool:
    """Whether the volume is free for this claim and not being deleted."""
    reserved = (volume.get("spec") or {}).get("claimRef") is not None
    return volume["metadata"].get("deletionTimestamp") is None and (not reserved or bound_to(volume, claim))


def _kind(spec: Mapping[str, Any]) -> tuple[str, str]:
    return spec.get("volumeMode") or "Filesystem", spec.get("volumeAttributesClassName") or ""


def _demanded_label(nodes: NodeSelector | None) -> tuple[str, frozenset[str]] | None:
    """The label of which a node must have one of several values, if the selector has that simple form."""
    if nodes is None or len(nodes.terms) != 1 or nodes.terms[0].labels is None:
        return None
    for requirement in nodes.terms[0].labels.requirements:
        if requirement.operator is Operator.IN:
            return requirement.key, frozenset(requirement.values)
    return None
