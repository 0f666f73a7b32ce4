"""Resolves a Service to addresses that this server connects to: for admission and conversion webhooks, and for APIs.

A master has no service network, so it takes a ready endpoint, as a stock server with `--enable-aggregator-routing`
does. What was found is kept for a second: a burst of requests reads the store once.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rota.api import gotext
from rota.api.identifiers import GroupResource
from rota.apiserver.interfaces import Object, Registry

SERVICES: Final = GroupResource("", "services")
SLICES: Final = GroupResource("discovery.k8s.io", "endpointslices")
DEFAULT_PORT: Final = 443
_OF_SERVICE: Final = "kubernetes.io/service-name"
_KEPT_S: Final = 1.0
_MOST_KEPT: Final = 1024

Address: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What there is of a Service and one of its ports."""

    namespace: str
    name: str
    port: int
    exists: bool = False
    #: The host of a Service of type ExternalName.
    external: str | None = None
    #: The name of the port; None if the Service does not have it.
    port_name: str | None = None
    slices: int = 0
    ready: tuple[Address, ...] = ()

    @property
    def problem(self) -> str:
        """Why it has no address; empty if it has one."""
        if not self.exists:
            return f"service {gotext.quote(self.name)} not found"
        if self.external is not None:
            return ""
        if self.port_name is None:
            return f"no service port {self.port} found for service {gotext.quote(self.name)}"
        return "" if self.ready else f"no endpoints available for service {gotext.quote(self.name)}"


class ServiceEndpoints:
    """The resolver of one server, for all that it calls."""

    def __init__(self, rng: random.Random) -> None:
        self._rng: Final = rng
        #: With the time until which each holds.
        self._kept: Final[dict[tuple[str, str, int], tuple[Found, float]]] = {}

    async def address(self, registry: Registry, namespace: str, name: str, port: int = DEFAULT_PORT) -> Address:
        """The address of a ready endpoint; LookupError if there is none."""
        found = await self.find(registry, namespace, name, port)
        if found.problem:
            raise LookupError(found.problem)
        return (found.external, port) if found.external is not None else self._rng.choice(found.ready)

    async def find(
        self, registry: Registry, namespace: str, name: str, port: int = DEFAULT_PORT, *, fresh: bool = False
    ) -> Found:
        """What there is of a Service; `fresh` reads the store in any case."""
        key, now = (namespace, name, port), registry.clock.monotonic()
        known = self._kept.get(key)
        if known is not None and now < known[1] and not fresh:
            return known[0]
        found = await _read(registry, namespace, name, port)
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        # a Service that is not there yet is looked for again by every request
        self._kept[key] = found, now if found.problem else now + _KEPT_S
        return found


async def _read(registry: Registry, namespace: str, name: str, port: int) -> Found:
    stored = await registry.find(registry.resource(SERVICES), namespace, name)
    if stored is None:
        return Found(namespace=namespace, name=name, port=port)
    spec = stored.object.get("spec") or {}
    if spec.get("type") == "ExternalName":
        external = str(spec.get("externalName"))
        return Found(namespace=namespace, name=name, port=port, exists=True, external=external)
    declared: Mapping[str, Any] | None = next((one for one in spec.get("ports") or () if one.get("port") == port), None)
    if declared is None:
        return Found(namespace=namespace, name=name, port=port, exists=True)
    listed = await registry.list(registry.resource(SLICES), namespace)
    slices = [one.object for one in listed if (one.object["metadata"].get("labels") or {}).get(_OF_SERVICE) == name]
    port_name = declared.get("name") or ""
    return Found(
        namespace=namespace,
        name=name,
        port=port,
        exists=True,
        port_name=port_name,
        slices=len(slices),
        ready=tuple(_ready(slices, port_name)),
    )


def _ready(slices: Sequence[Object], port: str) -> list[Address]:
    return [
        (endpoint["addresses"][0], one["port"])
        for each in slices
        for one in each.get("ports") or ()
        if (one.get("name") or "") == port and one.get("port")
        for endpoint in each.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready") is not False and endpoint.get("addresses")
    ]
