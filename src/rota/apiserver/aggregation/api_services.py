"""APIServices as values: which server answers for a group and version, and whether it is available. Pure.

Reasons and messages of the condition are those of `k8s.io/kube-aggregator` (1.36).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.api import gotext, times
from rota.api.identifiers import GroupResource, GroupVersion
from rota.apiserver.interfaces import Object
from rota.apiserver.service_endpoints import DEFAULT_PORT, Found

API_SERVICES: Final = GroupResource("apiregistration.k8s.io", "apiservices")
AVAILABLE: Final = "Available"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiService:
    """The server of one group and version."""

    name: str
    at: GroupVersion
    namespace: str
    service: str
    port: int
    ca_bundle: str
    insecure: bool
    group_priority: int
    version_priority: int
    available: bool

    @property
    def host(self) -> str:
        """The name that its certificate must have."""
        return f"{self.service}.{self.namespace}.svc"


@dataclass(frozen=True, slots=True)
class Condition:
    """Whether an API is available."""

    status: str
    reason: str
    message: str


LOCAL: Final = Condition("True", "Local", "Local APIServices are always available")
PASSED: Final = Condition("True", "Passed", "all checks passed")


def read(obj: Object) -> ApiService | None:
    """An APIService of another server; None if this server is meant."""
    spec: Mapping[str, Any] = obj.get("spec") or {}
    service = spec.get("service")
    if service is None:
        return None
    return ApiService(
        name=obj["metadata"]["name"],
        at=GroupVersion(spec.get("group") or "", spec.get("version") or ""),
        namespace=service.get("namespace") or "",
        service=service.get("name") or "",
        port=service.get("port") or DEFAULT_PORT,
        ca_bundle=spec.get("caBundle") or "",
        insecure=bool(spec.get("insecureSkipTLSVerify")),
        group_priority=spec.get("groupPriorityMinimum") or 0,
        version_priority=spec.get("versionPriority") or 0,
        available=_condition(obj).get("status") == "True",
    )


def own(one: ApiService) -> Condition:
    """An API that the server does not pass on, because it serves it itself."""
    return Condition("True", "Local", f"this server serves {one.at} itself, {one.host} is not called")


def unresolved(one: ApiService, found: Found) -> Condition | None:
    """Why the Service of an API has no address; None if it has one."""
    where = f"service/{one.service} in {gotext.quote(one.namespace)}"
    if not found.exists:
        return Condition("False", "ServiceNotFound", f"{where} is not present")
    if found.external is not None:
        return None
    if found.port_name is None:
        return Condition("False", "ServicePortError", f"{where} is not listening on port {one.port}")
    if not found.slices:
        return Condition("False", "EndpointsNotFound", f"cannot find endpointslices for {where}")
    if not found.ready:
        name = gotext.quote(found.port_name)
        return Condition(
            "False", "MissingEndpoints", f"endpointslices for {where} have no addresses with port name {name}"
        )
    return None


def failed(url: str, why: str) -> Condition:
    """The server of an API does not answer as it should."""
    return Condition("False", "FailedDiscoveryCheck", f"failing or missing response from {url}: {why}")


def with_condition(obj: Object, condition: Condition, *, now: float) -> Object:
    """The APIService with its condition; unchanged if it has it. The time is that of the last change of the status."""
    present = _condition(obj)
    changed = present.get("status") != condition.status
    when = times.format_time(now) if changed or "lastTransitionTime" not in present else present["lastTransitionTime"]
    new = {
        "type": AVAILABLE,
        "status": condition.status,
        "lastTransitionTime": when,
        "reason": condition.reason,
        "message": condition.message,
    }
    status = obj.get("status") or {}
    conditions = [one for one in status.get("conditions") or () if one.get("type") != AVAILABLE]
    return {**obj, "status": {**status, "conditions": [*conditions, new]}}


def _condition(obj: Object) -> Mapping[str, Any]:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one.get("type") == AVAILABLE), {})
