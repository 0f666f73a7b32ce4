"""Services, endpoints, ingresses and network policies."""

from typing import Any, Final

from rota.api.identifiers import GroupResource
from rota.apiserver.printing import durations, texts
from rota.apiserver.printing.columns import NONE, Cells, Object, Printer, Printers, age, at, columns, items, name

_DEFAULT_CLASS: Final = "ingressclass.kubernetes.io/is-default-class"


def _service(obj: Object, now: float) -> Cells:
    ports = ",".join(_service_port(port) for port in items(obj, "spec", "ports"))
    return [
        name(obj),
        at(obj, "spec", "type") or "",
        next(iter(items(obj, "spec", "clusterIPs")), NONE),
        _external_address(obj),
        ports or NONE,
        age(obj, now),
        texts.labels(at(obj, "spec", "selector")),
    ]


def _service_port(port: dict[str, Any]) -> str:
    inside = port.get("port") or 0
    outside = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{inside}{outside}/{port.get('protocol') or ''}"


def _external_address(obj: Object) -> str:
    external = items(obj, "spec", "externalIPs")
    match at(obj, "spec", "type"):
        case "ClusterIP" | "NodePort":
            return ",".join(external) or NONE
        case "LoadBalancer":
            return ",".join([*_balanced(obj), *external]) or "<pending>"
        case "ExternalName":
            return at(obj, "spec", "externalName") or ""
    return durations.UNKNOWN


def _balanced(obj: Object) -> list[str]:
    entries = items(obj, "status", "loadBalancer", "ingress")
    return sorted({entry.get("ip") or entry.get("hostname") or "" for entry in entries} - {""})


def _endpoints(obj: Object, now: float) -> Cells:
    subsets = items(obj, "subsets")
    pairs = [pair for subset in subsets for pair in _subset(subset)]
    return [name(obj), texts.shortened(pairs, empty="") if subsets else NONE, age(obj, now)]


def _subset(subset: dict[str, Any]) -> list[str]:
    addresses = [one.get("ip") or "" for one in items(subset, "addresses")]
    ports = items(subset, "ports")
    if not ports:
        return addresses
    return [_host_port(address, port.get("port") or 0) for port in ports for address in addresses]


def _host_port(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _endpoint_slice(obj: Object, now: float) -> Cells:
    addresses = (address for one in items(obj, "endpoints") for address in items(one, "addresses"))
    return [
        name(obj),
        at(obj, "addressType") or "",
        texts.shortened(_slice_port(port) for port in items(obj, "ports")),
        texts.shortened(addresses),
        age(obj, now),
    ]


def _slice_port(port: dict[str, Any]) -> str:
    number, called = port.get("port"), port.get("name")
    return str(number) if number is not None else called if called is not None else "*"


def _ingress(obj: Object, now: float) -> Cells:
    class_name = at(obj, "spec", "ingressClassName")
    return [
        name(obj),
        NONE if class_name is None else class_name,
        _hosts(items(obj, "spec", "rules")),
        ",".join(_balanced(obj)),
        "80, 443" if items(obj, "spec", "tls") else "80",
        age(obj, now),
    ]


def _hosts(rules: list[dict[str, Any]], *, limit: int = 3) -> str:
    """The first hosts; the number of others counts rules, also those without a host."""
    shown: list[str] = []
    more = False
    for rule in rules:
        more = more or len(shown) == limit
        if not more and rule.get("host"):
            shown.append(rule["host"])
    text = ",".join(shown)
    return f"{text} + {len(rules) - limit} more..." if more else text or "*"


def _ingress_class(obj: Object, now: float) -> Cells:
    parameters = at(obj, "spec", "parameters")
    reference = NONE
    if parameters is not None:
        group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") is not None else ""
        reference = f"{parameters.get('kind') or ''}{group}/{parameters.get('name') or ''}"
    default = " (default)" if at(obj, "metadata", "annotations", _DEFAULT_CLASS) == "true" else ""
    return [name(obj) + default, at(obj, "spec", "controller") or "", reference, age(obj, now)]


def _network_policy(obj: Object, now: float) -> Cells:
    return [name(obj), texts.selector(at(obj, "spec", "podSelector") or {}), age(obj, now)]


def _service_cidr(obj: Object, now: float) -> Cells:
    return [name(obj), ",".join(items(obj, "spec", "cidrs")), age(obj, now)]


def _ip_address(obj: Object, now: float) -> Cells:
    # upstream sends the age too, but without a column
    parent = at(obj, "spec", "parentRef")
    if parent is None:
        return [name(obj), NONE, age(obj, now)]
    resource = str(GroupResource(parent.get("group") or "", parent.get("resource") or "")).lower()
    namespace = f"/{parent['namespace']}" if parent.get("namespace") else ""
    return [name(obj), f"{resource}{namespace}/{parent.get('name') or ''}", age(obj, now)]


PRINTERS: Final[Printers] = {
    GroupResource("", "services"): Printer(
        columns=columns("""
            Name        | string name | The name of the service.
            Type        | string      | How the service is reached.
            Cluster-IP  | string      | Its address within the cluster.
            External-IP | string      | Its addresses for the outside.
            Port(s)     | string      | Its ports; after a colon, the port on every node.
            Age         | string      | How long the service has existed.
            Selector    | string wide | Which pods stand behind the service.
        """),
        cells=_service,
    ),
    GroupResource("", "endpoints"): Printer(
        columns=columns("""
            Name      | string name | The name of the endpoints.
            Endpoints | string      | The first addresses and ports.
            Age       | string      | How long the endpoints have existed.
        """),
        cells=_endpoints,
    ),
    GroupResource("discovery.k8s.io", "endpointslices"): Printer(
        columns=columns("""
            Name        | string name | The name of the slice.
            AddressType | string      | What its addresses are.
            Ports       | string      | The first ports.
            Endpoints   | string      | The first addresses.
            Age         | string      | How long the slice has existed.
        """),
        cells=_endpoint_slice,
    ),
    GroupResource("networking.k8s.io", "ingresses"): Printer(
        columns=columns("""
            Name    | string name | The name of the ingress.
            Class   | string      | The class that serves it.
            Hosts   | string      | The first hosts that it answers for.
            Address | string      | Where it is reached.
            Ports   | string      | The ports that it opens.
            Age     | string      | How long the ingress has existed.
        """),
        cells=_ingress,
    ),
    GroupResource("networking.k8s.io", "ingressclasses"): Printer(
        columns=columns("""
            Name       | string name | The name of the class.
            Controller | string      | Who serves ingresses of this class.
            Parameters | string      | The object with further settings.
            Age        | string      | How long the class has existed.
        """),
        cells=_ingress_class,
    ),
    GroupResource("networking.k8s.io", "networkpolicies"): Printer(
        columns=columns("""
            Name         | string name | The name of the policy.
            Pod-Selector | string      | Which pods it is for.
            Age          | string      | How long the policy has existed.
        """),
        cells=_network_policy,
    ),
    GroupResource("networking.k8s.io", "servicecidrs"): Printer(
        columns=columns("""
            Name  | string name | The name of the range.
            CIDRs | string      | The addresses that services may get.
            Age   | string      | How long the range has existed.
        """),
        cells=_service_cidr,
    ),
    GroupResource("networking.k8s.io", "ipaddresses"): Printer(
        columns=columns("""
            Name      | string name | The address.
            ParentRef | string      | The object that it belongs to.
            Age       | string      | How long the address has been taken.
        """),
        cells=_ip_address,
    ),
}
