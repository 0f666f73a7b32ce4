"""The cluster as the rebalancer sees it: a snapshot to try moves on, and the facts on which moving a pod depends."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from rota.api import errors, resources, times
from rota.client.pods import PODS
from rota.client.verbs import Client, Selection
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.rebalancing.rebalance_plan import PodFacts, Usage
from rota.scheduler.snapshot import cluster_snapshot
from rota.scheduler.snapshot.cluster_snapshot import ClusterSnapshot

#: Annotation that excludes a workload; the other two are those of the descheduler.
NEVER: Final = "rota.dev/rebalance"
_KNOWN_OBJECTIONS: Final = (
    "descheduler.alpha.kubernetes.io/prefer-no-eviction",
    "karpenter.sh/do-not-disrupt",
)
_SAFE: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_MIRROR: Final = "kubernetes.io/config.mirror"
#: Owners whose pods work towards an end, whatever their restart policy.
_ENDING: Final = frozenset({"Job", "StepRun"})
_CRASHED: Final = "CrashLoopBackOff"
_NODE_METRICS: Final = ("metrics.k8s.io", "v1beta1", "nodes")
_POD_METRICS: Final = ("metrics.k8s.io", "v1beta1", "pods")
_PAGE: Final = 500
_BOUND: Final = Selection(fields="status.phase!=Succeeded,status.phase!=Failed")


async def take(
    client: Client, frameworks: Iterable[Framework] = (), *, now: float
) -> tuple[ClusterSnapshot, dict[str, PodFacts]]:
    """List the cluster."""
    snapshot = await cluster_snapshot.take(client, frameworks)
    known: dict[str, PodFacts] = {}
    # page by page: a server in the same process gets its turn in between
    async for page in client.pages(PODS, selection=_BOUND, limit=_PAGE):
        if page is None:
            known.clear()
            continue
        for raw in page.items:
            pod = msgspec.json.decode(raw)
            known[pod["metadata"]["uid"]] = facts(pod, now=now)
    return snapshot, known


def of_documents(
    documents: Iterable[Mapping[str, Any]], frameworks: Iterable[Framework] = (), *, now: float
) -> tuple[ClusterSnapshot, dict[str, PodFacts]]:
    """The cluster of a dump."""
    known = list(documents)
    pods = (one for one in known if one.get("kind") == "Pod")
    facts_of = {one["metadata"]["uid"]: facts(one, now=now) for one in pods if one["metadata"].get("uid")}
    return cluster_snapshot.of_documents(known, frameworks), facts_of


async def usage(client: Client, uids: Mapping[tuple[str, str], str]) -> Usage | None:
    """The measured usage of nodes and of pods, whose uids are given by namespace and name; None without metrics."""
    try:
        nodes, pods = await client.list(_NODE_METRICS), await client.list(_POD_METRICS)
    except (errors.NotFound, errors.ServiceUnavailable, errors.Forbidden):
        return None
    if not nodes.items:
        return None
    used: dict[str, dict[str, int]] = {}
    for one in pods.items:
        uid = uids.get((one["metadata"].get("namespace", ""), one["metadata"]["name"]))
        if uid is not None:
            total: dict[str, int] = {}
            for container in one.get("containers") or ():
                for name, amount in _amounts(container).items():
                    total[name] = total.get(name, 0) + amount
            used[uid] = total
    return Usage(nodes={one["metadata"]["name"]: _amounts(one) for one in nodes.items}, pods=used)


def facts(pod: Mapping[str, Any], *, now: float) -> PodFacts:
    """The facts of a pod's document about moving it."""
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    annotations = metadata.get("annotations") or {}
    owner = next((one for one in metadata.get("ownerReferences") or () if one.get("controller")), None)
    containers = status.get("containerStatuses") or ()
    kind = owner.get("kind", "") if owner is not None else ""
    begun = status.get("startTime") or metadata.get("creationTimestamp")
    return PodFacts(
        running=status.get("phase") == "Running",
        owner_kind=kind,
        mirror=_MIRROR in annotations,
        age_s=now - times.parse(begun) if begun else 0.0,
        restarts=sum(one.get("restartCount") or 0 for one in containers),
        crashing=any(((one.get("state") or {}).get("waiting") or {}).get("reason") == _CRASHED for one in containers),
        local_storage=any("emptyDir" in volume or "hostPath" in volume for volume in spec.get("volumes") or ()),
        # a pod that is always restarted has no end; every other pod has one
        ends=kind in _ENDING or spec.get("restartPolicy", "Always") != "Always",
        objection=_objection(annotations),
    )


def _objection(annotations: Mapping[str, str]) -> str:
    if annotations.get(NEVER) == "never":
        return f"its annotation {NEVER} says never"
    if annotations.get(_SAFE) == "false":
        return f"its annotation {_SAFE} says false"
    return next((f"its annotation {name} says so" for name in _KNOWN_OBJECTIONS if annotations.get(name) == "true"), "")


def _amounts(measured: Mapping[str, Any]) -> dict[str, int]:
    return {name: resources.amount(name, value) for name, value in (measured.get("usage") or {}).items()}
