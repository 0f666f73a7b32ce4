"""What is bound on each node, and what was approved and may still arrive. Pure: times are arguments.

The API server asks before it writes, and the watch shows the binding after that. In between, the approved binding holds
its resources. A hold ends when the watch shows the pod on a node, or gone, or when the API server can no longer write
the binding: its request has timed out, and the pod was read without a node after that. A pod may have several holds if
several schedulers bind it; the API server lets one of them win.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.api import conflict_reasons, resources
from rota.apiserver.node_allocations import pod_shares
from rota.apiserver.node_allocations.host_anti_affinity import Labelled
from rota.apiserver.node_allocations.pod_shares import NodeAllocation, PodAllocation

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

    def __init__(self) -> None:
        self._allocatable: Final[dict[str, Mapping[str, int]]] = {}
        self._cordoned: Final[set[str]] = set()
        self._bound: Final[dict[str, _Resident]] = {}
        self._usage: Final[dict[str, NodeAllocation]] = {}
        self._on: Final[dict[str, dict[str, _Resident]]] = {}
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
        now = None if obj is None else _resident(obj)
        if now is not None:
            self._bound[uid] = now
            self._usage.setdefault(now.node, NodeAllocation()).add(now.share)
            self._on.setdefault(now.node, {})[uid] = now
        if obj is None or now is not None or _has_ended(obj):
            self._holds.pop(uid, None)

    def approve(self, pod: Object, node: str, now: float, *, dry_run: bool = False) -> Refusal | None:
        """Approve a binding and hold its resources, or say why not."""
        uid = pod["metadata"]["uid"]
        allocatable = self._allocatable.get(node)
        if (pod.get("spec") or {}).get("nodeName"):
            return Refusal(conflict_reasons.POD_MOVED, f"pod is already assigned to node {pod['spec']['nodeName']}")
        if allocatable is None:
            return Refusal(conflict_reasons.UNSCHEDULABLE, f"node {node} does not exist")
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
        if not dry_run:
            self._holds.setdefault(uid, {})[node] = (wanted, now)
        return None

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
