"""Dynamic provisioning: whether a storage class can provision a volume for a claim that a node can reach."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rota.api import quantities, selectors
from rota.api.quantities import Quantity
from rota.api.selectors import Selector, SelectorError
from rota.columns.catalog import Catalog
from rota.scheduler.volumes import volume_claims
from rota.scheduler.volumes.volume_claims import Document

NO_PROVISIONER = "kubernetes.io/no-provisioner"


@dataclass(frozen=True, slots=True)
class Pool:
    """Free storage (a CSIStorageCapacity) and the nodes that can reach it."""

    capacity: Document
    nodes: Selector


@dataclass(frozen=True, slots=True, kw_only=True)
class Provisioner:
    """What a storage class can provision for one claim."""

    claim: Document
    #: False if the class has no provisioner.
    able: bool
    #: The allowed topologies of the class; see `in_topology`.
    topologies: Sequence[Mapping[str, Any]]
    #: Pools large enough for the claim; None if the driver does not report free storage.
    pools: tuple[Pool, ...] | None

    def serves(self, labels: Mapping[str, str]) -> bool:
        """Whether a volume may be provisioned for a node with these labels, regardless of free storage."""
        return self.able and in_topology(self.topologies, labels)

    def pool(self, labels: Mapping[str, str]) -> Pool | None:
        """A pool that a node with these labels can reach."""
        return next((pool for pool in self.pools or () if pool.nodes.matches(labels)), None)


def provisioner(claim: Document, storage_class: Document, catalog: Catalog) -> Provisioner:
    """What a class can provision for a claim."""
    name = storage_class.get("provisioner") or ""
    return Provisioner(
        claim=claim,
        able=name not in {"", NO_PROVISIONER},
        topologies=storage_class.get("allowedTopologies") or (),
        pools=_pools(claim, storage_class, catalog, driver=name),
    )


def in_topology(terms: Sequence[Mapping[str, Any]], labels: Mapping[str, str]) -> bool:
    """Whether one of a class's allowed topologies contains the node; no terms allow all, an empty term none."""
    if not terms:
        return True
    for term in terms:
        demands = term.get("matchLabelExpressions") or ()
        if demands and all(labels.get(demand["key"]) in (demand.get("values") or ()) for demand in demands):
            return True
    return False


def volume_limit(capacity: Document) -> Quantity | None:
    """The size of the largest volume that a pool can hold."""
    amount = capacity.get("maximumVolumeSize")
    if amount is None:
        amount = capacity.get("capacity")
    return None if amount is None else quantities.from_wire(amount)


def reports_capacity(driver: Document | None) -> bool:
    """Whether a CSI driver reports its free storage."""
    return driver is not None and bool((driver.get("spec") or {}).get("storageCapacity"))


def _pools(claim: Document, storage_class: Document, catalog: Catalog, *, driver: str) -> tuple[Pool, ...] | None:
    wanted = volume_claims.request(claim)
    if wanted is None or not reports_capacity(catalog.get("CSIDriver", name=driver)):
        return None
    found = []
    for capacity in catalog.list("CSIStorageCapacity"):
        limit, topology = volume_limit(capacity), capacity.get("nodeTopology")
        if capacity.get("storageClassName") != storage_class["metadata"]["name"] or topology is None:
            continue
        if limit is None or limit.value() < wanted.value():
            continue
        try:
            found.append(Pool(capacity, selectors.from_object(topology)))
        except SelectorError:
            continue  # a pool without a topology is reachable from no node
    return tuple(found)
