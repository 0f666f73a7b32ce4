"""What objects use of what quotas limit, and what pods ask for as a whole. Pure.

Names are those of quotas: `pods`, `requests.cpu`, `limits.memory`, `count/jobs.batch`. Mirrors the evaluators of
`pkg/quota/v1/evaluator/core` of Kubernetes 1.33.
"""

from collections.abc import Mapping
from typing import Any, Final

from rota.api import quantities, resources, times
from rota.api.identifiers import GroupResource
from rota.apiserver.contract import Object
from rota.apiserver.occupancy import shares

PODS: Final = GroupResource("", "pods")
SERVICES: Final = GroupResource("", "services")
CLAIMS: Final = GroupResource("", "persistentvolumeclaims")
#: Resources that are also counted under their own names.
_COUNTED: Final = frozenset(
    GroupResource("", name)
    for name in (
        "services",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
    )
)
_COMPUTE: Final = (resources.CPU, resources.MEMORY, resources.EPHEMERAL_STORAGE)
_CLASS_SUFFIX: Final = ".storageclass.storage.k8s.io/"


def usage(which: GroupResource, obj: Object, *, now: float) -> dict[str, int]:
    """What an object uses: CPU in thousandths, everything else in whole units."""
    count = f"count/{which}"
    if which == PODS:
        return {count: 1, **(_pod_usage(obj) if _counts(obj, now) else {})}
    used = {count: 1}
    if which in _COUNTED:
        used[which.resource] = 1
    if which == SERVICES:
        used |= _service_usage(obj.get("spec") or {})
    if which == CLAIMS:
        used |= _claim_usage(obj.get("spec") or {})
    return used


def measure(name: str, quantity: Any) -> int:
    """An amount of what a quota limits."""
    return resources.amount(_base(name), quantity)


def shown(name: str, amount: int) -> str:
    """An amount of what a quota limits, as people write it."""
    base = _base(name)
    if base == "storage" or base.endswith("requests.storage"):
        base = resources.MEMORY
    return shares.shown(base, amount)


def pod_total(pod: Object, side: str) -> dict[str, str]:
    """The requests or the limits of all of a pod's containers together, as quantities."""
    return {name: shares.shown(name, amount) for name, amount in _pod_amounts(pod, side).items()}


def pod_missing(pod: Object, names: frozenset[str]) -> dict[str, list[str]]:
    """Compute resources that a quota limits and containers do not name, with those containers."""
    missing: dict[str, list[str]] = {}
    spec = pod["spec"]
    if resources.has_pod_level_requests(pod):
        return missing
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        wanted = container.get("resources") or {}
        given = {*(wanted.get("requests") or {}), *(f"requests.{name}" for name in wanted.get("requests") or {})}
        given |= {f"limits.{name}" for name in wanted.get("limits") or {}}
        for name in names - given:
            if _base(name) in {resources.CPU, resources.MEMORY}:
                missing.setdefault(name, []).append(container.get("name", ""))
    return missing


def _pod_usage(pod: Object) -> dict[str, int]:
    used = {"pods": 1}
    for name, amount in _pod_amounts(pod, "requests").items():
        if name in _COMPUTE or name.startswith("hugepages-"):
            used[name] = amount
        used[f"requests.{name}"] = amount
    for name, amount in _pod_amounts(pod, "limits").items():
        if name in _COMPUTE:
            used[f"limits.{name}"] = amount
    return used


def _pod_amounts(pod: Object, side: str) -> Mapping[str, int]:
    if side == "requests":
        return resources.pod_requests(pod)
    spec = dict(pod["spec"])
    for kind in ("containers", "initContainers"):
        spec[kind] = [
            {**one, "resources": {"requests": (one.get("resources") or {}).get("limits") or {}}}
            for one in spec.get(kind) or ()
        ]
    if spec.get("resources"):
        spec["resources"] = {"requests": spec["resources"].get("limits") or {}}
    # overhead is part of what a pod asks for; of its limits, only where there are any
    limits = resources.pod_requests({"spec": spec}, exclude_overhead=True)
    overhead = spec.get("overhead") or {}
    return {name: amount + resources.amount(name, overhead.get(name)) for name, amount in limits.items()}


def _counts(pod: Object, now: float) -> bool:
    """Whether a pod still uses anything: it has not finished, and is not long past its deletion."""
    metadata = pod["metadata"]
    if (pod.get("status") or {}).get("phase") in shares.FINISHED:
        return False
    if metadata.get("deletionTimestamp") and metadata.get("deletionGracePeriodSeconds") is not None:
        over: float = times.parse(metadata["deletionTimestamp"]) + metadata["deletionGracePeriodSeconds"]
        return now <= over
    return True


def _service_usage(spec: Object) -> dict[str, int]:
    kind, ports = spec.get("type"), len(spec.get("ports") or ())
    if kind == "NodePort":
        return {"services.nodeports": ports}
    if kind == "LoadBalancer":
        allocates = spec.get("allocateLoadBalancerNodePorts", True)
        return {"services.nodeports": ports if allocates else 0, "services.loadbalancers": 1}
    return {}


def _claim_usage(spec: Object) -> dict[str, int]:
    wanted = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    size, kind = quantities.value(wanted), spec.get("storageClassName")
    used = {"requests.storage": size}
    if kind:
        used[f"{kind}{_CLASS_SUFFIX}requests.storage"] = size
        used[f"{kind}{_CLASS_SUFFIX}persistentvolumeclaims"] = 1
    return used


def _base(name: str) -> str:
    return name.removeprefix("requests.").removeprefix("limits.")
