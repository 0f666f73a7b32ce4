"""The masters of a cluster: each registers itself by a Lease in kube-system.

The Lease has the master's identity, which is also that of the leader Leases, and as annotations its version, the
address for clients, the levels of its release, and the cluster's level. Each master renews its own Lease, and removes
those of masters that have been gone for an hour. Clients that find no such Lease, as on a stock cluster, use the
addresses that they were given.
"""

import ipaddress
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from rota.api import errors, meta, times
from rota.api.meta import Object
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Selection
from rota.kit import levels, logs
from rota.kit.clock import Clock
from rota.kit.levels import Levels

log = logs.get(__name__)

LEASES: Final = ("coordination.k8s.io", "v1", "leases")
NAMESPACE: Final = "kube-system"
LABEL: Final = "rota.dev/master"
ADDRESS: Final = "rota.dev/address"
VERSION: Final = "rota.dev/version"
CONTROLLERS: Final = "rota.dev/controllers"
#: The level of the cluster when the Lease was renewed.
LEVEL: Final = "rota.dev/level"
SELECTION: Final = Selection(labels=f"{LABEL}=true")
_PREFIX: Final = "rota-master-"
#: The duration of a master's Lease, and its renewal interval.
_DURATION_S: Final = 30
_RENEW_S: Final = 10.0
#: Delay before a failed renewal is tried again.
_AGAIN_S: Final = 1.0
#: How long the Lease of a stopped master is kept: it may return with the same address.
_KEPT_S: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Master:
    """A master, by its Lease."""

    identity: str
    #: The URL for clients and workers.
    address: str
    version: str
    renewed_at: float
    duration_s: float = _DURATION_S
    #: The controllers that it runs while it leads.
    controllers: frozenset[str] = frozenset()
    #: The levels of its release, and the cluster's level as it knows it.
    release_levels: Levels = levels.UNDECLARED
    level: int = levels.FIRST

    def is_current(self, now: float) -> bool:
        """Whether its Lease has not expired."""
        return now - self.renewed_at <= self.duration_s


def read(lease: Object) -> Master | None:
    """The master of a Lease; None if the Lease is not a master's."""
    if LABEL not in meta.labels(lease):
        return None
    spec, notes = lease.get("spec") or {}, meta.annotations(lease)
    address, renewed = notes.get(ADDRESS) or "", spec.get("renewTime") or ""
    if not urlsplit(address).hostname or not renewed:
        return None
    return Master(
        identity=str(spec.get("holderIdentity") or ""),
        address=address,
        version=notes.get(VERSION) or "",
        renewed_at=times.parse(renewed),
        duration_s=float(spec.get("leaseDurationSeconds") or _DURATION_S),
        controllers=frozenset(filter(None, (notes.get(CONTROLLERS) or "").split(","))),
        release_levels=levels.declared(notes),
        level=int(level) if (level := notes.get(LEVEL) or "").isdecimal() else levels.FIRST,
    )


async def listed(client: Client) -> list[Master]:
    """The registered masters by address; empty on other clusters, or if Leases may not be read."""
    try:
        found = await client.list(LEASES, namespace=NAMESPACE, selection=SELECTION)
    except (errors.Forbidden, errors.NotFound):
        return []
    return sorted((one for one in map(read, found.items) if one is not None), key=lambda one: one.address)


def addresses(known: Sequence[str], masters: Sequence[Master], *, now: float) -> tuple[str, ...]:
    """The addresses for a client on another machine: those it has, then those of the running masters.

    A loopback address means another machine to another client, so it is used only if there is no other address.
    """
    running = [one.address for one in masters if one.is_current(now)]
    found = list(dict.fromkeys([*known, *running]))
    return tuple([one for one in found if not is_loopback(one)] or found)


def is_loopback(url: str) -> bool:
    """Whether a URL has a loopback address."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Registration:
    """Keeps the Lease of one master."""

    def __init__(
        self,
        client: Client,
        *,
        identity: str,
        address: str,
        version: str,
        clock: Clock,
        controllers: Iterable[str] = (),
        level: Callable[[], int] = lambda: levels.FIRST,
    ) -> None:
        """`identity` ends with a unique part after an underscore; `level` is the cluster's level now."""
        self._client: Final = client
        self._identity: Final = identity
        self._address: Final = address
        self._version: Final = version
        self._clock: Final = clock
        self._controllers: Final = ",".join(sorted(controllers))
        self._level: Final = level
        self._name: Final = _PREFIX + identity.rpartition("_")[2].lower()

    async def run(self) -> None:
        """Renew until cancelled."""
        while True:
            pause = _RENEW_S
            try:
                await self.renew()
                await self.remove_old()
            except (errors.ApiError, TransportError) as problem:
                log.warning("the Lease of this master is not renewed", lease=self._name, error=problem)
                pause = _AGAIN_S
            await self._clock.sleep(pause)

    async def renew(self) -> None:
        """Write the Lease; again if the write itself has shown that the cluster's level was raised."""
        level = None
        while level != self._level():
            level, lease = self._level(), self._lease()
            try:
                await self._client.patch(LEASES, self._name, lease, namespace=NAMESPACE)
            except errors.NotFound:
                await self._client.create(LEASES, lease)

    async def remove_old(self) -> None:
        """Remove the Leases of masters that are long gone."""
        found = await self._client.list(LEASES, namespace=NAMESPACE, selection=SELECTION)
        for lease in found.items:
            master = read(lease)
            if master is not None and self._clock.now() - master.renewed_at > _KEPT_S:
                try:
                    await self._client.delete(LEASES, meta.name(lease), namespace=NAMESPACE, uid=meta.uid(lease))
                except (errors.NotFound, errors.Conflict):
                    continue  # another master removed it, or it was renewed

    def _lease(self) -> dict[str, Any]:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": self._name,
                "namespace": NAMESPACE,
                "labels": {LABEL: "true"},
                "annotations": {
                    ADDRESS: self._address,
                    VERSION: self._version,
                    CONTROLLERS: self._controllers,
                    levels.ANNOTATION: str(levels.OWN),
                    LEVEL: str(self._level()),
                },
            },
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": _DURATION_S,
                "renewTime": times.format_micro_time(self._clock.now()),
            },
        }
