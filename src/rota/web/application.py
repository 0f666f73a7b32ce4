"""Stands before an API server: serves the dashboard below `/dashboard/`, and lets a session act as its user.

Every other request goes on to the API server as it is. A request with a session's cookie acts as the user only if
`request_rules` allows it; the cookie of any other request means nothing.

    GET    /dashboard/...        the page and its files
    GET    /dashboard/features   what pages may offer here
    POST   /dashboard/sign-in    begin to sign in at the OpenID Connect provider
    POST   /dashboard/session    sign in with a token, a ticket, or the code of the provider
    PUT    /dashboard/session    renew the provider's token of a session
    DELETE /dashboard/session    sign out
    POST   /dashboard/tickets    a one-time ticket for the caller, for programs only
    GET    /dashboard/live       the WebSocket of an open tab
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from rota.api import scopes
from rota.apiserver.authentication.oidc_provider import Provider, ProviderAwayError
from rota.kit.clock import Clock
from rota.web import answers, frames, pages, provider_sign_in, request_rules, sessions
from rota.web.answers import Receive, Scope, Send
from rota.web.provider_sign_in import ProviderSignIn, SignInError
from rota.web.sealing import Seal
from rota.web.sessions import SealedUser, Session, Sessions

Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_FEATURES: Final = f"{pages.PREFIX}features"
_SIGN_IN: Final = f"{pages.PREFIX}sign-in"
_SESSION: Final = f"{pages.PREFIX}session"
_TICKETS: Final = f"{pages.PREFIX}tickets"
_LIVE: Final = f"{pages.PREFIX}live"
_WHO: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_WHO_BODY: Final = b'{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}'
#: Answers to "who am I" that say nothing about the user: not at all, 408 and 429.
_BUSY: Final = frozenset({0, 408, 429})
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
    code: str = ""
    state: str = ""


class _Features(msgspec.Struct, frozen=True):
    #: Whether commands in containers (terminal, files) can be started through this server.
    exec: bool
    #: Whether tokens sign in.
    tokens: bool
    #: The OpenID Connect provider whose users sign in; empty if there is none.
    provider: str = ""


class _Refused(Exception):
    """A request of a page is not granted."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code: Final = code


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
        execs: bool = True,
        provider: Provider | None = None,
    ) -> None:
        """`names` are those of this server in Host headers; `cluster` is shown to users.

        Without `tickets` and `tokens` the only sessions are those of tickets that the owner makes: for an API behind
        which every request has the same user. Without `execs` the API behind passes no WebSockets on.
        Users of `provider` sign in there.
        """
        self._api: Final = api
        self._gives_tickets: Final = tickets
        self._takes_tokens: Final = tokens
        self._provider: Final = None if provider is None else ProviderSignIn(provider, seal=seal, clock=clock)
        self._features: Final = _Features(
            exec=execs, tokens=tokens, provider="" if self._provider is None else self._provider.name
        )
        self._clock: Final = clock
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
            await answers.answer(send, 302, b"", headers=((b"location", pages.PREFIX.encode()),))
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
            await answers.refuse(send, 401, "sign in to the dashboard again")
            return
        await self._api(_as_user(session, scope), receive, send)

    def _session(self, headers: Mapping[bytes, bytes], scheme: str) -> Session | None:
        if not request_rules.names_server(headers, self._names) or not request_rules.is_same_origin(headers, scheme):
            return None
        return self.sessions.find(headers, sessions.page_key(headers))

    async def _own(self, path: str, scope: Scope, headers: Mapping[bytes, bytes], receive: Receive, send: Send) -> None:
        if not request_rules.names_server(headers, self._names):
            await answers.refuse(
                send, 421, "this server does not have that name: use one of its own, or add it with --advertise"
            )
            return
        method = scope["method"]
        match (method, path):
            case ("POST", str(at)) if at == _SIGN_IN:
                await self._begin(scope, headers, receive, send)
            case ("POST", str(at)) if at == _SESSION:
                await self._sign_in(scope, headers, receive, send)
            case ("PUT", str(at)) if at == _SESSION:
                await self._renew(scope, headers, send)
            case ("DELETE", str(at)) if at == _SESSION:
                await self._sign_out(scope, headers, send)
            case ("POST", str(at)) if at == _TICKETS:
                await self._ticket(scope, headers, send)
            case ("GET", str(at)) if at == _LIVE:
                await self._tab(scope, headers, receive, send)
            case ("GET", str(at)) if at == _FEATURES:
                await answers.answer(send, 200, msgspec.json.encode(self._features))
            case ("GET" | "HEAD", _):
                await answers.page(path, headers, send, bodiless=method == "HEAD")
            case _:
                await answers.refuse(send, 405, "the dashboard has no such method")

    async def _begin(self, scope: Scope, headers: Mapping[bytes, bytes], receive: Receive, send: Send) -> None:
        """Send the page to the provider. It comes back to the page of this origin, whose name was checked."""
        try:
            asked = await _asked(scope, headers, receive)
            if self._provider is None:
                raise _Refused(404, "no OpenID Connect provider is configured: start masters with --oidc-issuer-url")
            own = f"{scope['scheme']}://{headers[b'host'].decode('latin-1')}{pages.PREFIX}"
            location, cookie = await self._provider.begin(asked.page_key, own)
        except (_Refused, ProviderAwayError) as problem:
            await _refuse_for(send, problem)
            return
        body = msgspec.json.encode({"location": location})
        await answers.answer(send, 200, body, headers=((b"set-cookie", cookie.encode()),))

    async def _sign_in(self, scope: Scope, headers: Mapping[bytes, bytes], receive: Receive, send: Send) -> None:
        told: dict[str, Any] = {}
        try:
            asked = await _asked(scope, headers, receive)
            if asked.ticket:
                user = self.sessions.redeem(asked.ticket, asked.page_key)
                if user is None:
                    raise _Refused(401, "the ticket is used or too old: call rota dashboard again")
                cookies: tuple[str, ...] = (self.sessions.begin(asked.page_key, user=user),)
            elif asked.code and self._provider is not None:
                tokens = await self._provider.redeem(
                    headers, code=asked.code, state=asked.state, page_key=asked.page_key
                )
                user = await self._user_of(tokens.id_token, scope)
                session = self.sessions.begun(asked.page_key, token=tokens.id_token)
                cookies = (self.sessions.sealed(session), *self._provider.keep(session.id, tokens.refresh_token))
                told["renewIn"] = self._renewal(tokens)
            else:
                user = await self._user_of(asked.token, scope)
                cookies = (self.sessions.begin(asked.page_key, token=asked.token),)
        except (_Refused, SignInError, ProviderAwayError, Unanswered) as problem:
            await _refuse_for(send, problem)
            return
        body = msgspec.json.encode({"user": user.name, "cluster": self._cluster, **told})
        await answers.answer(send, 200, body, headers=tuple((b"set-cookie", one.encode()) for one in cookies))

    async def _user_of(self, token: str, scope: Scope) -> SealedUser:
        """The user that signs in with a token."""
        if not self._takes_tokens:
            raise _Refused(401, "this dashboard has the rights of one kubeconfig: use the address it printed")
        if len(token) > _MOST_TOKEN:
            raise _Refused(
                400, "the token is too long for a browser's cookie: use rota dashboard, or leave claims out of it"
            )
        if not token or not token.isascii() or not token.isprintable():
            raise _Refused(401, "that is not a token")
        user = await self._who(scope, ((b"authorization", b"Bearer " + token.encode()),))
        if user is None:
            raise _Refused(401, "the cluster does not accept this token")
        return user

    def _renewal(self, tokens: provider_sign_in.Tokens) -> float:
        """After how many seconds the page asks for a new token; 0 if it cannot have one."""
        return provider_sign_in.renewal_in_s(tokens.id_token, self._clock.now()) if tokens.refresh_token else 0.0

    async def _renew(self, scope: Scope, headers: Mapping[bytes, bytes], send: Send) -> None:
        """Replace the token of a session by a new one of the same user. The session does not end later for it."""
        session = self._session(headers, scope["scheme"])
        kept = self._provider.kept(headers, session.id) if self._provider is not None and session is not None else ""
        if self._provider is None or session is None or not kept:
            await answers.refuse(send, 401, "sign in to the dashboard again")
            return
        try:
            tokens = await self._provider.renewed(session.token, kept)
            with contextlib.suppress(
                Unanswered
            ):  # requests verify the token too, and the former one is not valid again
                await self._user_of(tokens.id_token, scope)
        except (_Refused, SignInError, ProviderAwayError) as problem:
            await _refuse_for(send, problem)
            return
        if not self.sessions.is_valid(session):
            await answers.refuse(send, 401, "the user has signed out meanwhile")
            await self._provider.revoke(tokens.refresh_token)
            return
        renewed = self.sessions.sealed(msgspec.structs.replace(session, token=tokens.id_token))
        cookies = (renewed, *self._provider.keep(session.id, tokens.refresh_token))
        body = msgspec.json.encode({"renewIn": self._renewal(tokens)})
        await answers.answer(send, 200, body, headers=tuple((b"set-cookie", one.encode()) for one in cookies))

    async def _sign_out(self, scope: Scope, headers: Mapping[bytes, bytes], send: Send) -> None:
        session = self._session(headers, scope["scheme"])
        if session is None:
            await answers.refuse(send, 401, "there is no session")
            return
        cookies = [self.sessions.end(session)]
        if self._provider is not None:
            cookies += self._provider.keep(session.id, "")
        await answers.answer(send, 200, b"{}", headers=tuple((b"set-cookie", one.encode()) for one in cookies))
        if self._provider is not None and (kept := self._provider.kept(headers, session.id)):
            await self._provider.revoke(kept)

    async def _ticket(self, scope: Scope, headers: Mapping[bytes, bytes], send: Send) -> None:
        # A page of another origin could make a browser present its client certificate.
        if not self._gives_tickets or request_rules.is_from_browser(headers):
            await answers.refuse(send, 403, "tickets are for programs: call rota dashboard")
            return
        try:
            user = await self._who(scope, tuple(one for one in scope["headers"] if one[0] == b"authorization"))
        except Unanswered as problem:
            await answers.refuse(send, 503, f"the cluster does not answer: {problem}; try again")
            return
        if user is None or "system:unauthenticated" in user.groups:
            await answers.refuse(send, 401, "Unauthorized")
            return
        await answers.answer(
            send, 200, msgspec.json.encode({"ticket": self.sessions.ticket(user), "loopback": self.loopback_url})
        )

    async def _tab(self, scope: Scope, headers: Mapping[bytes, bytes], receive: Receive, send: Send) -> None:
        session = self._session(headers, scope["scheme"])
        if session is None or b"origin" not in headers:
            await answers.refuse(send, 401, "sign in to the dashboard again")
            return
        try:
            user = session.user or await self._who(_as_user(session, scope), ())
        except Unanswered as problem:
            await answers.refuse(send, 503, f"the cluster does not answer: {problem}; try again")
            return
        if user is None:
            await answers.refuse(send, 401, "sign in to the dashboard again")
            return
        key, upgrade = headers.get(b"sec-websocket-key", b""), scope.get(scopes.UPGRADE)
        if upgrade is None or not key or self.live is None:
            await answers.refuse(send, 400, "a WebSocket is opened here")
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


async def _asked(scope: Scope, headers: Mapping[bytes, bytes], receive: Receive) -> _SignIn:
    """What a page of this origin sends to sign in."""
    if not request_rules.is_same_origin(headers, scope["scheme"]):
        raise _Refused(403, "only the dashboard's own page signs in")
    try:
        asked = msgspec.json.decode(await answers.body(receive), type=_SignIn)
    except (msgspec.DecodeError, ValueError):
        raise _Refused(400, "send a page key, and a token or a ticket") from None
    if not sessions.is_page_key(asked.page_key):
        raise _Refused(400, "a page key is 32 random bytes in URL-safe base64")
    return asked


async def _refuse_for(send: Send, problem: Exception) -> None:
    """Answer a request that signs in or renews, and cannot."""
    match problem:
        case _Refused():
            await answers.refuse(send, problem.code, str(problem))
        case SignInError():
            await answers.refuse(send, 401, str(problem))
        case ProviderAwayError():
            await answers.refuse(send, 503, f"the OpenID Connect provider does not answer: {problem}; try again")
        case _:
            await answers.refuse(send, 503, f"the cluster does not answer: {problem}; try again")
