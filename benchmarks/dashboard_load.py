"""The dashboard under load: 5,000 nodes, 50,000 pods, 300 changes a second, ten tabs and a browser.

    python benchmarks/dashboard_load.py [--nodes N] [--pods N] [--rate N] [--seconds S]

The server runs in a process of its own, on a store in memory. First the changes run without tabs, then with ten tabs
that follow pods, nodes and the overview, and with one page of Chromium. The cost of the tabs is the difference in the
server's processor time. The page reports its long tasks and its heap.
"""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import random
import secrets
from collections.abc import AsyncIterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import aiohttp

from rota.api.users import User
from rota.apiserver.authentication import authentication_config
from rota.apiserver.server import http_server
from rota.client import bulk_create, client_factory
from rota.kit import system
from rota.testing.api import ApiServer
from rota.testing.servers import binaries
from rota.web import serving

_TOKEN = "measured"  # noqa: S105 - of a server that only this process knows
_CLOCK = system.SystemClock()
_TABS = 10
_VIEWS = ("pods", "nodes", "overview")
_TICK_S = 0.1


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--rate", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--screenshot", type=Path, help="where to keep a picture of the map")
    options = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs, options), daemon=True)
    server.start()
    try:
        url = ours.recv()
        print(json.dumps(asyncio.run(_measure(url, ours, server.pid or 0, options)), indent=1))  # noqa: T201
    finally:
        server.terminate()


def _serve(pipe: Connection, options: argparse.Namespace) -> None:
    asyncio.run(_served(pipe, options))


async def _served(pipe: Connection, options: argparse.Namespace) -> None:
    """The server, which also makes the changes: their cost is in both measurements."""
    settings = authentication_config.Settings(static_tokens={_TOKEN: User(name="admin", groups=("system:masters",))})
    clock, rng = system.SystemClock(), random.Random(1)  # noqa: S311
    async with (
        ApiServer(signing_in=settings) as server,
        serving.dashboard(server.app, secret=os.urandom(32), names=(), clock=clock, rng=rng) as dashboard,
        http_server.serve(dashboard) as served,
        client_factory.to_application(
            server.app, clock=clock, rng=rng, user=User(name="admin", groups=("system:masters",))
        ) as client,
    ):
        nodes = ("", "v1", "nodes")
        pods = ("", "v1", "pods")
        await bulk_create.create(client, nodes, [_node(number) for number in range(options.nodes)])
        await bulk_create.create(
            client, pods, [_pod(number, options.nodes) for number in range(options.pods)], namespace="default"
        )
        pipe.send(served.url)
        loop = asyncio.get_running_loop()
        while True:
            seconds = await loop.run_in_executor(None, pipe.recv)
            ends, made = _CLOCK.monotonic() + seconds, 0
            begun = _CLOCK.monotonic()
            while _CLOCK.monotonic() < ends:
                due = int((_CLOCK.monotonic() - begun) * options.rate) - made
                for _ in range(due):
                    name = f"pod-{rng.randrange(options.pods)}"
                    change = {"metadata": {"labels": {"round": str(made)}}}
                    await client.patch(pods, name, change, namespace="default")
                    made += 1
                await asyncio.sleep(_TICK_S)
            pipe.send(made)


