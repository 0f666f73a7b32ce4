"""What limits bindings besides nodes, as the resolver's informers show it: claims, volumes, and the queues of groups.

Volcano's kinds are not on every server. Without them no queue limits anything; if they are installed later, their
informers begin to show them.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from rota.api import errors
from rota.api.batch import kinds as batch_kinds
from rota.apiserver.node_allocations import queue_index, storage_limits
from rota.apiserver.node_allocations.pod_shares import PodAllocation
from rota.apiserver.node_allocations.queue_index import QueueState
from rota.client.informers.cache import Key
from rota.client.informers.informer import Handler, Informer
from rota.client.informers.reflector import Source
from rota.client.verbs import Client
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

log = logs.get(__name__)

Object = Mapping[str, Any]
_Target: TypeAlias = tuple[str, str, str]

CLAIMS: Final = ("", "v1", "persistentvolumeclaims")
_VOLUMES: Final = ("", "v1", "persistentvolumes")
_CLASSES: Final = ("storage.k8s.io", "v1", "storageclasses")
_CSI_NODES: Final = ("storage.k8s.io", "v1", "csinodes")
_POD_GROUPS: Final = (batch_kinds.SCHEDULING, "v1beta1", "podgroups")
_QUEUES: Final = (batch_kinds.SCHEDULING, "v1beta1", "queues")
_encode: Final = msgspec.json.Encoder().encode


class LimitingObjects:
    """The objects of one process. Implements `storage_limits.StorageObjects`."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, metrics: Metrics) -> None:
        self._client: Final = client
        self.queues: Final = QueueState()

        def informer(target: _Target) -> Informer[Object]:
            source = Source(client=client, target=target)
            return Informer(source, decode=msgspec.json.decode, clock=clock, rng=rng, metrics=metrics)

        self._storage: Final = {each: informer(each) for each in (CLAIMS, _VOLUMES, _CLASSES, _CSI_NODES)}
        self._batch: Final = {each: informer(each) for each in (_POD_GROUPS, _QUEUES)}
        #: Claims that were read because their informer did not have them yet.
        self._read: Final[dict[str, Object]] = {}
        for target, one in self._batch.items():
            one.add_handler(self._follow(target))
        self._storage[CLAIMS].add_handler(self._claim_changed)

    @property
    def informers(self) -> Iterator[tuple[str, Informer[Object]]]:
        """All informers, by name, to be run."""
        return ((target[2], one) for target, one in (*self._storage.items(), *self._batch.items()))

    async def wait_synced(self) -> None:
        """Wait until everything that the server has is known."""
        for one in self._storage.values():
            await one.wait_synced()
        for target, one in self._batch.items():
            if await self._served(target):
                await one.wait_synced()

    async def _served(self, target: _Target) -> bool:
        try:
            await self._client.list(target)
        except (errors.NotFound, errors.Forbidden) as error:
            log.info("limits of queues are not checked", kind=target[2], error=error)
            return False
        return True

    async def learn(self, namespace: str, share: PodAllocation) -> None:
        """Read the claims and the group of a pod if they are so new that the informers do not have them yet."""
        for name in storage_limits.named_claims(namespace, share):
            if self.claim(name) is None and (found := await self._found(CLAIMS, name)) is not None:
                self._read[name] = found
        group = f"{namespace}/{share.group}" if share.group else ""
        if group and group not in self.queues.groups:
            found = await self._found(_POD_GROUPS, group)
            if found is not None and group not in self.queues.groups:
                self._put(_POD_GROUPS, group, found)

    async def _found(self, target: _Target, name: str) -> Object | None:
        namespace, _, own = name.rpartition("/")
        try:
            return await self._client.get(target, own, namespace=namespace)
        except (errors.NotFound, errors.Forbidden):
            return None

    def _follow(self, target: _Target) -> Handler[Object]:
        def changed(key: Key, _: Object | None, new: Object | None) -> None:
            self._put(target, f"{key.namespace}/{key.name}" if key.namespace else key.name, new)

        return changed

    def _claim_changed(self, key: Key, _: Object | None, __: Object | None) -> None:
        self._read.pop(f"{key.namespace}/{key.name}", None)

    def _put(self, target: _Target, name: str, obj: Object | None) -> None:
        self.queues.put(f"{queue_index.PREFIX}{target[2]}/{name}", None if obj is None else _encode(obj))

    def claim(self, name: str, /) -> Object | None:
        """See `StorageObjects.claim`."""
        namespace, _, own = name.partition("/")
        return self._storage[CLAIMS].cache.get(own, namespace) or self._read.get(name)

    def volume(self, name: str, /) -> Object | None:
        """See `StorageObjects.volume`."""
        return self._storage[_VOLUMES].cache.get(name)

    def storage_class(self, name: str, /) -> Object | None:
        """See `StorageObjects.storage_class`."""
        return self._storage[_CLASSES].cache.get(name)

    def csi_node(self, name: str, /) -> Object | None:
        """See `StorageObjects.csi_node`."""
        return self._storage[_CSI_NODES].cache.get(name)
