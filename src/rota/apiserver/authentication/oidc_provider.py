"""An OpenID Connect provider: its settings, and requests to it.

Every request goes to an https address whose certificate the provider's authority verifies, takes a limited time,
follows no redirection, and reads a limited answer.
"""

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp

from rota.kit import bodies, errors
from rota.kit.clock import Clock

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512")
_WELL_KNOWN: Final = "/.well-known/openid-configuration"
_REQUEST_S: Final = 10.0
_MOST_BYTES: Final = 1024 * 1024


class ProviderError(errors.UserError):
    """A provider's settings are invalid."""


class ProviderAwayError(Exception):
    """A provider did not answer, or its answer is not one of a provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """The issuer whose tokens are accepted, and the claims that name the user. The settings are upstream's
    `--oidc-*`.
    """

    issuer_url: str
    client_id: str
    username_claim: str = "sub"
    #: Empty: the issuer and `#` before claims that are not a mail address; `-` for none.
    username_prefix: str = ""
    groups_claim: str = ""
    groups_prefix: str = ""
    required_claims: Mapping[str, str] = field(default_factory=dict)
    signing_algorithms: tuple[str, ...] = ("RS256",)
    #: CA bundle (PEM) that verifies the provider; the system's authorities otherwise.
    certificate_authority: bytes | None = None

    def __post_init__(self) -> None:
        if not self.issuer_url.startswith("https://"):
            raise ProviderError(
                f"the issuer {self.issuer_url} has no https address", "write it like https://id.example"
            )
        if not self.client_id:
            raise ProviderError("the OpenID client id is missing", "name the client that the tokens are issued for")
        unknown = sorted(set(self.signing_algorithms) - set(ALGORITHMS))
        if unknown or not self.signing_algorithms:
            raise ProviderError(
                f"{', '.join(unknown) or 'nothing'} is no algorithm that tokens may be signed with",
                f"choose from {', '.join(ALGORITHMS)}",
            )


class ProviderSite:
    """The addresses of one provider, as a client sees them."""

    def __init__(self, provider: Provider, *, clock: Clock) -> None:
        self._issuer_url: Final = provider.issuer_url
        self._clock: Final = clock
        self._tls: Final = _tls(provider)

    async def configuration(self) -> dict[str, Any]:
        """What the provider publishes about itself; ProviderAwayError if it speaks for another issuer."""
        address = self._issuer_url.rstrip("/") + _WELL_KNOWN
        found = await self.get(address)
        if found.get("issuer") != self._issuer_url:
            raise ProviderAwayError(f"{address} speaks for another issuer, {found.get('issuer')!r}")
        return found

    async def get(self, address: str) -> dict[str, Any]:
        """The object at an address."""
        code, found = await self._request("GET", address, None)
        if code != 200:
            raise ProviderAwayError(f"{address} answers {code}")
        return found

    async def post(self, address: str, form: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        """Send a form; the status of the answer, and its object."""
        return await self._request("POST", address, form)

    async def _request(self, method: str, address: str, form: Mapping[str, str] | None) -> tuple[int, dict[str, Any]]:
        if not address.startswith("https://"):
            raise ProviderAwayError(f"{address} is no https address")
        try:
            return await self._clock.wait_for(self._sent(method, address, form), _REQUEST_S)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise ProviderAwayError(f"{address}: {str(error) or type(error).__name__}") from error

    async def _sent(self, method: str, address: str, form: Mapping[str, str] | None) -> tuple[int, dict[str, Any]]:
        connector = aiohttp.TCPConnector(ssl=self._tls)
        async with (
            aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.request(
                method, address, data=form, allow_redirects=False, headers={"Accept": "application/json"}
            ) as answer,
        ):
            body = await bodies.read(answer.content, _MOST_BYTES)
        # an answer without a body is one of a revocation
        found = json.loads(body) if body.strip() else {}
        if not isinstance(found, dict):
            raise ValueError("the answer is no object")
        return answer.status, found


def _tls(provider: Provider) -> ssl.SSLContext:
    authorities = provider.certificate_authority
    try:
        return ssl.create_default_context(cadata=None if authorities is None else authorities.decode())
    except (ssl.SSLError, UnicodeDecodeError, ValueError) as error:
        raise ProviderError(
            f"the certificate authority of {provider.issuer_url} cannot be read: {error}", "provide a PEM file"
        ) from None
