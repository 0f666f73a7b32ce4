"""Pages about a running part, on a port of their own: whether it is well, its metrics, what goes on inside of it.

Beyond this machine only health and metrics are told, as kubelets and monitoring ask for them. Everything else is for
whoever is on the machine: with containers that is the pod, where `kubectl port-forward` comes out. Nothing can be
changed here.
"""

import contextlib
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final

from aiohttp import web

from rota.kit.errors import UserError
from rota.kit.metrics import Metrics

Page = Callable[[web.Request], Awaitable[web.Response]]
#: A host, which may be all of them (0.0.0.0), and a port, of which 0 is any that is free.
Address = tuple[str, int]

#: What anybody may see who reaches the port.
OPEN: Final = frozenset({"/metrics", "/healthz", "/livez", "/readyz"})

_GRACE_S: Final = 1.0


def health(metrics: Metrics, *, ready: Callable[[], bool] = lambda: True) -> dict[str, Page]:
    """The pages that every part has; it is ready when `ready` says so, and healthy as long as it answers."""

    async def measured(request: web.Request) -> web.Response:
        kind, body = metrics.exposition(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": kind})

    async def healthy(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def readiness(_: web.Request) -> web.Response:
        if ready():
            return web.Response(text="ok")
        return web.Response(status=503, text="the cluster is not known yet")

    return {"/metrics": measured, "/healthz": healthy, "/livez": healthy, "/readyz": readiness}


@contextlib.asynccontextmanager
async def serving(pages: Mapping[str, Page], address: Address) -> AsyncIterator[str]:
    """Serve pages by path until the block is left; the URL."""
    host, port = address
    app = web.Application()
    for path, page in pages.items():
        app.router.add_get(path, page if path in OPEN else for_this_machine(page))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_GRACE_S)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as problem:
            message = f"cannot listen on {'' if is_loopback(host) else f'{host} '}port {port}: {problem.strerror}"
            raise UserError(message, "choose another, or 0 for a free one") from problem
        shown = f"[{host}]" if ":" in host else host
        yield f"http://{shown}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine only."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback


def for_this_machine(page: Page) -> Page:
    """A page that nobody else is shown."""

    async def answered(request: web.Request) -> web.Response:
        if is_loopback(request.remote or ""):
            return await page(request)
        return web.Response(status=403, text="only for who asks from this machine; in a pod: kubectl port-forward")

    return answered