def _node(number: int) -> dict[str, Any]:
    return {
        "metadata": {"name": f"node-{number}", "labels": {"topology.kubernetes.io/zone": f"zone-{number % 7}"}},
        "status": {
            "allocatable": {"cpu": "32", "memory": "128Gi", "pods": "110"},
            "capacity": {"cpu": "32", "memory": "128Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _pod(number: int, nodes: int) -> dict[str, Any]:
    requests = {"cpu": f"{500 + number % 7 * 250}m", "memory": "1Gi"}
    return {
        "metadata": {"name": f"pod-{number}", "namespace": "default", "labels": {"app": f"app-{number % 50}"}},
        "spec": {
            "nodeName": f"node-{number % nodes}",
            "containers": [{"name": "main", "image": "none", "resources": {"requests": requests}}],
        },
    }


async def _measure(url: str, pipe: Connection, pid: int, options: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {
        "nodes": options.nodes,
        "pods": options.pods,
        "load": round(os.getloadavg()[0], 1),
    }
    loop = asyncio.get_running_loop()

    async def changes(name: str) -> None:
        before = _cpu_s(pid)
        pipe.send(options.seconds)
        made = await loop.run_in_executor(None, pipe.recv)
        spent = _cpu_s(pid) - before
        found[name] = {"changes": made, "cpu_s": round(spent, 2), "cores": round(spent / options.seconds, 3)}

    await changes("without tabs")
    async with contextlib.AsyncExitStack() as parts:
        http = await parts.enter_async_context(aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()))
        begun = _CLOCK.monotonic()
        tabs = [await parts.enter_async_context(_tab(http, url)) for _ in range(_TABS)]
        found["ten tabs have everything after_s"] = round(_CLOCK.monotonic() - begun, 1)
        readers = [asyncio.create_task(_read(one)) for one in tabs]
        page = None
        if binaries.chromium() is not None:
            page = await parts.enter_async_context(_page(url))
        await changes("with tabs")
        for one in readers:
            one.cancel()
        outcomes = await asyncio.gather(*readers, return_exceptions=True)
        found["readers that failed"] = sum(isinstance(one, Exception) for one in outcomes)
        if page is not None:
            if options.screenshot is not None:
                await page.screenshot(path=options.screenshot)
            found["page"] = await page.evaluate(
                "() => ({ ...window.measured, heap: performance.memory.usedJSHeapSize })"
            )
    difference = found["with tabs"]["cpu_s"] - found["without tabs"]["cpu_s"]
    found["cost of tabs, cores"] = round(difference / options.seconds, 3)
    return found


@contextlib.asynccontextmanager
async def _tab(http: aiohttp.ClientSession, url: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    own = {"Origin": url, "Sec-Fetch-Site": "same-origin"}
    key = secrets.token_urlsafe(32)
    async with http.post(f"{url}/dashboard/session", json={"token": _TOKEN, "pageKey": key}, headers=own) as answer:
        cookie = answer.headers["set-cookie"].partition(";")[0]
    async with http.ws_connect(
        f"{url}/dashboard/live",
        headers={**own, "Cookie": cookie},
        protocols=["live.rota.dev", f"page-key.rota.dev.{key}"],
        max_msg_size=0,
    ) as socket:
        for view in _VIEWS:
            await socket.send_json({"subscribe": {"view": view}})
        begun: set[str] = set()
        while len(begun) < len(_VIEWS):
            message = await socket.receive(timeout=120)
            if b'"begin"' in message.data[:200].encode():
                begun.add(json.loads(message.data)["view"])
        yield socket


async def _read(socket: aiohttp.ClientWebSocketResponse) -> None:
    async for _ in socket:
        pass


@contextlib.asynccontextmanager
async def _page(url: str) -> AsyncIterator[Any]:
    from playwright.async_api import async_playwright  # noqa: PLC0415 - only where there is a browser

    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=str(binaries.chromium()), args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": 1440, "height": 900})
        await page.goto(f"{url}/dashboard/")
        await page.get_by_label("Or paste a token").fill(_TOKEN)
        await page.get_by_role("button", name="Sign in").click()
        await page.goto(f"{url}/dashboard/map")
        await page.get_by_role("heading", name="Fullest").wait_for(timeout=120_000)
        await page.evaluate(
            """() => {
                window.measured = { longTasks: 0, longestMs: 0 };
                new PerformanceObserver((list) => {
                    for (const one of list.getEntries()) {
                        window.measured.longTasks += 1;
                        window.measured.longestMs = Math.max(window.measured.longestMs, Math.round(one.duration));
                    }
                }).observe({ type: "longtask" });
            }"""
        )
        yield page
        await browser.close()


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
