"""Pods as backends of a Service: which pods count, with which ports, addresses and conditions. Pure.

The rules are upstream's (`k8s.io/endpointslice`, 1.36).
"""

import ipaddress
from collections.abc import Mapping
from typing import Any, Final

from rota.api import meta
from rota.controllers import pod_states

HEADLESS: Final = "None"
_ZONE: Final = "topology.kubernetes.io/zone"


def is_kept(service: Mapping[str, Any]) -> bool:
    """Whether this controller manages a service's endpoints; without a selector they are managed elsewhere."""
    spec = service.get("spec") or {}
    return bool(spec.get("selector")) and spec.get("type") != "ExternalName"


def selects(service: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    """Whether a service selects a pod."""
    selector = (service.get("spec") or {}).get("selector") or {}
    return bool(selector) and selector.items() <= meta.labels(pod).items()


def has_address(service: Mapping[str, Any]) -> bool:
    """Whether a service has a cluster IP; one without is headless."""
    return (service.get("spec") or {}).get("clusterIP") not in {None, "", HEADLESS}


def publishes_unready(service: Mapping[str, Any]) -> bool:
    """Whether a service publishes pods that are not ready."""
    return bool((service.get("spec") or {}).get("publishNotReadyAddresses"))


def families(service: Mapping[str, Any]) -> list[str]:
    """The IP families of a service's endpoints."""
    known = [one for one in (service.get("spec") or {}).get("ipFamilies") or () if one in {"IPv4", "IPv6"}]
    return known or ["IPv4"]


def is_listed(pod: Mapping[str, Any], *, terminating: bool) -> bool:
    """Whether a pod is an endpoint; terminating pods only if they are included."""
    if pod_states.is_finished(pod) or not _addresses(pod):
        return False
    return terminating or not meta.is_deleting(pod)


def addresses(pod: Mapping[str, Any], family: str) -> list[str]:
    """The addresses of a pod in an IP family."""
    found = []
    for text in _addresses(pod):
        parsed = ipaddress.ip_address(text)
        if f"IPv{parsed.version}" == family:
            found.append(str(parsed))
    return found


def port_number(pod: Mapping[str, Any], port: Mapping[str, Any]) -> int | None:
    """The pod's port that a service's port targets; None if the pod has no port of that name."""
    wanted = port.get("targetPort", port.get("port"))
    if isinstance(wanted, int):
        return wanted
    spec = pod.get("spec") or {}
    sidecars = [one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]
    for container in (*(spec.get("containers") or ()), *sidecars):
        for offered in container.get("ports") or ():
            if offered.get("name") == wanted and _protocol(offered) == _protocol(port):
                return int(offered["containerPort"])
    return None


def ports(service: Mapping[str, Any], pod: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The target ports of a pod, as slices list them."""
    found = []
    for port in (service.get("spec") or {}).get("ports") or ():
        number = port_number(pod, port)
        if number is None:
            continue
        one = {"name": port.get("name") or "", "port": number, "protocol": _protocol(port)}
        if port.get("appProtocol") is not None:
            one["appProtocol"] = port["appProtocol"]
        found.append(one)
    return found


def reference(pod: Mapping[str, Any]) -> dict[str, str]:
    """The reference to an endpoint's pod."""
    return {"kind": "Pod", "namespace": meta.namespace(pod), "name": meta.name(pod), "uid": meta.uid(pod)}


def host_name(service: Mapping[str, Any], pod: Mapping[str, Any]) -> str:
    """The host name of a pod below the service's name; empty if it has none."""
    spec = pod.get("spec") or {}
    return str(spec.get("hostname") or "") if spec.get("subdomain") == meta.name(service) else ""


def endpoint(
    service: Mapping[str, Any], pod: Mapping[str, Any], family: str, *, node: Mapping[str, Any] | None
) -> dict[str, Any]:
    """A pod as an endpoint of a slice."""
    serving, terminating = pod_states.is_ready(pod), meta.is_deleting(pod)
    ready = publishes_unready(service) or (serving and not terminating)
    found: dict[str, Any] = {
        "addresses": addresses(pod, family),
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "targetRef": reference(pod),
    }
    if (pod.get("spec") or {}).get("nodeName"):
        found["nodeName"] = pod["spec"]["nodeName"]
    if node is not None and meta.labels(node).get(_ZONE):
        found["zone"] = meta.labels(node)[_ZONE]
    if name := host_name(service, pod):
        found["hostname"] = name
    return found


def _addresses(pod: Mapping[str, Any]) -> list[str]:
    status = pod.get("status") or {}
    several = [one["ip"] for one in status.get("podIPs") or () if one.get("ip")]
    return several or ([status["podIP"]] if status.get("podIP") else [])


def _protocol(port: Mapping[str, Any]) -> str:
    return str(port.get("protocol") or "TCP")
