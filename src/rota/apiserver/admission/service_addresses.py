"""Allocates cluster IPs of services, and node ports of those that need them.

No two services get the same address or node port, with any number of servers: an allocation writes a record in the same
transaction as the service. Records are never released explicitly. A record whose service is gone, or does not have the
recorded value, is void, and the next allocation reuses it; so no address leaks, however a service is deleted. The
records are stored outside of all API groups.

Whether the address is routed is up to the network; here it is only a unique value.
"""

import ipaddress
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

import msgspec

from rota.api import errors, fields
from rota.api.identifiers import GroupKind, GroupResource
from rota.apiserver.interfaces import Attributes, Object, Registry, TransactionExtras
from rota.store.store_interface import Precondition, Put

SERVICES: Final = GroupResource("", "services")
#: Upstream's range.
NETWORK: Final = ipaddress.IPv4Network("10.96.0.0/16")
NODE_PORTS: Final = range(30_000, 32_768)
HEADLESS: Final = "None"
_SERVICE: Final = GroupKind("", "Service")
#: No API group can begin with a tilde.
_PREFIX: Final = "/~ledger/services/"
#: Low addresses are reserved for services that request one explicitly.
_RESERVED: Final = 256
#: How many candidates are tried before the range counts as full.
_LOOKS: Final = 256
_SPEC: Final = fields.Path("spec")


class _Holder(msgspec.Struct, frozen=True, gc=False):
    """The service that has a record."""

    namespace: str
    name: str
    uid: str


_decoder: Final = msgspec.json.Decoder(_Holder)


class _Claim(NamedTuple):
    """How to allocate a free value."""

    write: Put
    guard: Precondition


class ServiceAddresses:
    """Sets `clusterIP` and `nodePort`. Runs before validation, which sees the final service."""

    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset()

    def __init__(self, registry: Registry, network: ipaddress.IPv4Network = NETWORK) -> None:
        """`network` is the range of addresses."""
        self._registry: Final = registry
        self._network: Final = network

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> TransactionExtras | None:
        """Allocate what the service needs and does not have."""
        if new is None or at.subresource or at.resource.group_resource != SERVICES:
            return None
        spec, before = new["spec"], (old or {}).get("spec") or {}
        _keep(spec, before)
        holder = _Holder(at.namespace, new["metadata"].get("name", ""), new["metadata"].get("uid", ""))
        claims = [
            *await self._address(spec, before, holder),
            *await self._ports(spec, before, holder),
        ]
        _describe_families(spec)
        if not claims:
            return None
        return TransactionExtras(writes=tuple(one.write for one in claims), guards=tuple(one.guard for one in claims))

    async def _address(self, spec: Object, before: Object, holder: _Holder) -> Sequence[_Claim]:
        wanted = spec.get("clusterIP") or ""
        if spec.get("type") == "ExternalName" or wanted == HEADLESS or (wanted and wanted == before.get("clusterIP")):
            return ()
        if wanted:
            return (await self._given_address(wanted, holder),) if _in_network(wanted, self._network, holder) else ()
        for offset in _candidates(holder.uid, self._network.num_addresses - _RESERVED - 1):
            address = str(self._network[_RESERVED + offset])
            claim = await self._claim(f"addresses/{address}", holder)
            if claim is not None:
                spec["clusterIP"], spec["clusterIPs"] = address, [address]
                return (claim,)
        raise errors.internal_error("failed to allocate a serviceIP: range is full")

    async def _given_address(self, address: str, holder: _Holder) -> _Claim:
        claim = await self._claim(f"addresses/{address}", holder)
        if claim is None:
            why = f"failed to allocate IP {address}: provided IP is already allocated"
            raise errors.invalid(_SERVICE, holder.name, [fields.invalid(_SPEC.child("clusterIPs"), [address], why)])
        return claim

    async def _ports(self, spec: Object, before: Object, holder: _Holder) -> Sequence[_Claim]:
        if not _has_node_ports(spec):
            return ()
        had = {one.get("nodePort") for one in before.get("ports") or ()}
        claims: dict[int, _Claim] = {}
        for position, port in enumerate(spec.get("ports") or ()):
            number = port.get("nodePort") or 0
            if not number:
                number, claims_one = await self._free_port(f"{holder.uid}/{position}", holder, claims)
                claims[number] = claims_one
                port["nodePort"] = number
            elif number not in had and number not in claims:
                claims[number] = await self._given_port(number, position, holder)
        return tuple(claims.values())

    async def _free_port(self, seed: str, holder: _Holder, taken: Mapping[int, _Claim]) -> tuple[int, _Claim]:
        for offset in _candidates(seed, len(NODE_PORTS)):
            number = NODE_PORTS[offset]
            claim = await self._claim(f"ports/{number}", holder) if number not in taken else None
            if claim is not None:
                return number, claim
        raise errors.internal_error("failed to allocate a nodePort: range is full")

    async def _given_port(self, number: int, position: int, holder: _Holder) -> _Claim:
        path = _SPEC.child("ports").index(position).child("nodePort")
        why = "provided port is already allocated"
        if number in NODE_PORTS:
            claim = await self._claim(f"ports/{number}", holder)
            if claim is not None:
                return claim
        else:
            shown = f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
            why = f"provided port is not in the valid range. The range of valid ports is {shown}"
        raise errors.invalid(_SERVICE, holder.name, [fields.invalid(path, number, why)])

    async def _claim(self, what: str, holder: _Holder) -> _Claim | None:
        """How to allocate a value; None if an existing service has it."""
        key = _PREFIX + what
        entry = await self._registry.store.get(key)
        if entry is not None and await self._is_held(what, _decoder.decode(entry.value), holder):
            return None
        guard = Precondition(key, revision=entry.revision if entry is not None else 0)
        return _Claim(Put(key, msgspec.json.encode(holder)), guard)

    async def _is_held(self, what: str, by: _Holder, asking: _Holder) -> bool:
        if by.uid == asking.uid:
            return False
        resource = self._registry.resource(SERVICES)
        found = await self._registry.find(resource, by.namespace, by.name)
        if found is None or found.object["metadata"]["uid"] != by.uid:
            return False
        return what in _held(found.object.get("spec") or {})


