"""How many replicas a workload wants, what each needs, and how that number is changed."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from rota.api import quantities, resources
from rota.federation.estimation import amounts
from rota.federation.interpreters import trees

Object: TypeAlias = Mapping[str, Any]

_BINARY = frozenset({resources.MEMORY, resources.EPHEMERAL_STORAGE})


def of_template(workload: Object) -> tuple[int, dict[str, Any] | None]:
    """Replicas and requirements of a Deployment, ReplicaSet or StatefulSet."""
    return int(trees.get(workload, "spec", "replicas") or 0), requirements(_pod_spec(workload))


def of_job(job: Object) -> tuple[int, dict[str, Any] | None]:
    """Replicas and requirements of a Job: its parallelism, but not more than its completions."""
    parallel = int(trees.get(job, "spec", "parallelism") or 0)
    completions = trees.get(job, "spec", "completions")
    count = parallel if completions is None else min(parallel, int(completions))
    return count, requirements(_pod_spec(job))


def of_pod(pod: Object) -> tuple[int, dict[str, Any] | None]:
    """A Pod is one replica."""
    return 1, requirements(pod.get("spec") or {})


def revised(workload: Object, count: int, member: str = "replicas") -> dict[str, Any]:
    """The workload with another number, if it has that number at all."""
    new = trees.changed(workload)
    if trees.get(new, "spec", member) is not None:
        new["spec"][member] = count
    return new


def _pod_spec(workload: Object) -> Object:
    spec: Object = trees.get(workload, "spec", "template", "spec") or {}
    return spec


def requirements(pod_spec: Object) -> dict[str, Any] | None:
    """What one replica needs: a claim on nodes and resources; None if it needs nothing in particular."""
    claim = node_claim(pod_spec)
    request = resource_request(pod_spec)
    if claim is None and not request:
        return None
    found: dict[str, Any] = {}
    if claim is not None:
        found["nodeClaim"] = claim
    if request:
        found["resourceRequest"] = request
    return found


def node_claim(pod_spec: Object) -> dict[str, Any] | None:
    """Which nodes a pod needs."""
    found = {
        "nodeSelector": pod_spec.get("nodeSelector"),
        "tolerations": pod_spec.get("tolerations") or None,
        "hardNodeAffinity": trees.get(
            pod_spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"
        ),
    }
    present = {name: value for name, value in found.items() if value is not None}
    return present or None


def resource_request(pod_spec: Object) -> dict[str, str]:
    """What containers ask for together, or the largest init container, plus overhead; limits stand in for requests."""
    total: dict[str, int] = {}
    for container in pod_spec.get("containers") or ():
        for name, amount in _requests(container).items():
            total[name] = total.get(name, 0) + amount
    for container in pod_spec.get("initContainers") or ():
        for name, amount in _requests(container).items():
            total[name] = max(total.get(name, 0), amount)
    for name, amount in amounts.read(pod_spec.get("overhead")).items():
        total[name] = total.get(name, 0) + amount
    return {name: _written(name, amount) for name, amount in total.items() if amount > 0}


def _requests(container: Object) -> dict[str, int]:
    wanted: Object = container.get("resources") or {}
    return amounts.read({**(wanted.get("limits") or {}), **(wanted.get("requests") or {})})


def _written(name: str, amount: int) -> str:
    if name == resources.CPU:
        return str(quantities.from_milli(amount))
    if name in _BINARY or name.startswith("hugepages-"):
        return str(quantities.from_value(amount, quantities.Format.BINARY_SI))
    return str(quantities.from_value(amount))
