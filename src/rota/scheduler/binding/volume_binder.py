"""Binding of volumes: write the chosen volumes to the claims, then wait until the controllers have bound them.

The volume controller binds claims to the volumes reserved for them; provisioners create volumes for claims that name a
node. Progress is read from the catalog, which informers update. `changed` is called after such an update.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rota.api import errors
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client
from rota.columns.cluster import Cluster
from rota.columns.pods import PodInfo
from rota.kit.clock import Clock
from rota.scheduler.framework.status import SUCCESS, Code, Status, fault
from rota.scheduler.volumes import progress

VOLUMES: Final = ("", "v1", "persistentvolumes")
CLAIMS: Final = ("", "v1", "persistentvolumeclaims")


class ApiVolumeBinder:
    """The `VolumeBinder` of every framework."""

    def __init__(self, client: Client, cluster: Cluster, *, clock: Clock) -> None:
        self._client: Final = client
        self._cluster: Final = cluster
        self._clock: Final = clock
        self._waiters: Final[set[asyncio.Future[None]]] = set()

    def changed(self) -> None:
        """Storage objects have changed: wake the waiting binding cycles."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def bind_volumes(
        self,
        pod: PodInfo,
        node_name: str,
        *,
        volumes: Sequence[Mapping[str, Any]],
        claims: Sequence[Mapping[str, Any]],
        timeout_s: float,
    ) -> Status:
        """See `VolumeBinder.bind_volumes`."""
        deadline = self._clock.monotonic() + timeout_s
        try:
            for volume in volumes:
                await self._client.update(VOLUMES, volume)
            for claim in claims:
                await self._client.update(CLAIMS, claim)
            while not self._done(node_name, volumes, claims):
                left = deadline - self._clock.monotonic()
                if left <= 0:
                    return Status(Code.ERROR, (f"volumes of pod {pod.key} were not bound within {timeout_s:g} s",))
                await self._wait(left)
        except (errors.ApiError, TransportError, progress.BindingFailedError) as error:
            return fault(error)
        return SUCCESS

    def _done(self, node_name: str, volumes: Sequence[Mapping[str, Any]], claims: Sequence[Mapping[str, Any]]) -> bool:
        node = self._cluster.by_name.get(node_name)
        if node is None:
            raise progress.BindingFailedError(f"node {node_name} is gone")
        return progress.done(
            node_name=node_name,
            node_labels=node.labels,
            volumes=volumes,
            provisioned=claims,
            catalog=self._cluster.catalog,
        )

    async def _wait(self, timeout_s: float) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await self._clock.wait_for(waiter, timeout_s)
        except TimeoutError:
            return
        finally:
            self._waiters.discard(waiter)
