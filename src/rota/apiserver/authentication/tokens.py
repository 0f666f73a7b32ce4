"""The interface of each origin of bearer tokens, and all origins combined."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from rota.apiserver.interfaces import User
from rota.kit.clock import Clock
from rota.store import errors as store_errors

#: How long a valid token is cached, and so how long it outlives the objects it is bound to; upstream's value.
REMEMBERED_S: Final = 10.0
_MOST_REMEMBERED: Final = 4096
#: For requests that a token may make without the store: how long the store may take to confirm a token that was valid
#: before, and how long such a token is accepted while the store does not answer.
_PATIENCE_S: Final = 1.0
_OUTAGE_S: Final = 3600.0


class Rejected(Exception):
    """The token is of this origin and invalid; the text is for the log, not for the client."""


class Outdated(Rejected):
    """The credential was valid once, or will be; the client gets the text too, because it has to renew it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """A valid token."""

    user: User
    #: Those of the wanted audiences that the token is for.
    audiences: tuple[str, ...]
    #: When it expires; None if only its origin knows.
    expires_at: float | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    """A token that was valid."""

    verified: Verified
    #: By the monotonic clock: when its origin confirmed it, and until when it is not asked again.
    confirmed_at: float
    until: float


class TokenOrigin(Protocol):
    """One kind of bearer tokens."""

    async def verify(self, token: str, audiences: tuple[str, ...], /) -> Verified | None:
        """The user of a token for at least one of these audiences; None if it is of another origin; raises Rejected."""
        ...


class Tokens:
    """All origins, tried in turn. Valid tokens are cached for a moment, by their digest."""

    def __init__(self, origins: Sequence[TokenOrigin], *, clock: Clock) -> None:
        self._origins: Final = tuple(origins)
        self._clock: Final = clock
        self._good: Final[dict[tuple[bytes, tuple[str, ...]], _Known]] = {}

    async def verify(self, token: str, audiences: tuple[str, ...], /, *, outlives_store: bool = False) -> Verified:
        """The user of a token; Rejected, with the reason of each origin, if no origin accepts it.

        With `outlives_store` a token that was valid is accepted while the store does not answer. It may have been
        revoked through another master meanwhile, so this is for requests that change nothing and read no objects.
        """
        key = _key(token, audiences)
        known = self.recall(token, audiences)
        if known is not None:
            return known
        former = self._good.get(key)
        confirmed_at = self._clock.monotonic()
        try:
            if outlives_store and former is not None and self._outlives(former):
                try:
                    found = await self._clock.wait_for(self._ask(token, audiences), _PATIENCE_S)
                except (TimeoutError, store_errors.Unavailable):
                    # Not cached: other requests with the token have to wait for the store.
                    return former.verified
            else:
                found = await self._ask(token, audiences)
        except Rejected:
            self._good.pop(key, None)
            raise
        self._good.pop(key, None)
        while len(self._good) >= _MOST_REMEMBERED:
            del self._good[next(iter(self._good))]
        self._good[key] = _Known(found, confirmed_at, self._clock.monotonic() + REMEMBERED_S)
        return found

    def _outlives(self, known: _Known) -> bool:
        """Whether a token stays valid if the store does not answer."""
        expires_at = known.verified.expires_at
        return (
            expires_at is not None
            and self._clock.now() < expires_at
            and self._clock.monotonic() < known.confirmed_at + _OUTAGE_S
        )

    def recall(self, token: str, audiences: tuple[str, ...]) -> Verified | None:
        """The user of a token that was valid a moment ago."""
        known = self._good.get(_key(token, audiences))
        return known.verified if known is not None and self._clock.monotonic() < known.until else None

    def known_digest(self, token: str, audiences: tuple[str, ...]) -> str:
        """The digest of a token that was valid when it was last verified; empty for others."""
        key = _key(token, audiences)
        return key[0].hex() if key in self._good else ""

    async def _ask(self, token: str, audiences: tuple[str, ...]) -> Verified:
        reasons: list[str] = []
        for origin in self._origins:
            try:
                found = await origin.verify(token, audiences)
            except Rejected as reason:
                reasons.append(str(reason))
                continue
            if found is not None:
                return found
        raise Rejected("; ".join(reasons) or "no origin knows the token")


def _key(token: str, audiences: tuple[str, ...]) -> tuple[bytes, tuple[str, ...]]:
    return hashlib.sha256(token.encode()).digest(), audiences
