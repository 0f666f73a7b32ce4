"""What is wrong with a MultiClusterService as it is given."""

from collections.abc import Iterator
from typing import Any, Final

from rota.api import meta, names
from rota.federation.policies.validation import INVALID, NOT_SUPPORTED, REQUIRED, Problem
from rota.federation.services.exposure import Object

_REPLACED: Final = {
    "range": "providerClusters and consumerClusters",
    "serviceProvisionClusters": "providerClusters",
    "serviceConsumptionClusters": "consumerClusters",
}
_LONGEST_CLUSTER: Final = 48
_LAST_PORT: Final = 65535


def validate(service: Object, before: Object | None = None) -> list[Problem]:
    """All problems of a MultiClusterService, or of its change from `before`."""
    return list(_problems(service, before))


def _problems(service: Object, before: Object | None) -> Iterator[Problem]:
    spec: Object = service.get("spec") or {}
    for message in names.check_dns1035_label(meta.name(service)):
        yield Problem("metadata.name", INVALID, message)
    types = spec.get("types") or []
    if before is not None and types != ((before.get("spec") or {}).get("types") or []):
        yield Problem("spec.types", INVALID, "types cannot change; delete the MultiClusterService and create it again")
    if not types:
        yield Problem("spec.types", REQUIRED, "set it to [CrossCluster]")
    if len(set(types)) > 1:
        yield Problem("spec.types", INVALID, "more than one type is given; keep CrossCluster")
    for place, one in enumerate(types):
        if one == "LoadBalancer":
            message = "LoadBalancer is not supported; use CrossCluster, and a Service of type LoadBalancer per cluster"
            yield Problem(f"spec.types[{place}]", NOT_SUPPORTED, message)
        elif one != "CrossCluster":
            yield Problem(f"spec.types[{place}]", NOT_SUPPORTED, f"{one} is no type; use CrossCluster")
    for member, replacement in _REPLACED.items():
        if spec.get(member):
            yield Problem(f"spec.{member}", NOT_SUPPORTED, f"it is deprecated and not supported; use {replacement}")
    yield from _ports(spec.get("ports") or ())
    for member in ("providerClusters", "consumerClusters"):
        for place, one in enumerate(spec.get(member) or ()):
            yield from _cluster(one.get("name") or "", f"spec.{member}[{place}].name")


def _ports(ports: Any) -> Iterator[Problem]:
    seen: set[str] = set()
    for place, port in enumerate(ports):
        where, name = f"spec.ports[{place}]", port.get("name") or ""
        for message in names.check_dns1123_label(name) if name else ():
            yield Problem(f"{where}.name", INVALID, message)
        if name and name in seen:
            yield Problem(f"{where}.name", "FieldValueDuplicate", f"another port is named {name}")
        seen.add(name)
        if not 1 <= int(port.get("port") or 0) <= _LAST_PORT:
            yield Problem(f"{where}.port", INVALID, f"must be between 1 and {_LAST_PORT}, inclusive")


def _cluster(name: str, where: str) -> Iterator[Problem]:
    if len(name) > _LONGEST_CLUSTER:
        yield Problem(where, INVALID, f"must be no more than {_LONGEST_CLUSTER} characters")
    for message in names.check_dns1123_label(name):
        yield Problem(where, INVALID, message)
