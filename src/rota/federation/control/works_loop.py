"""Keeps the Works of bindings, and what members report about them in the bindings and in the resources themselves."""

import contextlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from rota.api import errors, meta, times
from rota.api.kinds import ResourceType
from rota.client.informers.cache import Cache, Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object
from rota.federation import bindings, kinds, object_names
from rota.federation.clusters import Cluster
from rota.federation.control import conditions
from rota.federation.control.fences import Fences
from rota.federation.control.takeover import Takeover
from rota.federation.customization.interpreter import Interpreter
from rota.federation.failover import exclusive
from rota.federation.gates import Gates
from rota.federation.interpreters import native, trees
from rota.federation.member import connections
from rota.federation.member.served_kinds import Kind, NotServed, Types
from rota.federation.own_writes import OwnWrites
from rota.federation.works import manifests, ordinals, reports
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock

log = logs.get(__name__)

#: The index of Works by their binding, `namespace/name`.
BY_BINDING: Final = "binding"
_WORK_ID: Final = "work.karmada.io/permanent-id"
_AGAIN_S: Final = 5.0


def binding_of(work: Object) -> Key | None:
    """The binding that a Work belongs to, by its annotations."""
    annotations = meta.annotations(work)
    name = annotations.get("resourcebinding.karmada.io/name")
    if name:
        return Key(annotations.get("resourcebinding.karmada.io/namespace") or "", name)
    name = annotations.get("clusterresourcebinding.karmada.io/name")
    return Key("", name) if name else None


def indexed_by_binding(work: Object) -> Iterable[str]:
    """The value of the index for a Work."""
    key = binding_of(work)
    return () if key is None else (f"{key.namespace}/{key.name}",)


