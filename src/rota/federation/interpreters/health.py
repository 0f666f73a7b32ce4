"""Whether a resource in a member cluster does what it should."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from rota.api import meta
from rota.federation.interpreters import trees

Object: TypeAlias = Mapping[str, Any]


def _number(obj: Object, *path: str) -> int:
    return int(trees.get(obj, *path) or 0)


def _observed(obj: Object) -> bool:
    return _number(obj, "status", "observedGeneration") == _number(obj, "metadata", "generation")


def of_deployment(obj: Object) -> bool:
    """All replicas are updated and available; so for StatefulSets."""
    updated = _number(obj, "status", "updatedReplicas")
    return (
        _observed(obj)
        and updated >= _number(obj, "spec", "replicas")
        and _number(obj, "status", "availableReplicas") >= updated
    )


def of_replica_set(obj: Object) -> bool:
    """All replicas are available."""
    return _observed(obj) and _number(obj, "status", "availableReplicas") >= _number(obj, "spec", "replicas")


def of_daemon_set(obj: Object) -> bool:
    """All nodes have the newest pod, and it is available."""
    updated = _number(obj, "status", "updatedNumberScheduled")
    return (
        _observed(obj)
        and updated >= _number(obj, "status", "desiredNumberScheduled")
        and _number(obj, "status", "numberAvailable") >= updated
    )


def of_service(obj: Object) -> bool:
    """A load balancer has an address; other services are healthy as they are."""
    return trees.get(obj, "spec", "type") != "LoadBalancer" or of_ingress(obj)


def of_ingress(obj: Object) -> bool:
    """There is an address."""
    addresses = trees.get(obj, "status", "loadBalancer", "ingress") or ()
    return any(bool(one.get("hostname") or one.get("ip")) for one in addresses)


def of_claim(obj: Object) -> bool:
    """The claim is bound."""
    return bool(trees.get(obj, "status", "phase") == "Bound")


def of_pod(obj: Object) -> bool:
    """The pod has succeeded, or runs and is ready."""
    phase = trees.get(obj, "status", "phase")
    return bool(phase == "Succeeded" or (phase == "Running" and meta.is_condition_true(obj, "Ready")))


def of_disruption_budget(obj: Object) -> bool:
    """As many pods are healthy as should be."""
    return _number(obj, "status", "currentHealthy") >= _number(obj, "status", "desiredHealthy")
