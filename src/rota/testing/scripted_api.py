"""A small API whose faults the test controls: an ASGI application with one collection of objects.

It lists in pages, watches, and on demand cuts streams, expires revisions, answers with errors, repeats or swallows
events, or does not respond. For a real server use `rota.testing.api`.

    api = ScriptedApi()
    api.put("web-0", labels={"a": "b"})
    transport = InProcessTransport(api, clock=clock)
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl

Message: TypeAlias = MutableMapping[str, Any]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Object: TypeAlias = dict[str, Any]


class _Cut(Exception):
    """The stream breaks off without its end."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A received request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def is_watch(self) -> bool:
        """Whether it began a watch."""
        return "watch" in self.query


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A response that replaces the regular one."""

    code: int
    reason: str = ""
    message: str = "scripted"
    headers: dict[str, str] = field(default_factory=dict)
    #: Break the connection instead.
    cut: bool = False

    def body(self) -> bytes:
        """A `Status`."""
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": self.message}
        return json.dumps({**status, "reason": self.reason, "code": self.code}).encode()


GONE: Final = Reply(code=410, reason="Expired", message="too old resource version")
CUT: Final = Reply(code=0, cut=True)


class ScriptedApi:
    """The application."""

    def __init__(self, kind: str = "ConfigMap", api_version: str = "v1") -> None:
        self._kind: Final = kind
        self._api_version: Final = api_version
        self._born = 0
        self.revision = 1
        self.objects: Final[dict[tuple[str, str], Object]] = {}
        #: (revision, type, object), as far back as `compact` left them.
        self._log: list[tuple[int, str, Object]] = []
        self._floor = 0
        #: Listed objects by revision, so that later pages are consistent.
        self._snapshots: Final[dict[int, list[Object]]] = {}
        self._streams: Final[list[asyncio.Queue[bytes | _Cut | None]]] = []
        self.asked: Final[list[Asked]] = []
        #: Answered before anything else, one per request.
        self.replies: Final[list[Reply]] = []
        #: Every event goes out this often: 0 loses it, 2 repeats it.
        self.copies = 1
        #: Requests wait here before they are answered.
        self.open: Final = asyncio.Event()
        self.open.set()

    @property
    def streams(self) -> int:
        """How many watches run."""
        return len(self._streams)

    def put(self, name: str, namespace: str = "default", **content: Any) -> Object:
        """Create or change an object."""
        key = (namespace, name)
        old = self.objects.get(key)
        self.revision += 1
        if old is None:
            self._born += 1
        uid = old["metadata"]["uid"] if old else f"uid-{self._born}"
        metadata = {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": str(self.revision)}
        metadata |= content.pop("metadata", {})
        obj = {"apiVersion": self._api_version, "kind": self._kind, "metadata": metadata, **content}
        self.objects[key] = obj
        self._record("ADDED" if old is None else "MODIFIED", obj)
        return obj

    def remove(self, name: str, namespace: str = "default") -> None:
        """Delete an object."""
        old = self.objects.pop((namespace, name))
        self.revision += 1
        self._record("DELETED", {**old, "metadata": {**old["metadata"], "resourceVersion": str(self.revision)}})

    def bookmark(self) -> None:
        """Send a bookmark to all watchers."""
        obj = {"kind": self._kind, "apiVersion": self._api_version}
        self._send(_line("BOOKMARK", {**obj, "metadata": {"resourceVersion": str(self.revision)}}))

    def compact(self) -> None:
        """Drop history: clients that are not up to date must list."""
        self._log.clear()
        self._snapshots.clear()
        self._floor = self.revision

    def expire(self) -> None:
        """End the running watches with an "expired" error."""
        self._send(_line("ERROR", json.loads(GONE.body())))
        self.end()

    def end(self) -> None:
        """End the running watches regularly."""
        self._send(None)
        self._streams.clear()

    def cut(self) -> None:
        """Break the running watches off."""
        self._send(_Cut())
        self._streams.clear()

    async def __call__(
        self, scope: MutableMapping[str, Any], receive: Callable[[], Awaitable[Message]], send: Send
    ) -> None:
        """One request."""
        query = dict(parse_qsl(scope["query_string"].decode(), keep_blank_values=True))
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        asked = Asked(scope["method"], scope["path"], query, headers, body)
        self.asked.append(asked)
        await self.open.wait()
        if self.replies:
            reply = self.replies.pop(0)
            if not reply.cut:
                await _answer(send, reply.code, reply.body(), reply.headers)
        elif asked.is_watch:
            await self._watch(int(query.get("resourceVersion") or self.revision), receive, send)
        else:
            await self._list(query, send)

    async def _list(self, query: dict[str, str], send: Send) -> None:
        revision, _, start = query.get("continue", "").partition(":")
        if revision and int(revision) < self._floor:
            await _answer(send, GONE.code, GONE.body(), {})
            return
        at = int(revision or self.revision)
        items = self._snapshots.setdefault(at, list(self.objects.values()))
        limit = int(query.get("limit") or 0) or max(len(items), 1)
        first = int(start or 0)
        metadata = {"resourceVersion": str(at)}
        if first + limit < len(items):
            metadata["continue"] = f"{at}:{first + limit}"
        # As upstream: the items of a list have no kind.
        bare = [{name: value for name, value in one.items() if name not in {"apiVersion", "kind"}} for one in items]
        page = {"kind": f"{self._kind}List", "apiVersion": self._api_version, "metadata": metadata}
        await _answer(send, 200, json.dumps({**page, "items": bare[first : first + limit]}).encode(), {})

    async def _watch(self, after: int, receive: Callable[[], Awaitable[Message]], send: Send) -> None:
        if after < self._floor:
            await _answer(send, GONE.code, GONE.body(), {})
            return
        queue: asyncio.Queue[bytes | _Cut | None] = asyncio.Queue()
        for line in self._since(after):
            queue.put_nowait(line)
        self._streams.append(queue)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        leaving = asyncio.ensure_future(receive())
        try:
            await _pump(queue, send, leaving)
        finally:
            leaving.cancel()
            if queue in self._streams:
                self._streams.remove(queue)

    def _since(self, after: int) -> Iterator[bytes]:
        return (_line(kind, obj) for revision, kind, obj in self._log if revision > after)

    def _record(self, kind: str, obj: Object) -> None:
        self._log.append((self.revision, kind, obj))
        for _ in range(self.copies):
            self._send(_line(kind, obj))

    def _send(self, item: bytes | _Cut | None) -> None:
        for queue in self._streams:
            queue.put_nowait(item)


async def _pump(queue: "asyncio.Queue[bytes | _Cut | None]", send: Send, leaving: "asyncio.Future[Message]") -> None:
    while True:
        getting = asyncio.ensure_future(queue.get())
        await asyncio.wait((getting, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not getting.done():
            getting.cancel()
            return
        item = getting.result()
        if isinstance(item, _Cut):
            return
        await send({"type": "http.response.body", "body": item or b"", "more_body": item is not None})
        if item is None:
            return


async def _answer(send: Send, code: int, body: bytes, headers: dict[str, str]) -> None:
    pairs = {"content-type": "application/json", **headers}
    encoded = [(name.encode(), value.encode()) for name, value in pairs.items()]
    await send({"type": "http.response.start", "status": code, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


def _line(kind: str, obj: Object) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"
