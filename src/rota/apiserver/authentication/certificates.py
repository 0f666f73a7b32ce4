"""Client certificates: the common name is the user, organizations are its groups.

The TLS handshake verified the certificate's authority. A connection may outlast the certificate, so its validity period
is checked with every request, and whether its worker was removed since.
"""

from typing import Final

from rota.api import times, users
from rota.apiserver.authentication.removals import NODE_PREFIX, Removals
from rota.apiserver.authentication.tokens import Outdated, Rejected
from rota.apiserver.interfaces import User
from rota.kit.clock import Clock
from rota.pki import certificates
from rota.pki.certificates import Facts

CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
_MOST_REMEMBERED: Final = 4096


class CertificateHolders:
    """The users of certificates; each certificate is parsed once."""

    def __init__(self, clock: Clock, removals: Removals | None = None) -> None:
        self._clock: Final = clock
        self._removals: Final = removals
        self._known: Final[dict[bytes, tuple[Facts, User | None]]] = {}

    async def user(self, der: bytes) -> User | None:
        """The user of a certificate; None if it names none; Rejected if it is not valid now or its node was removed."""
        facts, user = self._known.get(der) or self._learn(der)
        now = self._clock.now()
        if not facts.holds_at(now):
            raise Outdated(_validity(facts, now))
        name = facts.subject.common_name
        if self._removals is not None and name.startswith(NODE_PREFIX):
            removed_at = await self._removals.last(name.removeprefix(NODE_PREFIX))
            if facts.issued_at <= removed_at:
                raise Rejected(f"the worker of {name!r} was removed after its certificate was issued")
        return user

    def recall(self, der: bytes) -> User | None:
        """The user of a certificate that is known to be valid now without a look at the store."""
        known = self._known.get(der)
        if known is None or not known[0].holds_at(self._clock.now()):
            return None
        name = known[0].subject.common_name
        if self._removals is not None and name.startswith(NODE_PREFIX):
            removed_at = self._removals.recall(name.removeprefix(NODE_PREFIX))
            if removed_at is None or known[0].issued_at <= removed_at:
                return None
        return known[1]

    def _learn(self, der: bytes) -> tuple[Facts, User | None]:
        try:
            facts = certificates.facts(certificates.read_der(der))
        except ValueError as error:
            raise Rejected(f"the certificate cannot be read: {error}") from None
        while len(self._known) >= _MOST_REMEMBERED:
            del self._known[next(iter(self._known))]
        found = self._known[der] = facts, _user(facts)
        return found


def _validity(facts: Facts, now: float) -> str:
    """Why a certificate is not valid now, for the client."""
    whose = f"the client certificate of {facts.subject.common_name}"
    if now < facts.not_before:
        return f"{whose} is not valid before {times.format_time(facts.not_before)}; are the clocks right?"
    return f"{whose} expired at {times.format_time(facts.not_after)}; get a new kubeconfig"


def _user(facts: Facts) -> User | None:
    if not facts.subject.common_name:
        return None
    groups = facts.subject.organizations
    if users.AUTHENTICATED not in groups and users.UNAUTHENTICATED not in groups:
        groups = (*groups, users.AUTHENTICATED)
    return User(
        name=facts.subject.common_name,
        groups=groups,
        extra={CREDENTIAL_ID: (f"X509SHA256={facts.fingerprint}",)},
    )
