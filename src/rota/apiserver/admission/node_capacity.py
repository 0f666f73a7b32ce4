"""Pods that are created with a node (by daemons, static pods) pass the same overcommit guard as bindings.

A pod that does not fit on its node, or whose claims or queue do not allow it, is refused with 409. A mirror pod is not:
it reports what its worker already runs, and is counted. As upstream, the node need not exist; pods bound to it count
once it does.
"""

from typing import ClassVar, Final

from rota.api import errors, resources
from rota.api.identifiers import GroupResource
from rota.apiserver.interfaces import Attributes, Object, Registry, Stored, TransactionExtras
from rota.apiserver.node_allocations import pod_index, pod_shares
from rota.apiserver.node_allocations.overcommit_guard import OvercommitGuard, View
from rota.apiserver.node_allocations.pod_shares import PodAllocation
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
        share = pod_shares.of_pod({**new, "status": {}})
        key = f"{pod_index.PODS}{at.namespace}/{new['metadata'].get('name', '')}"
        view, wider, problem = await self._look(key, share, name, node, newest=False)
        if problem is not None and MIRROR not in (new["metadata"].get("annotations") or {}):
            # Before a pod is refused the newest state is read. All checks use it: one view guards the transaction.
            view, wider, problem = await self._look(key, share, name, node, newest=True)
            if problem is not None:
                raise problem
        await wider.add(name, key, share)
        exists = () if node is None else (Precondition(node.key, created=node.created),)
        return TransactionExtras(
            writes=(*view.writes((name,)), *wider.writes()), guards=(*view.guards((name,)), *exists, *wider.guards())
        )

    async def _look(
        self, key: str, share: PodAllocation, name: str, node: Stored | None, *, newest: bool
    ) -> tuple[View, WiderChecks, errors.ApiError | None]:
        """What is on the node, the checks of claims and queues, and why the pod cannot be there."""
        view = await self._overcommit_guard.view((name,), newest=newest)
        wider = WiderChecks(self._registry.store, self._overcommit_guard, view, newest=newest)
        own = key.rpartition("/")[2]
        if node is not None:
            allocatable = resources.node_allocatable(node.object)
            if found := pod_shares.collisions(share, allocatable, view.usage[name]):
                left = pod_shares.free(allocatable, view.usage[name])
                known = Node(
                    key=node.key, name=name, revision=node.revision, created=node.created, allocatable=allocatable
                )
                return view, wider, insufficient_capacity(PODS, own, known, found, left)
        collision = await wider.conflict(name, key, share)
        return view, wider, None if collision is None else impossible(PODS, own, collision)
