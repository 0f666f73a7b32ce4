"""The EndpointSlices that a service should have, given those that exist. Pure.

Pods with the same ports share slices, up to a hundred per slice. Existing slices are kept and changed as little as
possible; a service without endpoints has one empty slice. The algorithm is upstream's (`reconciler.go` of
`k8s.io/endpointslice`, 1.36), without topology hints.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import msgspec

from rota.api import meta
from rota.api.meta import Object
from rota.controllers.endpoints import backends

SERVICE_NAME: Final = "kubernetes.io/service-name"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
CONTROLLER: Final = "endpointslice-controller.k8s.io"
HEADLESS: Final = "service.kubernetes.io/headless"
#: The largest number of endpoints in a slice.
MOST: Final = 100
_RESERVED: Final = frozenset({SERVICE_NAME, MANAGED_BY, HEADLESS})

#: Endpoints by their identity.
_Endpoints: TypeAlias = dict[bytes, dict[str, Any]]


@dataclass(slots=True)
class Plan:
    """The slices to write."""

    create: list[dict[str, Any]] = field(default_factory=list)
    update: list[dict[str, Any]] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)
    #: Pods that are left out because their node is not known (yet).
    nodeless: list[str] = field(default_factory=list)


def is_ours(obj: Mapping[str, Any]) -> bool:
    """Whether this controller manages a slice."""
    return meta.labels(obj).get(MANAGED_BY) == CONTROLLER


def plan(
    service: Object,
    pods: Sequence[Object],
    existing: Sequence[Object],
    *,
    nodes: Mapping[str, Object],
    most: int = MOST,
) -> Plan:
    """The slices to write for a service with these pods and slices.

    `service` has its apiVersion and kind, which slices refer to.
    """
    families = backends.families(service)
    total = Plan(delete=[one for one in existing if one.get("addressType") not in families])
    for family in families:
        found = _plan_family(
            service, pods, [one for one in existing if one.get("addressType") == family], family, nodes=nodes, most=most
        )
        _reuse(service, found)
        total.create += found.create
        total.update += found.update
        total.delete += found.delete
        total.nodeless += found.nodeless
    if meta.is_deleting(service):
        total.create = []  # the garbage collector deletes the slices; no new ones may appear
    return total


def _plan_family(
    service: Object,
    pods: Sequence[Object],
    existing: Sequence[Object],
    family: str,
    *,
    nodes: Mapping[str, Object],
    most: int,
) -> Plan:
    found = Plan()
    groups: dict[bytes, list[Object]] = {}
    for one in existing:
        if _is_owned(one, service):
            groups.setdefault(_ports_key(one.get("ports") or ()), []).append(one)
        else:
            found.delete.append(one)
    wanted: dict[bytes, tuple[list[dict[str, Any]], _Endpoints]] = {}
    for pod in sorted(pods, key=meta.name):
        if not backends.is_listed(pod, terminating=True):
            continue
        ports = backends.ports(service, pod)
        endpoints = wanted.setdefault(_ports_key(ports), (ports, {}))[1]
        node = nodes.get((pod.get("spec") or {}).get("nodeName") or "")
        if node is None and not backends.publishes_unready(service):
            found.nodeless.append(meta.name(pod))
            continue
        endpoint = backends.endpoint(service, pod, family, node=node)
        if endpoint["addresses"]:
            endpoints[_identity(endpoint)] = endpoint
    for key, (ports, endpoints) in wanted.items():
        template = _new(service, ports, family)
        _plan_ports(service, groups.get(key, ()), endpoints, template, most=most, into=found)
    found.delete += [one for key, several in groups.items() if key not in wanted for one in several]
    if len(found.delete) == len(existing) and not found.create:
        _keep_placeholder(_new(service, [], family), found)
    return found


def _plan_ports(
    service: Object,
    existing: Sequence[Object],
    left: _Endpoints,
    template: Mapping[str, Any],
    *,
    most: int,
    into: Plan,
) -> None:
    """Distribute endpoints with the same ports over slices; those that are placed are removed from `left`."""
    unchanged: list[Object] = []
    changed: list[dict[str, Any]] = []
    for one in existing:
        before = one.get("endpoints") or []
        kept = [wanted for endpoint in before if (wanted := left.pop(_identity(endpoint), None)) is not None]
        if before and not kept:
            into.delete.append(one)
        elif kept != [_without_hints(endpoint) for endpoint in before] or _has_other_labels(one, service):
            changed.append(_changed(one, service, kept))
        else:
            unchanged.append(one)
    for slice_ in sorted(changed, key=lambda one: -len(one["endpoints"])):
        _fill(slice_, left, most)
    while left:
        roomy = _fullest_with_room(unchanged, len(left), most)
        if roomy is None:
            made = {**template, "endpoints": []}
            into.create.append(made)
        else:
            unchanged.remove(roomy)
            made = _changed(roomy, service, list(roomy.get("endpoints") or ()))
            changed.append(made)
        _fill(made, left, most)
    into.update += changed


def _fullest_with_room(slices: Sequence[Object], count: int, most: int) -> Object | None:
    """The slice that is closest to full when this many endpoints are added."""
    fitting = [one for one in slices if len(one.get("endpoints") or ()) + count <= most]
    return max(fitting, key=lambda one: len(one.get("endpoints") or ()), default=None) if count < most else None


def _fill(slice_: dict[str, Any], left: _Endpoints, most: int) -> None:
    while left and len(slice_["endpoints"]) < most:
        slice_["endpoints"].append(left.pop(next(iter(left))))


def _keep_placeholder(empty: dict[str, Any], into: Plan) -> None:
    """Keep or create one empty slice for a service without endpoints."""
    if len(into.delete) == 1:
        (one,) = into.delete
        same = not one.get("endpoints") and not one.get("ports") and meta.labels(one) == empty["metadata"]["labels"]
        if same and meta.metadata(one).get("ownerReferences") == empty["metadata"]["ownerReferences"]:
            into.delete.clear()
            return
    into.create.append(empty)


def _reuse(service: Object, found: Plan) -> None:
    """Turn slices to delete into slices to create."""
    for one in list(found.delete):
        if not found.create:
            return
        if _is_owned(one, service):
            made = found.create.pop()
            found.delete.remove(one)
            found.update.append(
                {**one, "metadata": {**one["metadata"], "labels": made["metadata"]["labels"]},
                 "ports": made["ports"], "endpoints": made["endpoints"]}
            )  # fmt: skip


def _new(service: Object, ports: list[dict[str, Any]], family: str) -> dict[str, Any]:
    """A slice of a service, without a name."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "namespace": meta.namespace(service),
            "labels": _labels(service),
            "ownerReferences": [meta.controller_reference(service)],
        },
        "addressType": family,
        "ports": ports,
        "endpoints": [],
    }


