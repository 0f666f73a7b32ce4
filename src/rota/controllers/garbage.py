"""The garbage collector: deletes objects without owners, and completes foreground and orphan deletions.

It watches the metadata of every served kind, custom ones included; the graph of `owner_references` says what to
examine. Before a deletion, the object and its owners are read from the server, because a watch may lag. Nothing is
deleted before all kinds have been listed, and an owner of an unserved kind counts as unknown, never as absent.
"""

import asyncio
import functools
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from rota.api import errors, meta
from rota.api.identifiers import GroupResource, GroupVersionKind, parse_api_version
from rota.api.kinds import ResourceType
from rota.client import discovery
from rota.client.informers.cache import Key
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source
from rota.client.queues.metrics import QueueMetrics
from rota.client.queues.work import WorkQueue
from rota.client.verbs import Client, Object
from rota.controllers import owner_references
from rota.controllers.owner_references import Graph, Instruction, Item, Owner, OwnerState
from rota.kit import logs, tasks
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

log = logs.get(__name__)

#: How often the server's kinds are discovered.
_REDISCOVER_S: Final = 30.0
_AGAIN_S: Final = 0.1
_WORKERS: Final = 8
_NEEDED: Final = frozenset({"delete", "list", "watch"})
#: Events own nothing and are too many to watch.
_IGNORED: Final = frozenset({GroupResource("", "events"), GroupResource("events.k8s.io", "events")})


class _Followed(NamedTuple):
    informer: Informer[Item]
    leave: Callable[[], None]


