"""Pods that are created with a node already (by daemons, for static pods) go through the same ledger as bindings.

A pod that does not fit on its node is refused with 409. A mirror pod is not: it reports what its worker runs already,
and is counted all the same. As upstream, the node need not exist; whatever is bound to it counts once it does.
"""

from typing import Final

from rota.api import resources
from rota.apiserver.contract import Attributes, Object, Registry, Rider
from rota.apiserver.occupancy import shares
from rota.apiserver.occupancy.ledger import Ledger
from rota.apiserver.subresources.binder import NODES, PODS, Node, no_room
from rota.store.contract import Guard

MIRROR: Final = "kubernetes.io/config.mirror"


class NodeCapacity:
    """Admits new pods with a node. Comes last: by then the pod's requests are final."""

    def __init__(self, registry: Registry, ledger: Ledger) -> None:
        self._registry: Final = registry
        self._ledger: Final = ledger

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> Rider | None:
        """Make sure that the pod fits when it is written, and that nobody else is sold the same room."""
        if new is None or old is not None or at.subresource or at.resource.group_resource != PODS:
            return None
        name = (new.get("spec") or {}).get("nodeName")
        if not name:
            return None
        node = await self._registry.find(self._registry.resource(NODES), "", name)
        view = await self._ledger.view((name,))
        guards = view.guards((name,))
        if node is not None:
            guards += (Guard(node.key, created=node.created),)
            if MIRROR not in (new["metadata"].get("annotations") or {}):
                share, allocatable = shares.of_pod({**new, "status": {}}), resources.node_allocatable(node.object)
                if shares.collisions(share, allocatable, view.usage[name]):
                    view = await self._ledger.view((name,), newest=True)
                    found = shares.collisions(share, allocatable, view.usage[name])
                    if found:
                        left = shares.free(allocatable, view.usage[name])
                        known = Node(
                            key=node.key,
                            name=name,
                            revision=node.revision,
                            created=node.created,
                            allocatable=allocatable,
                        )
                        raise no_room(PODS, new["metadata"].get("name", ""), known, found, left)
                    guards = (*view.guards((name,)), guards[-1])
        return Rider(writes=view.writes((name,)), guards=guards)
