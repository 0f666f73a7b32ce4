"""The strategy of Service.

Admission allocates addresses and node ports (`service_addresses`); here they are validated and kept.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rota.api import fields, names
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies import checks, metadata
from rota.apiserver.strategies.generic import GenericStrategy

_SPEC: Final = fields.Path("spec")
_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_AFFINITY_S: Final = 10_800


class ServiceStrategy(GenericStrategy):
    """Services."""

    def default(self, obj: Object, /) -> None:
        """As upstream."""
        spec = obj.setdefault("spec", {})
        if not spec.get("type"):
            spec["type"] = "ClusterIP"
        if not spec.get("sessionAffinity"):
            spec["sessionAffinity"] = "None"
        if spec["sessionAffinity"] == "ClientIP":
            client = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
            client.setdefault("timeoutSeconds", _AFFINITY_S)
        else:
            spec.pop("sessionAffinityConfig", None)
        for port in spec.get("ports") or ():
            if not port.get("protocol"):
                port["protocol"] = "TCP"
            if port.get("targetPort") in {None, 0, ""}:
                port["targetPort"] = port.get("port", 0)
        if spec["type"] != "ExternalName":
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if spec["type"] in {"NodePort", "LoadBalancer"}:
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]

    def prepare_create(self, obj: Object, at: Attributes, /) -> None:
        """No load balancer status yet."""
        super().prepare_create(obj, at)
        obj["status"] = {"loadBalancer": {}}

    def prepare_update(self, new: Object, old: Object, at: Attributes, /) -> None:
        """An update without the address keeps it."""
        super().prepare_update(new, old, at)
        if not at.subresource and new["spec"]["type"] == old["spec"].get("type") != "ExternalName":
            for name in ("clusterIP", "clusterIPs"):
                if not new["spec"].get(name) and old["spec"].get(name):
                    new["spec"][name] = old["spec"][name]

    def validate_create(self, obj: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Ports, selector, addresses."""
        return super().validate_create(obj, at) + _validate(obj["spec"])

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> list[fields.FieldError]:
        """Ports, selector, addresses; the address is immutable."""
        found = super().validate_update(new, old, at) + _validate(new["spec"])
        before, after = old["spec"].get("clusterIP"), new["spec"].get("clusterIP")
        if before and after != before and "ExternalName" not in {new["spec"]["type"], old["spec"].get("type")}:
            found.append(fields.invalid(_SPEC.child("clusterIPs").index(0), after, "may not change once set"))
        return found


def _validate(spec: Mapping[str, Any]) -> list[fields.FieldError]:
    kind, address = spec["type"], spec.get("clusterIP", "")
    found: list[fields.FieldError] = []
    ports = spec.get("ports") or []
    if not ports and address != "None" and kind != "ExternalName":
        found.append(fields.required(_SPEC.child("ports")))
    found += _validate_ports(ports)
    found += metadata.validate_labels(spec.get("selector") or {}, _SPEC.child("selector"))
    found += checks.one_of(spec.get("sessionAffinity"), ("ClientIP", "None"), _SPEC.child("sessionAffinity"))
    found += checks.one_of(kind, _TYPES, _SPEC.child("type"))
    if kind == "ExternalName":
        target, path = spec.get("externalName", ""), _SPEC.child("externalName")
        messages = names.check_dns1123_subdomain(target.removesuffix("."))
        found += checks.messages(messages, target, path) if target else [fields.required(path)]
        if address:
            found.append(fields.forbidden(_SPEC.child("clusterIPs"), "may not be set when `type` is 'ExternalName'"))
    if kind == "LoadBalancer" and address == "None":
        why = "may not be set to 'None' for LoadBalancer services"
        found.append(fields.invalid(_SPEC.child("clusterIPs").index(0), address, why))
    if address not in {"", "None"} and not _is_address(address):
        why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        found.append(fields.invalid(_SPEC.child("clusterIPs").index(0), address, why))
    return found


def _validate_ports(ports: Sequence[Mapping[str, Any]]) -> list[fields.FieldError]:
    found: list[fields.FieldError] = []
    named: set[str] = set()
    numbered: set[tuple[Any, Any]] = set()
    for position, one in enumerate(ports):
        path, name = _SPEC.child("ports").index(position), one.get("name", "")
        if not name:
            if len(ports) > 1:
                found.append(fields.required(path.child("name")))
        else:
            found += checks.dns_label(name, path.child("name"))
            found += [fields.duplicate(path.child("name"), name)] if name in named else []
        named.add(name)
        found += checks.port_number(one.get("port") or 0, path.child("port"))
        found += checks.one_of(one.get("protocol"), _PROTOCOLS, path.child("protocol"))
        found += checks.port(one.get("targetPort"), path.child("targetPort"))
        key = (one.get("protocol"), one.get("port"))
        if key in numbered:
            found.append(fields.duplicate(path, {"protocol": key[0], "port": key[1]}))
        numbered.add(key)
    return found


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
