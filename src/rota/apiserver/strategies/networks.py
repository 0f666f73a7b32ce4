"""The strategies of Ingress, IngressClass, NetworkPolicy, Endpoints and EndpointSlice.

Mirrors `pkg/apis/networking`, `pkg/apis/discovery` and the endpoints of `pkg/apis/core` of Kubernetes 1.36.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from rota.api import fields, names
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies import checks
from rota.apiserver.strategies.generic import GenericStrategy
from rota.apiserver.strategies.workloads import SPEC

Found: TypeAlias = list[fields.FieldError]

_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_INVALID_IN_PATHS: Final = ("//", "/./", "/../", "%2f", "%2F")
_INVALID_AT_ENDS: Final = ("/..", "/.")
_ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")
_IP: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_CIDR: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


class IngressStrategy(GenericStrategy):
    """Ingresses."""

    counts_generations = True
    demands_required_fields = False

    def validate_create(self, obj: Object, at: Attributes, /) -> Found:
        """The whole spec."""
        return super().validate_create(obj, at) + _validate_ingress(obj.get("spec") or {})

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> Found:
        """The whole spec."""
        found = super().validate_update(new, old, at)
        return found if at.subresource else found + _validate_ingress(new.get("spec") or {})


class IngressClassStrategy(GenericStrategy):
    """IngressClasses."""

    counts_generations = True
    demands_required_fields = False

    def validate_create(self, obj: Object, at: Attributes, /) -> Found:
        """The controller of the class."""
        return super().validate_create(obj, at) + _validate_class(obj.get("spec") or {})

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> Found:
        """The controller is immutable."""
        spec, path = new.get("spec") or {}, SPEC.child("controller")
        before = (old.get("spec") or {}).get("controller", "")
        found = super().validate_update(new, old, at) + checks.immutable(spec.get("controller", ""), before, path)
        return found + _validate_class(spec)


class NetworkPolicyStrategy(GenericStrategy):
    """NetworkPolicies."""

    counts_generations = True
    demands_required_fields = False

    def default(self, obj: Object, /) -> None:
        """The policy types that it has rules for, and always Ingress."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("podSelector", {})
        for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
            _default_protocols(rule.get("ports") or ())
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]

    def validate_create(self, obj: Object, at: Attributes, /) -> Found:
        """The whole spec."""
        return super().validate_create(obj, at) + _validate_policy(obj["spec"])

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> Found:
        """The whole spec."""
        return super().validate_update(new, old, at) + _validate_policy(new["spec"])


class EndpointsStrategy(GenericStrategy):
    """Endpoints, which EndpointSlices have replaced."""

    demands_required_fields = False

    def default(self, obj: Object, /) -> None:
        """The protocol of ports is TCP."""
        for subset in obj.get("subsets") or ():
            _default_protocols(subset.get("ports") or ())

    def validate_create(self, obj: Object, at: Attributes, /) -> Found:
        """Addresses and ports."""
        return super().validate_create(obj, at) + _validate_subsets(obj.get("subsets") or ())

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> Found:
        """Addresses and ports."""
        return super().validate_update(new, old, at) + _validate_subsets(new.get("subsets") or ())


class EndpointSliceStrategy(GenericStrategy):
    """EndpointSlices."""

    counts_generations = True
    demands_required_fields = False

    def default(self, obj: Object, /) -> None:
        """The protocol of ports is TCP and their name is empty."""
        ports = obj.get("ports") or ()
        _default_protocols(ports)
        for port in ports:
            port.setdefault("name", "")

    def prepare_update(self, new: Object, old: Object, at: Attributes, /) -> None:
        """Changes of labels increase the generation: they name the slice's service."""
        super().prepare_update(new, old, at)
        before = old["metadata"].get("generation", 0)
        if new["metadata"].get("labels") != old["metadata"].get("labels"):
            new["metadata"]["generation"] = before + 1

    def validate_create(self, obj: Object, at: Attributes, /) -> Found:
        """Addresses of one type, and ports."""
        return super().validate_create(obj, at) + _validate_slice(obj)

    def validate_update(self, new: Object, old: Object, at: Attributes, /) -> Found:
        """Addresses of the same type as before, and ports."""
        found = super().validate_update(new, old, at) + _validate_slice(new)
        return found + checks.immutable(new.get("addressType", ""), old.get("addressType"), fields.Path("addressType"))


def _default_protocols(ports: Sequence[Object]) -> None:
    for port in ports:
        if not port.get("protocol"):
            port["protocol"] = "TCP"


