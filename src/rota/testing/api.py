"""An API server in the test's own process, and a small client that calls it without a socket.

    async with ApiServer() as api:
        answer = await api.post("/api/v1/namespaces/default/pods", pod)
        async with api.watch("/api/v1/pods") as events:
            event = await events.next()

`api.app` is the ASGI application for other clients; `http_server.serve(api.app)` serves it on a socket. `in_background`
runs the server on a separate event loop, for blocking clients: `with in_background() as url: ...`.
"""

import asyncio
import concurrent.futures
import contextlib
import copy
import json
import random
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlencode

from rota.api import scopes, users
from rota.api.users import User
from rota.apiserver.interfaces import Object
from rota.apiserver.server import assembly, http_server
from rota.apiserver.server.app import App
from rota.kit import system
from rota.kit.clock import Clock
from rota.store import store_factory
from rota.store.store_interface import Store

#: How long a test waits for something that should happen at once.
PATIENCE_S: Final = 60.0

PATCHES: Final = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


class Answer:
    """A response."""

    def __init__(self, code: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        self.code: Final = code
        self.raw_headers: Final = headers
        self.body: Final = body

    @property
    def headers(self) -> dict[str, str]:
        """Values by lower-case names; of repeated headers the last."""
        return {name.decode().lower(): value.decode() for name, value in self.raw_headers}

    @property
    def warnings(self) -> list[str]:
        """All `Warning` headers."""
        return [value.decode() for name, value in self.raw_headers if name.lower() == b"warning"]

    @property
    def json(self) -> Any:
        """The decoded JSON body."""
        return json.loads(self.body)

    def __repr__(self) -> str:
        return f"<{self.code} {self.body[:2000].decode(errors='replace')}>"


class _Started(asyncio.Event):
    """Set when a response starts."""

    code = 0
    headers: list[tuple[bytes, bytes]]


class Events:
    """The events of a running watch."""

    def __init__(self, chunks: "asyncio.Queue[bytes | None]") -> None:
        self._chunks = chunks
        self._rest = b""

    async def next(self) -> Any:
        """The next event; fails the test if none comes, or StopAsyncIteration when the stream has ended."""
        while b"\n" not in self._rest:
            async with asyncio.timeout(PATIENCE_S):
                chunk = await self._chunks.get()
            if chunk is None:
                raise StopAsyncIteration
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    async def take(self, count: int) -> list[Any]:
        """Several events."""
        return [await self.next() for _ in range(count)]

    def pending(self) -> bool:
        """Whether an event has arrived that was not read."""
        return bool(self._rest) or not self._chunks.empty()


class ApiServer:
    """A server on a fresh store in memory, or on the store at `store_url`."""

    def __init__(
        self, *, store_url: str = "memory://", clock: Clock | None = None, seed: int = 0, **settings: Any
    ) -> None:
        """`settings` are fields of `apiserver.server.assembly.ServerSettings`."""
        self.clock: Final[Clock] = clock or system.SystemClock()
        self._store_url: Final = store_url
        self._rng: Final = random.Random(seed)  # noqa: S311 - a test's chance is repeatable
        self._settings: Final = settings
        self._exits: Final = contextlib.AsyncExitStack()
        #: The user of requests; None if they have credentials, or are anonymous.
        self.user: User | None = None
        self.store: Store
        self.app: App

    async def __aenter__(self) -> Self:
        self.store = await store_factory.open_store(self._store_url, time=self.clock, rng=self._rng)
        self._exits.push_async_callback(self.store.close)
        settings = assembly.ServerSettings(**self._settings)
        running = assembly.server(self.store, settings, clock=self.clock, rng=self._rng)
        self.app = await self._exits.enter_async_context(running)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._exits.__aexit__(kind, error, traceback)

    def acting_as(self, name: str, *groups: str) -> Self:
        """A client of the same server as an authenticated user with these groups."""
        other = copy.copy(self)
        other.user = User(name=name, groups=(*groups, users.AUTHENTICATED))
        return other

    async def get(self, path: str, *, accept: str = "", **query: object) -> Answer:
        """GET; keyword arguments become query parameters."""
        return await self.request("GET", path, headers={"accept": accept} if accept else None, query=query)

    async def post(self, path: str, body: Object | bytes, **query: object) -> Answer:
        """POST of an object."""
        return await self.request("POST", path, body=body, query=query)

    async def put(self, path: str, body: Object | bytes, **query: object) -> Answer:
        """PUT of an object."""
        return await self.request("PUT", path, body=body, query=query)

    async def patch(self, path: str, body: Any, *, kind: str = "merge", **query: object) -> Answer:
        """PATCH in one of the four ways (`PATCHES`)."""
        return await self.request("PATCH", path, body=body, headers={"content-type": PATCHES[kind]}, query=query)

    async def delete(self, path: str, body: Object | None = None, **query: object) -> Answer:
        """DELETE, with options as the body."""
        return await self.request("DELETE", path, body=body, query=query)

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, object] | None = None,
    ) -> Answer:
        """Any request; a body other than bytes is sent as JSON."""
        chunks: asyncio.Queue[bytes | None] = asyncio.Queue()
        started = _Started()
        await self._call(method, path, _encoded(body), headers or {}, query or {}, started, chunks, asyncio.Event())
        parts = []
        while (chunk := chunks.get_nowait()) is not None:
            parts.append(chunk)
        return Answer(started.code, started.headers, b"".join(parts))

    @contextlib.asynccontextmanager
    async def watch(self, path: str, *, accept: str = "", **query: object) -> AsyncIterator[Events]:
        """A watch; `AssertionError` if the server refuses it."""
        chunks: asyncio.Queue[bytes | None] = asyncio.Queue()
        started = _Started()
        gone = asyncio.Event()
        headers = {"accept": accept} if accept else {}
        task = asyncio.create_task(
            self._call("GET", path, b"", headers, {"watch": "true", **query}, started, chunks, gone)
        )
        try:
            async with asyncio.timeout(PATIENCE_S):
                await started.wait()
            assert started.code == 200, (started.code, await chunks.get())
            yield Events(chunks)
        finally:
            gone.set()
            await task

    async def _call(
        self,
        method: str,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        query: Mapping[str, object],
        started: "_Started",
        chunks: "asyncio.Queue[bytes | None]",
        gone: asyncio.Event,
    ) -> None:
        bare, _, inline = path.partition("?")
        encoded = urlencode({name: _text(value) for name, value in query.items()})
        scope = {
            "type": "http",
            "method": method,
            "path": bare,
            "query_string": "&".join(filter(None, (inline, encoded))).encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            scopes.ACTING_AS: self.user,
        }
        sent = False

        async def receive() -> dict[str, Any]:
            nonlocal sent
            if not sent:
                sent = True
                return {"type": "http.request", "body": body, "more_body": False}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                started.code, started.headers = message["status"], list(message["headers"])
                started.set()
                return
            if message.get("body"):
                chunks.put_nowait(message["body"])
            if not message.get("more_body"):
                chunks.put_nowait(None)

        await self.app(scope, receive, send)


@contextlib.contextmanager
def in_background(*, store_url: str = "memory://") -> Iterator[str]:
    """Run a server on a socket, in its own thread; yields its URL."""
    addresses: concurrent.futures.Future[str] = concurrent.futures.Future()
    ended: concurrent.futures.Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = concurrent.futures.Future()

    async def run() -> None:
        stop = asyncio.Event()
        ended.set_result((asyncio.get_running_loop(), stop))
        async with ApiServer(store_url=store_url) as api, http_server.serve(api.app) as served:
            addresses.set_result(served.url)
            await stop.wait()

    def work() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:
            addresses.set_exception(error)
            raise

    thread = threading.Thread(target=work, name="apiserver")
    thread.start()
    try:
        yield addresses.result(PATIENCE_S)
    finally:
        loop, stop = ended.result(PATIENCE_S)
        loop.call_soon_threadsafe(stop.set)
        thread.join()


def _encoded(body: Any) -> bytes:
    if body is None:
        return b""
    # without spaces, as clients encode it: the cache of new pods recognizes only such bodies
    return body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
