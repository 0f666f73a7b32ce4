"""HTTP pages of a running component on a port of their own: health, metrics and internal state.

Remote clients see health and metrics only, for kubelets and monitoring. All other pages are served to loopback clients
only; in a container that includes `kubectl port-forward`. The pages are read-only.
"""

import contextlib
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final

from aiohttp import web

from rota.kit.errors import UserError
from rota.kit.metrics import Metrics

Page = Callable[[web.Request], Awaitable[web.Response]]
#: A host (0.0.0.0 for all addresses) and a port (0 for any free port).
Address = tuple[str, int]

#: Pages that remote clients may read.
OPEN: Final = frozenset({"/metrics", "/healthz", "/livez", "/readyz"})

_GRACE_S: Final = 1.0


def health(metrics: Metrics, *, ready: Callable[[], bool] = lambda: True) -> dict[str, Page]:
    """The pages of every component: ready if `ready` returns true, healthy as long as it answers."""

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
    """Serve pages by path until the block is left; yields the URL."""
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
    """Whether an address can be reached from this machine only."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback


def for_this_machine(page: Page) -> Page:
    """Wrap a page so that only loopback clients may read it."""

    async def answered(request: web.Request) -> web.Response:
        if is_loopback(request.remote or ""):
            return await page(request)
        return web.Response(status=403, text="only for clients on this machine; in a pod: kubectl port-forward")

    return answered
