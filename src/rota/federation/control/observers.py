"""The observers of push members in the control plane: one connection for each, as long as the member answers.

A connection that fails is closed, and the next observation opens a new one with the credentials of that time.
"""

import contextlib
from dataclasses import dataclass
from typing import Final

from rota.api import errors, meta
from rota.client.verbs import Client, Object
from rota.federation.estimation.member_nodes import MemberNodes
from rota.federation.member import connections, observation
from rota.federation.member.observation import Observation, Observer
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.errors import UserError


@dataclass(frozen=True, slots=True)
class _Open:
    way: object
    observer: Observer
    stack: contextlib.AsyncExitStack


class Observers:
    """Observes members by their Clusters."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, nodes: MemberNodes | None = None) -> None:
        """`nodes` gets what is free on the nodes of members that answer."""
        self._client: Final = client
        self._nodes: Final = nodes
        self._clock: Final = clock
        self._rng: Final = rng
        self._open: Final[dict[str, _Open]] = {}

    async def observe(self, cluster: Object) -> Observation:
        """Ask a member; one that cannot be reached is not ready."""
        name, way = meta.name(cluster), _way(cluster)
        known = self._open.get(name)
        if known is not None and known.way != way:
            await self.drop(name)
            known = None
        if known is None:
            try:
                known = await self._opened(cluster)
            except (connections.NoConnection, errors.ApiError, UserError, OSError, ValueError) as error:
                return observation.failed(error, name)
            self._open[name] = known
        found = await known.observer.observe()
        if found.condition["status"] != "True":
            await self.drop(name)
        elif self._nodes is not None and found.nodes is not None:
            self._nodes.put(name, found.nodes)
        return found

    async def drop(self, name: str) -> None:
        """Close the connection to a member."""
        if self._nodes is not None:
            self._nodes.drop(name)
        known = self._open.pop(name, None)
        if known is not None:
            await known.stack.aclose()

    async def close(self) -> None:
        """Close all connections."""
        for name in tuple(self._open):
            await self.drop(name)

    async def _opened(self, cluster: Object) -> _Open:
        async with contextlib.AsyncExitStack() as stack:
            member = await stack.enter_async_context(
                connections.connected(self._client, cluster, clock=self._clock, rng=self._rng)
            )
            observer = Observer(
                member, meta.name(cluster), clock=self._clock, rng=self._rng, with_nodes=self._nodes is not None
            )
            stack.push_async_callback(observer.close)
            return _Open(_way(cluster), observer, stack.pop_all())


def _way(cluster: Object) -> object:
    """What a connection depends on."""
    spec: Object = cluster.get("spec") or {}
    return meta.uid(cluster), spec.get("apiEndpoint"), str(spec.get("secretRef"))
