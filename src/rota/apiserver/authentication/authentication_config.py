"""All authentication methods of one server."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rota.api.identifiers import GroupResource
from rota.apiserver.authentication.account_tokens import ACCOUNTS, DEFAULT_ISSUER, AccountTokens, Signer
from rota.apiserver.authentication.bootstrap_tokens import BootstrapTokens
from rota.apiserver.authentication.certificates import CertificateHolders
from rota.apiserver.authentication.issuer import IssuerPages
from rota.apiserver.authentication.oidc import OidcTokens
from rota.apiserver.authentication.oidc_provider import Provider
from rota.apiserver.authentication.removals import Removals
from rota.apiserver.authentication.request_authenticator import RequestAuthenticator
from rota.apiserver.authentication.reviews import SELF_REVIEWS, TOKEN_REVIEWS, SelfReviews, TokenReviews
from rota.apiserver.authentication.static_tokens import StaticTokens
from rota.apiserver.authentication.token_requests import TokenRequests
from rota.apiserver.authentication.token_subjects import TokenSubjects
from rota.apiserver.authentication.tokens import TokenOrigin, Tokens
from rota.apiserver.interfaces import SubresourceHandler, User
from rota.kit.clock import Clock
from rota.pki import keys
from rota.pki.keys import PrivateKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Which credentials are accepted."""

    #: The key that signs service account tokens: the same for all servers of a store.
    signing_key: PrivateKey = field(default_factory=keys.generate, repr=False)
    issuer: str = DEFAULT_ISSUER
    #: The audiences of this server; the issuer if none is given.
    audiences: tuple[str, ...] = ()
    static_tokens: Mapping[str, User] = field(default_factory=dict, repr=False)
    providers: tuple[Provider, ...] = ()


class AuthenticationConfig:
    """The authenticator, the handlers of reviews and token requests, and the issuer's pages of a server."""

    def __init__(
        self, settings: Settings, directory: TokenSubjects, *, clock: Clock, removals: Removals | None = None
    ) -> None:
        audiences = settings.audiences or (settings.issuer,)
        signer = Signer(settings.signing_key, issuer=settings.issuer)
        origins: list[TokenOrigin] = [
            StaticTokens(settings.static_tokens, audiences=audiences),
            AccountTokens(signer, directory, clock=clock),
            BootstrapTokens(directory, audiences=audiences, clock=clock),
        ]
        origins += (OidcTokens(one, audiences=audiences, clock=clock) for one in settings.providers)
        tokens = Tokens(origins, clock=clock)
        holders = CertificateHolders(clock, removals)
        self.authenticator: Final = RequestAuthenticator(holders, tokens, audiences=audiences, clock=clock)
        self.handlers: Final[Mapping[tuple[GroupResource, str], SubresourceHandler]] = {
            (ACCOUNTS, "token"): TokenRequests(signer, audiences=audiences),
            (TOKEN_REVIEWS, ""): TokenReviews(tokens, audiences=audiences),
            (SELF_REVIEWS, ""): SelfReviews(),
        }
        self.page: Final = IssuerPages(signer).page