def _changed(one: Object, service: Object, endpoints: list[dict[str, Any]]) -> dict[str, Any]:
    return {**one, "metadata": {**one["metadata"], "labels": _labels(service)}, "endpoints": endpoints}


def _labels(service: Object) -> dict[str, str]:
    """The service's labels and those that identify its slices."""
    return {
        **{name: value for name, value in meta.labels(service).items() if name not in _RESERVED},
        **({} if backends.has_address(service) else {HEADLESS: ""}),
        SERVICE_NAME: meta.name(service),
        MANAGED_BY: CONTROLLER,
    }


def _has_other_labels(one: Object, service: Object) -> bool:
    return dict(meta.labels(one)) != _labels(service)


def _is_owned(one: Object, service: Object) -> bool:
    references = meta.metadata(one).get("ownerReferences") or ()
    return any(owner.get("uid") == meta.uid(service) and owner.get("kind") == "Service" for owner in references)


def _without_hints(endpoint: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in endpoint.items() if name not in {"hints", "deprecatedTopology"}}


def _identity(endpoint: Mapping[str, Any]) -> bytes:
    """The identity of an endpoint; other fields are its state."""
    target = endpoint.get("targetRef") or {}
    parts = [endpoint.get("addresses"), endpoint.get("hostname") or "", target.get("namespace"), target.get("name")]
    return msgspec.json.encode(parts)


def _ports_key(ports: Sequence[Mapping[str, Any]]) -> bytes:
    rows = [[one.get("name") or "", one.get("port"), one.get("protocol"), one.get("appProtocol")] for one in ports]
    return msgspec.json.encode(sorted(rows, key=msgspec.json.encode))
