"""What follows from a MultiClusterService: its clusters, the claim on its Service, the Service's binding, and ports."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from rota.api import meta
from rota.federation.policies import claims, propagation

Object: TypeAlias = Mapping[str, Any]

KIND: Final = "MultiClusterService"
FINALIZER: Final = "karmada.io/multiclusterservice-controller"
ID: Final = "multiclusterservice.karmada.io/permanent-id"
NAME: Final = "multiclusterservice.karmada.io/name"
NAMESPACE: Final = "multiclusterservice.karmada.io/namespace"
CLAIMED_BY: Final = "resourcetemplate.karmada.io/claimed-by"
MANAGED_BY: Final = "binding.karmada.io/managed-by"
SLICE: Final = ("discovery.k8s.io/v1", "EndpointSlice")


def is_claimed(resource: Object) -> bool:
    """Whether a MultiClusterService propagates a resource, so that no policy does."""
    return meta.labels(resource).get(CLAIMED_BY) == KIND


def providers(service: Object, clusters: Iterable[Object]) -> list[str]:
    """The clusters whose backends are exposed: those named, or all, as far as they are ready and have slices."""
    named = _named(service, "providerClusters")
    return sorted(
        meta.name(one)
        for one in clusters
        if (not named or meta.name(one) in named) and meta.is_condition_true(one, "Ready") and _takes_part(one)
    )


def consumers(service: Object, clusters: Iterable[Object]) -> list[str]:
    """The clusters that reach the backends: those named, or all. One that is not ready keeps what it has."""
    named = _named(service, "consumerClusters")
    return sorted(meta.name(one) for one in clusters if (not named or meta.name(one) in named) and _takes_part(one))


def targets(service: Object, clusters: Iterable[Object]) -> list[str]:
    """The clusters that get the Service: all providers and consumers, whether they are ready or not."""
    joined = {meta.name(one) for one in clusters if not meta.is_deleting(one)}
    named = (_named(service, member) for member in ("providerClusters", "consumerClusters"))
    return sorted(set().union(*(one or joined for one in named)))


def unknown(service: Object, clusters: Iterable[Object]) -> list[str]:
    """Clusters that are named and have not joined."""
    joined = {meta.name(one) for one in clusters}
    return sorted((_named(service, "providerClusters") | _named(service, "consumerClusters")) - joined)


def ports(service: Object, template: Object) -> frozenset[str] | None:
    """The names of the Service's ports that are exposed; None for all of them."""
    wanted = (service.get("spec") or {}).get("ports") or ()
    if not wanted:
        return None
    return frozenset(
        str(port.get("name") or "")
        for port in (template.get("spec") or {}).get("ports") or ()
        for one in wanted
        if one.get("port") == port.get("port") and one.get("name") in (None, "", port.get("name"))
    )


def claimed(template: Object, service: Object) -> claims.Marks:
    """The marks of the Service after its MultiClusterService has claimed it from policies."""
    free = claims.Marks.of(template).unclaimed().cluster_unclaimed()
    identity = meta.labels(service).get(ID) or ""
    return claims.Marks({**free.labels, CLAIMED_BY: KIND, ID: identity}, {**free.annotations, **references(service)})


def released(obj: Object) -> claims.Marks:
    """The marks of the Service or of its binding without those of a MultiClusterService."""
    return claims.Marks.of(obj).without((CLAIMED_BY, MANAGED_BY, ID), (NAME, NAMESPACE))


def references(service: Object) -> dict[str, str]:
    """The MultiClusterService in annotations of what belongs to it."""
    return {NAME: meta.name(service), NAMESPACE: meta.namespace(service)}


def binding(template: Object, service: Object, clusters: Iterable[str]) -> dict[str, Any]:
    """The binding that brings the Service to providers and consumers, in place of a Service that a member has."""
    policy = {
        "spec": {
            "placement": {"clusterAffinity": {"clusterNames": sorted(set(clusters))}},
            "conflictResolution": "Overwrite",
        }
    }
    found = propagation.binding_of(template, claims.Marks({}, {}), policy, size={})
    found["metadata"]["labels"] = {MANAGED_BY: KIND, ID: meta.labels(service).get(ID) or ""}
    found["metadata"]["annotations"] = references(service)
    return found


def _named(service: Object, member: str) -> set[str]:
    return {one.get("name") or "" for one in (service.get("spec") or {}).get(member) or ()}


def _takes_part(cluster: Object) -> bool:
    return not meta.is_deleting(cluster) and any(
        enabled.get("groupVersion") == SLICE[0]
        and any(one.get("kind") == SLICE[1] for one in enabled.get("resources") or ())
        for enabled in (cluster.get("status") or {}).get("apiEnablements") or ()
    )
