"""Small fakes of clouds' metadata endpoints, which can be made to fail in all the ways in which those do."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

#: A moment that never comes while a test runs.
LATER = "2099-01-01T00:00:00Z"


class FakeCloud:
    """Answers as told; `trouble` names what goes wrong with every answer."""

    def __init__(self) -> None:
        self.trouble = ""
        self.asked: list[str] = []

    async def _page(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.path}")
        match self.trouble:
            case "500":
                return web.Response(status=500, text="<html>internal\nerror</html>")
            case "404":
                return web.Response(status=404)
            case "garbage":
                return web.Response(body=b"\xff{not json", headers={"Metadata-Flavor": "Google"})
            case "other json":
                return web.json_response([1, 2, 3], headers={"Metadata-Flavor": "Google"})
            case "huge":
                return web.Response(body=b"x" * 1_000_000)
            case "redirect":
                return web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"})
            case "slow":
                await asyncio.sleep(3600)
            case "cut":
                assert request.transport is not None
                request.transport.abort()
        return await self.answer(request)

    async def answer(self, request: web.Request) -> web.Response:
        raise NotImplementedError

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._page)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()


class FakeAws(FakeCloud):
    def __init__(self) -> None:
        super().__init__()
        self.action: Any = None
        self.rebalance: Any = None
        #: Those that are still good.
        self.tokens: list[str] = []
        self.given = 0

    async def answer(self, request: web.Request) -> web.Response:
        if request.path == "/latest/api/token":
            if request.method != "PUT" or not request.headers.get("X-aws-ec2-metadata-token-ttl-seconds"):
                return web.Response(status=400)
            self.given += 1
            self.tokens.append(f"token-{self.given}")
            return web.Response(text=self.tokens[-1])
        if request.headers.get("X-aws-ec2-metadata-token") not in self.tokens:
            return web.Response(status=401)
        found = {
            "/latest/meta-data/spot/instance-action": self.action,
            "/latest/meta-data/events/recommendations/rebalance": self.rebalance,
        }.get(request.path)
        return web.Response(status=404) if found is None else web.Response(text=json.dumps(found))


class FakeGcp(FakeCloud):
    def __init__(self) -> None:
        super().__init__()
        self._preempted = False
        self._changed = asyncio.Event()
        self.version = 1

    def preempt(self, preempted: bool = True) -> None:
        self._preempted = preempted
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def answer(self, request: web.Request) -> web.Response:
        headers = {"Metadata-Flavor": "Google"}
        if request.headers.get("Metadata-Flavor") != "Google":
            return web.Response(status=403)
        if request.path == "/computeMetadata/v1/instance/id":
            return web.Response(text="123", headers=headers)
        if request.query.get("wait_for_change") == "true" and request.query.get("last_etag") == str(self.version):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(float(request.query["timeout_sec"])):
                    await self._changed.wait()
        text = "TRUE" if self._preempted else "FALSE"
        return web.Response(text=text, headers={**headers, "ETag": str(self.version)})


class FakeAzure(FakeCloud):
    def __init__(self, name: str = "pool_3") -> None:
        super().__init__()
        self.name = name
        self.events: list[dict[str, Any]] = []

    def schedule(self, kind: str, *names: str, when: str = LATER, status: str = "Scheduled") -> None:
        number = len(self.events) + 1
        self.events.append(
            {
                "EventId": f"event-{number}-{kind}",
                "EventType": kind,
                "EventStatus": status,
                "ResourceType": "VirtualMachine",
                "Resources": list(names) or [self.name],
                "NotBefore": when,
            }
        )

    async def answer(self, request: web.Request) -> web.Response:
        if request.headers.get("Metadata") != "true" or not request.query.get("api-version"):
            return web.Response(status=400)
        if request.path == "/metadata/instance/compute/name":
            return web.Response(text=self.name)
        if request.path == "/metadata/scheduledevents":
            return web.json_response({"DocumentIncarnation": 1, "Events": self.events})
        return web.Response(status=404)
