"""What is bound on each node, and what was approved and may still arrive. Pure: times are arguments.

The API server asks before it writes, and the watch shows the binding after that. In between, the approved binding holds
its resources. A hold ends when the watch shows the pod on a node, or gone, or when the API server can no longer write
the binding: its request has timed out, and the pod was read without a node after that. A pod may have several holds if
several schedulers bind it; the API server lets one of them win.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.api import conflict_reasons, resources
from rota.apiserver.node_allocations import cordons, pod_index, pod_shares, storage_limits
from rota.apiserver.node_allocations.host_anti_affinity import Labelled
from rota.apiserver.node_allocations.pod_shares import Collision, NodeAllocation, PodAllocation
from rota.apiserver.node_allocations.queue_index import QueueState
from rota.apiserver.node_allocations.storage_limits import StorageObjects

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Resident:
    node: str
    share: PodAllocation
    labelled: Labelled
    name: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a binding is refused."""

    reason: str
    message: str


class BindingLedger:
    """The nodes, the pods on them, and the approved bindings."""

    def __init__(self, storage: StorageObjects, queues: QueueState) -> None:
        """`storage` and `queues` have what limits bindings besides nodes; others keep them up to date."""
        self._storage: Final = storage
        self._queues: Final = queues
        self._allocatable: Final[dict[str, Mapping[str, int]]] = {}
        self._cordoned: Final[set[str]] = set()
        self._bound: Final[dict[str, _Resident]] = {}
        self._usage: Final[dict[str, NodeAllocation]] = {}
        self._on: Final[dict[str, dict[str, _Resident]]] = {}
        #: Bound pods by the claims that they use, and what the bound pods of groups take.
        self._users: Final[dict[str, dict[str, _Resident]]] = {}
        self._groups: Final[dict[str, NodeAllocation]] = {}
        #: Approved bindings by uid and node, with the time of the approval.
        self._holds: Final[dict[str, dict[str, tuple[_Resident, float]]]] = {}

    def __len__(self) -> int:
        """The number of approved bindings that may still arrive."""
        return sum(map(len, self._holds.values()))

    def set_node(self, name: str, obj: Object | None) -> None:
        """A node as it is now; None if it is gone."""
        self._cordoned.discard(name)
        if obj is None:
            self._allocatable.pop(name, None)
            return
        self._allocatable[name] = resources.node_allocatable(obj)
        if (obj.get("spec") or {}).get("unschedulable"):
            self._cordoned.add(name)

    def set_pod(self, uid: str, obj: Object | None) -> None:
        """A pod as the watch shows it; None if it is gone."""
        before = self._bound.pop(uid, None)
        if before is not None:
            self._usage[before.node].remove(before.share)
            del self._on[before.node][uid]
            self._leave(uid, before)
        now = None if obj is None else _resident(obj)
        if now is not None:
            self._bound[uid] = now
            self._usage.setdefault(now.node, NodeAllocation()).add(now.share)
            self._on.setdefault(now.node, {})[uid] = now
            for claim in pod_index.claims_of(now.name, now.share):
                self._users.setdefault(claim, {})[uid] = now
            if now.share.group:
                self._groups.setdefault(pod_index.group_of(now.name, now.share), NodeAllocation()).add(now.share)
        if obj is None or now is not None or _has_ended(obj):
            self._holds.pop(uid, None)

    def _leave(self, uid: str, one: _Resident) -> None:
        for claim in pod_index.claims_of(one.name, one.share):
            users = self._users.get(claim, {})
            users.pop(uid, None)
            if not users:
                self._users.pop(claim, None)
        if one.share.group:
            group = pod_index.group_of(one.name, one.share)
            self._groups[group].remove(one.share)
            if not self._groups[group].pods:
                del self._groups[group]

    def approve(self, pod: Object, node: str, now: float, *, dry_run: bool = False) -> Refusal | None:
        """Approve a binding and hold its resources, or say why not."""
        uid = pod["metadata"]["uid"]
        allocatable = self._allocatable.get(node)
        if (pod.get("spec") or {}).get("nodeName"):
            return Refusal(conflict_reasons.POD_MOVED, f"pod is already assigned to node {pod['spec']['nodeName']}")
        if allocatable is None:
            return Refusal(conflict_reasons.UNSCHEDULABLE, f"node {node} does not exist")
        if node in self._cordoned and not cordons.tolerated_by(pod):
            return Refusal(conflict_reasons.UNSCHEDULABLE, f"node {node} is unschedulable")
        wanted = _resident(pod, node)
        assert wanted is not None, "a pod that waits has not ended"
        usage = self._usage.get(node, NodeAllocation()).copy()
        others = dict(self._on.get(node, {}))
        for other, holds in self._holds.items():
            if other != uid and node in holds:
                usage.add(holds[node][0].share)
                others[other] = holds[node][0]
        found = pod_shares.collisions(wanted.share, allocatable, usage)
        if found:
            told = "; ".join(one.message for one in found)
            return Refusal(found[0].reason, f"node {node} has insufficient capacity: {told}")
        for resident in others.values():
            if _apart(wanted, resident) or _apart(resident, wanted):
                told = f"node {node} is not possible: pod {resident.name} and this pod exclude each other"
                return Refusal(conflict_reasons.ANTI_AFFINITY, told)
        wider = self._claim_in_use(uid, wanted) or self._volume_limit(wanted, others) or self._queue_limit(uid, wanted)
        if wider is not None:
            return Refusal(wider.reason, wider.message)
        if not dry_run:
            self._holds.setdefault(uid, {})[node] = (wanted, now)
        return None

    def _claim_in_use(self, uid: str, wanted: _Resident) -> Collision | None:
        for claim in storage_limits.exclusive(wanted.labelled.namespace, wanted.share, self._storage.claim):
            users = [one for other, one in self._users.get(claim, {}).items() if other != uid]
            users += [one for _, one in self._held(uid) if claim in pod_index.claims_of(one.name, one.share)]
            if users:
                return storage_limits.in_use(claim, min(one.name for one in users))
        return None

    def _volume_limit(self, wanted: _Resident, others: Mapping[str, _Resident]) -> Collision | None:
        if not wanted.share.claims and not wanted.share.disks:
            return None
        there = [(one.name, one.share) for one in others.values()]
        return storage_limits.volume_limit(wanted.node, (wanted.name, wanted.share), there, self._storage)

    def _queue_limit(self, uid: str, wanted: _Resident) -> Collision | None:
        group = pod_index.group_of(wanted.name, wanted.share)
        if not wanted.share.group or not self._queues.limited(group):
            return None
        taken = dict(self._groups)
        for _, held in self._held(uid):
            if held.share.group:
                name = pod_index.group_of(held.name, held.share)
                taken[name] = taken.get(name, NodeAllocation()).copy()
                taken[name].add(held.share)
        return self._queues.excess(group, wanted.share, self._queues.totals(taken))

    def _held(self, uid: str) -> Iterator[tuple[str, _Resident]]:
        """The pods besides this one with approved bindings; one with several is counted once."""
        return ((other, next(iter(holds.values()))[0]) for other, holds in self._holds.items() if other != uid)

    def overdue(self, before: float) -> list[tuple[str, str]]:
        """Pods (namespace, name) whose approvals are older than this: their state is to be read."""
        old = (
            next(iter(holds.values()))[0]
            for holds in self._holds.values()
            if all(at < before for _, at in holds.values())
        )
        return [(one.labelled.namespace, one.name.rpartition("/")[2]) for one in old]

    def release(self, uid: str, before: float) -> None:
        """The pod was read without a node: approvals older than this cannot arrive any more."""
        kept = {node: (one, at) for node, (one, at) in self._holds.get(uid, {}).items() if at >= before}
        if kept:
            self._holds[uid] = kept
        else:
            self._holds.pop(uid, None)


def _apart(one: _Resident, other: _Resident) -> bool:
    return any(term.excludes(one.labelled.namespace, other.labelled) for term in one.share.excluded)


def _has_ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in pod_shares.FINISHED


def _resident(pod: Object, node: str = "") -> _Resident | None:
    """A pod on its node, or on the node that it is to get."""
    metadata = pod["metadata"]
    where = node or (pod.get("spec") or {}).get("nodeName")
    if not where or _has_ended(pod):
        return None
    labelled = Labelled(metadata.get("namespace", ""), metadata.get("labels") or {})
    name = f"{labelled.namespace}/{metadata['name']}"
    return _Resident(where, pod_shares.of_pod(pod), labelled, name)
