"""Pods that are created with a node (by daemons, static pods) pass the same overcommit guard as bindings.

A pod that does not fit on its node, or whose claims or queue do not allow it, is refused with 409. A mirror pod is not:
it reports what its worker already runs, and is counted. As upstream, the node need not exist; pods bound to it count
once it does.
"""

from typing import ClassVar, Final

from rota.api import resources
from rota.api.identifiers import GroupResource
from rota.apiserver.interfaces import Attributes, Object, Registry, TransactionExtras
from rota.apiserver.node_allocations import pod_index, pod_shares
from rota.apiserver.node_allocations.overcommit_guard import OvercommitGuard, View
from rota.apiserver.subresources.binder import NODES, PODS, Node, impossible, insufficient_capacity
from rota.apiserver.subresources.wider_checks import WiderChecks
from rota.store.store_interface import Precondition

MIRROR: Final = "kubernetes.io/config.mirror"


class NodeCapacity:
    """Admits new pods with a node. Runs last: by then the pod's requests are final."""

    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset({NODES})

    def __init__(self, registry: Registry, overcommit_guard: OvercommitGuard) -> None:
        self._registry: Final = registry
        self._overcommit_guard: Final = overcommit_guard

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> TransactionExtras | None:
        """Ensure that the pod fits when it is written, and that no other pod gets the same resources."""
        if new is None or old is not None or at.subresource or at.resource.group_resource != PODS:
            return None
        name = (new.get("spec") or {}).get("nodeName")
        if not name:
            return None
        node = await self._registry.find(self._registry.resource(NODES), "", name)
        view = await self._overcommit_guard.view((name,))
        guards = view.guards((name,))
        if node is not None:
            guards += (Precondition(node.key, created=node.created),)
            if MIRROR not in (new["metadata"].get("annotations") or {}):
                share, allocatable = pod_shares.of_pod({**new, "status": {}}), resources.node_allocatable(node.object)
                if pod_shares.collisions(share, allocatable, view.usage[name]):
                    view = await self._overcommit_guard.view((name,), newest=True)
                    found = pod_shares.collisions(share, allocatable, view.usage[name])
                    if found:
                        left = pod_shares.free(allocatable, view.usage[name])
                        known = Node(
                            key=node.key,
                            name=name,
                            revision=node.revision,
                            created=node.created,
                            allocatable=allocatable,
                        )
                        raise insufficient_capacity(PODS, new["metadata"].get("name", ""), known, found, left)
                    guards = (*view.guards((name,)), guards[-1])
        wider = await self._wider(at, new, name, view)
        return TransactionExtras(writes=(*view.writes((name,)), *wider.writes()), guards=(*guards, *wider.guards()))

    async def _wider(self, at: Attributes, new: Object, node: str, view: View) -> WiderChecks:
        """The claims and queues of the pod."""
        wider = WiderChecks(self._registry.store, self._overcommit_guard, view, newest=False)
        share = pod_shares.of_pod({**new, "status": {}})
        own = new["metadata"].get("name", "")
        key = f"{pod_index.PODS}{at.namespace}/{own}"
        found = await wider.conflict(node, key, share)
        if found is not None and MIRROR not in (new["metadata"].get("annotations") or {}):
            wider = WiderChecks(self._registry.store, self._overcommit_guard, view, newest=True)
            found = await wider.conflict(node, key, share)
            if found is not None:
                raise impossible(PODS, own, found)
        await wider.add(node, key, share)
        return wider
