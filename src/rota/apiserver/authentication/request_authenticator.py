"""Authenticates a request by its client certificate, else by its bearer token, else as anonymous.

As upstream, invalid credentials are refused: a request with an unknown token is not anonymous. A certificate takes
precedence over a token; without a common name it is ignored.
"""

import hashlib
from dataclasses import replace
from typing import Final

from rota.api import errors, users
from rota.apiserver.authentication.certificates import CertificateHolders
from rota.apiserver.authentication.tokens import Outdated, Rejected, Tokens
from rota.apiserver.flow_control.authentication_gate import flow_of_address
from rota.apiserver.interfaces import Credentials, User
from rota.kit import logs
from rota.kit.clock import Clock

log = logs.get(__name__)

_BEARER: Final = "bearer"
#: An operator needs the metrics of a master whose store does not answer.
_METRICS: Final = "/metrics"
_TELL_EVERY_S: Final = 1.0


class RequestAuthenticator:
    """Implements the server's `Authenticator`."""

    def __init__(
        self, holders: CertificateHolders, tokens: Tokens, *, audiences: tuple[str, ...], clock: Clock
    ) -> None:
        """`audiences` are this server's."""
        self._holders: Final = holders
        self._tokens: Final = tokens
        self._audiences: Final = audiences
        self._clock: Final = clock
        self._told_at: float | None = None
        #: Refusals since the last one that was logged.
        self._unlogged = 0

    def recall(self, credentials: Credentials, /) -> User | None:
        """See `Authenticator.recall`."""
        if credentials.peer_certificate is not None:
            holder = self._holders.recall(credentials.peer_certificate)
            return None if holder is None else _authenticated(holder)
        token = bearer_token(credentials)
        if token is None:
            return users.ANONYMOUS
        known = self._tokens.recall(token, self._audiences)
        return None if known is None else _authenticated(known.user)

    def flow(self, credentials: Credentials, /) -> str:
        """See `Authenticator.flow`. Only credentials that were valid are told apart: a client can invent others."""
        if credentials.peer_certificate is not None:
            return f"certificate {hashlib.sha256(credentials.peer_certificate).hexdigest()}"
        token = bearer_token(credentials)
        if token is not None and (digest := self._tokens.known_digest(token, self._audiences)):
            return f"token {digest}"
        return flow_of_address(credentials.address)

    async def authenticate(self, credentials: Credentials, /) -> User:
        """See `Authenticator.authenticate`."""
        try:
            user = await self._identified(credentials)
        except Rejected as reason:
            self._tell(reason, credentials.address)
            why = f"Unauthorized: {reason}" if isinstance(reason, Outdated) else "Unauthorized"
            raise errors.unauthorized(why) from None
        return users.ANONYMOUS if user is None else _authenticated(user)

    def _tell(self, reason: Rejected, address: str) -> None:
        """Log a refusal, unless one was logged a moment ago: guessing tokens must not fill a disk."""
        now = self._clock.monotonic()
        if self._told_at is not None and now - self._told_at < _TELL_EVERY_S:
            self._unlogged += 1
            return
        log.warning("credentials refused", why=str(reason), client=address, refusals_not_logged=self._unlogged)
        self._told_at, self._unlogged = now, 0

    async def _identified(self, credentials: Credentials) -> User | None:
        flaw: Rejected | None = None
        if credentials.peer_certificate is not None:
            try:
                holder = await self._holders.user(credentials.peer_certificate)
            except Rejected as reason:
                flaw = reason
            else:
                if holder is not None:
                    return holder
        token = bearer_token(credentials)
        if token is not None:
            reads_metrics = credentials.path == _METRICS
            return (await self._tokens.verify(token, self._audiences, outlives_store=reads_metrics)).user
        if flaw is not None:
            raise flaw
        return None


def bearer_token(credentials: Credentials) -> str | None:
    """The bearer token of a request, if it has one."""
    scheme, _, token = credentials.headers.get(b"authorization", b"").decode("latin-1").strip().partition(" ")
    return token.partition(" ")[0] or None if scheme.lower() == _BEARER else None


def _authenticated(user: User) -> User:
    """The user with the group of authenticated users."""
    if users.AUTHENTICATED in user.groups or users.UNAUTHENTICATED in user.groups:
        return user
    return replace(user, groups=(*user.groups, users.AUTHENTICATED))