def _held(spec: Object) -> Iterator[str]:
    """What a service has, as in the records."""
    if spec.get("clusterIP"):
        yield f"addresses/{spec['clusterIP']}"
    for port in spec.get("ports") or ():
        if port.get("nodePort"):
            yield f"ports/{port['nodePort']}"


def _keep(spec: Object, before: Object) -> None:
    """An update that leaves out an allocated value keeps it."""
    if spec.get("type") != "ExternalName" and not spec.get("clusterIP") and before.get("clusterIP"):
        spec["clusterIP"] = before["clusterIP"]
        spec["clusterIPs"] = list(before.get("clusterIPs") or [before["clusterIP"]])
    if _has_node_ports(spec):
        had = {(one.get("protocol"), one.get("port")): one.get("nodePort") for one in before.get("ports") or ()}
        for port in spec.get("ports") or ():
            kept = had.get((port.get("protocol"), port.get("port")))
            if kept and not port.get("nodePort"):
                port["nodePort"] = kept


def _has_node_ports(spec: Object) -> bool:
    kind = spec.get("type")
    return kind == "NodePort" or (kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False)


def _describe_families(spec: Object) -> None:
    """Set the IP families of the service: there is one network."""
    if spec.get("type") == "ExternalName":
        return
    if not spec.get("clusterIPs") and spec.get("clusterIP"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")


def _in_network(address: str, network: ipaddress.IPv4Network, holder: _Holder) -> bool:
    """Whether an address can be allocated; validation rejects invalid ones."""
    try:
        inside = ipaddress.ip_address(address) in network
    except ValueError:
        return False
    if not inside:
        why = (
            f"failed to allocate IP {address}: the provided IP ({address}) is not in the valid range. "
            f"The range of valid IPs is {network}"
        )
        raise errors.invalid(_SERVICE, holder.name, [fields.invalid(_SPEC.child("clusterIPs"), [address], why)])
    return True


def _candidates(seed: str, size: int) -> Iterator[int]:
    """Pseudo-random numbers below `size` by seed, each at most once."""
    start: Any = zlib.crc32(seed.encode())
    return ((start + step) % size for step in range(min(_LOOKS, size)))
