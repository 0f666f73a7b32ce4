"""The endpoint's server and its routes.

    listener = endpoint_server.listen(address, 10250)            # first, so that the node can publish its port
    async with (
        worker_assembly.worker(client, settings, ...) as worker,
        endpoint_server.serve(worker, listener=listener, tls=tls),
    ):
        ...

`tls` has the worker's serving certificate and verifies client certificates (`pki.contexts.server`);
`client_authentication` authorizes clients, `scraper_authentication` those that read metrics. An API server in the
worker's own process needs no socket (`unlistening`).
"""

import asyncio
import contextlib
import functools
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from rota.api import errors
from rota.kit import logs as logging
from rota.kit import system
from rota.kit.errors import UserError
from rota.worker.endpoint import dispatched_pods, logs, port_forward, sessions, stats
from rota.worker.endpoint.client_authentication import ClientCertificateAuthentication
from rota.worker.endpoint.scraper_authentication import ScraperAuthentication
from rota.worker.endpoint.stats import Statistics
from rota.worker.worker_assembly import Worker

log = logging.get(__name__)

#: The kubelet's port.
DEFAULT_PORT: Final = 10_250
#: The key of the application's statistics.
STATISTICS: Final = web.AppKey("statistics", Statistics)
_BACKLOG: Final = 128
_HANDSHAKE_S: Final = 10.0
#: How long requests in progress may take when the endpoint closes.
_GRACE_S: Final = 2.0


def routes(worker: Worker, statistics: Statistics) -> list[web.RouteDef]:
    """All routes of the endpoint."""
    return [
        web.get("/healthz", _healthy),
        web.get("/pods", _pods(worker)),
        port_forward.route(worker),
        logs.route(worker),
        dispatched_pods.route(worker),
        *sessions.routes(worker),
        *stats.routes(statistics),
        web.get("/metrics", _metrics(worker)),
    ]


def listen(host: str, port: int) -> socket.socket:
    """A socket for `serve`; port 0 takes a free one. Raises a UserError if the address is not available."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as problem:
        listener.close()
        raise UserError(
            f"the worker cannot listen on {host}:{port}: {problem.strerror}", "choose another port, or 0 for a free one"
        ) from problem
    return listener


@contextlib.asynccontextmanager
async def serve(
    worker: Worker,
    *,
    tls: ssl.SSLContext,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    listener: socket.socket | None = None,
) -> AsyncIterator[int]:
    """Serve until the block is left; yields the port. A `listener` replaces `host` and `port`."""
    scrapers = ScraperAuthentication(worker.client, worker.machine.node, clock=system.SystemClock())
    listener, lobby = listener or listen(host, port), ClientCertificateAuthentication(scrapers)
    async with _runner(worker, lobby.guard()) as runner:
        assert runner.server is not None, "it was set up"
        server = await asyncio.get_running_loop().create_server(
            functools.partial(lobby.entered, runner.server),
            sock=listener,
            ssl=tls,
            backlog=_BACKLOG,
            ssl_handshake_timeout=_HANDSHAKE_S,
        )
        try:
            yield listener.getsockname()[1]
        finally:
            server.close()


def unlistening(worker: Worker) -> contextlib.AbstractAsyncContextManager[web.AppRunner]:
    """The endpoint for an API server in this process, which makes connections itself and needs no certificate."""
    return _runner(worker)


@contextlib.asynccontextmanager
async def _runner(worker: Worker, *guards: Middleware) -> AsyncIterator[web.AppRunner]:
    application = web.Application(middlewares=[*guards, _refusing])
    application[STATISTICS] = statistics = Statistics(worker, clock=system.SystemClock())
    application.add_routes(routes(worker, statistics))
    runner = web.AppRunner(application, handler_cancellation=True, access_log=None, shutdown_timeout=_GRACE_S)
    await runner.setup()
    try:
        yield runner
    finally:
        await runner.cleanup()


@web.middleware
async def _refusing(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Errors as the kubelet sends them: a code and a line of text."""
    try:
        return await handler(request)
    except errors.ApiError as refusal:
        return web.Response(status=refusal.code, text=refusal.message + "\n")
    except web.HTTPException:
        raise
    except Exception as problem:  # an error of one request must not affect the others
        log.exception("a request to the worker failed", error=problem, path=request.path)
        return web.Response(status=500, text="see the worker's log\n")


async def _healthy(_: web.Request) -> web.Response:
    return web.Response(text="ok")


def _metrics(worker: Worker) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        content_type, body = worker.metrics.exposition(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    return answer


def _pods(worker: Worker) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        items = [dict(one.seen) for one in worker.agent.machine.pods]
        return web.json_response({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})

    return answer