class WorksLoop:
    """Looks at a binding when it, one of its Works or an override policy changes."""

    def __init__(
        self,
        client: Client,
        types: Types,
        gates: Gates,
        interpreter: Interpreter,
        fences: Fences,
        *,
        clock: Clock,
        rng: Rng,
        templates: Mapping[Kind, Cache[Object]] | None = None,
    ) -> None:
        """`templates` are caches of resources; one of another kind, or that is too old, is read from the server."""
        self._client: Final = client
        self._types: Final = types
        self._interpreter: Final = interpreter
        self._gates: Final = gates
        self._clock: Final = clock
        self._templates: Final = {} if templates is None else templates
        #: The answers to writes of templates' statuses.
        self._reported: Final = OwnWrites[Key]()
        self._frame: Final = Reconciler[Key](
            client, "works", self._process, clock=clock, rng=rng, workers=4, retries=connections.RETRIES
        )
        self._bindings: Final = {
            target: self._frame.follow(target, self._binding_changed).cache
            for target in (kinds.BINDINGS, kinds.CLUSTER_BINDINGS)
        }
        self._works: Final = self._frame.follow(
            kinds.WORKS, self._work_changed, indexers={BY_BINDING: indexed_by_binding}
        ).cache
        self._overrides: Final = self._frame.follow(kinds.OVERRIDES, self._all_changed).cache
        self._cluster_overrides: Final = self._frame.follow(kinds.CLUSTER_OVERRIDES, self._all_changed).cache
        self._clusters: Final[Cache[Object]] = self._frame.follow(kinds.CLUSTERS, self._cluster_changed).cache
        #: Counts changes of policies and clusters that Works depend on.
        self._epoch = 0
        #: By binding: what its Works were made from when they were found as they should be.
        self._settled: Final[dict[Key, object]] = {}
        self._takeover: Final = Takeover(client, fences, self._clusters)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._frame.run()

    def _binding_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        self._frame.queue.add(key)

    def _work_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        work = new or old
        binding = None if work is None else binding_of(work)
        if binding is not None:
            self._frame.queue.add(binding)

    def _cluster_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or _rendered_from(old) != _rendered_from(new):
            self._epoch += 1

    def _all_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        self._epoch += 1
        for cache in self._bindings.values():
            for binding in [key for key, _ in cache.items()]:
                self._frame.queue.add(binding)

    async def _process(self, key: Key) -> float | None:
        target = kinds.bindings_of(key.namespace)
        binding = self._bindings[target].get(key.name, key.namespace)
        works = self._works.indexed(BY_BINDING, f"{key.namespace}/{key.name}")
        if binding is None:
            self._reported.forget(key)
            self._settled.pop(key, None)
            await self._delete(works)
            return None
        if meta.is_deleting(binding):
            await self._delete(works)
            if not works:
                await self._let_go(target, binding)
            return None
        spec: Object = binding.get("spec") or {}
        expected = reports.existing_clusters(spec)
        await self._delete(work for work in works if object_names.cluster_of(meta.namespace(work)) not in expected)
        if not expected and not works and meta.condition(binding, "FullyApplied") is None:
            return None  # it is not placed yet
        try:
            template_type = await self._types.of(native.kind_of(spec.get("resource") or {}))
            resource = await self._template(key, template_type, spec.get("resource") or {})
        except (errors.NotFound, NotServed):
            return None
        numbered = await self._numbered(target, binding, resource)
        if numbered is None:
            return None  # the binding comes back with its blocks
        made_from = self._made_from(numbered, resource, works)
        again = None
        if self._settled.get(key) != made_from:
            again, is_settled = await self._keep_works(numbered, resource, works)
            if is_settled:
                self._settled[key] = made_from
        if _is_awaited(binding, works, self._clock.now()):
            return again or _AGAIN_S
        await self._report(target, binding, template_type, resource, works)
        return again

    async def _template(self, key: Key, template_type: ResourceType, reference: Object) -> Object:
        """The resource of a binding, from a cache that has the version which the binding refers to."""
        cache = self._templates.get(native.kind_of(reference))
        name = str(reference.get("name") or "")
        cached = None if cache is None else cache.get(name, key.namespace)
        known = None if cached is None else self._reported.newest(key, cached)
        if known is not None and meta.uid(known) == reference.get("uid") and _is_as_new(known, reference):
            return known
        return await self._client.get(template_type, name, namespace=key.namespace)

    async def _numbered(self, target: kinds.Target, binding: Object, resource: Object) -> Object | None:
        """The binding, once all its clusters have a block of ordinals where the resource asks for that."""
        try:
            asked = ordinals.block_size(resource) is not None
        except ordinals.WrongBlock:
            asked = False  # said where Works are rendered
        present = ordinals.blocks(binding)
        clusters = [one.get("name", "") for one in manifests.target_clusters(binding.get("spec") or {})]
        if not asked or set(clusters) <= present.keys():
            return binding
        patch = {
            "metadata": {
                "resourceVersion": meta.metadata(binding).get("resourceVersion"),
                "annotations": {
                    ordinals.BLOCKS: msgspec.json.encode(ordinals.assigned(present, clusters), order="sorted").decode()
                },
            }
        }
        with contextlib.suppress(errors.NotFound, errors.Conflict):  # a newer version comes back by itself
            await self._client.patch(target, meta.name(binding), patch, namespace=meta.namespace(binding))
        return None

    async def _delete(self, works: Iterable[Object]) -> None:
        for work in works:
            if not meta.is_deleting(work):
                try:
                    await self._client.delete(kinds.WORKS, meta.name(work), namespace=meta.namespace(work))
                except errors.NotFound:
                    continue

    async def _let_go(self, target: kinds.Target, binding: Object) -> None:
        """Remove our finalizer once no Work is left."""
        own = {
            "karmada.io/binding-controller",
            "karmada.io/cluster-resource-binding-controller",
            "karmada.io/binding-dependencies-distributor",
        }
        left = [one for one in meta.finalizers(binding) if one not in own]
        if len(left) == len(meta.finalizers(binding)):
            return
        patch = {"metadata": {"finalizers": left, "resourceVersion": meta.metadata(binding).get("resourceVersion")}}
        try:
            await self._client.patch(target, meta.name(binding), patch, namespace=meta.namespace(binding))
        except errors.NotFound:
            return

    def _made_from(self, binding: Object, resource: Object, works: Iterable[Object]) -> object:
        """What the Works of a binding follow from, and their own versions: while it is equal, they stay as they are."""
        return (
            self._epoch,
            meta.metadata(binding).get("generation"),
            meta.labels(binding),
            meta.annotations(binding),
            meta.metadata(resource).get("resourceVersion"),
            [(meta.metadata(work).get("generation"), meta.is_deleting(work), _marks(work)) for work in works],
        )

    async def _keep_works(
        self, binding: Object, resource: Object, works: Sequence[Object]
    ) -> tuple[float | None, bool]:
        """Write the Works that differ; when to look again, and whether there is nothing left to do."""
        rendered = manifests.render(
            resource,
            binding,
            [Cluster(obj) for obj in self._clusters.values()],
            manifests.Policies(list(self._overrides.values()), list(self._cluster_overrides.values())),
            self._gates,
            forms=await self._forms(binding, resource),
        )
        present = {(meta.namespace(work), meta.name(work)): work for work in works}
        waiting = bool(rendered.errors)
        for problem in rendered.errors:
            log.warning("a Work cannot be rendered", binding=meta.qualified_name(binding), problem=problem)
        if exclusive.is_exclusive(resource):
            for work in rendered.works:
                exclusive.mark(work)
        growth = await self._takeover.growth(binding, works, rendered.works)
        is_settled = not exclusive.is_exclusive(resource)
        for work in rendered.works:
            known = present.get((meta.namespace(work), meta.name(work)))
            if not growth.allowed and exclusive.grows(work, known):
                continue
            if known is None:
                is_settled = False
                work["metadata"]["labels"][_WORK_ID] = str(uuid.uuid4())
                try:
                    await self._client.create(kinds.WORKS, work)
                except errors.AlreadyExists:
                    waiting = True
            elif meta.is_deleting(known):
                waiting = True
            elif known.get("spec") != work["spec"] or not trees.covers(known, {"metadata": _marks(work)}):
                metadata = {
                    **meta.metadata(known),
                    "labels": {**meta.labels(known), **meta.labels(work)},
                    "annotations": {**meta.annotations(known), **meta.annotations(work)},
                }
                is_settled = False
                await self._client.update(kinds.WORKS, {**known, "metadata": metadata, "spec": work["spec"]})
        again = growth.again_s or (_AGAIN_S if waiting else None)
        return again, is_settled and again is None

    async def _forms(self, binding: Object, resource: Object) -> dict[str, Object]:
        """The resource with the replicas of each cluster."""
        spec: Object = binding.get("spec") or {}
        if not bindings.is_workload(spec) or spec.get("components"):
            return {}
        return {
            target.get("name", ""): await self._interpreter.revised(resource, int(target.get("replicas") or 0))
            for target in manifests.target_clusters(spec)
        }

    async def _report(
        self,
        target: kinds.Target,
        binding: Object,
        template_type: ResourceType,
        resource: Object,
        works: Iterable[Object],
    ) -> None:
        """What members say, in the binding's status and in the resource's own."""
        spec: Object = binding.get("spec") or {}
        now = times.format_time(self._clock.now())
        collected = reports.collect(works, spec.get("resource") or {})
        items = [await self._usable(resource, item, now) for item in collected]
        applied = reports.fully_applied(spec, items)
        reason, message = reports.FULLY_APPLIED if applied else reports.NOT_FULLY_APPLIED
        condition = {
            "type": "FullyApplied",
            "status": "True" if applied else "False",
            "reason": reason,
            "message": message,
        }
        await conditions.write(self._client, target, binding, condition, {"aggregatedStatus": items}, now=now)
        if not any(item.get("status") is not None for item in items):
            return
        found = await self._interpreter.aggregated(resource, items, now)
        wanted = None if found is None else dict(found)
        if wanted is not None and not _same_status(resource.get("status") or {}, wanted):
            answer = await self._client.patch(
                template_type,
                meta.name(resource),
                {"status": _replacing(resource.get("status") or {}, wanted)},
                namespace=meta.namespace(resource),
                subresource="status",
            )
            self._reported.note(Key(meta.namespace(binding), meta.name(binding)), answer)

    async def _usable(self, resource: Object, item: dict[str, Any], now: str) -> dict[str, Any]:
        """An item whose status can be aggregated; one that cannot must not spoil those of other members."""
        if item.get("status") is None:
            return item
        why = reports.oversized(item)
        if why is None:
            try:
                await self._interpreter.aggregated(resource, [item], now)
            except Exception as error:  # noqa: BLE001  # a member may report anything
                why = f"{type(error).__name__}: {error}"
        if why is None:
            return item
        log.warning("the status that a member reports cannot be used", cluster=item["clusterName"], error=why)
        return reports.without_status(item, why)


