"""An API server in virtual time with a client, for tests of controllers: timeouts pass at once.

async with virtual_api.cluster() as cluster, cluster.running(controller.run):
    await cluster.client.create(...)
    await cluster.gone(NAMESPACES, "x")
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from rota.api import users
from rota.api.users import User
from rota.client.paths import Target
from rota.client.transports.in_process import InProcessTransport
from rota.client.verbs import Client
from rota.testing.api import ApiServer
from rota.testing.clocks import FakeClock

#: The limit of every wait, in virtual seconds.
_PATIENCE_S: Final = 200.0
_STEP_S: Final = 0.5


class VirtualCluster:
    """A real API server in virtual time, and a client of it."""

    def __init__(self, server: ApiServer, clock: FakeClock) -> None:
        self.server: Final = server
        self.clock: Final = clock
        self.rng: Final = random.Random(0)  # noqa: S311 - a test's chance is repeatable
        self._transports: Final[list[InProcessTransport]] = []
        #: The administrator's.
        self.client: Final = self._client(None)

    def acting_as(self, name: str, *groups: str) -> Client:
        """A client with the rights of a user, a member of these groups, and no others."""
        return self._client(User(name=name, groups=(*groups, users.AUTHENTICATED)))

    async def close(self) -> None:
        """Close the clients."""
        closing = asyncio.gather(*(transport.close() for transport in self._transports))
        await self.clock.advance(10)
        await closing

    def _client(self, user: User | None) -> Client:
        transport = InProcessTransport(self.server.app, clock=self.clock, user=user)
        self._transports.append(transport)
        return Client(transport)

    @contextlib.asynccontextmanager
    async def running(self, run: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
        """Run a coroutine while the block runs."""
        task = asyncio.ensure_future(run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        """Let time pass until a condition holds."""
        for _ in range(int(_PATIENCE_S / _STEP_S)):
            if await condition():
                return
            await self.clock.advance(_STEP_S)
        raise AssertionError("it did not come true")

    async def exists(self, target: Target, name: str, namespace: str = "") -> bool:
        """Whether there is such an object, in deletion or not."""
        found = await self.client.list(target, namespace=namespace)
        return any(one["metadata"]["name"] == name for one in found.items)

    async def gone(self, target: Target, name: str, namespace: str = "") -> None:
        """Wait until there is no such object."""

        async def condition() -> bool:
            return not await self.exists(target, name, namespace)

        await self.until(condition)


@contextlib.asynccontextmanager
async def cluster(*, batch_kinds: bool = False) -> AsyncIterator[VirtualCluster]:
    """A fresh server in memory; with `batch_kinds` it serves Volcano's kinds."""
    clock = FakeClock()
    async with ApiServer(clock=clock, batch_kinds=batch_kinds) as server:
        made = VirtualCluster(server, clock)
        yield made
        await made.close()
