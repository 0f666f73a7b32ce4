"""Binding as a transaction: pods get their nodes if they may go there and the nodes have the resources now.

A transaction writes pods and the ledger keys of their nodes. Its preconditions are the revisions that the decision was
made from and the nodes' existence. If only a precondition failed, the decision is made again from the new state; a
refusal is always based on the newest state. The check is whether a pod fits, not whether a node has changed, unless the
request asks for that (`BindRequest.seen`).

Without an overcommit guard (`conflict_check` off) only the pod itself is checked, as in a stock server.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from rota.api import conflict_reasons, errors, gotext, gpu_devices, resources
from rota.api.identifiers import GroupResource
from rota.apiserver import stored_form
from rota.apiserver.interfaces import Attributes, Object, Registry
from rota.apiserver.node_allocations import cordons, pod_shares
from rota.apiserver.node_allocations.overcommit_guard import OvercommitGuard, View, keys_of
from rota.apiserver.subresources import bind_template
from rota.apiserver.subresources.node_residents import NodeResidents
from rota.apiserver.subresources.wider_checks import WiderChecks
from rota.store.store_interface import MOST_WRITES, Committed, Entry, Precondition, Put, Transaction

PODS: Final = GroupResource("", "pods")
NODES: Final = GroupResource("", "nodes")
_BINDING: Final = GroupResource("", "pods/binding")
#: How many keys a transaction may read here: one more is left for the leader fence, one for that of the store's role.
MOST_KEYS: Final = MOST_WRITES - 2
#: How often a decision is made again after a conflict. Each time at least one other binding succeeded.
_TRIES: Final = 64
#: How many nodes are cached as they were last read.
_MOST_NODES: Final = 16_384
_IN_COMPANY: Final = "not bound because the batch is atomic and others of its pods cannot be bound"


@dataclass(frozen=True, slots=True, kw_only=True)
class BindRequest:
    """A pod, and the node to bind it to."""

    namespace: str
    name: str
    node: str
    #: Preconditions; empty ones are not checked.
    uid: str = ""
    resource_version: str = ""
    #: Added to the pod's own.
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    #: The revision up to which the scheduler knows what is bound to the node: with it, the criterion is coarse, and the
    #: pod is refused if another one was bound there since. None for the fine one: whether it fits.
    seen: int | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it sets only the node, for any version of the pod."""
        return not (self.resource_version or self.labels or self.annotations)


