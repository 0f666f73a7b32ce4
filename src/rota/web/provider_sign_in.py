"""Signing in at an OpenID Connect provider: the authorization code flow with PKCE, as a public client.

The browser goes to the provider and comes back to the page with a code. This server redeems the code, so pages need no
connection to the provider, and scripts see no token. What is known only to the browser that began (the verifier of
PKCE, the nonce) is sealed in a cookie: any master finishes what another one began. The API server verifies the ID token
like any other token; here only the nonce and the user of a renewed token are compared.

A refresh token is sealed in a cookie of its own, which belongs to one session.
"""

import asyncio
import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import msgspec

from rota.apiserver.authentication import jwts
from rota.apiserver.authentication.oidc_provider import Provider, ProviderAwayError, ProviderSite
from rota.kit import logs
from rota.kit.clock import Clock
from rota.web import sessions
from rota.web.sealing import Seal

log = logs.get(__name__)

_BEGUN_COOKIE: Final = "__Host-rota-sign-in"
_REFRESH_COOKIE: Final = "__Host-rota-refresh"
_BEGUN: Final = b"sign-in"
_REFRESH: Final = b"refresh"
#: How long a user may take at the provider.
_AWAY_S: Final = 600.0
#: How long the configuration of the provider is taken as known.
_KNOWN_S: Final = 600.0
#: How long a provider that did not answer is not asked again: anyone may begin to sign in.
_NOT_AGAIN_S: Final = 5.0
#: Together with its sealing it must fit into a cookie.
_MOST_REFRESH_TOKEN: Final = 2600
#: A token is renewed when this part of its life is over.
_RENEWED_AT: Final = 0.8
_PROFILE_CLAIMS: Final = frozenset({"name", "nickname", "preferred_username", "profile"})


class SignInError(Exception):
    """A user cannot sign in, or go on, with what the browser or the provider sent."""


class Tokens(msgspec.Struct, frozen=True):
    """What a provider gives out for a code or a refresh token."""

    id_token: str
    refresh_token: str = ""


class _Begun(msgspec.Struct, frozen=True):
    state: str
    nonce: str
    verifier: str
    #: SHA-256 of the page key.
    page_key: str
    redirect_uri: str
    until: float


class _Refresh(msgspec.Struct, frozen=True):
    session: str
    token: str


