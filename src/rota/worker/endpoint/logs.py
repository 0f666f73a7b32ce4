"""Logs of a container for the API server: of the present run or the previous one, as a stream.

Used by an API server in this process, which calls `stream`, and by one elsewhere, which requests
`/containerLogs/<namespace>/<pod>/<container>`. Errors are raised before the first piece.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Final

from aiohttp import web

from rota.api import errors, meta, times
from rota.kit import system
from rota.worker.endpoint import lookup
from rota.worker.pod_machine.pods import Pod
from rota.worker.runtimes.runtime_interface import LogOptions
from rota.worker.worker_assembly import Worker

PATH: Final = "/containerLogs/{namespace}/{pod}/{container}"
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})


async def stream(
    worker: Worker, pod: Pod, container: str, options: LogOptions, *, previous: bool
) -> AsyncIterator[bytes]:
    """The pieces as they come; raises an ApiError before the first if there is no log."""
    state = lookup.container(pod, container)
    run = state.run if state.live else state.run - 1
    if previous:
        run -= 1
        if run < 0:
            what = f'previous terminated container "{container}" in pod "{meta.name(pod.seen)}" not found'
            raise errors.BadRequest(what)
    try:
        async for chunk in worker.runtime.logs(pod.uid, container, max(run, 0), options):
            yield chunk
    except FileNotFoundError:
        why = f'container "{container}" in pod "{meta.name(pod.seen)}" is waiting to start: {state.reason}'
        raise errors.BadRequest(why) from None


def options(query: Mapping[str, str]) -> LogOptions:
    """The options of a query with the kubelet's parameters; BadRequest if it is invalid."""
    since_seconds = _number(query, "sinceSeconds")
    try:
        since = times.parse(query["sinceTime"]) if query.get("sinceTime") else None
    except ValueError:
        raise errors.BadRequest("sinceTime is no time") from None
    if since_seconds is not None:
        since = system.SystemClock().now() - since_seconds
    return LogOptions(
        follow=query.get("follow") in _TRUE,
        timestamps=query.get("timestamps") in _TRUE,
        since=since,
        tail_lines=_number(query, "tailLines"),
        limit_bytes=_number(query, "limitBytes"),
    )


def route(worker: Worker) -> web.RouteDef:
    """The route of container logs."""

    async def answer(request: web.Request) -> web.StreamResponse:
        at = request.match_info
        pod = lookup.by_name(worker, at["namespace"], at["pod"])
        previous = request.query.get("previous") in _TRUE
        pieces = stream(worker, pod, at["container"], options(request.query), previous=previous)
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        first = await anext(pieces, b"")
        await response.prepare(request)
        await response.write(first)
        async for piece in pieces:
            await response.write(piece)
        return response

    return web.get(PATH, answer)


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if not text:
        return None
    if not text.isascii() or not text.isdigit():
        raise errors.BadRequest(f"{name} must be a number")
    return int(text)