#: The result of a bind request: None if the pod is bound.
Verdict: TypeAlias = errors.ApiError | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What a binding needs of a node."""

    key: str
    name: str
    revision: int
    #: The revision that created it, which identifies the incarnation.
    created: int
    allocatable: Mapping[str, int]
    #: Whether it is cordoned.
    unschedulable: bool = False

    @classmethod
    def of(cls, entry: Entry) -> "Node":
        """Decode a stored node."""
        obj = stored_form.unpack(entry.value)
        return cls(
            key=entry.key,
            name=obj["metadata"]["name"],
            revision=entry.revision,
            created=entry.created,
            allocatable=resources.node_allocatable(obj),
            unschedulable=bool((obj.get("spec") or {}).get("unschedulable")),
        )


@dataclass(slots=True)
class _Plan:
    """The content of one transaction."""

    verdicts: list[Verdict] = field(default_factory=list)
    writes: list[Put] = field(default_factory=list)
    guards: list[Precondition] = field(default_factory=list)
    bound: list[tuple[str, str, pod_shares.PodAllocation]] = field(default_factory=list)
    #: Whether a pod is refused for lack of resources, which a stale view may be wrong about.
    crowded: bool = False
    #: Ledger keys besides those of the nodes.
    wider: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Company:
    """The pods that others must respect: on the node, and in the cluster."""

    residents: NodeResidents
    wider: WiderChecks

    async def conflict(
        self, node: str, key: str, share: pod_shares.PodAllocation, value: bytes
    ) -> pod_shares.Collision | None:
        found = await self.residents.conflict(node, key, share, value)
        return found or await self.wider.conflict(node, key, share)

    async def add(self, node: str, key: str, share: pod_shares.PodAllocation, value: bytes) -> None:
        self.residents.add(node, key, share, value)
        await self.wider.add(node, key, share)


class Binder:
    """Binds pods to nodes."""

    def __init__(self, overcommit_guard: OvercommitGuard | None) -> None:
        """Without a guard nodes are not checked."""
        self._overcommit_guard: Final = overcommit_guard
        self._nodes: Final[dict[str, Node]] = {}

    async def bind(
        self, at: Attributes, bind_requests: Sequence[BindRequest], registry: Registry, *, atomic: bool = False
    ) -> list[Verdict]:
        """A result for each request, in order. Every pod occurs once; a later request sees the earlier ones.

        Requests that do not fit into one transaction are bound in several, one after the other; an atomic batch that
        does not fit is refused (see `most_keys`).
        """
        return [verdict for verdict, _ in await self.bind_at(at, bind_requests, registry, atomic=atomic)]

    async def bind_at(
        self, at: Attributes, bind_requests: Sequence[BindRequest], registry: Registry, *, atomic: bool = False
    ) -> list[tuple[Verdict, int]]:
        """The same, each result with the revision of its transaction; 0 for refused pods."""
        results: list[tuple[Verdict, int]] = []
        for chunk in [list(bind_requests)] if atomic else _chunks(bind_requests):
            results += await self._bind_together(at, chunk, registry, atomic=atomic)
        return results

    async def _bind_together(
        self, at: Attributes, bind_requests: Sequence[BindRequest], registry: Registry, *, atomic: bool
    ) -> list[tuple[Verdict, int]]:
        if self._overcommit_guard is None:
            return await self._settle(at, bind_requests, registry, atomic=atomic)
        async with self._overcommit_guard.turn({bind_request.node for bind_request in bind_requests}):
            return await self._settle(at, bind_requests, registry, atomic=atomic)

    async def _settle(
        self, at: Attributes, bind_requests: Sequence[BindRequest], registry: Registry, *, atomic: bool
    ) -> list[tuple[Verdict, int]]:
        newest = False
        for _ in range(_TRIES):
            plan = await self._plan(at, bind_requests, registry, newest=newest)
            if plan.crowded and not newest:
                newest = True
                continue
            newest = False
            if atomic and any(plan.verdicts):
                return [
                    (verdict or _refusal(bind_request, _IN_COMPANY), 0)
                    for bind_request, verdict in zip(bind_requests, plan.verdicts, strict=True)
                ]
            if not plan.writes:
                return [(verdict, 0) for verdict in plan.verdicts]
            if len(plan.guards) > MOST_KEYS:
                return await self._divide(at, bind_requests, registry, atomic=atomic)
            outcome = await registry.commit(at, Transaction(tuple(plan.writes), tuple(plan.guards)))
            if isinstance(outcome, Committed):
                if self._overcommit_guard is not None and not at.dry_run:
                    self._overcommit_guard.learn(outcome.revision, plan.bound, plan.wider)
                return [(verdict, 0 if verdict else outcome.revision) for verdict in plan.verdicts]
        return [(_refusal(bind_request, errors.OBJECT_MODIFIED), 0) for bind_request in bind_requests]

    async def _divide(
        self, at: Attributes, bind_requests: Sequence[BindRequest], registry: Registry, *, atomic: bool
    ) -> list[tuple[Verdict, int]]:
        """Bind in two transactions what is too much for one because of claims and queues."""
        half = len(bind_requests) // 2
        if atomic or not half:
            why = "its claims and queues need more keys than a transaction has; bind fewer pods at once"
            return [(_refusal(bind_request, why), 0) for bind_request in bind_requests]
        first = await self._settle(at, bind_requests[:half], registry, atomic=False)
        return first + await self._settle(at, bind_requests[half:], registry, atomic=False)

    async def _plan(
        self, at: Attributes, bind_requests: Sequence[BindRequest], registry: Registry, *, newest: bool
    ) -> _Plan:
        entries, nodes, view = await self._look(bind_requests, registry, newest=newest)
        resource = registry.resource(PODS)
        plan = _Plan()
        used: set[str] = set()
        company = self._company(registry, view, newest=newest)
        for bind_request, entry in zip(bind_requests, entries, strict=True):
            free = None if entry is None or not bind_request.is_plain else bind_template.assignable(entry.value)
            pod: Object | None = None
            devices: gpu_devices.Devices = ()
            if free is not None and bind_request.uid in {"", free.uid}:
                verdict, share = None, free.share
            else:
                free, share = None, None
                pod = None if entry is None else stored_form.entry_object(entry, resource)
                verdict = _refuse_pod(bind_request, pod)
            if verdict is None and view is not None and company is not None:
                assert entry is not None, "a pod that is not there is refused"
                share = pod_shares.of_member(share or pod_shares.wanted(entry.value), entry.value)
                node = nodes[bind_request.node]
                if node is not None and gpu_devices.demand(share.requests).gpus:
                    verdict, share = _choose_devices(bind_request, node, share, view)
                verdict = verdict or _refuse_node(bind_request, node, share, view, plan)
                if verdict is None and node is not None and node.unschedulable:
                    pod = pod or stored_form.entry_object(entry, resource)
                    verdict, free = _refuse_cordoned(bind_request, node, pod), None
                if verdict is None and node is not None:
                    apart = await company.conflict(node.name, entry.key, share, entry.value)
                    verdict = None if apart is None else _refuse_company(bind_request, node, apart, plan)
                if verdict is None and share.devices:
                    devices = share.devices
                    free, pod = None, pod or stored_form.entry_object(entry, resource)
                if verdict is None:
                    view.usage[bind_request.node].add(share)
                    await company.add(bind_request.node, entry.key, share, entry.value)
                    plan.bound.append((entry.key, bind_request.node, share))
            plan.verdicts.append(verdict)
            if verdict is None:
                assert entry is not None, "a pod that is not there is refused"
                used.add(bind_request.node)
                if free is not None:
                    value = free.assigned(bind_request.node, at.now)
                else:
                    assert pod is not None, "a pod that is not there is refused"
                    value = registry.encode(_bound(pod, bind_request, devices, at.now))
                plan.writes.append(Put(entry.key, value))
                plan.guards.append(Precondition(entry.key, revision=entry.revision))
        if view is not None and company is not None and used:
            plan.wider = company.wider.keys
            plan.writes += [*view.writes(used), *company.wider.writes()]
            plan.guards += [*view.guards(used), *company.wider.guards()]
            # The revision, not only the incarnation: a node that is cordoned gets no pod from then on.
            plan.guards += [
                Precondition(one.key, revision=one.revision) for name in used if (one := nodes[name]) is not None
            ]
        return plan

    def _company(self, registry: Registry, view: View | None, *, newest: bool) -> "_Company | None":
        if view is None or self._overcommit_guard is None:
            return None
        wider = WiderChecks(registry.store, self._overcommit_guard, view, newest=newest)
        return _Company(NodeResidents(registry.store, view), wider)

    async def _look(
        self, bind_requests: Sequence[BindRequest], registry: Registry, *, newest: bool
    ) -> tuple[list[Entry | None], dict[str, Node | None], View | None]:
        """The pods, their nodes and what is bound there, with one read of the store."""
        resource = registry.resource(PODS)
        keys = [stored_form.key(resource, bind_request.namespace, bind_request.name) for bind_request in bind_requests]
        names: list[str] = []
        ledger_keys: list[str] = []
        if self._overcommit_guard is not None:
            names = sorted({bind_request.node for bind_request in bind_requests})
            ledger_keys = keys_of(names)
            node_resource = registry.resource(NODES)
            keys += [stored_form.key(node_resource, "", name) for name in names]
        found = await registry.store.get_many([*keys, *ledger_keys])
        pods = found[: len(bind_requests)]
        if self._overcommit_guard is None:
            return pods, {}, None
        there = zip(names, found[len(bind_requests) : len(keys)], strict=True)
        nodes = {name: None if one is None else self._node(one) for name, one in there}
        view = await self._overcommit_guard.view_at(names, ledger_keys, found[len(keys) :], newest=newest)
        return pods, nodes, view

    def _node(self, entry: Entry) -> Node:
        """A node; it is decoded again only when it has changed."""
        known = self._nodes.get(entry.key)
        if known is None or known.revision != entry.revision:
            if len(self._nodes) >= _MOST_NODES:
                self._nodes.clear()
            known = self._nodes[entry.key] = Node.of(entry)
        return known


def most_keys(bind_requests: Sequence[BindRequest]) -> int:
    """How many keys a transaction that binds all of them reads; the limit is `MOST_KEYS`.

    These are the pods, the nodes and the nodes' ledger keys.
    """
    nodes = {bind_request.node for bind_request in bind_requests}
    return len(bind_requests) + len(nodes) + len(keys_of(nodes))


def _chunks(bind_requests: Sequence[BindRequest]) -> Iterator[list[BindRequest]]:
    """The requests in order, as many together as one transaction can hold."""
    chunk: list[BindRequest] = []
    size, nodes = 0, set[str]()
    for bind_request in bind_requests:
        more = 1 if bind_request.node in nodes else 3
        if size + more > MOST_KEYS:
            yield chunk
            chunk, size, nodes, more = [], 0, set(), 3
        chunk.append(bind_request)
        nodes.add(bind_request.node)
        size += more
    if chunk:
        yield chunk


def _refuse_pod(bind_request: BindRequest, pod: Object | None) -> Verdict:
    if pod is None:
        return errors.not_found(PODS, bind_request.name)
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    for what, expected, actual in (
        ("UID", bind_request.uid, metadata["uid"]),
        ("ResourceVersion", bind_request.resource_version, metadata["resourceVersion"]),
    ):
        if expected and expected != actual:
            why = f"Precondition failed: {what} in precondition: {expected}, {what} in object meta: {actual}"
            return _moved(bind_request, why, PODS)
    if metadata.get("deletionTimestamp"):
        return _moved(bind_request, f"pod {bind_request.name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        return _moved(
            bind_request, f"pod {bind_request.name} is already assigned to node {gotext.quote(spec['nodeName'])}"
        )
    if spec.get("schedulingGates"):
        return _moved(bind_request, f"pod {bind_request.name} has non-empty .spec.schedulingGates")
    return None


def _moved(bind_request: BindRequest, why: str, what: GroupResource = _BINDING) -> errors.Conflict:
    return _conflict(what, bind_request.name, why, (_reason(conflict_reasons.POD_MOVED),))


def _reason(reason: str) -> errors.Cause:
    return errors.Cause(type=conflict_reasons.CAUSE, message=reason)


def _choose_devices(
    bind_request: BindRequest, node: Node, share: pod_shares.PodAllocation, view: View
) -> tuple[Verdict, pod_shares.PodAllocation]:
    """The allocation with the GPU devices that the binding names, or that fit best if it names none."""
    text = bind_request.annotations.get(gpu_devices.ANNOTATION, "")
    devices = gpu_devices.parsed(text)
    if devices is None:
        why = f"annotation {gpu_devices.ANNOTATION} is {gotext.quote(text)}: give numbers of devices, such as 0 or 2,3"
        return errors.bad_request(why), share
    named = replace(share, devices=devices)
    return None, pod_shares.with_devices(named, node.allocatable, view.usage[bind_request.node])


def _refuse_node(
    bind_request: BindRequest, node: Node | None, share: pod_shares.PodAllocation, view: View, plan: _Plan
) -> Verdict:
    if node is None:
        causes = (
            errors.Cause(type="NodeNotFound", message=bind_request.node),
            _reason(conflict_reasons.UNSCHEDULABLE),
        )
        return _refusal(bind_request, f"node {gotext.quote(bind_request.node)} does not exist", causes)
    bound_at = view.bound_at.get(bind_request.node, 0)
    if bind_request.seen is not None and bound_at > bind_request.seen:
        why = f"node {gotext.quote(node.name)} has a pod that was bound at {bound_at}, after {bind_request.seen}"
        return _refusal(bind_request, why, (_reason(conflict_reasons.STALE),))
    usage = view.usage[bind_request.node]
    found = pod_shares.collisions(share, node.allocatable, usage)
    if not found:
        return None
    plan.crowded = True
    return insufficient_capacity(_BINDING, bind_request.name, node, found, pod_shares.free(node.allocatable, usage))


def _refuse_cordoned(bind_request: BindRequest, node: Node, pod: Object) -> Verdict:
    """See `cordons`."""
    if cordons.tolerated_by(pod):
        return None
    why = f"node {gotext.quote(node.name)} is unschedulable"
    return _refusal(bind_request, why, (_reason(conflict_reasons.UNSCHEDULABLE),))


def _refuse_company(bind_request: BindRequest, node: Node, apart: pod_shares.Collision, plan: _Plan) -> Verdict:
    # The pod that is in the way may be gone by now: the newest state decides.
    plan.crowded = True
    return impossible(_BINDING, bind_request.name, apart, node)


def impossible(
    what: GroupResource, name: str, apart: pod_shares.Collision, node: Node | None = None
) -> errors.Conflict:
    """A 409 for a reason other than capacity, with the node's resourceVersion if the node is known."""
    causes = [_reason(apart.reason), errors.Cause(type=apart.kind, message=apart.message, field=apart.what)]
    if node is None:
        return _conflict(what, name, apart.message, causes)
    causes.append(errors.Cause(type="NodeResourceVersion", message=str(node.revision)))
    return _conflict(what, name, f"node {gotext.quote(node.name)} is not possible: {apart.message}", causes)


