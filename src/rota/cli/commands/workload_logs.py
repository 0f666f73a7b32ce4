"""Follows the output of a workload's pods: present ones, and those that are created while it runs.

Retries of a Job and rollouts of a Deployment create further pods. Following ends when the workload is finished and
every stream has ended; a workload without an end is followed until the user stops.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final, NamedTuple

from rota.api import errors, meta
from rota.api.kinds import ResourceType
from rota.client.pods import PODS
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object, Selection
from rota.client.wire import EventType

#: The conditions of a finished workload.
_DONE: Final = ("Complete", "Failed")


class Workload(NamedTuple):
    """The owner of pods, and their labels."""

    kind: ResourceType
    name: str
    namespace: str
    labels: str


async def follow(client: Client, workload: Workload, show: Callable[[Object], Awaitable[None]]) -> None:
    """Print each pod's output as the pod appears, until the workload is finished."""
    shown: set[str] = set()
    streams: set[asyncio.Future[None]] = set()

    def take_in(pod: Object) -> None:
        if meta.uid(pod) not in shown:
            shown.add(meta.uid(pod))
            streams.add(asyncio.ensure_future(show(pod)))

    async def newcomers() -> None:
        async for pod in _pods(client, workload):
            take_in(pod)

    async def the_end() -> None:
        await _until_done(client, workload)
        # One of two watches may lag: pods that were not reported yet.
        for pod in await _listed(client, workload):
            take_in(pod)

    watching = [asyncio.create_task(newcomers()), asyncio.create_task(the_end())]
    try:
        while not (watching[1].done() and all(stream.done() for stream in streams)):
            waited = {*watching, *streams}
            await asyncio.wait({one for one in waited if not one.done()}, return_when=asyncio.FIRST_COMPLETED)
            for one in waited:
                if one.done():
                    one.result()
    finally:
        for one in (*watching, *streams):
            one.cancel()
        await asyncio.gather(*watching, *streams, return_exceptions=True)


async def _listed(client: Client, workload: Workload) -> list[Object]:
    selection = Selection(labels=workload.labels)
    listing = await client.list(PODS, namespace=workload.namespace, selection=selection)
    return sorted(listing.items, key=_age)


async def _pods(client: Client, workload: Workload) -> AsyncGenerator[Object, None]:
    """The workload's pods, again whenever one changes; a broken watch is restarted."""
    selection = Selection(labels=workload.labels)
    while True:
        with contextlib.suppress(errors.Expired, errors.Gone, TransportError):
            listing = await client.list(PODS, namespace=workload.namespace, selection=selection)
            for pod in sorted(listing.items, key=_age):
                yield pod
            watching = client.watch(
                PODS,
                namespace=workload.namespace,
                selection=selection,
                resource_version=listing.resource_version,
            )
            async with watching as events:
                async for event in events:
                    if event.type is EventType.ADDED:
                        yield event.object


async def _until_done(client: Client, workload: Workload) -> None:
    """Return when the workload is finished, or gone."""
    selection = Selection(fields=f"metadata.name={workload.name}")
    while True:
        with contextlib.suppress(errors.Expired, errors.Gone, TransportError):
            listing = await client.list(workload.kind, namespace=workload.namespace, selection=selection)
            if not listing.items or _is_done(listing.items[0]):
                return
            watching = client.watch(
                workload.kind,
                namespace=workload.namespace,
                selection=selection,
                resource_version=listing.resource_version,
            )
            async with watching as events:
                async for event in events:
                    ended = event.type is EventType.MODIFIED and _is_done(event.object)
                    if event.type is EventType.DELETED or ended:
                        return


def _is_done(owner: Object) -> bool:
    return any(meta.is_condition_true(owner, condition) for condition in _DONE)


def _age(pod: Object) -> tuple[str, str]:
    return str(meta.metadata(pod).get("creationTimestamp") or ""), meta.name(pod)
