"""Finds resources that policies select, claims them, and keeps their bindings."""

import re
import uuid
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from rota.api import errors, meta
from rota.client.informers.cache import Cache, Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Object
from rota.federation import bindings, kinds, object_names, queues
from rota.federation.customization.interpreter import Interpreter
from rota.federation.estimation import capacity_sources
from rota.federation.gates import Gates
from rota.federation.member import connections
from rota.federation.member.served_kinds import Kind, NotServed, Types
from rota.federation.own_writes import OwnWrites
from rota.federation.placement import triggers
from rota.federation.policies import claims, defaults, propagation
from rota.federation.services import exposure
from rota.federation.works.manifests import BINDING_ID, CLUSTER_BINDING_ID
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock

log = logs.get(__name__)

_SKIPPED: Final = re.compile(r"kube-.*")
_NOT_SERVED_AGAIN_S: Final = 10.0
_KUBE_CLASS: Final = "KubePriorityClass"
_PRIORITY_CLASSES: Final = ("scheduling.k8s.io", "v1", "priorityclasses")
#: Members of a binding's spec that follow from the resource and its policy.
_OWN: Final = (
    "resource",
    "replicas",
    "replicaRequirements",
    "components",
    "schedulePriority",
    "placement",
    "propagateDeps",
    "schedulerName",
    "failover",
    "conflictResolution",
    "preserveResourcesOnDeletion",
    "suspension",
    "workloadAffinityGroups",
)


class Template(NamedTuple):
    """A resource of the control plane; without a name, all of its kind."""

    kind: Kind
    namespace: str
    name: str


