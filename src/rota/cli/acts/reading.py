"""What `rota logs` does: finds the pods that are meant and prints what their containers write, side by side if many."""

import asyncio
import contextlib
import sys
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import click

from rota.api import errors as api_errors
from rota.api import meta
from rota.cli import endpoints, output
from rota.cli.acts import asking, naming, pages
from rota.client import pods as podding
from rota.client.pods import PODS
from rota.client.transports.contract import TransportError
from rota.client.verbs import Client, Object, Selection
from rota.kit import errors, system

_OVER: Final = frozenset({"Succeeded", "Failed"})
_COLOURS: Final = ("cyan", "yellow", "green", "magenta", "blue", "red")
_AGAIN_S: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Which part of a container's output."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail: int | None = None
    since: float | None = None


class _Source(NamedTuple):
    pod: Object
    container: str


def logs(
    *,
    name: str,
    namespace: str,
    labels: str,
    container: str,
    all_containers: bool,
    prefix: bool | None,
    follow: bool,
    previous: bool,
    tail: int | None,
    since: float | None,
    timestamps: bool,
    **server: Any,
) -> None:
    """Print what is asked for."""
    if bool(name) == bool(labels):
        raise click.UsageError("say whose: [KIND/]NAME, or -l SELECTOR")
    if container and all_containers:
        raise click.UsageError("give either --container or --all-containers")
    endpoint = endpoints.nearest(**server)
    wish = Wish(follow=follow, previous=previous, timestamps=timestamps, tail=tail, since=since)

    async def work(client: Client) -> None:
        found = await _pods(client, name, namespace or endpoint.namespace, labels, patient=follow)
        if not found:
            raise errors.UserError(f"no pods of {name or labels}", "see 'rota get pods'")
        sources = [source for pod in found for source in _sources(pod, container, everything=all_containers)]
        several = prefix if prefix is not None else len(sources) > 1
        await _show(client, sources, wish, named=several)

    asking.at(endpoint, work)


async def _pods(client: Client, word: str, namespace: str, labels: str, *, patient: bool) -> list[Object]:
    """The pods of a name, of a workload, or with labels; who follows a workload waits for its first one."""
    kind_word, slash, name = word.rpartition("/")
    if word and not slash:
        return [await client.get(PODS, name, namespace=namespace)]
    if word:
        kind = (await naming.kinds(client)).one(kind_word)
        if (kind.group, kind.plural) == ("", "pods"):
            return [await client.get(PODS, name, namespace=namespace)]
        owner = await client.get(kind, name, namespace=namespace if kind.namespaced else "")
        labels = pages.selector_text((owner.get("spec") or {}).get("selector") or {})
        if not labels:
            raise errors.UserError(f"a {kind.kind} has no pods of its own", "name a pod, a job or another workload")
    clock = system.SystemClock()
    while True:
        found = (await client.list(PODS, namespace=namespace, selection=Selection(labels=labels))).items
        if found or not patient:
            return sorted(found, key=lambda pod: (meta.metadata(pod).get("creationTimestamp") or "", meta.name(pod)))
        await clock.sleep(_AGAIN_S)


def _sources(pod: Object, container: str, *, everything: bool) -> list[_Source]:
    spec = pod.get("spec") or {}
    first = [one["name"] for one in spec.get("initContainers") or ()]
    usual = [one["name"] for one in spec.get("containers") or ()]
    if everything:
        return [_Source(pod, one) for one in (*first, *usual)]
    if container and container not in {*first, *usual}:
        raise errors.UserError(
            f"pod {meta.name(pod)} has no container {container}", f"there is: {', '.join((*first, *usual))}"
        )
    return [_Source(pod, container or usual[0])]


async def _show(client: Client, sources: Sequence[_Source], wish: Wish, *, named: bool) -> None:
    faults: list[str] = []

    async def one(number: int, source: _Source) -> None:
        label = f"[{meta.name(source.pod)}/{source.container}] " if named else ""
        paint = output.painted(label, fg=_COLOURS[number % len(_COLOURS)]).encode() if label else b""
        try:
            async with contextlib.aclosing(output_of(client, source.pod, source.container, wish)) as chunks:
                await _print(chunks, paint)
        except api_errors.ApiError as error:
            faults.append(f"{meta.name(source.pod)}: {asking.refusal(error)}")

    if wish.follow:
        async with asyncio.TaskGroup() as followers:
            for number, source in enumerate(sources):
                followers.create_task(one(number, source))
    else:
        for number, source in enumerate(sources):
            await one(number, source)
    if faults:
        raise errors.UserError("; ".join(faults))


async def print_pod(client: Client, pod: Object, wish: Wish, *, label: str) -> None:
    """Print what the containers of a pod write, each line behind a label; one that cannot be read is said so."""
    paint = output.painted(f"[{label}] ", fg=_COLOURS[zlib.crc32(label.encode()) % len(_COLOURS)]).encode()
    for source in _sources(pod, "", everything=False):
        try:
            async with contextlib.aclosing(output_of(client, pod, source.container, wish)) as chunks:
                await _print(chunks, paint)
        except api_errors.ApiError as error:
            output.note(f"{meta.name(pod)}: {asking.refusal(error)}")


async def output_of(client: Client, pod: Object, container: str, wish: Wish) -> AsyncGenerator[bytes, None]:
    """What a container writes, in chunks; who follows one that has not started waits for it.

    A stream that breaks is taken up where it broke, by time: a line of that very moment may come twice.
    """
    clock, name, namespace = system.SystemClock(), meta.name(pod), meta.namespace(pod)
    since, tail, over = wish.since, wish.tail, False
    while True:
        begun = clock.monotonic()
        try:
            async with podding.logs(
                client,
                name,
                namespace=namespace,
                container=container,
                follow=wish.follow,
                previous=wish.previous,
                timestamps=wish.timestamps,
                tail_lines=tail,
                since_s=None if since is None else max(1, round(since)),
            ) as chunks:
                async for chunk in chunks:
                    begun = clock.monotonic()
                    yield chunk
            return
        except (api_errors.BadRequest, api_errors.NotFound):
            # It has not started, or its worker has not heard of it yet; or it has ended since, which is asked once.
            if not wish.follow or wish.previous or over:
                raise
            over = await _is_over(client, pod)
        except TransportError:
            if not wish.follow:
                raise
            since, tail = clock.monotonic() - begun + 1, None
        await clock.sleep(_AGAIN_S)


async def _is_over(client: Client, pod: Object) -> bool:
    found = await client.get(PODS, meta.name(pod), namespace=meta.namespace(pod))
    return (found.get("status") or {}).get("phase") in _OVER or meta.uid(found) != meta.uid(pod)


async def _print(chunks: AsyncIterator[bytes], label: bytes) -> None:
    """Print chunks as they come, or, with a label, line by line, so that lines of several stay whole."""
    rest = b""
    async for chunk in chunks:
        if not label:
            write(chunk)
            continue
        *lines, rest = (rest + chunk).split(b"\n")
        write(b"".join(label + line + b"\n" for line in lines))
    if rest:
        write(label + rest + b"\n")


def write(chunk: bytes) -> None:
    """Write bytes to standard output at once."""
    sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()
