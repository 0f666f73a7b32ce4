"""ID tokens of an OpenID Connect provider.

The provider's keys are fetched over HTTPS when they are first needed and when a token names an unknown key, but at most
every ten seconds. If a provider cannot be reached, only its own users are affected.
"""

import asyncio
from typing import Any, Final

import jwt

from rota.apiserver.authentication import jwts
from rota.apiserver.authentication.jwts import Claims
from rota.apiserver.authentication.oidc_provider import Provider, ProviderAwayError, ProviderSite
from rota.apiserver.authentication.tokens import Rejected, Verified
from rota.apiserver.interfaces import User
from rota.kit import logs
from rota.kit.clock import Clock

log = logs.get(__name__)

_NOT_AGAIN_S: Final = 10.0
#: The provider's clock may be ahead by this much.
_LEEWAY_S: Final = 300.0
_NO_PREFIX: Final = "-"
_RESERVED: Final = "system:"


class OidcTokens:
    """A `TokenOrigin` of one provider's ID tokens."""

    def __init__(self, provider: Provider, *, audiences: tuple[str, ...], clock: Clock) -> None:
        self._provider: Final = provider
        self._audiences: Final = audiences
        self._clock: Final = clock
        self._keys: dict[str, Any] = {}
        self._fetched_at: float | None = None
        self._fetching: Final = asyncio.Lock()
        self._site: Final = ProviderSite(provider, clock=clock)

    async def verify(self, token: str, audiences: tuple[str, ...], /) -> Verified | None:
        """See `TokenOrigin.verify`."""
        meant = tuple(one for one in audiences if one in self._audiences)
        if not meant or jwts.unverified_issuer(token) != self._provider.issuer_url:
            return None
        key = await self._key(jwts.key_id(token))
        said = jwts.verified(token, key, algorithms=self._provider.signing_algorithms)
        jwts.check_times(said, now=self._clock.now(), leeway_s=_LEEWAY_S)
        if self._provider.client_id not in jwts.audiences(said):
            raise Rejected(f"the token is not for the client {self._provider.client_id}")
        return Verified(user=user(said, self._provider), audiences=meant)

    async def _key(self, key_id: str) -> Any:
        if key_id not in self._keys:
            await self._refresh(key_id)
        found = self._keys.get(key_id)
        if found is None:
            raise Rejected(f"the provider {self._provider.issuer_url} has no key {key_id!r}")
        return found

    async def _refresh(self, wanted: str) -> None:
        async with self._fetching:
            now = self._clock.monotonic()
            if wanted in self._keys or (self._fetched_at is not None and now - self._fetched_at < _NOT_AGAIN_S):
                return
            self._fetched_at = now
            try:
                self._keys = await self._fetch()
            except (ProviderAwayError, KeyError, TypeError, AttributeError) as error:
                # known keys stay valid while the provider cannot be reached
                log.warning("cannot fetch the OpenID provider's keys", issuer=self._provider.issuer_url, error=error)

    async def _fetch(self) -> dict[str, Any]:
        configuration = await self._site.configuration()
        keys = (await self._site.get(configuration["jwks_uri"]))["keys"]
        return {str(one.get("kid", "")): made for one in keys if (made := _public(one)) is not None}


def user(said: Claims, provider: Provider) -> User:
    """The user that a valid token's claims describe."""
    name = jwts.text(said, provider.username_claim)
    # a provider without this claim vouches for the address
    if provider.username_claim == "email" and said.get("email_verified", True) is not True:
        raise Rejected("the provider has not verified the mail address")
    for claim, value in provider.required_claims.items():
        if said.get(claim) != value:
            raise Rejected(f"the token lacks the claim {claim!r} with the required value")
    found = User(
        name=_prefix(provider) + name,
        groups=tuple(provider.groups_prefix + group for group in _groups(said, provider.groups_claim)),
    )
    # stricter than upstream: a provider cannot name the cluster's own administrators, nodes and service accounts
    if any(one.startswith(_RESERVED) for one in (found.name, *found.groups)):
        raise Rejected(f"the provider must not name users or groups that begin with {_RESERVED}")
    return found


def _prefix(provider: Provider) -> str:
    if provider.username_prefix == _NO_PREFIX:
        return ""
    if provider.username_prefix or provider.username_claim == "email":
        return provider.username_prefix
    return f"{provider.issuer_url}#"


def _groups(said: Claims, claim: str) -> list[str]:
    given = said.get(claim) if claim else None
    if given is None:
        return []
    groups = [given] if isinstance(given, str) else given
    if not isinstance(groups, list) or not all(isinstance(one, str) for one in groups):
        raise Rejected(f"the token's claim {claim!r} is no list of groups")
    return groups


def _public(key: Any) -> Any:
    """A key that can verify signatures; other keys are ignored."""
    if not isinstance(key, dict) or key.get("use", "sig") != "sig" or key.get("kty") not in {"RSA", "EC"}:
        return None
    try:
        return jwt.PyJWK(key).key
    except jwt.PyJWTError:
        return None
