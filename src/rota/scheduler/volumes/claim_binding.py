"""Whether a pod's claims can be bound on a node, and how: to existing volumes, or to volumes to be provisioned.

`Demand` is what a pod needs, computed once; `on_node` returns a `Plan` or the reasons of refusal for one node. Both are
values; nothing is written.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rota.api import attachable_volumes
from rota.columns.catalog import Catalog
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.scheduler.volumes import matching, provisioning, volume_claims
from rota.scheduler.volumes.assumptions import Assumptions
from rota.scheduler.volumes.matching import NOTHING, Candidates, Offer, Shelf
from rota.scheduler.volumes.provisioning import Pool, Provisioner
from rota.scheduler.volumes.volume_claims import Document

NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
VOLUME_GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


class BindingError(Exception):
    """The objects of a claim are inconsistent; fix the claim or its storage class."""


@dataclass(frozen=True, slots=True)
class Binding:
    """An existing volume for a claim."""

    volume: Document
    claim: Document


@dataclass(frozen=True, slots=True)
class Provision:
    """A volume to be provisioned for a claim, and its storage pool if the driver reports one."""

    claim: Document
    pool: Pool | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The bindings and provisions of a pod's claims on one node."""

    bindings: tuple[Binding, ...] = ()
    provisions: tuple[Provision, ...] = ()


@dataclass(frozen=True, slots=True)
class Unbound:
    """A claim that is bound after a node is chosen."""

    claim: Document
    candidates: Candidates
    #: The provisioner of the storage class, or its error.
    provisioner: Provisioner | BindingError

    @property
    def selected_node(self) -> str | None:
        """The node that an earlier attempt chose for a provisioner, if any."""
        return volume_claims.annotations(self.claim).get(volume_claims.SELECTED_NODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a pod's claims require of a node."""

    #: Volumes of bound claims; None for one that does not exist.
    bound: tuple[Offer | None, ...] = ()
    #: Smallest first, so that each takes the smallest volume that fits.
    unbound: tuple[Unbound, ...] = ()
    #: Claims that a controller should have bound by now.
    waiting: tuple[Document, ...] = field(default=())


def demand_of(pod: PodInfo, catalog: Catalog, *, assumed: Assumptions, shelf: Shelf) -> Demand:
    """Group a pod's claims by the state of their binding; the claims must exist."""
    bound: list[Offer | None] = []
    delayed: list[Document] = []
    waiting: list[Document] = []
    for use in volume_claims.used_by(pod):
        claim = assumed.get(catalog, volume_claims.CLAIM, namespace=pod.namespace, name=use.name)
        if claim is None:
            raise BindingError(f'error getting PVC "{pod.namespace}/{use.name}"')
        if volume_claims.bound(claim):
            volume = assumed.get(catalog, volume_claims.VOLUME, name=attachable_volumes.volume_name(claim))
            bound.append(None if volume is None else matching.offer(volume))
        elif _binds_late(claim, catalog) and not attachable_volumes.volume_name(claim):
            delayed.append(claim)
        else:
            waiting.append(claim)
    delayed.sort(key=lambda claim: volume_claims.request(claim) or NOTHING)
    offers = shelf.stock(assumed.list(catalog, volume_claims.VOLUME)) if delayed else []
    return Demand(
        bound=tuple(bound),
        unbound=tuple(
            Unbound(claim, matching.candidates(claim, _of_class(offers, claim)), _provisioner(claim, catalog))
            for claim in delayed
        ),
        waiting=tuple(waiting),
    )


def on_node(demand: Demand, node: NodeInfo) -> Plan | tuple[str, ...]:
    """The plan for one node, or the reasons why the node is refused."""
    reasons: list[str] = []
    gone = False
    for offer in demand.bound:
        gone = offer is None
        if offer is not None and not offer.reachable(node.labels):
            reasons.append(NODE_CONFLICT)
        if gone or reasons:
            break
    plan = _plan(demand.unbound, node)
    if isinstance(plan, str):
        reasons.append(plan)
    if gone:
        reasons.append(VOLUME_GONE)
    return tuple(reasons) if reasons or isinstance(plan, str) else plan


def _plan(unbound: tuple[Unbound, ...], node: NodeInfo) -> Plan | str:
    if any(each.selected_node not in {None, node.name} for each in unbound):
        return NO_VOLUME
    bindings: dict[str, Binding] = {}
    to_make = [each for each in unbound if each.selected_node is not None]
    for each in unbound:
        if each.selected_node is None:
            volume = each.candidates.best(node.labels, bindings)
            if volume is None:
                to_make.append(each)
            else:
                bindings[volume["metadata"]["name"]] = Binding(volume, each.claim)
    provisions = _provisions(to_make, node.labels)
    return provisions if isinstance(provisions, str) else Plan(tuple(bindings.values()), provisions)


def _provisions(unbound: list[Unbound], labels: Mapping[str, str]) -> tuple[Provision, ...] | str:
    found = []
    for each in unbound:
        provisioner = each.provisioner
        if isinstance(provisioner, BindingError):
            raise provisioner
        if not provisioner.serves(labels):
            return NO_VOLUME
        pool = provisioner.pool(labels)
        if provisioner.pools is not None and pool is None:
            return NO_SPACE
        found.append(Provision(each.claim, pool))
    return tuple(found)


def _of_class(offers: list[Offer], claim: Document) -> list[Offer]:
    """The volumes of the claim's class."""
    wanted = attachable_volumes.class_name(claim)
    return [offer for offer in offers if offer.class_name == wanted]


def _provisioner(claim: Document, catalog: Catalog) -> Provisioner | BindingError:
    name = attachable_volumes.class_name(claim)
    if not name:
        return BindingError(f'no class for claim "{volume_claims.key(claim)}"')
    storage_class = catalog.get(volume_claims.CLASS, name=name)
    if storage_class is None:
        return BindingError(f'failed to find storage class "{name}"')
    return provisioning.provisioner(claim, storage_class, catalog)


def _binds_late(claim: Document, catalog: Catalog) -> bool:
    """Whether the claim's class has volumeBindingMode WaitForFirstConsumer."""
    name = attachable_volumes.class_name(claim)
    storage_class = catalog.get(volume_claims.CLASS, name=name) if name else None
    if storage_class is None:
        return False
    mode = storage_class.get("volumeBindingMode")
    if mode is None:
        raise BindingError(f'VolumeBindingMode not set for StorageClass "{name}"')
    return bool(mode == volume_claims.WAIT_FOR_FIRST_CONSUMER)
