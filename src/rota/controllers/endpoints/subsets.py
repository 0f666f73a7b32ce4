"""The legacy Endpoints object of a service: subsets of addresses and ports. Pure.

Upstream maintains it beside slices, for software that reads it (`pkg/controller/endpoint`, 1.36).
"""

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from rota.api import meta
from rota.api.meta import Object
from rota.controllers import pod_states
from rota.controllers.endpoints import backends
from rota.controllers.endpoints.slices import HEADLESS

MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
CONTROLLER: Final = "endpoint-controller"
OVER_CAPACITY: Final = "endpoints.kubernetes.io/over-capacity"
#: Further addresses are cut off; slices contain all of them.
MOST: Final = 1000


def wanted(service: Object, pods: Sequence[Object], existing: Object | None) -> dict[str, Any] | None:
    """The Endpoints of a service that selects these pods; None if the existing object is correct."""
    found, is_cut = _truncated(subsets(service, pods))
    labels = {**meta.labels(service), MANAGED_BY: CONTROLLER}
    labels.pop(HEADLESS, None)
    if not backends.has_address(service):
        labels[HEADLESS] = ""
    metadata: dict[str, Any] = {"name": meta.name(service), "namespace": meta.namespace(service)}
    if existing is not None:
        metadata = dict(meta.metadata(existing))
    annotations = {name: value for name, value in (metadata.get("annotations") or {}).items() if name != OVER_CAPACITY}
    if is_cut:
        annotations[OVER_CAPACITY] = "truncated"
    if (
        existing is not None
        and (existing.get("subsets") or []) == found
        and dict(meta.labels(existing)) == labels
        and dict(meta.annotations(existing)) == annotations
    ):
        return None
    metadata |= {"labels": labels, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": found}


def subsets(service: Object, pods: Sequence[Object]) -> list[dict[str, Any]]:
    """Addresses and ports; ports with the same pods in the same conditions share a subset."""
    unready_too = backends.publishes_unready(service)
    ports = (service.get("spec") or {}).get("ports") or ()
    #: By port (None for a service without ports): its addresses, and whether each is ready.
    by_port: dict[bytes, dict[bytes, bool]] = {}
    addresses: dict[bytes, dict[str, Any]] = {}
    for pod in pods:
        if not backends.is_listed(pod, terminating=unready_too):
            continue
        own = backends.addresses(pod, backends.families(service)[0])
        if not own:
            continue
        address = _address(service, pod, own[0])
        key = msgspec.json.encode([own[0], meta.uid(pod)])
        ready = unready_too or pod_states.is_ready(pod)
        offered = backends.ports(service, pod)
        if not ports and not backends.has_address(service):
            by_port.setdefault(b"", {})[key] = ready
        for port in offered:
            by_port.setdefault(msgspec.json.encode(port), {})[key] = ready
        addresses[key] = address
    groups: dict[tuple[tuple[bytes, bool], ...], list[bytes]] = {}
    for port_key, behind in by_port.items():
        groups.setdefault(tuple(sorted(behind.items())), []).append(port_key)
    found = [_subset({key: addresses[key] for key, _ in behind}, dict(behind), keys) for behind, keys in groups.items()]
    return sorted(found, key=msgspec.json.encode)


def _subset(
    addresses: Mapping[bytes, dict[str, Any]], ready: Mapping[bytes, bool], keys: Sequence[bytes]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, state in (("addresses", True), ("notReadyAddresses", False)):
        listed = [one for key, one in addresses.items() if ready[key] is state]
        if listed:
            found[name] = sorted(listed, key=_order)
    ports = [_port(msgspec.json.decode(key)) for key in keys if key]
    if ports:
        found["ports"] = sorted(ports, key=lambda one: (one.get("name", ""), one["port"], one["protocol"]))
    return found


def _port(port: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in port.items() if name != "name" or value}


def _address(service: Object, pod: Object, address: str) -> dict[str, Any]:
    found: dict[str, Any] = {"ip": address, "targetRef": backends.reference(pod)}
    if (pod.get("spec") or {}).get("nodeName"):
        found["nodeName"] = pod["spec"]["nodeName"]
    if name := backends.host_name(service, pod):
        found["hostname"] = name
    return found


def _order(address: Mapping[str, Any]) -> tuple[bytes, str]:
    return ipaddress.ip_address(address["ip"]).packed, address["targetRef"]["uid"]


def _truncated(found: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], bool]:
    """At most a thousand addresses, ready ones first; and whether some were cut off."""
    names = ("addresses", "notReadyAddresses")
    if sum(len(one.get(name) or ()) for one in found for name in names) <= MOST:
        return found, False
    room, cut = MOST, [dict(one) for one in found]
    for name in names:
        for one in cut:
            if name in one:
                one[name] = one[name][:room]
                room -= len(one[name])
                if not one[name]:
                    del one[name]
    return [one for one in cut if any(name in one for name in names)], True
