"""A small OpenID Connect provider on loopback, over TLS: discovery, keys, the code flow with PKCE, refresh.

    async with OpenIdProvider(clock).serving() as provider:
        ... --oidc-issuer-url provider.url --oidc-client-id provider.client_id ...

It signs any token that a test asks for. Its page for users has a button for each of `users`, and asks for no password.
Refresh tokens are valid once, as OAuth 2.1 wants them for public clients.
"""

import asyncio
import base64
import contextlib
import hashlib
import html
import secrets
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from typing import Any, Final, TypeAlias
from urllib.parse import urlencode

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from rota.kit.clock import Clock
from rota.kit.system import SystemClock
from rota.pki import contexts
from rota.pki.authorities import DAY_S, Authority, Purpose
from rota.pki.certificates import Names, Subject

Key: TypeAlias = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

#: One for all providers of a process: a key takes a moment to generate.
RSA: Final = rsa.generate_private_key(public_exponent=65537, key_size=2048)


class OpenIdProvider:
    """A provider with one public client."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock: Final = clock or SystemClock()
        self.client_id: Final = "rota-cli"
        self.authority: Final = Authority.create(now=SystemClock().now())
        self.keys: dict[str, Key] = {"one": RSA}
        self.users: dict[str, dict[str, Any]] = {
            "ann": {"sub": "4711", "email": "ann@example.com", "groups": ["dev", "ops"]}
        }
        self.lifetime_s = 600.0
        self.url = ""
        #: What the configuration says instead of the address.
        self.pretended = ""
        #: Fetches of the keys.
        self.fetches = 0
        #: Claims that tokens of the code flow have instead.
        self.changes: dict[str, Any] = {}
        #: Whether the client gets refresh tokens, and those that are valid.
        self.refreshes = True
        self.refresh_tokens: dict[str, str] = {}
        self.refreshed = 0
        #: Refresh tokens that the client has revoked.
        self.revoked: asyncio.Queue[str] = asyncio.Queue()
        #: Codes that were not redeemed: what was asked for, and the user.
        self._codes: Final[dict[str, tuple[dict[str, str], str]]] = {}

    def token(self, *, key: str = "one", algorithm: str = "RS256", **changes: Any) -> str:
        """An ID token of the first user with other claims; None leaves a claim out."""
        claims = {
            "iss": self.url,
            "aud": self.client_id,
            **next(iter(self.users.values())),
            "exp": int(self.clock.now() + self.lifetime_s),
        }
        kept = {name: value for name, value in {**claims, **changes}.items() if value is not None}
        return jwt.encode(kept, self.keys[key], algorithm=algorithm, headers={"kid": key})

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator["OpenIdProvider"]:
        """Serve on a free port of loopback."""
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self._configuration)
        app.router.add_get("/keys", self._keys)
        app.router.add_get("/authorize", self._choice)
        app.router.add_post("/authorize", self._authorized)
        app.router.add_post("/token", self._tokens)
        app.router.add_post("/revoke", self._revoked)
        identity = self.authority.issue(
            Subject(common_name="provider"),
            purpose=Purpose.SERVER,
            now=SystemClock().now(),
            lifetime_s=DAY_S,
            names=Names.of(["127.0.0.1"]),
        )
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        # Clients have no certificates: a browser would ask its user for one.
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        contexts.use(tls, identity)
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        self.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    @contextlib.contextmanager
    def in_thread(self) -> Iterator["OpenIdProvider"]:
        """Serve beside a test that has no event loop."""
        begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

        async def run() -> None:
            try:
                async with self.serving():
                    ending = asyncio.Event()
                    begun.set_result((asyncio.get_running_loop(), ending))
                    await ending.wait()
            except BaseException as problem:
                if not begun.done():
                    begun.set_exception(problem)
                raise

        thread = threading.Thread(target=lambda: asyncio.run(run()), name="openid provider")
        thread.start()
        try:
            loop, ending = begun.result()
            try:
                yield self
            finally:
                loop.call_soon_threadsafe(ending.set)
        finally:
            thread.join()

    def code(self, asked: dict[str, str], user: str) -> str:
        """A code for the request of a client that a user has agreed to."""
        made = secrets.token_urlsafe(16)
        self._codes[made] = (asked, user)
        return made

    async def _configuration(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "issuer": self.pretended or self.url,
                "jwks_uri": f"{self.url}/keys",
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "revocation_endpoint": f"{self.url}/revoke",
                "scopes_supported": ["openid", "email", "groups", "offline_access"],
                "code_challenge_methods_supported": ["S256"],
            }
        )

    async def _keys(self, request: web.Request) -> web.Response:
        self.fetches += 1
        return web.json_response({"keys": [{**_public(key), "kid": name} for name, key in self.keys.items()]})

    async def _choice(self, request: web.Request) -> web.Response:
        asked = dict(request.query)
        if asked.get("client_id") != self.client_id or asked.get("code_challenge_method") != "S256":
            return web.Response(status=400, text="unknown client, or no PKCE")
        buttons = "".join(
            f'<form method="post" action="/authorize?{html.escape(urlencode({**asked, "user": one}))}">'
            f"<button>Log in as {html.escape(one)}</button></form>"
            for one in (*self.users, "nobody")
        )
        return web.Response(text=f"<!doctype html><title>Provider</title>{buttons}", content_type="text/html")

    async def _authorized(self, request: web.Request) -> web.Response:
        asked = dict(request.query)
        user = asked.pop("user")
        if user in self.users:
            told = {"code": self.code(asked, user), "state": asked["state"]}
        else:
            told = {"error": "access_denied", "error_description": "nobody may come in", "state": asked["state"]}
        raise web.HTTPFound(f"{asked['redirect_uri']}?{urlencode(told)}")

    async def _tokens(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        if form.get("client_id") != self.client_id:
            return _refused("invalid_client")
        if form.get("grant_type") == "refresh_token":
            user = self.refresh_tokens.pop(form.get("refresh_token", ""), "")
            if not user:
                return _refused("invalid_grant")
            self.refreshed += 1
            return self._issued(user, {})
        asked, user = self._codes.pop(form.get("code", ""), ({}, ""))
        proof = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        matches = asked.get("code_challenge") == proof.decode().rstrip("=")
        if not matches or asked.get("redirect_uri") != form.get("redirect_uri"):
            return _refused("invalid_grant")
        return self._issued(user, {"nonce": asked["nonce"]})

    def _issued(self, user: str, claims: dict[str, Any]) -> web.Response:
        token = self.token(**{**self.users[user], **claims, **self.changes})
        answer: dict[str, Any] = {
            "id_token": token,
            "access_token": "unused",
            "token_type": "Bearer",
            "expires_in": self.lifetime_s,
        }
        if self.refreshes:
            made = answer["refresh_token"] = secrets.token_urlsafe(24)
            self.refresh_tokens[made] = user
        return web.json_response(answer)

    async def _revoked(self, request: web.Request) -> web.Response:
        token = str((await request.post())["token"])
        self.revoked.put_nowait(token)
        self.refresh_tokens.pop(token, None)
        return web.Response()


def _refused(error: str) -> web.Response:
    return web.json_response({"error": error}, status=400)


def _public(key: Key) -> dict[str, Any]:
    algorithm = jwt.get_algorithm_by_name("RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256")
    return algorithm.to_jwk(key.public_key(), as_dict=True)
