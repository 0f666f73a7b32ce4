"""What a binding must respect besides the resources of its node: claims, limits of volumes, limits of queues.

A claim with the access mode ReadWriteOncePod serves one pod of the cluster. A CSI driver attaches a limited number of
volumes to a node. The pods of a queue request at most its capability. Pods without claims and groups cost nothing here.

Volumes that are still attached after their pods have gone are not counted; the scheduler does that.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rota.api import attachable_volumes
from rota.apiserver import stored_form
from rota.apiserver.node_allocations import overcommit_guard, pod_index, queue_index, storage_limits
from rota.apiserver.node_allocations.overcommit_guard import OvercommitGuard, View, WiderView
from rota.apiserver.node_allocations.pod_shares import Collision, PodAllocation
from rota.apiserver.node_allocations.queue_index import QueueIndex, QueueState
from rota.store.store_interface import Precondition, Put, Store

Object = Mapping[str, Any]

_CLAIMS: Final = "/core/persistentvolumeclaims/"
_VOLUMES: Final = "/core/persistentvolumes/"
_CLASSES: Final = "/storage.k8s.io/storageclasses/"
_CSI_NODES: Final = "/storage.k8s.io/csinodes/"


class WiderChecks:
    """The checks of one transaction; pods that it binds are counted."""

    def __init__(self, store: Store, guard: OvercommitGuard, view: View, *, newest: bool) -> None:
        self._store: Final = store
        self._guard: Final = guard
        self._view: Final = view
        self._newest: Final = newest
        self._objects: Final[dict[str, Object | None]] = {}
        #: Views that the verdicts depend on, by ledger key.
        self._views: Final[dict[str, WiderView]] = {}
        #: Those whose ledger keys the transaction writes, because a pod that it binds falls under them.
        self._used: Final[set[str]] = set()
        #: Pods that this transaction binds: by node, the users of claims, and what queues have.
        self._added: Final[dict[str, list[tuple[str, PodAllocation]]]] = {}
        self._users: Final[dict[str, str]] = {}
        self._taken: dict[str, dict[str, int]] | None = None
        self._queues: QueueState | None = None
        #: Groups whose queue is known to be the one that the store has, and pods of groups that were counted.
        self._current: Final[set[str]] = set()
        self._counted: Final[list[tuple[str, PodAllocation]]] = []

    @property
    def keys(self) -> list[str]:
        """The ledger keys that the transaction writes for them."""
        return sorted(self._used)

    def writes(self) -> list[Put]:
        """What the transaction writes, so that other bindings conflict."""
        return [Put(key, b"{}") for key in self.keys]

    def guards(self) -> list[Precondition]:
        """What it requires."""
        return [Precondition(key, revision=self._views[key].revision) for key in self.keys]

    async def conflict(self, node: str, key: str, share: PodAllocation) -> Collision | None:
        """Why a pod, given by its key, cannot be bound to a node."""
        found = None
        if share.claims or share.disks:
            found = await self._claim_in_use(key, share) or await self._volume_limit(node, key, share)
        if found is None and share.group:
            found = await self._queue_limit(key, share)
        return found

    async def add(self, node: str, key: str, share: PodAllocation) -> None:
        """The transaction binds this pod to the node."""
        if share.claims or share.disks:
            self._added.setdefault(node, []).append((key, share))
            for claim in await self._exclusive(key, share):
                self._users[claim] = key
                self._used.add(overcommit_guard.claims_key(claim.partition("/")[0]))
        if share.group and self._queues is not None:
            self._counted.append((pod_index.group_of(key, share), share))
            self._count(*self._counted[-1])

    # Claims

    async def _claim_in_use(self, key: str, share: PodAllocation) -> Collision | None:
        for claim in await self._exclusive(key, share):
            view = await self._wider(overcommit_guard.claims_key(claim.partition("/")[0]))
            others = {*view.users(claim), *({self._users[claim]} if claim in self._users else ())} - {key}
            if others:
                return storage_limits.in_use(claim, "/".join(min(others).rsplit("/", 2)[-2:]))
        return None

    async def _exclusive(self, key: str, share: PodAllocation) -> list[str]:
        """The claims of a pod that one pod may use; an ephemeral claim has one user anyway."""
        namespace = key.rsplit("/", 2)[-2]
        await self._read([f"{_CLAIMS}{claim}" for claim in storage_limits.named_claims(namespace, share)])
        return storage_limits.exclusive(namespace, share, self.claim)

    async def _wider(self, key: str) -> WiderView:
        if key not in self._views:
            self._views[key] = await self._guard.wider_view(key, newest=self._newest)
        return self._views[key]

    # Volumes

    async def _volume_limit(self, node: str, key: str, share: PodAllocation) -> Collision | None:
        (csi_node,) = await self._read([f"{_CSI_NODES}{node}"])
        if not attachable_volumes.limits(csi_node):
            return None
        others = [(other, held) for other, held in self._view.residents(node).items() if held.claims or held.disks]
        pods = [(key, share), *others, *self._added.get(node, ())]
        claims = [f"{_CLAIMS}{claim}" for pod, held in pods for claim in pod_index.claims_of(pod, held)]
        found = [one for one in await self._read(claims) if one is not None]
        await self._read([*map(_volume_key, found), *map(_class_key, found)])
        return storage_limits.volume_limit(node, pods[0], pods[1:], self)

    # `storage_limits.StorageObjects`, of those that have been read

    def claim(self, name: str, /) -> Object | None:
        """See `StorageObjects.claim`."""
        return self._objects.get(f"{_CLAIMS}{name}")

    def volume(self, name: str, /) -> Object | None:
        """See `StorageObjects.volume`."""
        return self._objects.get(f"{_VOLUMES}{name}")

    def storage_class(self, name: str, /) -> Object | None:
        """See `StorageObjects.storage_class`."""
        return self._objects.get(f"{_CLASSES}{name}")

    def csi_node(self, name: str, /) -> Object | None:
        """See `StorageObjects.csi_node`."""
        return self._objects.get(f"{_CSI_NODES}{name}")

    async def _read(self, keys: Sequence[str]) -> list[Object | None]:
        """Stored objects, each read once."""
        missing = sorted({key for key in keys if key not in self._objects})
        if missing:
            for key, entry in zip(missing, await self._store.get_many(missing), strict=True):
                self._objects[key] = None if entry is None else stored_form.unpack(entry.value)
        return [self._objects[key] for key in keys]

    # Queues

    async def _queue_limit(self, key: str, share: PodAllocation) -> Collision | None:
        index, group = self._guard.queues, pod_index.group_of(key, share)
        if index is None:
            return None
        if self._queues is None:
            self._queues = await index.state()
        if group not in self._queues.groups:
            # It may be so new that the index does not have it yet.
            self._queues = await index.state((await self._store.revision_range()).revision)
        elif self._queues.limits and group not in self._current:
            await self._follow(index, group, self._queues)
        if not self._queues.limited(group):
            return None
        if self._taken is None:
            view = await self._wider(overcommit_guard.QUEUES_KEY)
            self._queues = await index.state(view.revision)
            self._taken = self._queues.totals(view.groups())
            for each in self._counted:
                self._count(*each)
        return self._queues.excess(group, share, self._taken)

    async def _follow(self, index: QueueIndex, group: str, known: QueueState) -> None:
        """Wait for the index if a group is in another queue by now: the limits of that one apply."""
        self._current.add(group)
        entry = await self._store.get(queue_index.group_key(group))
        if entry is not None and queue_index.queue_of(entry.value) != known.groups[group]:
            self._queues, self._taken = await index.state(entry.revision), None

    def _count(self, group: str, share: PodAllocation) -> None:
        """Add a pod that this transaction binds to what its queues have."""
        if self._queues is None or self._taken is None:
            return
        for queue in self._queues.limited(group):
            queue_index.count(self._taken.setdefault(queue.name, {}), share.requests, 1)
            self._used.add(overcommit_guard.QUEUES_KEY)


def _volume_key(claim: Object) -> str:
    return f"{_VOLUMES}{attachable_volumes.volume_name(claim)}"


def _class_key(claim: Object) -> str:
    return f"{_CLASSES}{attachable_volumes.class_name(claim)}"
