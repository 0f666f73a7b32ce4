"""Assumed volumes and claims: decisions that are not in the cluster's objects yet.

Between the choice of a node and the API server's answer, other pods must see a chosen volume as taken. An assumption
holds while the object is unchanged; any newer version of the object replaces it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from rota.columns.catalog import Catalog
from rota.scheduler.volumes import volume_claims
from rota.scheduler.volumes.volume_claims import Document

Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _Assumption:
    base: Document
    assumed: Document

    def holds(self, current: Document | None) -> bool:
        if current is None:
            return False
        version = current["metadata"].get("resourceVersion")
        return current is self.base or (version is not None and version == self.base["metadata"].get("resourceVersion"))


class Assumptions:
    """Assumed objects on top of a catalog."""

    __slots__ = ("_made",)

    def __init__(self) -> None:
        self._made: dict[Key, _Assumption] = {}

    def get(self, catalog: Catalog, kind: str, *, namespace: str = "", name: str) -> Document | None:
        """An object as assumed, or as it is."""
        return self._seen((kind, namespace, name), catalog.get(kind, namespace=namespace, name=name))

    def list(self, catalog: Catalog, kind: str) -> Iterator[Document]:
        """All objects of a kind, as assumed or as they are."""
        for current in catalog.list(kind):
            meta = current["metadata"]
            seen = self._seen((kind, meta.get("namespace") or "", meta["name"]), current)
            if seen is not None:
                yield seen

    def assume(self, kind: str, base: Document, assumed: Document) -> None:
        """Use `assumed` until the object differs from `base`."""
        self._made[_key(kind, base)] = _Assumption(base, assumed)

    def forget(self, kind: str, assumed: Document) -> None:
        """Remove an assumption, if there is one."""
        made = self._made.get(_key(kind, assumed))
        if made is not None and made.assumed is assumed:
            del self._made[_key(kind, assumed)]

    def _seen(self, key: Key, current: Document | None) -> Document | None:
        made = self._made.get(key)
        if made is None:
            return current
        if made.holds(current):
            return made.assumed
        del self._made[key]
        return current


def bound_volume(volume: Document, claim: Document) -> Document:
    """A volume after it is reserved for a claim."""
    meta, claim_meta = dict(volume["metadata"]), claim["metadata"]
    reference = {
        "apiVersion": "v1",
        "kind": volume_claims.CLAIM,
        "namespace": claim_meta.get("namespace"),
        "name": claim_meta["name"],
        "uid": claim_meta.get("uid"),
        "resourceVersion": claim_meta.get("resourceVersion"),
    }
    old = (volume.get("spec") or {}).get("claimRef")
    identity = ("namespace", "name", "uid")
    if old is not None and all(old.get(part) == reference[part] for part in identity):
        reference = old
    if old is None:
        meta["annotations"] = {volume_claims.BOUND_BY_CONTROLLER: "yes", **volume_claims.annotations(volume)}
    return {**volume, "metadata": meta, "spec": {**(volume.get("spec") or {}), "claimRef": reference}}


def provisioned_claim(claim: Document, node_name: str) -> Document:
    """A claim after provisioning for a node is requested."""
    marked = {**volume_claims.annotations(claim), volume_claims.SELECTED_NODE: node_name}
    return {**claim, "metadata": {**claim["metadata"], "annotations": marked}}


def _key(kind: str, document: Document) -> Key:
    meta = document["metadata"]
    return kind, meta.get("namespace") or "", meta["name"]
