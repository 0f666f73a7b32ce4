"""Stands before an API server: serves the dashboard below `/dashboard/`, and lets a session act as its user.

Every other request goes on to the API server as it is. A request with a session's cookie acts as the user only if
`request_rules` allows it; the cookie of any other request means nothing.

    GET    /dashboard/...        the page and its files
    POST   /dashboard/session    sign in with a token or a ticket
    DELETE /dashboard/session    sign out
    POST   /dashboard/tickets    a one-time ticket for the caller, for programs only
    GET    /dashboard/live       the WebSocket of an open tab
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from rota.api import scopes
from rota.kit.clock import Clock
from rota.web import frames, pages, request_rules, sessions
from rota.web.sealing import Seal
from rota.web.sessions import SealedUser, Session, Sessions

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_SESSION: Final = f"{pages.PREFIX}session"
_TICKETS: Final = f"{pages.PREFIX}tickets"
_LIVE: Final = f"{pages.PREFIX}live"
_WHO: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_WHO_BODY: Final = b'{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}'
#: Answers to "who am I" that say nothing about the user: not at all, 408 and 429.
_BUSY: Final = frozenset({0, 408, 429})
_MOST_BODY: Final = 64 * 1024
#: Cookies are limited to 4096 bytes with their name and attributes.
_MOST_TOKEN: Final = 2600
PROTOCOL: Final = b"live.rota.dev"


class Unanswered(Exception):
    """The API server behind did not tell the user of a request: it is busy or away."""


class Served(Protocol):
    """An API server as an application."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request, by ASGI."""
        ...

    def close(self) -> None:
        """End every stream."""
        ...


class Live(Protocol):
    """Serves the WebSockets of tabs."""

    async def serve(self, session: Session, user: SealedUser, receive: Receive, send: Send, /) -> None:
        """Serve one tab until it ends; the handshake is done."""
        ...


class _SignIn(msgspec.Struct, frozen=True, rename="camel"):
    page_key: str
    token: str = ""
    ticket: str = ""


class _UserInfo(msgspec.Struct, frozen=True):
    username: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class _WhoStatus(msgspec.Struct, frozen=True, rename="camel"):
    user_info: _UserInfo


class _Who(msgspec.Struct, frozen=True):
    status: _WhoStatus


