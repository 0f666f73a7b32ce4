"""Where a node's worker listens, from the node's status. Pure."""

from dataclasses import dataclass
from typing import Final

from rota.apiserver.interfaces import Object

DEFAULT_PORT: Final = 10_250
#: Addresses before names: names of nodes are often not resolvable, and certificates hold what masters can use.
_PREFERRED: Final = ("InternalIP", "InternalDNS", "Hostname", "ExternalIP", "ExternalDNS")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a worker listens."""

    host: str
    port: int

    def url(self, scheme: str, path: str) -> str:
        """A URL at the worker."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}{path}"


def of_node(node: Object) -> Address | None:
    """Where the worker of a node listens, if the node says so."""
    status = node.get("status") or {}
    found = {one.get("type"): one.get("address") for one in reversed(status.get("addresses") or ())}
    host = next((found[kind] for kind in _PREFERRED if found.get(kind)), None)
    if host is None:
        return None
    endpoint = (status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}
    return Address(host, endpoint.get("Port") or DEFAULT_PORT)
