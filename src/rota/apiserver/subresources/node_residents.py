"""The pods on the nodes of one binding transaction, as far as required anti-affinity asks for them."""

from collections.abc import Mapping
from typing import Final

from rota.api import conflict_reasons
from rota.apiserver.node_allocations import host_anti_affinity
from rota.apiserver.node_allocations.host_anti_affinity import Labelled
from rota.apiserver.node_allocations.overcommit_guard import View
from rota.apiserver.node_allocations.pod_shares import Collision, PodAllocation
from rota.store.store_interface import Store


class NodeResidents:
    """Whether a pod and the pods on its node exclude each other; pods that the same transaction binds are counted."""

    def __init__(self, store: Store, view: View) -> None:
        self._store: Final = store
        self._view: Final = view
        #: Pods that this transaction binds, by node and key, with their stored bytes.
        self._added: Final[dict[str, dict[str, tuple[PodAllocation, bytes]]]] = {}

    def add(self, node: str, key: str, share: PodAllocation, value: bytes) -> None:
        """The transaction binds this pod to the node."""
        self._added.setdefault(node, {})[key] = (share, value)

    async def conflict(self, node: str, key: str, share: PodAllocation, value: bytes) -> Collision | None:
        """A pod on the node that excludes this one, or that this one excludes."""
        added = self._added.get(node, {})
        excluding = {**self._view.excluding(node), **{one: held for one, (held, _) in added.items() if held.excluded}}
        if not excluding and not share.excluded:
            return None
        own_namespace = host_anti_affinity.namespace_of(key)
        own = Labelled(own_namespace, host_anti_affinity.labelled(value).labels)
        for other, held in excluding.items():
            namespace = host_anti_affinity.namespace_of(other)
            if any(term.excludes(namespace, own) for term in held.excluded):
                return _collision(other, "excludes this pod from its node")
        if share.excluded:
            for other, labels in (await self._labels(node)).items():
                there = Labelled(host_anti_affinity.namespace_of(other), labels)
                if any(term.excludes(own_namespace, there) for term in share.excluded):
                    return _collision(other, "is excluded by this pod's anti-affinity")
        return None

    async def _labels(self, node: str) -> dict[str, Mapping[str, str]]:
        """The labels of all pods on a node; those that are gone by now are left out."""
        keys = list(self._view.residents(node))
        entries = await self._store.get_many(keys)
        values = {one.key: one.value for one in entries if one is not None}
        values |= {one: value for one, (_, value) in self._added.get(node, {}).items()}
        return {one: host_anti_affinity.labelled(value).labels for one, value in values.items()}


def _collision(key: str, what: str) -> Collision:
    namespace, name = key.rsplit("/", 2)[-2:]
    message = f"pod {namespace}/{name} {what}"
    return Collision("AntiAffinityConflict", f"{namespace}/{name}", message, conflict_reasons.ANTI_AFFINITY)
