"""Two schedulers that decide at the same moment: their first bindings wait for each other."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from rota.client.transports.transport import Call
from rota.scheduler.core import attempts
from rota.scheduler.core.events import BindingEnded, Event
from rota.testing.schedulers import SchedulingCluster


@contextlib.asynccontextmanager
async def racing(cluster: SchedulingCluster) -> AsyncIterator[tuple[list[str], asyncio.Event]]:
    """Two schedulers for the names one and two, whose first bindings wait for each other; the reasons of refusals."""
    reasons: list[str] = []
    arrived, go_on = 0, asyncio.Event()

    def listen(event: Event, _: float) -> None:
        if isinstance(event, BindingEnded) and not event.status.ok:
            reasons.append(attempts.conflict_reason(event.status))

    async def hold(call: Call) -> None:
        nonlocal arrived
        if call.path.endswith("/bindingbatches"):
            arrived += 1
            if arrived == 2:
                go_on.set()
            await go_on.wait()

    async with contextlib.AsyncExitStack() as stack:
        for seed, name in enumerate(("one", "two")):
            client, transport = cluster.meddling()
            transport.before = hold
            scheduler = await stack.enter_async_context(
                cluster.scheduling(f"profiles: [{{schedulerName: {name}}}]", seed=seed, client=client)
            )
            scheduler.core.listeners.append(listen)
        yield reasons, go_on


async def race(cluster: SchedulingCluster, reasons: list[str], one: dict[str, Any], two: dict[str, Any]) -> list[str]:
    """Two pods, one for each scheduler; where they are when one was refused."""
    for name, about in (("one", one), ("two", two)):
        await cluster.add_pod(name, schedulerName=name, **about)
    await cluster.until(lambda: _any(reasons))
    await cluster.clock.advance(1)
    return [await cluster.node_of("one"), await cluster.node_of("two")]


async def _any(reasons: list[str]) -> bool:
    return bool(reasons)
