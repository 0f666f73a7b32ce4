"""Answers to requests of pages, and the bodies of these requests, by ASGI."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final, TypeAlias

import msgspec

from rota.web import pages

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_MOST_BODY: Final = 64 * 1024


async def body(receive: Receive) -> bytes:
    """The body of a request; ValueError if it is too large, or the client is gone."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ValueError("the client is gone")
        parts.append(message.get("body", b""))
        if sum(map(len, parts)) > _MOST_BODY:
            raise ValueError("the body is too large")
        if not message.get("more_body"):
            return b"".join(parts)


async def page(path: str, headers: Mapping[bytes, bytes], send: Send, *, bodiless: bool) -> None:
    """Send a file of the dashboard."""
    if path == "/dashboard":
        await answer(send, 308, b"", headers=((b"location", pages.PREFIX.encode()),))
        return
    found = pages.find(path)
    if found is None:
        await refuse(send, 404, "the dashboard has no such file")
        return
    common: tuple[tuple[bytes, bytes], ...] = (
        (b"etag", found.etag),
        (b"cache-control", b"no-cache"),
        (b"vary", b"accept-encoding"),
    )
    if headers.get(b"if-none-match") == found.etag:
        await answer(send, 304, b"", headers=common, content_type=found.content_type)
        return
    body = found.body
    if b"gzip" in headers.get(b"accept-encoding", b""):
        body, common = found.compressed, (*common, (b"content-encoding", b"gzip"))
    await answer(send, 200, b"" if bodiless else body, headers=common, content_type=found.content_type)


async def refuse(send: Send, code: int, why: str) -> None:
    """Answer with a Status that says why not."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": why, "code": code}
    await answer(send, code, msgspec.json.encode(body))


async def answer(
    send: Send,
    code: int,
    body: bytes,
    *,
    headers: tuple[tuple[bytes, bytes], ...] = (),
    content_type: str = "application/json",
) -> None:
    """Send an answer with the headers that every answer of the dashboard has."""
    caching = () if any(name == b"cache-control" for name, _ in headers) else ((b"cache-control", b"no-store"),)
    every = [(b"content-type", content_type.encode()), *headers, *caching, *pages.headers()]
    if code not in (204, 304):
        every.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": code, "headers": every})
    await send({"type": "http.response.body", "body": body})
