"""An API server on a loopback socket, for third-party clients: kubectl, the Python libraries, raw sockets.

The server runs in a thread with an event loop of its own, so that tests and blocking clients may wait for it, while its
tasks and watches can still be counted:

    with LiveServer() as live:
        client.connect(live.url)
        live.request("POST", "/api/v1/namespaces", {...})
"""

import asyncio
import concurrent.futures
import contextlib
import http.client
import json
import secrets
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import uvloop

from rota.apiserver.server import http_server
from rota.kit import system
from rota.store.logstore import LogStore
from rota.testing.api import PATIENCE_S, ApiServer

Result = TypeVar("Result")

_START_S: Final = 90.0
_LOOK_AGAIN_S: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """The resources that a server holds at one moment; finished requests must release all of theirs."""

    tasks: int
    files: int
    watches: int


class LiveServer:
    """A server on a fresh store in memory, or on the store at `store_url`, that listens on a free loopback port."""

    def __init__(self, *, store_url: str = "memory://") -> None:
        self._store_url: Final = store_url
        self._thread: Final = threading.Thread(target=self._run, name="apiserver")
        self._started: Final[concurrent.futures.Future[None]] = concurrent.futures.Future()
        self._loop: asyncio.AbstractEventLoop
        self._ending: asyncio.Event
        self._api: ApiServer
        self.host: Final = "127.0.0.1"
        self.port = 0

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"http://{self.host}:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._started.result(_START_S)
        except BaseException:
            self._thread.join()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()

    def request(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json"
    ) -> tuple[int, Any]:
        """One request on a connection of its own: the status and the JSON that came back."""
        payload = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        with contextlib.closing(http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE_S)) as connection:
            connection.request(method, path, payload, {"content-type": content_type})
            answer = connection.getresponse()
            text = answer.read()
        with contextlib.suppress(ValueError):
            return answer.status, json.loads(text)
        return answer.status, text.decode()

    def create(self, path: str, obj: Any) -> Any:
        """Create an object; AssertionError if the server refuses it."""
        code, answer = self.request("POST", path, obj)
        assert code == 201, (code, answer)
        return answer

    def namespace(self, stem: str = "wire") -> str:
        """The name of a new namespace of the test's own."""
        name = f"{stem}-{secrets.token_hex(4)}"
        self.create("/api/v1/namespaces", {"metadata": {"name": name}})
        return name

    def established(self, definition: str) -> None:
        """Return once a custom kind is served."""
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition}"
        clock = system.SystemClock()
        deadline = clock.monotonic() + PATIENCE_S
        while True:
            code, answer = self.request("GET", path)
            assert code == 200, answer
            conditions = answer.get("status", {}).get("conditions", [])
            if any(one["type"] == "Established" and one["status"] == "True" for one in conditions):
                return
            assert clock.monotonic() < deadline, f"{definition} was not established: {conditions}"
            clock.block(_LOOK_AGAIN_S)

    def call(
        self, work: Callable[[ApiServer], Coroutine[Any, Any, Result]], *, patience_s: float = PATIENCE_S
    ) -> Result:
        """Run `work` inside the server's event loop."""
        return asyncio.run_coroutine_threadsafe(work(self._api), self._loop).result(patience_s)

    def footprint(self) -> Footprint:
        """What the server and this process hold now."""

        async def count(api: ApiServer) -> tuple[int, int]:
            # the stores in memory and in SQLite; there is no other way to count attached watches
            assert isinstance(api.store, LogStore)
            return len(asyncio.all_tasks()), api.store._broadcaster.watchers

        tasks, watches = self.call(count)
        return Footprint(tasks=tasks, files=sum(1 for _ in Path("/proc/self/fd").iterdir()), watches=watches)

    def until(self, holds: Callable[[Footprint], bool]) -> Footprint:
        """The footprint once a condition holds, or the last one after the timeout."""
        clock = system.SystemClock()
        deadline = clock.monotonic() + PATIENCE_S
        while not holds(now := self.footprint()) and clock.monotonic() < deadline:
            clock.block(_LOOK_AGAIN_S)
        return now

    @contextlib.contextmanager
    def watched(self) -> Iterator[Callable[[], None]]:
        """Hands out a function that returns once there is one watch more than when the block began."""
        before = self.footprint().watches

        def wait() -> None:
            assert self.until(lambda now: now.watches > before).watches > before, "nobody began to watch"

        yield wait

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with ApiServer(store_url=self._store_url) as self._api, http_server.serve(self._api.app) as served:
                self.port = served.port
                self._started.set_result(None)
                await self._ending.wait()
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)