def _validate_ingress(spec: Mapping[str, Any]) -> Found:
    found: Found = []
    rules, backend = spec.get("rules") or (), spec.get("defaultBackend")
    if not rules and backend is None:
        why = "either `defaultBackend` or `rules` must be specified"
        found.append(fields.invalid(SPEC, checks.shown(spec.get("rules")), why))
    if backend is not None:
        found += _validate_backend(backend, SPEC.child("defaultBackend"))
    for position, rule in enumerate(rules):
        at = SPEC.child("rules").index(position)
        found += _validate_host(rule.get("host") or "", at.child("host"))
        if rule.get("http") is not None:
            found += _validate_paths(rule["http"].get("paths") or (), at.child("http", "paths"))
    for position, one in enumerate(spec.get("tls") or ()):
        at = SPEC.child("tls").index(position)
        for number, host in enumerate(one.get("hosts") or ()):
            found += _validate_name(host, at.child("hosts").index(number))
    name = spec.get("ingressClassName")
    if name is not None:
        found += checks.messages(names.check_dns1123_subdomain(name), name, SPEC.child("ingressClassName"))
    return found


def _validate_host(host: str, path: fields.Path) -> Found:
    if not host:
        return []
    if _address(host) is not None:
        return [fields.invalid(path, host, "must be a DNS name, not an IP address")]
    return _validate_name(host, path)


def _validate_name(host: str, path: fields.Path) -> Found:
    check = names.check_wildcard_dns1123_subdomain if "*" in host else names.check_dns1123_subdomain
    return checks.messages(check(host), host, path)


def _validate_paths(paths: Sequence[Mapping[str, Any]], path: fields.Path) -> Found:
    if not paths:
        return [fields.required(path)]
    found: Found = []
    for position, one in enumerate(paths):
        at, kind, text = path.index(position), one.get("pathType"), one.get("path") or ""
        if kind is None:
            found.append(fields.required(at.child("pathType"), "pathType must be specified"))
        elif kind not in _PATH_TYPES:
            found.append(fields.not_supported(at.child("pathType"), kind, _PATH_TYPES))
        elif kind != "ImplementationSpecific" or text:
            found += _validate_path(text, at.child("path"), absolute_only=kind == "ImplementationSpecific")
        found += _validate_backend(one.get("backend") or {}, at.child("backend"))
    return found


def _validate_path(text: str, path: fields.Path, *, absolute_only: bool) -> Found:
    if not text.startswith("/"):
        return [fields.invalid(path, text, "must be an absolute path")]
    if absolute_only:
        return []
    found = [fields.invalid(path, text, f"must not contain '{bad}'") for bad in _INVALID_IN_PATHS if bad in text]
    return found + [
        fields.invalid(path, text, f"cannot end with '{bad}'") for bad in _INVALID_AT_ENDS if text.endswith(bad)
    ]


def _validate_backend(backend: Mapping[str, Any], path: fields.Path) -> Found:
    service, other = backend.get("service"), backend.get("resource")
    if service is not None and other is not None:
        return [fields.invalid(path, "", "cannot set both resource and service backends")]
    if other is not None:
        at = path.child("resource")
        return [fields.required(at.child(name)) for name in ("kind", "name") if not other.get(name)]
    if service is None:
        return [fields.required(path, "resource or service backend is required")]
    at, name = path.child("service"), service.get("name", "")
    found = checks.dns_label(name, at.child("name")) if name else [fields.required(at.child("name"))]
    port = service.get("port") or {}
    named, number = port.get("name"), port.get("number")
    if named and number:
        return [*found, fields.invalid(path, "", "cannot set both port name & port number")]
    if named:
        return found + checks.port_name(named, at.child("port", "name"))
    if number:
        return found + checks.port_number(number, at.child("port", "number"))
    return [*found, fields.required(path, "port name or number is required")]


def _validate_class(spec: Mapping[str, Any]) -> Found:
    controller, path = spec.get("controller") or "", SPEC.child("controller")
    if not controller:
        return [fields.required(path)]
    found: Found = []
    if len(controller) > 250:
        found.append(fields.too_long(path, 250))
    domain, slash, rest = controller.partition("/")
    if not slash or not domain or not rest:
        why = 'must be a domain-prefixed path (such as "acme.io/foo")'
        return [*found, fields.invalid(path, controller, why)]
    return found + checks.messages(names.check_dns1123_subdomain(domain), domain, path)


def _validate_policy(spec: Mapping[str, Any]) -> Found:
    found = checks.label_selector(spec.get("podSelector"), SPEC.child("podSelector"))
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for position, rule in enumerate(spec.get(direction) or ()):
            at = SPEC.child(direction).index(position)
            for number, port in enumerate(rule.get("ports") or ()):
                found += _validate_policy_port(port, at.child("ports").index(number))
            for number, peer in enumerate(rule.get(peers) or ()):
                found += _validate_peer(peer, at.child(peers).index(number))
    kinds = spec.get("policyTypes") or ()
    if len(kinds) > 2:
        why = "may not specify more than two policyTypes"
        return [*found, fields.invalid(SPEC.child("policyTypes"), list(kinds), why)]
    for position, kind in enumerate(kinds):
        if kind not in {"Ingress", "Egress"}:
            found.append(fields.not_supported(SPEC.child("policyTypes").index(position), kind, ["Egress", "Ingress"]))
    return found


