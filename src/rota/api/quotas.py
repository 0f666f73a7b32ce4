"""Usage of objects in the terms of ResourceQuota, the objects that a quota selects, and total requests of pods.

Names are those of quotas: `pods`, `requests.cpu`, `limits.memory`, `count/jobs.batch`. Mirrors the evaluators of
`pkg/quota/v1/evaluator/core` of Kubernetes 1.33.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from rota.api import quantities, resources, times
from rota.api.identifiers import GroupResource

Object: TypeAlias = Mapping[str, Any]

PODS: Final = GroupResource("", "pods")
SERVICES: Final = GroupResource("", "services")
CLAIMS: Final = GroupResource("", "persistentvolumeclaims")
#: The only scope that claims have.
_ATTRIBUTES: Final = "VolumeAttributesClass"
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
_FINISHED: Final = frozenset({"Succeeded", "Failed"})
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
    return resources.shown(base, amount)


def pod_total(pod: Object, side: str) -> dict[str, str]:
    """The requests or the limits of all of a pod's containers together, as quantities."""
    return {name: resources.shown(name, amount) for name, amount in _pod_amounts(pod, side).items()}


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


def matches(spec: Object, which: GroupResource, obj: Object) -> bool:
    """Whether a quota with scopes is about an object."""
    scopes: list[Object] = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    scopes += (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    if which == CLAIMS:
        return all(one.get("scopeName") == _ATTRIBUTES and _matches_claim(one, obj) for one in scopes)
    return all(which == PODS and _in_scope(one, obj) for one in scopes)


def kinds(hard: Mapping[str, int]) -> list[GroupResource]:
    """The resources that a quota is about."""
    found: set[GroupResource] = set()
    for name in hard:
        if name.startswith("count/"):
            plural, _, group = name.removeprefix("count/").partition(".")
            found.add(GroupResource(group, plural))
        elif name.startswith("services"):
            found.add(SERVICES)
        elif name == "requests.storage" or name == "persistentvolumeclaims" or ".storageclass." in name:
            found.add(CLAIMS)
        elif name in {"replicationcontrollers", "resourcequotas", "secrets", "configmaps"}:
            found.add(GroupResource("", name))
        else:
            found.add(PODS)
    return sorted(found)


def _in_scope(scope: Object, pod: Object) -> bool:
    spec = pod["spec"]
    match scope.get("scopeName"):
        case "Terminating":
            return spec.get("activeDeadlineSeconds") is not None
        case "NotTerminating":
            return spec.get("activeDeadlineSeconds") is None
        case "BestEffort":
            return _asks_for_nothing(spec)
        case "NotBestEffort":
            return not _asks_for_nothing(spec)
        case "PriorityClass":
            return _matches_class(scope, spec.get("priorityClassName") or "")
        case "CrossNamespacePodAffinity":
            return _looks_elsewhere(spec.get("affinity") or {})
        case _:
            return False


def _matches_class(scope: Object, name: str) -> bool:
    values = scope.get("values") or ()
    match scope.get("operator"):
        case "In":
            return name in values
        case "NotIn":
            return name not in values
        case "DoesNotExist":
            return not name
        case _:
            return bool(name)


def _matches_claim(scope: Object, claim: Object) -> bool:
    """Whether one of the classes that a claim has, or changes to, is selected."""
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    named = {
        spec.get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    }
    classes = sorted(filter(None, named))
    return any(_matches_class(scope, one) for one in classes or ("",))


def _looks_elsewhere(affinity: Object) -> bool:
    terms: list[Any] = []
    for kind in ("podAffinity", "podAntiAffinity"):
        found = affinity.get(kind) or {}
        terms += found.get("requiredDuringSchedulingIgnoredDuringExecution") or []
        preferred = found.get("preferredDuringSchedulingIgnoredDuringExecution") or []
        terms += [one.get("podAffinityTerm") or {} for one in preferred]
    return any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms)


def _asks_for_nothing(spec: Object) -> bool:
    """Whether a pod is BestEffort: none of its containers names an amount of CPU or memory."""
    parts = [spec, *(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    amounts = (
        quantities.value((wanted.get(side) or {}).get(name))
        for wanted in (one.get("resources") or {} for one in parts)
        for side in ("requests", "limits")
        for name in (resources.CPU, resources.MEMORY)
    )
    return not any(amounts)


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
    if (pod.get("status") or {}).get("phase") in _FINISHED:
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