class Dashboard:
    """The application of a listener: the dashboard, and behind it the API server."""

    def __init__(
        self,
        api: Served,
        *,
        seal: Seal,
        names: frozenset[str],
        clock: Clock,
        cluster: str = "",
        tickets: bool = True,
        tokens: bool = True,
    ) -> None:
        """`names` are those of this server in Host headers; `cluster` is shown to users.

        Without `tickets` and `tokens` the only sessions are those of tickets that the owner makes: for an API behind
        which every request has the same user.
        """
        self._api: Final = api
        self._gives_tickets: Final = tickets
        self._takes_tokens: Final = tokens
        self._names: Final = names
        self._cluster: Final = cluster
        self.sessions: Final = Sessions(seal, clock)
        #: Serves live views, once it is there.
        self.live: Live | None = None
        #: An address of this server that browsers trust without its certificate; for programs on this machine.
        self.loopback_url = ""
        self._ending: Final = asyncio.Event()

    def close(self) -> None:
        """End every stream, also those of tabs."""
        self._ending.set()
        self._api.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, by ASGI."""
        if scope["type"] != "http":
            await self._api(scope, receive, send)
            return
        path: str = scope["path"]
        headers: Mapping[bytes, bytes] = dict(scope["headers"])
        if path == "/dashboard" or path.startswith(pages.PREFIX):
            await self._own(path, scope, headers, receive, send)
        elif path == "/" and headers.get(b"sec-fetch-dest") == b"document":
            await _answer(send, 302, b"", headers=((b"location", pages.PREFIX.encode()),))
        else:
            await self._pass_on(scope, headers, receive, send)

    async def _pass_on(self, scope: Scope, headers: Mapping[bytes, bytes], receive: Receive, send: Send) -> None:
        """To the API server, as the user of the session if there is one."""
        page_key = sessions.page_key(headers)
        if self._takes_tokens and (not page_key or b"authorization" in headers):
            await self._api(scope, receive, send)
            return
        raw_path: bytes = scope.get("raw_path") or scope["path"].encode()
        session = self._session(headers, scope["scheme"])
        if session is None or request_rules.is_proxied(raw_path.decode("latin-1")):
            await _refuse(send, 401, "sign in to the dashboard again")
            return
        await self._api(_as_user(session, scope), receive, send)

    def _session(self, headers: Mapping[bytes, bytes], scheme: str) -> Session | None:
        if not request_rules.names_server(headers, self._names) or not request_rules.is_same_origin(headers, scheme):
            return None
        return self.sessions.find(headers, sessions.page_key(headers))

    async def _own(self, path: str, scope: Scope, headers: Mapping[bytes, bytes], receive: Receive, send: Send) -> None:
        if not request_rules.names_server(headers, self._names):
            await _refuse(
                send, 421, "this server does not have that name: use one of its own, or add it with --advertise"
            )
            return
        method = scope["method"]
        match (method, path):
            case ("POST", str(at)) if at == _SESSION:
                await self._sign_in(scope, headers, receive, send)
            case ("DELETE", str(at)) if at == _SESSION:
                await self._sign_out(scope, headers, send)
            case ("POST", str(at)) if at == _TICKETS:
                await self._ticket(scope, headers, send)
            case ("GET", str(at)) if at == _LIVE:
                await self._tab(scope, headers, receive, send)
            case ("GET" | "HEAD", _):
                await _page(path, headers, send, bodiless=method == "HEAD")
            case _:
                await _refuse(send, 405, "the dashboard has no such method")

    async def _sign_in(self, scope: Scope, headers: Mapping[bytes, bytes], receive: Receive, send: Send) -> None:
        if not request_rules.is_same_origin(headers, scope["scheme"]):
            await _refuse(send, 403, "only the dashboard's own page signs in")
            return
        try:
            asked = msgspec.json.decode(await _body(receive), type=_SignIn)
        except (msgspec.DecodeError, ValueError):
            await _refuse(send, 400, "send a page key, and a token or a ticket")
            return
        if not sessions.is_page_key(asked.page_key):
            await _refuse(send, 400, "a page key is 32 random bytes in URL-safe base64")
            return
        if asked.ticket:
            user = self.sessions.redeem(asked.ticket, asked.page_key)
            if user is None:
                await _refuse(send, 401, "the ticket is used or too old: call rota dashboard again")
                return
            cookie = self.sessions.begin(asked.page_key, user=user)
        else:
            if not self._takes_tokens:
                await _refuse(send, 401, "this dashboard has the rights of one kubeconfig: use the address it printed")
                return
            if len(asked.token) > _MOST_TOKEN:
                await _refuse(send, 400, "the token is too long for a browser's cookie: use rota dashboard")
                return
            if not asked.token or not asked.token.isascii() or not asked.token.isprintable():
                await _refuse(send, 401, "that is not a token")
                return
            try:
                user = await self._who(scope, ((b"authorization", b"Bearer " + asked.token.encode()),))
            except Unanswered as problem:
                await _refuse(send, 503, f"the cluster does not answer: {problem}; try again")
                return
            if user is None:
                await _refuse(send, 401, "the cluster does not accept this token")
                return
            cookie = self.sessions.begin(asked.page_key, token=asked.token)
        body = msgspec.json.encode({"user": user.name, "cluster": self._cluster})
        await _answer(send, 200, body, headers=((b"set-cookie", cookie.encode()),))

    async def _sign_out(self, scope: Scope, headers: Mapping[bytes, bytes], send: Send) -> None:
        session = self._session(headers, scope["scheme"])
        if session is None:
            await _refuse(send, 401, "there is no session")
            return
        await _answer(send, 200, b"{}", headers=((b"set-cookie", self.sessions.end(session).encode()),))

    async def _ticket(self, scope: Scope, headers: Mapping[bytes, bytes], send: Send) -> None:
        # A page of another origin could make a browser present its client certificate.
        if not self._gives_tickets or request_rules.is_from_browser(headers):
            await _refuse(send, 403, "tickets are for programs: call rota dashboard")
            return
        try:
            user = await self._who(scope, tuple(one for one in scope["headers"] if one[0] == b"authorization"))
        except Unanswered as problem:
            await _refuse(send, 503, f"the cluster does not answer: {problem}; try again")
            return
        if user is None or "system:unauthenticated" in user.groups:
            await _refuse(send, 401, "Unauthorized")
            return
        await _answer(
            send, 200, msgspec.json.encode({"ticket": self.sessions.ticket(user), "loopback": self.loopback_url})
        )

    async def _tab(self, scope: Scope, headers: Mapping[bytes, bytes], receive: Receive, send: Send) -> None:
        session = self._session(headers, scope["scheme"])
        if session is None or b"origin" not in headers:
            await _refuse(send, 401, "sign in to the dashboard again")
            return
        try:
            user = session.user or await self._who(_as_user(session, scope), ())
        except Unanswered as problem:
            await _refuse(send, 503, f"the cluster does not answer: {problem}; try again")
            return
        if user is None:
            await _refuse(send, 401, "sign in to the dashboard again")
            return
        key, upgrade = headers.get(b"sec-websocket-key", b""), scope.get(scopes.UPGRADE)
        if upgrade is None or not key or self.live is None:
            await _refuse(send, 400, "a WebSocket is opened here")
            return
        upgrade(((b"sec-websocket-accept", frames.accept(key)), (b"sec-websocket-protocol", PROTOCOL)))
        serving = asyncio.ensure_future(self.live.serve(session, user, receive, send))
        ending = asyncio.ensure_future(self._ending.wait())
        try:
            await asyncio.wait((serving, ending), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.cancel()
            serving.cancel()
            await asyncio.gather(serving, ending, return_exceptions=True)
        await send({"type": "http.response.body", "body": frames.closing(1001, "the server ends"), "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def who(self, session: Session) -> SealedUser | None:
        """The user of a session as the API server sees it now; None if its token is no longer accepted.

        Unanswered if the API server does not say.
        """
        if session.user is not None:
            return session.user
        scope: Scope = {"type": "http", "scheme": "https", "client": None}
        return await self._who(_as_user(session, {**scope, "headers": []}), ())

    async def caller(self) -> SealedUser | None:
        """The user of requests without credentials, as the API server behind sees it; None if it does not tell."""
        try:
            return await self._who({"type": "http", "scheme": "https", "client": None, "headers": []}, ())
        except Unanswered:
            return None

    async def _who(self, scope: Scope, extra: tuple[tuple[bytes, bytes], ...]) -> SealedUser | None:
        """The user of a request's credentials, by asking the API server; None if it does not accept them."""
        asked = {
            key: scope[key]
            for key in ("type", "scheme", "client", scopes.PEER_CERTIFICATE, scopes.ACTING_AS)
            if key in scope
        }
        credentials = extra or tuple(one for one in scope["headers"] if one[0] == b"authorization")
        asked |= {
            "method": "POST",
            "path": _WHO,
            "raw_path": _WHO.encode(),
            "query_string": b"",
            "headers": [(b"content-type", b"application/json"), (b"accept", b"application/json"), *credentials],
        }
        code, body = await _call(self._api, asked, _WHO_BODY)
        if code >= 500 or code in _BUSY:
            raise Unanswered(f"it answered {code}" if code else "it did not answer")
        if code != 201:
            return None
        info = msgspec.json.decode(body, type=_Who).status.user_info
        return SealedUser(name=info.username, uid=info.uid, groups=info.groups, extra=info.extra)


