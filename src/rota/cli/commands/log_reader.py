"""`rota logs`: finds the pods and prints the output of their containers, interleaved if there are several."""

import contextlib
import sys
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import click

from rota.api import errors as api_errors
from rota.api import meta
from rota.cli import endpoints, output
from rota.cli.commands import object_pages, resource_names, session, workload_logs
from rota.cli.commands.workload_logs import Workload
from rota.client import pods as podding
from rota.client.pods import PODS
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object, Selection
from rota.kit import errors, system

_OVER: Final = frozenset({"Succeeded", "Failed"})
_COLOURS: Final = ("cyan", "yellow", "green", "magenta", "blue", "red")
_AGAIN_S: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRequest:
    """Which part of a container's output to read."""

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
    """Print logs."""
    if bool(name) == bool(labels):
        raise click.UsageError("say whose: [KIND/]NAME, or -l SELECTOR")
    if container and all_containers:
        raise click.UsageError("give either --container or --all-containers")
    endpoint = endpoints.nearest(**server)
    wish = LogRequest(follow=follow, previous=previous, timestamps=timestamps, tail=tail, since=since)

    async def work(client: Client) -> None:
        where = namespace or endpoint.namespace
        whose = await _workload(client, name, where) if "/" in name else None

        def sources(pod: Object) -> list[_Source]:
            return _sources(pod, container, everything=all_containers)

        if follow and whose is not None:
            await _follow(client, whose, sources, wish, prefix=prefix)
            return
        found = await _pods(client, name.rpartition("/")[2], where, whose.labels if whose is not None else labels)
        if not found:
            raise errors.UserError(f"no pods of {name or labels}", "see 'rota get pods'")
        several = [source for pod in found for source in sources(pod)]
        await _show(client, several, wish, named=prefix if prefix is not None else len(several) > 1)

    session.at(endpoint, work)


async def _workload(client: Client, word: str, namespace: str) -> Workload | None:
    """The workload of `kind/name`; None if it is a pod."""
    kind_word, _, name = word.rpartition("/")
    kind = (await resource_names.kinds(client)).one(kind_word)
    if (kind.group, kind.plural) == ("", "pods"):
        return None
    where = namespace if kind.namespaced else ""
    owner = await client.get(kind, name, namespace=where)
    labels = object_pages.selector_text((owner.get("spec") or {}).get("selector") or {})
    if not labels:
        raise errors.UserError(f"a {kind.kind} has no pods of its own", "name a pod, a job or another workload")
    return Workload(kind, name, where, labels)


async def _pods(client: Client, name: str, namespace: str, labels: str) -> list[Object]:
    """The pod with a name, or those with labels, oldest first."""
    if not labels:
        return [await client.get(PODS, name, namespace=namespace)]
    found = (await client.list(PODS, namespace=namespace, selection=Selection(labels=labels))).items
    return sorted(found, key=lambda pod: (meta.metadata(pod).get("creationTimestamp") or "", meta.name(pod)))


async def _follow(
    client: Client,
    workload: Workload,
    sources: Callable[[Object], list[_Source]],
    wish: LogRequest,
    *,
    prefix: bool | None,
) -> None:
    """Follow all pods of a workload; lines have no prefix if the first pod is the only one."""
    begun = 0

    async def show(pod: Object) -> None:
        nonlocal begun
        begun += 1
        several = sources(pod)
        alone = begun == 1 and len(several) == 1 and await _is_single(client, workload)
        await _show(client, several, wish, named=prefix if prefix is not None else not alone)

    await workload_logs.follow(client, workload, show)


async def _is_single(client: Client, workload: Workload) -> bool:
    """Whether a workload has one pod at a time."""
    spec = (await client.get(workload.kind, workload.name, namespace=workload.namespace)).get("spec") or {}
    return all(spec.get(field, 1) == 1 for field in ("parallelism", "completions", "replicas"))


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


async def _show(client: Client, sources: Sequence[_Source], wish: LogRequest, *, named: bool) -> None:
    faults: list[str] = []

    async def one(number: int, source: _Source) -> None:
        label = f"[{meta.name(source.pod)}/{source.container}] " if named else ""
        paint = output.painted(label, fg=_COLOURS[number % len(_COLOURS)]).encode() if label else b""
        try:
            async with contextlib.aclosing(output_of(client, source.pod, source.container, wish)) as chunks:
                await _print(chunks, paint)
        except api_errors.ApiError as error:
            faults.append(f"{meta.name(source.pod)}: {session.refusal(error)}")

    if wish.follow:
        await session.together(one(number, source) for number, source in enumerate(sources))
    else:
        for number, source in enumerate(sources):
            await one(number, source)
    if faults:
        raise errors.UserError("; ".join(faults))


async def print_pod(client: Client, pod: Object, wish: LogRequest, *, label: str) -> None:
    """Print the output of a pod's containers, each line with a prefix; an unreadable container is reported."""
    paint = output.painted(f"[{label}] ", fg=_COLOURS[zlib.crc32(label.encode()) % len(_COLOURS)]).encode()
    for source in _sources(pod, "", everything=False):
        try:
            async with contextlib.aclosing(output_of(client, pod, source.container, wish)) as chunks:
                await _print(chunks, paint)
        except api_errors.ApiError as error:
            output.note(f"{meta.name(pod)}: {session.refusal(error)}")


async def output_of(client: Client, pod: Object, container: str, wish: LogRequest) -> AsyncGenerator[bytes, None]:
    """The output of a container, in chunks; with `follow`, waits until it starts.

    A broken stream is resumed by timestamp: lines of that moment may be printed twice.
    """
    clock, name, namespace = system.SystemClock(), meta.name(pod), meta.namespace(pod)
    since, tail, said, over = wish.since, wish.tail, False, False
    patient = wish.follow and not wish.previous
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
                    begun, said = clock.monotonic(), True
                    yield chunk
            # A pod without a node has no output, and servers would end the stream.
            if said or over or not patient:
                return
            over = await _has_ended(client, pod, container)
        except (api_errors.BadRequest, api_errors.NotFound):
            # It has not started, or its worker does not know it yet; or it has ended since, which is checked once.
            if over or not patient:
                raise
            over = await _has_ended(client, pod, container)
        except TransportError:
            if not wish.follow:
                raise
            since, tail = clock.monotonic() - begun + 1, None
        await clock.sleep(_AGAIN_S)


async def _has_ended(client: Client, pod: Object, container: str) -> bool:
    found = await client.get(PODS, meta.name(pod), namespace=meta.namespace(pod))
    status = found.get("status") or {}
    statuses = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    ended = any(one["name"] == container and "terminated" in (one.get("state") or {}) for one in statuses)
    return ended or status.get("phase") in _OVER or meta.uid(found) != meta.uid(pod)


async def _print(chunks: AsyncIterator[bytes], label: bytes) -> None:
    """Print chunks as they come, or, with a prefix, line by line, so that lines of several containers stay whole."""
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