def _rendered_from(cluster: Object) -> tuple[object, ...]:
    """What of a cluster overrides look at."""
    return meta.metadata(cluster).get("generation"), meta.labels(cluster), meta.is_deleting(cluster)


def _is_as_new(resource: Object, reference: Object) -> bool:
    """Whether a resource has at least the version that a binding refers to."""
    try:
        return int(meta.metadata(resource)["resourceVersion"]) >= int(reference["resourceVersion"])
    except (KeyError, TypeError, ValueError):
        return False


def _is_awaited(binding: Object, works: Iterable[Object], now: float) -> bool:
    """Whether the first report about a new binding is still to come, so that its absence need not be written."""
    if meta.condition(binding, "FullyApplied") is not None or any(work.get("status") for work in works):
        return False
    placed = (binding.get("status") or {}).get("lastScheduledTime") or meta.metadata(binding)["creationTimestamp"]
    return now - times.parse(placed) < _AGAIN_S


def _marks(work: Object) -> dict[str, Any]:
    return {"labels": meta.labels(work), "annotations": meta.annotations(work)}


def _same_status(present: Object, wanted: Object) -> bool:
    """Whether nothing has to be written; an absent number is 0, and the times of conditions do not count."""
    return all(
        (_timeless(present.get(name)) or 0) == (_timeless(wanted.get(name)) or 0) for name in {*present, *wanted}
    )


def _timeless(value: Any) -> Any:
    if isinstance(value, list):
        return [_timeless(one) for one in value]
    if isinstance(value, dict):
        return {name: one for name, one in value.items() if name not in ("lastProbeTime", "lastTransitionTime")}
    return value


def _replacing(present: Object, wanted: Object) -> dict[str, Any]:
    """A merge patch that leaves nothing of the former status."""
    gone: dict[str, Any] = {name: None for name in present if name not in wanted}
    return gone | dict(wanted)