def _as_user(session: Session, scope: Scope) -> Scope:
    """The request with the user of a session, or with its token."""
    if session.user is not None:
        return {**scope, scopes.ACTING_AS: session.user.user()}
    return {**scope, "headers": [*scope["headers"], (b"authorization", b"Bearer " + session.token.encode())]}


async def _call(app: Application, scope: Scope, body: bytes) -> tuple[int, bytes]:
    parts: list[bytes] = []
    code = 0
    given = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> MutableMapping[str, Any]:
        return given.pop() if given else {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        nonlocal code
        code = message.get("status", code)
        parts.append(message.get("body", b""))

    await app(scope, receive, send)
    return code, b"".join(parts)


async def _body(receive: Receive) -> bytes:
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


async def _page(path: str, headers: Mapping[bytes, bytes], send: Send, *, bodiless: bool) -> None:
    if path == "/dashboard":
        await _answer(send, 308, b"", headers=((b"location", pages.PREFIX.encode()),))
        return
    found = pages.find(path)
    if found is None:
        await _refuse(send, 404, "the dashboard has no such file")
        return
    common: tuple[tuple[bytes, bytes], ...] = (
        (b"etag", found.etag),
        (b"cache-control", b"no-cache"),
        (b"vary", b"accept-encoding"),
    )
    if headers.get(b"if-none-match") == found.etag:
        await _answer(send, 304, b"", headers=common, content_type=found.content_type)
        return
    body = found.body
    if b"gzip" in headers.get(b"accept-encoding", b""):
        body, common = found.compressed, (*common, (b"content-encoding", b"gzip"))
    await _answer(send, 200, b"" if bodiless else body, headers=common, content_type=found.content_type)


async def _refuse(send: Send, code: int, why: str) -> None:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": why, "code": code}
    await _answer(send, code, msgspec.json.encode(body))


async def _answer(
    send: Send,
    code: int,
    body: bytes,
    *,
    headers: tuple[tuple[bytes, bytes], ...] = (),
    content_type: str = "application/json",
) -> None:
    caching = () if any(name == b"cache-control" for name, _ in headers) else ((b"cache-control", b"no-store"),)
    every = [(b"content-type", content_type.encode()), *headers, *caching, *pages.headers()]
    if code not in (204, 304):
        every.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": code, "headers": every})
    await send({"type": "http.response.body", "body": body})
