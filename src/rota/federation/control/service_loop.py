"""MultiClusterServices: their Service goes to providers and consumers, and providers' EndpointSlices to consumers."""

import contextlib
import uuid
from typing import Any, Final

from rota.api import errors, meta, times
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object
from rota.federation import kinds, object_names
from rota.federation.control import conditions
from rota.federation.control.marked_works import MarkedWorks, Place
from rota.federation.gates import Gates
from rota.federation.member import connections
from rota.federation.policies import claims
from rota.federation.services import exposure, slices
from rota.federation.works.manifests import BINDING_ID
from rota.kit.backoff import Rng
from rota.kit.clock import Clock

_MARK: Final = "federation.rota.dev/multiclusterservice"
_BOUND: Final = ("placement", "resource", "conflictResolution")


class ServiceLoop:
    """Reconciles a MultiClusterService when it, its Service, its binding, one of its Works or a cluster changes."""

    def __init__(self, client: Client, gates: Gates, *, clock: Clock, rng: Rng) -> None:
        self._client: Final = client
        self._enabled: Final = gates.multi_cluster_service
        self._clock: Final = clock
        self._frame: Final = Reconciler[Key](
            client, "services", self._process, clock=clock, rng=rng, retries=connections.RETRIES
        )
        self._exposed: Final = self._frame.follow(
            kinds.MULTI_CLUSTER_SERVICES, lambda key, old, new: self._frame.queue.add(key)
        ).cache
        self._templates: Final = self._frame.follow(kinds.SERVICES, self._template_changed).cache
        self._clusters: Final = self._frame.follow(kinds.CLUSTERS, self._cluster_changed).cache
        self._bindings: Final = self._frame.follow(kinds.BINDINGS, self._binding_changed).cache
        self._works: Final = MarkedWorks(client, self._frame, _MARK, self._work_changed)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._frame.run()

    def _template_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        # its status is written from those of members, and is no part of what they get
        same = old is not None and new is not None and old.get("spec") == new.get("spec")
        if not (same and claims.Marks.of(old or {}) == claims.Marks.of(new or {})):
            self._frame.queue.add(key)

    def _cluster_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if _standing(old) != _standing(new):
            for service in [one for one, _ in self._exposed.items()]:
                self._frame.queue.add(service)

    def _binding_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        annotations = meta.annotations(new or old or {})
        if exposure.NAME in annotations:
            self._frame.queue.add(Key(key.namespace, annotations[exposure.NAME]))

    def _work_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        namespace, _, name = meta.annotations(new or old or {})[_MARK].partition("/")
        self._frame.queue.add(Key(namespace, name))

    async def _process(self, key: Key) -> float | None:
        service = self._exposed.get(key.name, key.namespace)
        if service is None or meta.is_deleting(service):
            await self._works.keep(f"{key.namespace}/{key.name}", {})
            await self._release(key)
            if service is not None and exposure.FINALIZER in meta.finalizers(service):
                left = [one for one in meta.finalizers(service) if one != exposure.FINALIZER]
                with contextlib.suppress(errors.NotFound):
                    change = {"metadata": {"finalizers": left or None}}
                    await self._patched(kinds.MULTI_CLUSTER_SERVICES, service, change)
            return None
        if not self._enabled:
            why = "start the control plane with --feature-gates MultiClusterService=true"
            await self._report(service, "ServiceApplied", why)
            return None
        service = await self._prepared(service)
        template = self._templates.get(key.name, key.namespace)
        if template is None or meta.is_deleting(template):
            await self._works.keep(f"{key.namespace}/{key.name}", {})
            why = f"Service {key.namespace}/{key.name} does not exist; create it"
            for kind in _DONE:
                await self._report(service, kind, why)
            return None
        clusters = list(self._clusters.values())
        providers, consumers = exposure.providers(service, clusters), exposure.consumers(service, clusters)
        await self._bind(await self._claim(service, template), service, exposure.targets(service, clusters))
        await self._report(service, "ServiceApplied", _absent(exposure.unknown(service, clusters)))
        await self._dispatch(service, template, providers, consumers)
        return None

    async def _prepared(self, service: Object) -> Object:
        """The MultiClusterService with its finalizer and its permanent id."""
        finalizers = meta.finalizers(service)
        if exposure.FINALIZER in finalizers and meta.labels(service).get(exposure.ID):
            return service
        metadata = {
            "resourceVersion": meta.metadata(service).get("resourceVersion"),
            "labels": {exposure.ID: meta.labels(service).get(exposure.ID) or str(uuid.uuid4())},
            "finalizers": [*(one for one in finalizers if one != exposure.FINALIZER), exposure.FINALIZER],
        }
        return await self._patched(kinds.MULTI_CLUSTER_SERVICES, service, {"metadata": metadata})

    async def _claim(self, service: Object, template: Object) -> Object:
        change = exposure.claimed(template, service).changes(template)
        return await self._patched(kinds.SERVICES, template, {"metadata": change}) if change else template

    async def _bind(self, template: Object, service: Object, clusters: list[str]) -> None:
        """Keep the Service's binding; what the scheduler has written there stays."""
        wanted = exposure.binding(template, service, clusters)
        present = self._bindings.get(meta.name(wanted), meta.namespace(wanted))
        if present is None:
            wanted["metadata"]["labels"][BINDING_ID] = str(uuid.uuid4())
            await self._client.create(kinds.BINDINGS, wanted)
            return
        owner = meta.controller_of(present)
        if owner is not None and owner.get("uid") != meta.uid(template):
            raise errors.Conflict(f"binding {meta.name(wanted)} belongs to a former Service; it is deleted first")
        free = claims.Marks.of(present).unclaimed().cluster_unclaimed()
        marks = claims.Marks({**free.labels, **meta.labels(wanted)}, {**free.annotations, **meta.annotations(wanted)})
        before: Object = present.get("spec") or {}
        spec = {**before, **{member: wanted["spec"][member] for member in _BOUND}}
        if spec != before or marks.changes(present):
            metadata = {**meta.metadata(present), "labels": marks.labels, "annotations": marks.annotations}
            await self._client.update(kinds.BINDINGS, {**present, "metadata": metadata, "spec": spec})

    async def _dispatch(self, service: Object, template: Object, providers: list[str], consumers: list[str]) -> None:
        owner, ports = meta.qualified_name(service), exposure.ports(service, template)
        marks = {_MARK: owner}
        known, wanted, waits = self._works.of(owner), dict[Place, dict[str, Any]](), list[str]()
        for provider in providers:
            asking = slices.collecting_work(service, provider, marks)
            place = (meta.namespace(asking), meta.name(asking))
            wanted[place] = asking
            found = slices.reported(known.get(place) or {})
            if found is None:
                waits.append(f"{provider} has not reported its EndpointSlices yet")
            if slices.left_out(known.get(place) or {}):
                waits.append(f"{provider} has more EndpointSlices than are copied; some are left out")
            for one in found or ():
                for consumer in consumers:
                    work = slices.imported_work(one, service, provider, consumer, ports, marks)
                    if consumer != provider:
                        wanted.setdefault((meta.namespace(work), meta.name(work)), work)
        present = await self._works.keep(owner, wanted)
        for place in wanted:
            cluster = object_names.cluster_of(place[0])
            applied = meta.condition(present.get(place) or {}, "Applied") or {}
            if slices.PROVIDER in meta.annotations(wanted[place]) and applied.get("status") != "True":
                waits.append(f"{cluster}: {applied.get('message') or 'an EndpointSlice is not applied yet'}")
        await self._report(service, "EndpointSliceDispatched", "; ".join(waits[:10]))

    async def _release(self, key: Key) -> None:
        """Let go of the Service; like that of a policy that is deleted, its binding stays as it is."""
        for target, present in (
            (kinds.SERVICES, self._templates.get(key.name, key.namespace)),
            (kinds.BINDINGS, self._bindings.get(object_names.binding("Service", key.name), key.namespace)),
        ):
            if present is not None and meta.annotations(present).get(exposure.NAME) == key.name:
                change = exposure.released(present).changes(present)
                with contextlib.suppress(errors.NotFound):
                    await self._patched(target, present, {"metadata": change})

    async def _patched(self, target: kinds.Target, obj: Object, change: Object) -> Object:
        return await self._client.patch(target, meta.name(obj), change, namespace=meta.namespace(obj))

    async def _report(self, service: Object, kind: str, problem: str) -> None:
        """Write a condition: it is true without a problem."""
        condition = {
            "type": kind,
            "status": "False" if problem else "True",
            "reason": f"{kind}{'Failed' if problem else 'Succeed'}",
            "message": problem or _DONE[kind],
        }
        now = times.format_time(self._clock.now())
        await conditions.write(self._client, kinds.MULTI_CLUSTER_SERVICES, service, condition, {}, now=now)


_DONE: Final = {
    "ServiceApplied": "Service is propagated to target clusters.",
    "EndpointSliceDispatched": "EndpointSlice are dispatched successfully",
}


def _standing(cluster: Object | None) -> object:
    """What providers and consumers depend on of a cluster."""
    if cluster is None:
        return None
    status: Object = cluster.get("status") or {}
    return meta.is_deleting(cluster), meta.is_condition_true(cluster, "Ready"), status.get("apiEnablements")


def _absent(clusters: list[str]) -> str:
    return f"clusters that are named have not joined: {', '.join(clusters)}" if clusters else ""