class ProviderSignIn:
    """The sign-in of one provider's users."""

    def __init__(self, provider: Provider, *, seal: Seal, clock: Clock) -> None:
        self._provider: Final = provider
        self._site: Final = ProviderSite(provider, clock=clock)
        self._seal: Final = seal
        self._clock: Final = clock
        self._configuration: dict[str, Any] = {}
        self._configured_at = 0.0
        #: Why the configuration is not known, and until when that is taken as the answer.
        self._problem = ""
        self._problem_until = 0.0
        self._asking: Final = asyncio.Lock()

    @property
    def name(self) -> str:
        """The provider, as pages call it."""
        return urlsplit(self._provider.issuer_url).netloc

    async def begin(self, page_key: str, redirect_uri: str) -> tuple[str, str]:
        """The address of the provider to go to, and the value for `Set-Cookie`; ProviderAwayError."""
        configuration = await self._known()
        endpoint = _https(configuration, "authorization_endpoint")
        begun = _Begun(
            state=secrets.token_urlsafe(32),
            nonce=secrets.token_urlsafe(32),
            verifier=secrets.token_urlsafe(48),
            page_key=sessions.digest(page_key),
            redirect_uri=redirect_uri,
            until=self._clock.now() + _AWAY_S,
        )
        challenge = base64.urlsafe_b64encode(hashlib.sha256(begun.verifier.encode()).digest()).decode().rstrip("=")
        query = urlencode(
            {
                "response_type": "code",
                "client_id": self._provider.client_id,
                "redirect_uri": redirect_uri,
                "scope": " ".join(scopes(self._provider, configuration.get("scopes_supported"))),
                "state": begun.state,
                "nonce": begun.nonce,
                "code_challenge": challenge,
                "code_challenge_method": "S256",
            }
        )
        sealed = self._seal.seal(msgspec.json.encode(begun), _BEGUN)
        joint = "&" if "?" in endpoint else "?"
        return f"{endpoint}{joint}{query}", sessions.set_cookie(_BEGUN_COOKIE, sealed)

    async def redeem(self, headers: Mapping[bytes, bytes], *, code: str, state: str, page_key: str) -> Tokens:
        """The tokens for the code of a sign-in that this browser began; SignInError or ProviderAwayError."""
        raw = self._seal.open(sessions.cookie(headers, _BEGUN_COOKIE), _BEGUN)
        begun = None if raw is None else msgspec.json.decode(raw, type=_Begun)
        if begun is None or not hmac.compare_digest(begun.state.encode(), state.encode()):
            raise SignInError("this browser did not begin this sign-in: begin again")
        if not hmac.compare_digest(begun.page_key, sessions.digest(page_key)):
            raise SignInError("another tab began this sign-in: begin again")
        if begun.until <= self._clock.now():
            raise SignInError("the sign-in took more than ten minutes: begin again")
        tokens = await self._tokens(
            {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": begun.redirect_uri,
                "code_verifier": begun.verifier,
            }
        )
        said = jwts.unverified(tokens.id_token)
        if not hmac.compare_digest(str(said.get("nonce", "")).encode(), begun.nonce.encode()):
            raise SignInError("the provider's token is not for this sign-in: begin again")
        return tokens

    async def renewed(self, token: str, refresh_token: str) -> Tokens:
        """New tokens of the same user; SignInError or ProviderAwayError."""
        tokens = await self._tokens({"grant_type": "refresh_token", "refresh_token": refresh_token})
        old, new = jwts.unverified(token), jwts.unverified(tokens.id_token)
        if (old.get("iss"), old.get("sub")) != (new.get("iss"), new.get("sub")):
            raise SignInError("the provider's new token is for another user")
        # A provider that does not replace a refresh token leaves it valid.
        return tokens if tokens.refresh_token else msgspec.structs.replace(tokens, refresh_token=refresh_token)

    async def revoke(self, refresh_token: str) -> None:
        """Tell the provider that a refresh token is not needed any more, if it wants to know."""
        try:
            endpoint = (await self._known()).get("revocation_endpoint")
            if isinstance(endpoint, str):
                form = {"token": refresh_token, "token_type_hint": "refresh_token"}
                await self._site.post(endpoint, {**form, "client_id": self._provider.client_id})
        except ProviderAwayError as problem:
            log.info("a refresh token could not be revoked", provider=self.name, error=problem)

    def keep(self, session: str, refresh_token: str) -> tuple[str, ...]:
        """Values for `Set-Cookie` that end what `begin` began and keep the refresh token of a session."""
        ended = sessions.delete_cookie(_BEGUN_COOKIE)
        if not refresh_token or len(refresh_token) > _MOST_REFRESH_TOKEN:
            return ended, sessions.delete_cookie(_REFRESH_COOKIE)
        sealed = self._seal.seal(msgspec.json.encode(_Refresh(session, refresh_token)), _REFRESH)
        return ended, sessions.set_cookie(_REFRESH_COOKIE, sealed)

    def kept(self, headers: Mapping[bytes, bytes], session: str) -> str:
        """The refresh token of a session; empty if the browser has none."""
        raw = self._seal.open(sessions.cookie(headers, _REFRESH_COOKIE), _REFRESH)
        found = None if raw is None else msgspec.json.decode(raw, type=_Refresh)
        return found.token if found is not None and found.session == session else ""

    async def _tokens(self, form: dict[str, str]) -> Tokens:
        endpoint = _https(await self._known(), "token_endpoint")
        code, answer = await self._site.post(endpoint, {**form, "client_id": self._provider.client_id})
        if code >= 500 or code == 429:
            raise ProviderAwayError(f"{endpoint} answers {code}")
        if code != 200:
            raise SignInError(f"the provider {self.name} refuses: {answer.get('error', code)}; sign in again")
        try:
            return msgspec.convert(answer, Tokens)
        except msgspec.ValidationError:
            raise SignInError(f"the provider {self.name} sends no ID token: allow the scope openid") from None

    async def _known(self) -> dict[str, Any]:
        async with self._asking:
            now = self._clock.monotonic()
            if self._configuration and now - self._configured_at <= _KNOWN_S:
                return self._configuration
            if now < self._problem_until:
                raise ProviderAwayError(self._problem)
            try:
                self._configuration = await self._site.configuration()
            except ProviderAwayError as problem:
                self._problem, self._problem_until = str(problem), self._clock.monotonic() + _NOT_AGAIN_S
                raise
            self._configured_at = now
            return self._configuration


def scopes(provider: Provider, supported: Any) -> list[str]:
    """What to ask a provider for: a token with the claims that name the user, and a refresh token."""
    wanted = ["openid"]
    if provider.username_claim == "email" or "email" in provider.required_claims:
        wanted.append("email")
    if provider.username_claim in _PROFILE_CLAIMS:
        wanted.append("profile")
    if not isinstance(supported, list):
        return wanted
    if provider.groups_claim:
        wanted.append("groups")
    wanted.append("offline_access")
    return [one for one in wanted if one in supported or one == "openid"]


def renewal_in_s(token: str, now: float) -> float:
    """After how many seconds a token is to be renewed; 0 if it does not expire."""
    ends = jwts.unverified(token).get("exp")
    return max(1.0, (ends - now) * _RENEWED_AT) if isinstance(ends, int | float) else 0.0


def _https(configuration: Mapping[str, Any], name: str) -> str:
    address = configuration.get(name)
    if not isinstance(address, str) or not address.startswith("https://"):
        raise ProviderAwayError(f"the provider's configuration has no https address as {name}")
    return address