def _validate_policy_port(port: Mapping[str, Any], path: fields.Path) -> Found:
    found: Found = []
    if port.get("protocol") not in {"TCP", "UDP", "SCTP"}:
        found.append(fields.not_supported(path.child("protocol"), port.get("protocol"), ["TCP", "UDP", "SCTP"]))
    number, end = port.get("port"), port.get("endPort")
    if number is None:
        if end is not None:
            found.append(fields.required(path.child("endPort"), "may not be specified when `port` is not specified"))
        return found
    found += checks.port(number, path.child("port"))
    if end is not None and isinstance(number, str):
        why = "may not be specified when `port` is non-numeric"
        found.append(fields.invalid(path.child("endPort"), end, why))
    elif end is not None and end < number:
        found.append(fields.invalid(path.child("endPort"), end, "must be greater than or equal to `port`"))
    return found


def _validate_peer(peer: Mapping[str, Any], path: fields.Path) -> Found:
    given = [name for name in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(name) is not None]
    if not given:
        return [fields.required(path, "must specify a peer")]
    found: Found = []
    for name in given[:2]:
        if name != "ipBlock":
            found += checks.label_selector(peer[name], path.child(name))
    if "ipBlock" in given:
        if len(given) > 1:
            return [*found, fields.forbidden(path, "may not specify both ipBlock and another peer")]
        found += _validate_block(peer["ipBlock"], path.child("ipBlock"))
    return found


def _validate_block(block: Mapping[str, Any], path: fields.Path) -> Found:
    cidr = block.get("cidr") or ""
    if not cidr:
        return [fields.required(path.child("cidr"))]
    outer = _network(cidr)
    if outer is None:
        return [fields.invalid(path.child("cidr"), cidr, _CIDR)]
    found: Found = []
    for position, text in enumerate(block.get("except") or ()):
        at, inner = path.child("except").index(position), _network(text)
        if inner is None:
            found.append(fields.invalid(at, text, _CIDR))
        elif inner == outer or inner.version != outer.version or not inner.subnet_of(outer):  # type: ignore[arg-type]
            found.append(fields.invalid(at, text, "must be a strict subset of `cidr`"))
    return found


def _validate_subsets(subsets: Sequence[Mapping[str, Any]]) -> Found:
    found: Found = []
    for position, subset in enumerate(subsets):
        at = fields.Path("subsets").index(position)
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            found.append(fields.required(at, "must specify `addresses` or `notReadyAddresses`"))
        for part in ("addresses", "notReadyAddresses"):
            for number, address in enumerate(subset.get(part) or ()):
                path, text = at.child(part).index(number).child("ip"), address.get("ip") or ""
                if _address(text) is None:
                    found += [fields.invalid(path, text, _IP), fields.invalid(path, text, "must be a valid IP address")]
        ports = subset.get("ports") or ()
        for number, port in enumerate(ports):
            found += _validate_port(port, at.child("ports").index(number), named=len(ports) > 1)
    return found


def _validate_port(port: Mapping[str, Any], path: fields.Path, *, named: bool) -> Found:
    name = port.get("name") or ""
    found: Found = []
    if name:
        found += checks.dns_label(name, path.child("name"))
    elif named:
        found.append(fields.required(path.child("name")))
    found += checks.port_number(port.get("port") or 0, path.child("port"))
    if port.get("protocol") not in {"TCP", "UDP", "SCTP"}:
        found.append(fields.not_supported(path.child("protocol"), port.get("protocol"), ["SCTP", "TCP", "UDP"]))
    return found


def _validate_slice(obj: Mapping[str, Any]) -> Found:
    kind, path = obj.get("addressType") or "", fields.Path("addressType")
    if not kind:
        found = [fields.required(path)]
    else:
        found = [] if kind in _ADDRESS_TYPES else [fields.not_supported(path, kind, _ADDRESS_TYPES)]
    for position, endpoint in enumerate(obj.get("endpoints") or ()):
        at = fields.Path("endpoints").index(position).child("addresses")
        addresses = endpoint.get("addresses") or ()
        if not addresses:
            found.append(fields.required(at, "must contain at least 1 address"))
        for number, address in enumerate(addresses):
            found += _validate_slice_address(address, kind, at.index(number))
    for position, port in enumerate(obj.get("ports") or ()):
        at, name = fields.Path("ports").index(position), port.get("name") or ""
        if len(name) > 63:
            found.append(fields.invalid(at.child("name"), name, "must be no more than 63 characters"))
        elif name:
            found += checks.dns_label(name, at.child("name"))
        if port.get("protocol") not in {"TCP", "UDP", "SCTP"}:
            found.append(fields.not_supported(at.child("protocol"), port.get("protocol"), ["SCTP", "TCP", "UDP"]))
        if port.get("port") is not None:
            found += checks.port_number(port["port"], at.child("port"))
    return found


def _validate_slice_address(address: str, kind: str, path: fields.Path) -> Found:
    if kind == "FQDN":
        return checks.messages(names.check_dns1123_subdomain(address), address, path)
    parsed = _address(address)
    if parsed is None:
        return [fields.invalid(path, address, _IP)]
    if kind in {"IPv4", "IPv6"} and f"IPv{parsed.version}" != kind:
        return [fields.invalid(path, address, f"must be an {kind} address")]
    return []


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None
