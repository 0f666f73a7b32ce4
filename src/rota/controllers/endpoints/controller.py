"""Maintains EndpointSlices and Endpoints of all services with a selector, as upstream's two controllers do.

A service is reconciled when it changes, when a pod that it selects or selected changes, and when its slices change; not
before the cache contains all slices that were written for it.
"""

from collections.abc import Mapping
from typing import Any, Final

from rota.api import errors, meta, names
from rota.client.expectations import Expectations
from rota.client.informers.cache import Key, by_namespace
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object
from rota.controllers.endpoints import backends, slices, subsets
from rota.controllers.pod_control import Draw, is_end_of_namespace, prefix
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

SERVICES: Final = ("", "v1", "services")
PODS: Final = ("", "v1", "pods")
NODES: Final = ("", "v1", "nodes")
ENDPOINTS: Final = ("", "v1", "endpoints")
SLICES: Final = ("discovery.k8s.io", "v1", "endpointslices")
_BY_NAMESPACE: Final = "namespace"
_BY_SERVICE: Final = "service"
#: After a conflicting write: the watch delivers the new state soon.
_SOON_S: Final = 0.05
#: Retry interval while a pod's node is unknown.
_NODELESS_S: Final = 1.0


class EndpointController:
    """Maintains the endpoints of services."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, metrics: Metrics | None = None) -> None:
        self._client: Final = client
        self._rng: Final = rng
        self._frame: Final = Reconciler[Key](
            client, "endpoints", self._process, clock=clock, rng=rng, workers=5, metrics=metrics
        )
        self._expectations: Final = Expectations(clock)
        indexers = {_BY_NAMESPACE: by_namespace}
        self._services: Final = self._frame.follow(SERVICES, self._service_changed, indexers=indexers)
        self._pods: Final = self._frame.follow(PODS, self._pod_changed, indexers=indexers)
        self._nodes: Final = self._frame.follow(NODES, lambda *_: None)
        self._slices: Final = self._frame.follow(SLICES, self._slice_changed, indexers={_BY_SERVICE: _by_service})
        self._endpoints: Final = self._frame.follow(ENDPOINTS, self._endpoints_changed)

    async def run(self) -> None:
        """Maintain endpoints until cancelled."""
        await self._frame.run()

    def _service_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None and old is not None:
            self._expectations.forget(meta.uid(old))
        self._frame.queue.add(key)

    def _pod_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is not None and new is not None and _facts(old) == _facts(new):
            return
        for service in self._services.cache.indexed(_BY_NAMESPACE, key.namespace):
            if any(one is not None and backends.selects(service, one) for one in (old, new)):
                self._frame.queue.add(Key(key.namespace, meta.name(service)))

    def _slice_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        self._expectations.observe(key, old, new)
        for one in (old, new):
            if one is not None and slices.is_ours(one) and (name := meta.labels(one).get(slices.SERVICE_NAME)):
                self._frame.queue.add(Key(key.namespace, name))

    def _endpoints_changed(self, key: Key, _: Object | None, new: Object | None) -> None:
        # Finds the Endpoints of services that were deleted while no controller ran.
        if new is None or meta.labels(new).get(subsets.MANAGED_BY) == subsets.CONTROLLER:
            self._frame.queue.add(key)

    async def _process(self, key: Key) -> float | None:
        found = self._services.cache.get(key.name, key.namespace)
        if found is None:
            await self._forget(key)
            return None
        service = {**found, "apiVersion": "v1", "kind": "Service"}
        if not backends.is_kept(service):
            return None
        uid = meta.uid(service)
        if not self._expectations.settled(uid):
            return self._expectations.patience_s(uid)
        pods = [pod for pod in self._pods.cache.indexed(_BY_NAMESPACE, key.namespace) if backends.selects(service, pod)]
        try:
            again = await self._keep_slices(service, pods)
            await self._keep_endpoints(service, pods)
        except (errors.Conflict, errors.NotFound, errors.AlreadyExists):
            return _SOON_S
        except errors.ApiError as problem:
            if is_end_of_namespace(problem):
                return None
            raise
        return again

    async def _forget(self, key: Key) -> None:
        """Delete the Endpoints of a deleted service; the garbage collector deletes its slices."""
        if self._endpoints.cache.get(key.name, key.namespace) is None:
            return
        try:
            await self._client.delete(ENDPOINTS, key.name, namespace=key.namespace)
        except errors.NotFound:
            return

    async def _keep_slices(self, service: Object, pods: list[Object]) -> float | None:
        key = f"{meta.namespace(service)}/{meta.name(service)}"
        existing = [one for one in self._slices.cache.indexed(_BY_SERVICE, key) if not meta.is_deleting(one)]
        nodes = {
            name: node
            for pod in pods
            if (name := (pod.get("spec") or {}).get("nodeName")) and (node := self._nodes.cache.get(name)) is not None
        }
        plan = slices.plan(service, pods, existing, nodes=nodes)
        for one in plan.create:
            await self._create(service, one)
        for one in plan.update:
            await self._write(service, one, going=False)
        for unwanted in plan.delete:
            await self._write(service, unwanted, going=True)
        return _NODELESS_S if plan.nodeless else None

    async def _create(self, service: Object, one: dict[str, Any]) -> None:
        stem = prefix(meta.name(service))
        # The name is generated here, so that a request that is retried creates one slice.
        name = names.generate(stem, Draw(self._rng))
        key = Key(meta.namespace(service), name)
        self._expectations.expect(meta.uid(service), key)
        try:
            made = await self._client.create(
                SLICES, {**one, "metadata": {**one["metadata"], "name": name, "generateName": stem}}
            )
        except BaseException:
            self._expectations.drop(key)
            raise
        self._expectations.confirm(key, made)

    async def _write(self, service: Object, one: Mapping[str, Any], *, going: bool) -> None:
        key = Key(meta.namespace(one), meta.name(one))
        self._expectations.expect(meta.uid(service), key, of=one, going=going)
        try:
            if going:
                answer = await self._client.delete(SLICES, key.name, namespace=key.namespace, uid=meta.uid(one))
            else:
                answer = await self._client.update(SLICES, one)
        except BaseException:
            self._expectations.drop(key)
            raise
        self._expectations.confirm(key, answer)

    async def _keep_endpoints(self, service: Object, pods: list[Object]) -> None:
        existing = self._endpoints.cache.get(meta.name(service), meta.namespace(service))
        wanted = subsets.wanted(service, pods, existing)
        if wanted is None:
            return
        if existing is not None:
            await self._client.update(ENDPOINTS, wanted)
        elif not meta.is_deleting(service):
            await self._client.create(ENDPOINTS, wanted)


def _by_service(obj: Mapping[str, Any]) -> tuple[str, ...]:
    name = meta.labels(obj).get(slices.SERVICE_NAME)
    return (f"{meta.namespace(obj)}/{name}",) if name and slices.is_ours(obj) else ()


def _facts(pod: Mapping[str, Any]) -> tuple[object, ...]:
    """The fields of a pod that endpoints depend on."""
    spec = pod.get("spec") or {}
    return (
        meta.labels(pod),
        meta.is_deleting(pod),
        meta.is_condition_true(pod, "Ready"),
        (pod.get("status") or {}).get("phase"),
        (pod.get("status") or {}).get("podIPs"),
        spec.get("nodeName"),
    )