class GarbageCollector:
    """Deletes dependents of gone owners. One per cluster; a second one is harmless, but repeats the work."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, metrics: Metrics | None = None) -> None:
        self._client: Final = client.with_settings(metadata_only=True)
        self._clock: Final = clock
        self._rng: Final = rng
        self._metrics: Final = metrics or client.settings.metrics or Metrics("garbage")
        self._deleted: Final = self._metrics.counter("deleted_total", "Objects deleted, by resource.", ("resource",))
        self._graph = Graph()
        self._queue: Final = WorkQueue[str](
            clock=clock,
            rng=rng,
            name="garbage",
            metrics=QueueMetrics(self._metrics, "garbage", clock=clock),
        )
        self._followed: Final[dict[ResourceType, _Followed]] = {}
        #: Every kind in every served version, because references name versions.
        self._kinds: dict[GroupVersionKind, ResourceType] = {}
        self._complete: Final = asyncio.Event()

    async def run(self) -> None:
        """Collect until cancelled. A second call starts with a new list of all objects."""
        self._graph = Graph()
        self._followed.clear()
        self._complete.clear()
        async with tasks.Supervisor("garbage", clock=self._clock, rng=self._rng) as following:
            await self._rediscover(following)
            following.start("kinds", functools.partial(self._keep_discovering, following))
            following.start("work", self._work)
            await following.wait()

    async def wait_synced(self) -> None:
        """Return once all kinds have been listed."""
        await self._complete.wait()

    async def _keep_discovering(self, following: tasks.Supervisor) -> None:
        while True:
            await self._clock.sleep(_REDISCOVER_S)
            await self._rediscover(following)

    async def _rediscover(self, following: tasks.Supervisor) -> None:
        found = await discovery.discover(self._client)
        self._kinds = {one.gvk: one for one in found.types}
        wanted = {one for one in found.preferred() if set(one.verbs) >= _NEEDED and one.group_resource not in _IGNORED}
        for resource in wanted - self._followed.keys():
            self._follow(resource, following)
        for resource in self._followed.keys() - wanted:
            # A group whose discovery fails has not been removed.
            if resource.api_version not in found.failed:
                await self._unfollow(resource, following)
        await asyncio.gather(*(one.informer.wait_synced() for one in self._followed.values()))
        self._complete.set()

    def _follow(self, resource: ResourceType, following: tasks.Supervisor) -> None:
        informer = Informer[Item](
            Source(client=self._client, target=resource),
            decode=functools.partial(owner_references.item_from, resource=resource),
            clock=self._clock,
            rng=self._rng,
            metrics=self._metrics,
        )
        self._followed[resource] = _Followed(informer, informer.add_handler(self._changed))
        following.start(str(resource.gvr), informer.run)

    async def _unfollow(self, resource: ResourceType, following: tasks.Supervisor) -> None:
        followed = self._followed.pop(resource)
        await following.stop(str(resource.gvr))
        followed.leave()
        for item in followed.informer.cache.values():
            self._examine(self._graph.forget(item.uid))

    def _changed(self, _: Key, old: Item | None, new: Item | None) -> None:
        if new is not None:
            self._examine(self._graph.put(new))
        elif old is not None:
            self._examine(self._graph.remove(old.uid))

    def _examine(self, uids: Iterable[str]) -> None:
        for uid in tuple(uids):
            self._queue.add(uid)

    async def _work(self) -> None:
        await self._complete.wait()
        await self._queue.work(self._process, workers=_WORKERS)

    async def _process(self, uid: str) -> float | None:
        item = self._graph.get(uid)
        if item is None or self._graph.settled(item):
            return None
        live = await self._live(item.resource, item.namespace, item.name)
        if live is None or meta.uid(live) != uid:
            # Gone; the watch reports it, and its dependents are examined then.
            return None
        item = owner_references.item_from_object(live, item.resource)
        try:
            if item.orphans_dependents:
                await self._orphan(item, live)
                return None
            states = {owner: await self._state(owner, item) for owner in item.owners}
            if OwnerState.UNKNOWN in states.values():
                return _REDISCOVER_S
            for instruction in owner_references.plan(item, states, self._graph.dependents(uid)):
                live = await self._execute(instruction, item, live)
        except errors.NotFound:
            return None
        except errors.Conflict:
            # A conflicting write: the decision may be outdated.
            return _AGAIN_S
        return None

    async def _state(self, owner: Owner, item: Item) -> OwnerState:
        known = self._graph.owner(owner, item)
        if known is not None:
            return OwnerState.WAITING if known.waits_for_dependents else OwnerState.PRESENT
        if self._graph.has_ended(owner, item):
            return OwnerState.ABSENT
        version = parse_api_version(owner.api_version)
        resource = self._kinds.get(GroupVersionKind(*version, owner.kind)) if version else None
        if resource is None:
            log.warning("owner of unknown kind", object=item.name, owner=f"{owner.api_version} {owner.kind}")
            return OwnerState.UNKNOWN
        if resource.namespaced and not item.namespace:
            log.warning("namespaced owner of a cluster-scoped object", object=item.name, owner=owner.name)
            return OwnerState.IMPOSSIBLE
        try:
            live = await self._client.get(resource, owner.name, namespace=item.namespace if resource.namespaced else "")
        except errors.NotFound as refusal:
            # Only a 404 that names the object means that it is gone; any other means that its kind is no longer served.
            named = refusal.details is not None and refusal.details.name == owner.name
            return OwnerState.ABSENT if named else OwnerState.UNKNOWN
        if meta.uid(live) != owner.uid:
            return OwnerState.ABSENT
        waits = owner_references.item_from_object(live, resource).waits_for_dependents
        return OwnerState.WAITING if waits else OwnerState.PRESENT

    async def _live(self, resource: ResourceType, namespace: str, name: str) -> Object | None:
        try:
            return await self._client.get(resource, name, namespace=namespace)
        except errors.NotFound:
            return None

    async def _execute(self, instruction: Instruction, item: Item, live: Object) -> Object:
        """Execute a decision; the object after it."""
        references = list(meta.owner_references(live))
        match instruction:
            case owner_references.Examine(uid):
                self._queue.add(uid)
                return live
            case owner_references.DropOwners(uids):
                return await self._patch(live, item, ownerReferences=[r for r in references if r["uid"] not in uids])
            case owner_references.UnblockOwners():
                return await self._patch(
                    live, item, ownerReferences=[{**r, "blockOwnerDeletion": False} for r in references]
                )
            case owner_references.DropFinalizer(name):
                return await self._drop_finalizer(live, item, name)
            case owner_references.DeleteItem(propagation):
                log.info("deleting", resource=str(item.resource), object=meta.qualified_name(live))
                await self._client.delete(
                    item.resource,
                    item.name,
                    namespace=item.namespace,
                    propagation=propagation,
                    uid=item.uid,
                    resource_version=str(live["metadata"]["resourceVersion"]),
                )
                self._deleted.labels(str(item.resource)).inc()
                return live

    async def _orphan(self, item: Item, live: Object) -> None:
        for dependent in self._graph.dependents(item.uid):
            found = await self._live(dependent.resource, dependent.namespace, dependent.name)
            if found is None or meta.uid(found) != dependent.uid:
                continue
            kept = [one for one in meta.owner_references(found) if one["uid"] != item.uid]
            if len(kept) < len(meta.owner_references(found)):
                await self._patch(found, dependent, ownerReferences=kept)
        await self._drop_finalizer(live, item, owner_references.ORPHAN)

    async def _drop_finalizer(self, live: Object, item: Item, name: str) -> Object:
        return await self._patch(live, item, finalizers=[one for one in meta.finalizers(live) if one != name])

    async def _patch(self, live: Object, item: Item, **metadata: object) -> Object:
        """Replace lists in the metadata, conditional on uid and resourceVersion."""
        guards = {"uid": item.uid, "resourceVersion": live["metadata"]["resourceVersion"]}
        return await self._client.patch(
            item.resource, item.name, {"metadata": {**guards, **metadata}}, namespace=item.namespace
        )
