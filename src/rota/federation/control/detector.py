"""Finds resources that policies select, claims them, and keeps their bindings."""

import re
import uuid
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from rota.api import errors, meta
from rota.client.informers.cache import Cache, Key
from rota.client.verbs import Client, Object
from rota.federation import kinds, object_names
from rota.federation.control.frame import Frame
from rota.federation.control.types import Kind, NotServed, Types
from rota.federation.gates import Gates
from rota.federation.policies import claims, defaults, propagation
from rota.federation.works.manifests import BINDING_ID, CLUSTER_BINDING_ID
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock

log = logs.get(__name__)

_SKIPPED: Final = re.compile(r"kube-.*")
_NOT_SERVED_AGAIN_S: Final = 10.0
#: Members of a binding's spec that follow from the resource and its policy.
_OWN: Final = (
    "resource",
    "replicas",
    "replicaRequirements",
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
    """Looks at a resource when it or a policy changes."""

    def __init__(self, client: Client, types: Types, gates: Gates, *, clock: Clock, rng: Rng) -> None:
        self._client: Final = client
        self._types: Final = types
        self._gates: Final = gates
        self._frame: Final = Frame[Template]("detector", clock=clock, rng=rng)
        self._policies: Final = self._frame.follow(client, kinds.POLICIES, self._policy_changed)
        self._cluster_policies: Final = self._frame.follow(client, kinds.CLUSTER_POLICIES, self._policy_changed)
        self._templates: Final[dict[Kind, Cache[Object]]] = {}
        #: By uid: the version of a policy, and what it is with its defaults.
        self._defaults: Final[dict[str, tuple[str | None, Object]]] = {}
        #: Resources that changed themselves, for which lazy policies act.
        self._tainted_nodes: Final[set[Template]] = set()

    async def run(self) -> None:
        """Work until cancelled."""
        await self._frame.run(self._process, workers=4)

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
        if resource is None or meta.is_deleting(resource):
            self._tainted_nodes.discard(what)
            return None
        tainted_nodes = what in self._tainted_nodes
        found = propagation.propagate(
            resource,
            await self._known(self._policies, kinds.POLICIES),
            await self._known(self._cluster_policies, kinds.CLUSTER_POLICIES),
            self._gates,
            by_control_plane=not tainted_nodes,
        )
        await self._mark(what, resource, found.marks)
        if found.binding is not None:
            await self._keep(found.binding)
        self._tainted_nodes.discard(what)
        return None

    async def _look_at_kind(self, kind: Kind) -> float | None:
        """Follow a kind from now on, and look at all of it."""
        cache = self._templates.get(kind)
        if cache is None:
            try:
                target = await self._types.of(kind)
            except NotServed as error:
                log.warning("a policy selects what is not served", error=str(error))
                return _NOT_SERVED_AGAIN_S

            def changed(key: Key, old: Object | None, new: Object | None) -> None:
                if new is None or object_names.is_reserved(key.namespace) or _SKIPPED.fullmatch(key.namespace):
                    return
                template = Template(kind, key.namespace, key.name)
                if old is None or not _same_but_status(old, new):
                    self._tainted_nodes.add(template)
                    self._frame.queue.add(template)

            self._templates[kind] = self._frame.follow(self._client, target, changed)
            return None
        for key, _ in list(cache.items()):
            if not object_names.is_reserved(key.namespace) and not _SKIPPED.fullmatch(key.namespace):
                self._frame.queue.add(Template(kind, key.namespace, key.name))
        return None

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

    async def _mark(self, what: Template, resource: Object, marks: claims.Marks) -> None:
        patch = {
            part: change
            for part, change in (
                ("labels", _difference(meta.labels(resource), marks.labels)),
                ("annotations", _difference(meta.annotations(resource), marks.annotations)),
            )
            if change
        }
        if patch:
            target = await self._types.of(what.kind)
            await self._client.patch(target, what.name, {"metadata": patch}, namespace=what.namespace)

    async def _keep(self, binding: dict[str, Any]) -> None:
        """Create the binding, or change what follows from resource and policy; what the scheduler wrote stays."""
        name, namespace = meta.name(binding), meta.namespace(binding)
        target = kinds.bindings_of(namespace)
        try:
            present = await self._client.get(target, name, namespace=namespace)
        except errors.NotFound:
            label = BINDING_ID if namespace else CLUSTER_BINDING_ID
            binding["metadata"]["labels"][label] = str(uuid.uuid4())
            await self._client.create(target, binding)
            return
        owner = meta.controller_of(present)
        if owner is not None and owner.get("uid") != binding["metadata"]["ownerReferences"][0]["uid"]:
            raise errors.Conflict(f"binding {name} belongs to a former {owner.get('kind')}; it is deleted first")
        spec = {member: value for member, value in (present.get("spec") or {}).items() if member not in _OWN}
        wanted = {**spec, **{member: binding["spec"][member] for member in _OWN if member in binding["spec"]}}
        labels = {**meta.labels(present), **binding["metadata"]["labels"]}
        annotations = {**meta.annotations(present), **binding["metadata"]["annotations"]}
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
        await self._client.update(target, {**present, "metadata": metadata, "spec": wanted})


def _difference(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    """A merge patch from one map to the other."""
    gone: dict[str, str | None] = {name: None for name in before if name not in after}
    return gone | {name: value for name, value in after.items() if before.get(name) != value}


def _same_but_status(old: Object, new: Object) -> bool:
    """Whether nothing changed that a binding or a Work could show."""
    return all(
        old.get(member) == new.get(member) for member in {*old, *new} if member not in ("status", "metadata")
    ) and all(
        meta.metadata(old).get(member) == meta.metadata(new).get(member)
        for member in ("labels", "annotations", "deletionTimestamp", "uid")
    )
