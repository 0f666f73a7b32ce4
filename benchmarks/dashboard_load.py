"""The dashboard under load: 5,000 nodes, 50,000 pods, 300 changes a second, ten tabs and a browser.

    python benchmarks/dashboard_load.py [--nodes N] [--pods N] [--rate N] [--seconds S]

The server runs in a process of its own, on a store in memory. Three in five changes change a label of a pod; the others
delete a pod and create one on another node. First they run without tabs, then with ten tabs that follow pods, nodes and
the overview, and with one page of Chromium, which shows the map, the list of pods and the overview for a third of the
time each. The cost of the tabs is the difference in the server's processor time. The page reports its long tasks, from
its first script on, and its heap. On the list of pods it creates ten pods, one after the other, and reports how long it
took from the request until the row of the pod was painted.
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
    parser.add_argument("--screenshot", type=Path, help="a folder for pictures of the pages")
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
                while due > 0:
                    number = rng.randrange(options.pods)
                    if made % 5 < 3:
                        change = {"metadata": {"labels": {"round": str(made)}}}
                        await client.patch(pods, f"pod-{number}", change, namespace="default")
                        made, due = made + 1, due - 1
                        continue
                    await client.delete(pods, f"pod-{number}", namespace="default", grace_period_s=0)
                    again = _pod(number, options.nodes, on=rng.randrange(options.nodes))
                    await client.create(pods, again, namespace="default")
                    made, due = made + 2, due - 2
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


def _pod(number: int, nodes: int, *, on: int | None = None) -> dict[str, Any]:
    requests = {"cpu": f"{500 + number % 7 * 250}m", "memory": "1Gi"}
    return {
        "metadata": {"name": f"pod-{number}", "namespace": "default", "labels": {"app": f"app-{number % 50}"}},
        "spec": {
            "nodeName": f"node-{number % nodes if on is None else on}",
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
        looking = asyncio.create_task(_look(page, url, options, found))
        await changes("with tabs")
        await looking
        for one in readers:
            one.cancel()
        outcomes = await asyncio.gather(*readers, return_exceptions=True)
        found["readers that failed"] = sum(isinstance(one, Exception) for one in outcomes)
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
            if '"complete":true' in message.data[:200]:
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
        await page.get_by_role("heading", name="Overview").wait_for(timeout=120_000)
        await page.context.add_init_script(_OBSERVE)
        yield page
        await browser.close()


#: What Chromium calls a long task takes more than 50 ms.
_OBSERVE = """
window.measured = { tasksOver50ms: 0, tasksOver100ms: 0, longestMs: 0 };
new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) {
        window.measured.tasksOver50ms += 1;
        if (duration > 100) window.measured.tasksOver100ms += 1;
        window.measured.longestMs = Math.max(window.measured.longestMs, Math.round(duration));
    }
}).observe({ type: "longtask" });
"""
#: Creates a pod, and waits until its row is painted.
_CREATE = """async (name) => {
    const begun = performance.now();
    const has = () => [...document.querySelectorAll("td a")].some((one) => one.textContent === name);
    const painted = new Promise((resolve) => {
        const seen = () => setTimeout(() => resolve(performance.now() - begun));
        const look = () => requestAnimationFrame(() => (has() ? seen() : look()));
        look();
    });
    const answer = await fetch("/api/v1/namespaces/default/pods", {
        method: "POST",
        headers: { "content-type": "application/json", "x-rota-page-key": localStorage.getItem("rota.pageKey") },
        body: JSON.stringify({
            apiVersion: "v1", kind: "Pod", metadata: { name }, spec: { containers: [{ name: "main", image: "none" }] },
        }),
    });
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    return Math.round(await painted);
}"""
_CREATED = 10
_PAGES = {"map": "Fullest", "pods": "Pods", "overview": "What is wrong"}


async def _look(page: Any, url: str, options: argparse.Namespace, found: dict[str, Any]) -> None:
    """Look at each page for a third of the time."""
    if page is None:
        return
    for name, heading in _PAGES.items():
        begun = _CLOCK.monotonic()
        ends = begun + options.seconds / len(_PAGES)
        await page.goto(f"{url}/dashboard/{name}")
        await page.get_by_role("heading", name=heading).first.wait_for(timeout=120_000)
        await page.wait_for_function("() => !/Reading/.test(document.body.innerText)", timeout=120_000)
        ready = _CLOCK.monotonic() - begun
        if name == "pods":
            found["created to painted, ms"] = await _created(page)
        heaps = []
        while not heaps or _CLOCK.monotonic() < ends:
            await asyncio.sleep(min(5.0, max(0.1, ends - _CLOCK.monotonic())))
            heaps.append(await page.evaluate("() => Math.round(performance.memory.usedJSHeapSize / 1e6)"))
        if options.screenshot is not None:
            await page.screenshot(path=options.screenshot / f"load-{name}.png")
        found[f"page {name}"] = {
            "ready_s": round(ready, 1),
            **await page.evaluate("() => window.measured"),
            "heap_mb": {"first": heaps[0], "most": max(heaps), "last": heaps[-1]},
        }


async def _created(page: Any) -> dict[str, int]:
    """How long pods take from the request to the page that lists all pods whose name has a text."""
    await page.get_by_label("Filter").fill("seen-")
    took = sorted([await page.evaluate(_CREATE, f"seen-{number}") for number in range(_CREATED)])
    await page.get_by_label("Filter").fill("")
    return {"least": took[0], "median": took[len(took) // 2], "most": took[-1]}


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