class Detector:
    """Looks at a resource when it or a policy changes.

    `templates` are the caches of the followed kinds, for other loops to read.
    """

    def __init__(
        self,
        client: Client,
        types: Types,
        gates: Gates,
        interpreter: Interpreter,
        *,
        clock: Clock,
        rng: Rng,
        templates: dict[Kind, Cache[Object]] | None = None,
    ) -> None:
        self._client: Final = client
        self._types: Final = types
        self._interpreter: Final = interpreter
        self._gates: Final = gates
        self._frame: Final = Reconciler[Template](
            client, "detector", self._process, clock=clock, rng=rng, workers=4, retries=connections.RETRIES
        )
        self._policies: Final = self._frame.follow(kinds.POLICIES, self._policy_changed).cache
        self._cluster_policies: Final = self._frame.follow(kinds.CLUSTER_POLICIES, self._policy_changed).cache
        interpreter.on_change(lambda kind: self._frame.queue.add(Template(kind, "", "")))
        self._capacity_sources: Final = self._frame.follow(kinds.CAPACITY_SOURCES, self._source_changed).cache
        self._own: Final = OwnWrites[Key]()
        self._bindings: Final = {
            target: self._frame.follow(target, lambda key, old, new: self._own.seen(key, new)).cache
            for target in (kinds.BINDINGS, kinds.CLUSTER_BINDINGS)
        }
        self._templates: Final = {} if templates is None else templates
        #: The versions of resources that this loop has written, whose events need no other look.
        self._marked: Final[dict[Template, str]] = {}
        #: By uid: the version of a policy, and what it is with its defaults.
        self._defaults: Final[dict[str, tuple[str | None, Object]]] = {}
        #: Resources that changed themselves, for which lazy policies act.
        self._touched: Final[set[Template]] = set()

    async def run(self) -> None:
        """Work until cancelled."""
        await self._frame.run()

    def _source_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        for kind in list(self._templates):
            self._frame.queue.add(Template(kind, "", ""))

    def _policy_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        selected = {
            (one.get("apiVersion") or "", one.get("kind") or "")
            for policy in (old, new)
            if policy is not None
            for one in (policy.get("spec") or {}).get("resourceSelectors") or ()
        }
        if new is None and old is not None:
            self._defaults.pop(meta.uid(old), None)
        for kind in selected:
            self._frame.queue.add(Template(kind, "", ""))

    async def _process(self, what: Template) -> float | None:
        if not what.name:
            return await self._look_at_kind(what.kind)
        cache = self._templates.get(what.kind)
        resource = None if cache is None else cache.get(what.name, what.namespace)
        if resource is None or meta.is_deleting(resource) or exposure.is_claimed(resource):
            self._touched.discard(what)
            return None
        touched = what in self._touched
        policies = await self._known(self._policies, kinds.POLICIES)
        cluster_policies = await self._known(self._cluster_policies, kinds.CLUSTER_POLICIES)
        found = propagation.propagate(
            claims.contested(resource, policies, cluster_policies, self._gates),
            policies,
            cluster_policies,
            self._gates,
            by_control_plane=not touched,
            size=await self._size(resource),
        )
        version = await self._mark(what, resource, found.marks)
        if found.binding is not None and found.policy is not None:
            # The binding refers to the resource with its marks, or it would change once more when they are seen.
            found.binding["spec"]["resource"]["resourceVersion"] = version
            await self._set_priority(found.binding, found.policy.get("spec") or {})
            takes_up = meta.annotations(found.policy).get(triggers.NEW_CLUSTERS)
            if takes_up:
                found.binding["metadata"]["annotations"][triggers.NEW_CLUSTERS] = takes_up
            queue = meta.labels(resource).get(queues.QUEUE)
            if queue and bindings.is_workload(found.binding["spec"]):
                found.binding["metadata"]["annotations"][queues.QUEUE] = queue
            await self._keep(found.binding)
        self._touched.discard(what)
        return None

    async def _size(self, resource: Object) -> dict[str, Any]:
        """Components, or replicas and what each needs, as members of a binding's spec."""
        if self._gates.multiple_pod_templates_scheduling:
            components = await self._interpreter.components(resource)
            if components is not None:
                return {"components": components}
        read = await self._interpreter.replicas(resource)
        taken = capacity_sources.requested(self._capacity_sources.values(), resource) if read is not None else {}
        if read is not None and taken:
            needed = read[1] or {}
            read = read[0], {**needed, "resourceRequest": {**(needed.get("resourceRequest") or {}), **taken}}
        return propagation.size_of(read, meta.namespace(resource), self._gates)

    async def _set_priority(self, binding: dict[str, Any], policy: Mapping[str, Any]) -> None:
        """The schedule priority of the policy's PriorityClass; without that class the binding has to wait."""
        wanted: Object = policy.get("schedulePriority") or {}
        if not wanted or not self._gates.priority_based_scheduling:
            return
        source = wanted.get("priorityClassSource") or _KUBE_CLASS
        if source != _KUBE_CLASS:
            raise errors.bad_request(f"priorityClassSource {source} is not supported; use {_KUBE_CLASS}")
        found = await self._client.get(_PRIORITY_CLASSES, wanted.get("priorityClassName") or "")
        binding["spec"]["schedulePriority"] = {"priority": int(found.get("value") or 0)}

    async def _look_at_kind(self, kind: Kind) -> float | None:
        """Follow a kind from now on, and look at all of it."""
        cache = self._templates.get(kind)
        if cache is None:
            if not self._is_selected(kind):
                return None
            try:
                target = await self._types.of(kind)
            except NotServed as error:
                log.warning("a policy selects what is not served", error=str(error))
                return _NOT_SERVED_AGAIN_S

            def changed(key: Key, old: Object | None, new: Object | None) -> None:
                if object_names.is_reserved(key.namespace) or _SKIPPED.fullmatch(key.namespace):
                    return
                template = Template(kind, key.namespace, key.name)
                marked = self._marked.pop(template, None) if new is None else self._marked.get(template)
                if new is None or (old is not None and marked == meta.metadata(new).get("resourceVersion")):
                    return
                if old is None or not _same_but_status(old, new):
                    self._touched.add(template)
                    self._frame.queue.add(template)

            self._templates[kind] = self._frame.follow(target, changed).cache
            return None
        for key, _ in list(cache.items()):
            if not object_names.is_reserved(key.namespace) and not _SKIPPED.fullmatch(key.namespace):
                self._frame.queue.add(Template(kind, key.namespace, key.name))
        return None

    def _is_selected(self, kind: Kind) -> bool:
        """Whether a policy selects resources of a kind."""
        return any(
            (one.get("apiVersion") or "", one.get("kind") or "") == kind
            for cache in (self._policies, self._cluster_policies)
            for policy in cache.values()
            for one in (policy.get("spec") or {}).get("resourceSelectors") or ()
        )

    async def _known(self, cache: Cache[Object], target: kinds.Target) -> list[Object]:
        """Policies with their defaults; one that has no permanent id yet gets it."""
        found: list[Object] = []
        for given in list(cache.values()):
            policy = given
            label = claims.CLUSTER_ID if claims.is_cluster_wide(given) else claims.ID
            if not meta.labels(given).get(label):
                patch = {"metadata": {"labels": {label: str(uuid.uuid4())}}}
                try:
                    policy = await self._client.patch(target, meta.name(given), patch, namespace=meta.namespace(given))
                except errors.NotFound:
                    continue
            found.append(self._defaulted(policy))
        return found

    def _defaulted(self, policy: Object) -> Object:
        """A policy with its defaults, worked out once for each version of it."""
        version = meta.metadata(policy).get("resourceVersion")
        kept = self._defaults.get(meta.uid(policy))
        if kept is None or kept[0] != version:
            kept = self._defaults[meta.uid(policy)] = (version, defaults.defaulted(policy) or policy)
        return kept[1]

    async def _mark(self, what: Template, resource: Object, marks: claims.Marks) -> Any:
        """Write the claim on a resource; the version of the resource after that."""
        patch = marks.changes(resource)
        if patch:
            target = await self._types.of(what.kind)
            before = meta.metadata(resource).get("resourceVersion")
            # If the resource has changed meanwhile, the version says so, and the event of that change comes first.
            change = {"metadata": {**patch, "resourceVersion": before}}
            resource = await self._client.patch(target, what.name, change, namespace=what.namespace)
            self._marked[what] = str(meta.metadata(resource).get("resourceVersion"))
        return meta.metadata(resource).get("resourceVersion")

    async def _keep(self, binding: dict[str, Any]) -> None:
        """Create the binding, or change what follows from resource and policy; what the scheduler wrote stays."""
        name, namespace = meta.name(binding), meta.namespace(binding)
        target = kinds.bindings_of(namespace)
        key = Key(namespace, name)
        present = self._own.newest(key, self._bindings[target].get(name, namespace))
        if present is None:
            label = BINDING_ID if namespace else CLUSTER_BINDING_ID
            binding["metadata"]["labels"][label] = str(uuid.uuid4())
            created = binding
            if queues.of_binding(binding):  # it waits until its queue admits it
                suspension = {**(binding["spec"].get("suspension") or {}), "scheduling": True}
                created = {**binding, "spec": {**binding["spec"], "suspension": suspension}}
            try:
                self._own.note(key, await self._client.create(target, created))
            except errors.AlreadyExists:
                del binding["metadata"]["labels"][label]
                present = await self._client.get(target, name, namespace=namespace)
            else:
                return
        owner = meta.controller_of(present)
        if owner is not None and owner.get("uid") != binding["metadata"]["ownerReferences"][0]["uid"]:
            raise errors.Conflict(f"binding {name} belongs to a former {owner.get('kind')}; it is deleted first")
        spec = {member: value for member, value in (present.get("spec") or {}).items() if member not in _OWN}
        wanted = {**spec, **{member: binding["spec"][member] for member in _OWN if member in binding["spec"]}}
        held = ((present.get("spec") or {}).get("suspension") or {}).get("scheduling")
        has_left = queues.of_binding(present) and not queues.of_binding(binding)
        if held is not None and not has_left:  # set by a queue before the scheduler, not by the policy
            wanted["suspension"] = {**(wanted.get("suspension") or {}), "scheduling": held}
        labels = {**meta.labels(present), **binding["metadata"]["labels"]}
        annotations = {**meta.annotations(present), **binding["metadata"]["annotations"]}
        for mark in (triggers.NEW_CLUSTERS, queues.QUEUE):
            if mark not in binding["metadata"]["annotations"]:
                annotations.pop(mark, None)
        other = claims.ID if claims.CLUSTER_ID in binding["metadata"]["labels"] else claims.CLUSTER_ID
        labels.pop(other, None)
        metadata = {**meta.metadata(present), "labels": labels, "annotations": annotations}
        before: Object = present.get("spec") or {}
        if (
            all((before.get(member) or None) == (wanted.get(member) or None) for member in _OWN)
            and labels == meta.labels(present)
            and annotations == meta.annotations(present)
        ):
            return
        try:
            self._own.note(key, await self._client.update(target, {**present, "metadata": metadata, "spec": wanted}))
        except (errors.Conflict, errors.NotFound):
            self._own.forget(key)
            raise


def _same_but_status(old: Object, new: Object) -> bool:
    """Whether nothing changed that a binding or a Work could show."""
    return all(
        old.get(member) == new.get(member) for member in {*old, *new} if member not in ("status", "metadata")
    ) and all(
        meta.metadata(old).get(member) == meta.metadata(new).get(member)
        for member in ("labels", "annotations", "deletionTimestamp", "uid")
    )