def insufficient_capacity(
    what: GroupResource, name: str, node: Node, collisions: Sequence[pod_shares.Collision], free: Mapping[str, int]
) -> errors.Conflict:
    """A 409 with the conflicts, and all that a scheduler needs to choose again.

    The causes are one `InsufficientResource` or `PortConflict` for each conflict (`field` names the resource or port),
    then the node's resourceVersion as `NodeResourceVersion`, then one `NodeFree` for each resource that it declares,
    and the `ConflictReason` (`rota.api.conflict_reasons`).
    """
    causes = [errors.Cause(type=one.kind, message=one.message, field=one.what) for one in collisions]
    causes.append(errors.Cause(type="NodeResourceVersion", message=str(node.revision)))
    causes += [
        errors.Cause(type="NodeFree", message=resources.shown(resource, amount), field=resource)
        for resource, amount in sorted(free.items())
    ]
    causes.append(_reason(collisions[0].reason))
    why = f"node {gotext.quote(node.name)} has insufficient capacity: {'; '.join(one.message for one in collisions)}"
    return _conflict(what, name, why, causes)


def _refusal(bind_request: BindRequest, why: str, causes: Sequence[errors.Cause] = ()) -> errors.Conflict:
    return _conflict(_BINDING, bind_request.name, why, causes)


def _conflict(what: GroupResource, name: str, why: str, causes: Sequence[errors.Cause]) -> errors.Conflict:
    plain = errors.conflict(what, name, why)
    details = errors.Details(name=name, group=what.group, kind=what.resource, causes=tuple(causes))
    return errors.Conflict(plain.message, details=details)


def _bound(pod: Object, bind_request: BindRequest, devices: gpu_devices.Devices, now: float) -> Object:
    metadata, status = dict(pod["metadata"]), bind_template.scheduled(pod.get("status") or {}, now)
    annotations = dict(bind_request.annotations)
    if devices:
        annotations[gpu_devices.ANNOTATION] = gpu_devices.shown(devices)
    for name, added in (("labels", bind_request.labels), ("annotations", annotations)):
        if added:
            metadata[name] = {**(metadata.get(name) or {}), **added}
    return {
        **pod,
        "metadata": metadata,
        "spec": {**(pod.get("spec") or {}), "nodeName": bind_request.node},
        "status": status,
    }
