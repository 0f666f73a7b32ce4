"""What a member cluster has decided itself and an update must keep."""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from rota.federation.interpreters import trees

Object: TypeAlias = Mapping[str, Any]

RETAIN_REPLICAS: Final = "resourcetemplate.karmada.io/retain-replicas"


class CannotRetain(ValueError):
    """The member's object lacks what should be kept."""


def of_deployment(desired: Object, observed: Object) -> dict[str, Any]:
    """The member's replicas, if the template says that an autoscaler there decides on them."""
    new = trees.changed(desired)
    if trees.get(desired, "metadata", "labels", RETAIN_REPLICAS) == "true":
        replicas = trees.get(observed, "spec", "replicas")
        if replicas is None:
            raise CannotRetain("the member's Deployment has no spec.replicas")
        trees.put(new, replicas, "spec", "replicas")
    return new


def of_pod(desired: Object, observed: Object) -> dict[str, Any]:
    """Its node, account, volumes and mounts."""
    new = trees.changed(desired)
    theirs: Object = observed.get("spec") or {}
    spec = new.setdefault("spec", {})
    for name in ("nodeName", "serviceAccountName", "volumes"):
        _take(spec, theirs, name)
    for part in ("containers", "initContainers"):
        for container in theirs.get(part) or ():
            own = next((one for one in spec.get(part) or () if one.get("name") == container.get("name")), None)
            if own is not None:
                _take(own, container, "volumeMounts")
    return new


def _take(spec: dict[str, Any], theirs: Object, name: str) -> None:
    spec.pop(name, None)
    if theirs.get(name):
        spec[name] = theirs[name]


def of_service(desired: Object, observed: Object) -> dict[str, Any]:
    """Its address and health check port."""
    new = trees.changed(desired)
    for name in ("healthCheckNodePort", "clusterIP"):
        value = trees.get(observed, "spec", name)
        if value:
            trees.put(new, value, "spec", name)
    return new


def of_service_account(desired: Object, observed: Object) -> dict[str, Any]:
    """Its Secrets, after those of the template."""
    new = trees.changed(desired)
    for name in ("secrets", "imagePullSecrets"):
        merged: dict[str, Any] = {}
        for one in (*(desired.get(name) or ()), *(observed.get(name) or ())):
            merged.setdefault(one.get("name", ""), one)
        new[name] = list(merged.values()) or None
    return new


def of_claim(desired: Object, observed: Object) -> dict[str, Any]:
    """The volume that it is bound to."""
    new = trees.changed(desired)
    volume = trees.get(observed, "spec", "volumeName")
    if volume:
        trees.put(new, volume, "spec", "volumeName")
    return new


def of_volume(desired: Object, observed: Object) -> dict[str, Any]:
    """The claim that it is bound to."""
    new = trees.changed(desired)
    claim = trees.get(observed, "spec", "claimRef")
    if claim is not None:
        trees.put(new, claim, "spec", "claimRef")
    return new


def of_job(desired: Object, observed: Object) -> dict[str, Any]:
    """The selector and labels that were generated for it."""
    new = trees.changed(desired)
    for path in (("spec", "selector", "matchLabels"), ("spec", "template", "metadata", "labels")):
        value = trees.get(observed, *path)
        if value is not None:
            trees.put(new, dict(value), *path)
    return new


def of_secret(desired: Object, observed: Object) -> dict[str, Any]:
    """The token that was generated for a service account."""
    new = trees.changed(desired)
    if desired.get("type") == "kubernetes.io/service-account-token" and observed.get("data") is not None:
        new["data"] = dict(observed["data"])
    return new
