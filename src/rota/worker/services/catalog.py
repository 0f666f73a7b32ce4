"""The services of a machine: routes of the proxy, host names, and variables. Pure.

Services and EndpointSlices are those of the API. Names follow Kubernetes' DNS specification, variables the kubelet
(`pkg/kubelet/envvars`, 1.36). The service `default/kubernetes` is left out: tasks get the address of the API otherwise.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from rota.api import meta
from rota.api.meta import Object
from rota.worker.addresses import is_loopback

DOMAIN: Final = "svc.cluster.local"
_SERVICE_NAME: Final = "kubernetes.io/service-name"
_API: Final = ("default", "kubernetes")


class Backend(NamedTuple):
    """An endpoint that a connection may go to."""

    address: str
    port: int


class Route(NamedTuple):
    """The backends of a service's port; none while no pod is ready."""

    address: str
    port: int
    #: Of the service.
    namespace: str
    name: str
    backends: tuple[Backend, ...]


class Unserved(NamedTuple):
    """A port of a service that is not served here, and the reason."""

    namespace: str
    name: str
    why: str


class Catalog:
    """Services with their endpoints."""

    def __init__(self, services: Iterable[Object], slices: Iterable[Object], *, node: str) -> None:
        self._node: Final = node
        self._services: Final = sorted(
            (one for one in services if (meta.namespace(one), meta.name(one)) != _API), key=_key
        )
        self._slices: Final[dict[tuple[str, str], list[Object]]] = {}
        for one in slices:
            name = meta.labels(one).get(_SERVICE_NAME)
            if name and one.get("addressType") == "IPv4":
                self._slices.setdefault((meta.namespace(one), name), []).append(one)

    def __bool__(self) -> bool:
        """Whether there is any service."""
        return bool(self._services)

    def routes(self) -> list[Route]:
        """Every TCP port of a service whose address is the machine's own."""
        return [
            Route(_address(service), port["port"], *_key(service), tuple(self._backends(service, port)))
            for service in self._services
            if is_loopback(_address(service))
            for port in _ports(service)
            if port.get("protocol", "TCP") == "TCP"
        ]

    def unserved(self) -> list[Unserved]:
        """Services with an address that is not this machine's own, on which nothing can listen."""
        return [
            Unserved(*_key(one), f"{_address(one)} is not a loopback address: delete the service and create it anew")
            for one in self._services
            if _address(one) and not is_loopback(_address(one))
        ]

    def hosts(self, namespace: str) -> Iterator[tuple[str, list[str]]]:
        """Addresses and their names for pods of a namespace, as in a hosts file."""
        for service in self._services:
            names = _names(service, namespace)
            if is_loopback(_address(service)):
                yield _address(service), names
            elif (service.get("spec") or {}).get("clusterIP") == "None":
                for endpoint in self._ready(service):
                    below = [f"{endpoint['hostname']}.{name}" for name in names] if endpoint.get("hostname") else []
                    yield endpoint["addresses"][0], [*names, *below]

    def variables(self, namespace: str) -> dict[str, str]:
        """The service variables of a pod of a namespace."""
        found: dict[str, str] = {}
        for service in self._services:
            if meta.namespace(service) == namespace and is_loopback(_address(service)) and _ports(service):
                found |= _variables(meta.name(service), _address(service), _ports(service))
        return found

    def _backends(self, service: Object, port: Mapping[str, Any]) -> Iterator[Backend]:
        local = (service.get("spec") or {}).get("internalTrafficPolicy") == "Local"
        for state in ("ready", "serving"):
            found = list(self._in_state(service, port, state, local=local))
            if found:
                yield from found
                return

    def _in_state(self, service: Object, port: Mapping[str, Any], state: str, *, local: bool) -> Iterator[Backend]:
        """Endpoints of a port: the ready ones or, if there are none, those that serve while terminating."""
        for one in self._slices.get(_key(service), ()):
            numbers = [
                each["port"]
                for each in one.get("ports") or ()
                if (each.get("name") or "") == (port.get("name") or "") and each.get("protocol", "TCP") == "TCP"
            ]
            for endpoint in one.get("endpoints") or ():
                if _is(endpoint, state) and not (local and endpoint.get("nodeName") != self._node):
                    yield from (Backend(endpoint["addresses"][0], number) for number in numbers)

    def _ready(self, service: Object) -> Iterator[Mapping[str, Any]]:
        for one in self._slices.get(_key(service), ()):
            yield from (endpoint for endpoint in one.get("endpoints") or () if _is(endpoint, "ready"))


def may_need_later(pod: Object) -> bool:
    """Whether a pod may look up a service that does not exist when it starts.

    That is so for a pod that runs on, and for one that is part of a service by its `subdomain`: the processes of a gang
    find each other by that service, which may be created after the pods.
    """
    spec = pod["spec"]
    return bool(spec.get("restartPolicy", "Always") == "Always" or spec.get("subdomain"))


def _is(endpoint: Mapping[str, Any], state: str) -> bool:
    # An absent condition of an endpoint counts as true, as the API specifies.
    return (endpoint.get("conditions") or {}).get(state) is not False


def _key(obj: Object) -> tuple[str, str]:
    return meta.namespace(obj), meta.name(obj)


def _address(service: Object) -> str:
    address = (service.get("spec") or {}).get("clusterIP") or ""
    return "" if address == "None" else str(address)


def _ports(service: Object) -> Sequence[Mapping[str, Any]]:
    return (service.get("spec") or {}).get("ports") or ()


def _names(service: Object, namespace: str) -> list[str]:
    space, name = _key(service)
    full = [f"{name}.{space}", f"{name}.{space}.svc", f"{name}.{space}.{DOMAIN}"]
    return [name, *full] if space == namespace else full


def _variables(name: str, address: str, ports: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    stem = name.upper().replace("-", "_")
    first = ports[0]
    found = {f"{stem}_SERVICE_HOST": address, f"{stem}_SERVICE_PORT": str(first["port"])}
    for port in ports:
        if port.get("name"):
            found[f"{stem}_SERVICE_PORT_{port['name'].upper().replace('-', '_')}"] = str(port["port"])
    found[f"{stem}_PORT"] = _url(address, first)
    for port in ports:
        protocol = port.get("protocol", "TCP")
        link = f"{stem}_PORT_{port['port']}_{protocol}"
        found |= {
            link: _url(address, port),
            f"{link}_PROTO": protocol.lower(),
            f"{link}_PORT": str(port["port"]),
            f"{link}_ADDR": address,
        }
    return found


def _url(address: str, port: Mapping[str, Any]) -> str:
    return f"{port.get('protocol', 'TCP').lower()}://{address}:{port['port']}"
