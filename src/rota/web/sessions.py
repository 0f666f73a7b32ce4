"""Sessions of browsers, and the one-time tickets that begin them.

A session is a sealed cookie and a page key. Browsers send cookies to every port of a host, so a cookie alone proves
little on a machine with several servers; the page key is in the storage of one origin (scheme, host and port) and goes
in a header of its own. Neither is enough without the other. A session ends by itself, or when the user signs out.

A session has either a bearer token, which the API server verifies with every request, or the user that a ticket was
made for. Tickets are kept in memory by the master that made them. They are valid for a minute and for the first page
that redeems them: a page whose answer was lost, because it was left or the connection broke, asks once more with the
same page key.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from typing import Final

import msgspec

from rota.api.users import User
from rota.kit.clock import Clock
from rota.web.sealing import Seal

#: Host-only, over a secure connection only, and for all paths: browsers enforce it by the name.
COOKIE: Final = "__Host-rota-session"
#: The header of requests, and the prefix of a WebSocket's subprotocol, that carry the page key.
PAGE_KEY_HEADER: Final = b"x-rota-page-key"
PAGE_KEY_PROTOCOL: Final = "page-key.rota.dev."
LIFETIME_S: Final = 8 * 3600.0
TICKET_S: Final = 60.0
_MOST_TICKETS: Final = 1000
_MOST_ENDED: Final = 10_000
_PURPOSE: Final = b"session"
#: 32 random bytes, as pages and `secrets.token_urlsafe` write them.
_PAGE_KEY: Final = re.compile(r"[\w-]{43}", re.ASCII)


class SealedUser(msgspec.Struct, frozen=True, omit_defaults=True):
    """A user in a sealed session."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}

    def user(self) -> User:
        """The user of requests."""
        return User(name=self.name, uid=self.uid, groups=self.groups, extra=self.extra)


class Session(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of a cookie."""

    id: str
    expires_at: float
    #: SHA-256 of the page key.
    page_key: str
    user: SealedUser | None = None
    token: str = ""


class _Ticket(msgspec.Struct):
    until: float
    user: SealedUser
    #: SHA-256 of the key of the page that redeemed it; empty before.
    page_key: str = ""


class Sessions:
    """Begins, recognizes and ends sessions."""

    def __init__(self, seal: Seal, clock: Clock) -> None:
        self._seal: Final = seal
        self._clock: Final = clock
        #: Sessions that were ended here before their time.
        self._ended: Final[dict[str, float]] = {}
        self._tickets: Final[dict[str, _Ticket]] = {}

    def ticket(self, user: SealedUser) -> str:
        """A text that begins a session of the user, once."""
        now = self._clock.now()
        for old in [one for one, ticket in self._tickets.items() if ticket.until <= now]:
            del self._tickets[old]
        while len(self._tickets) >= _MOST_TICKETS:
            del self._tickets[next(iter(self._tickets))]
        made = secrets.token_urlsafe(32)
        self._tickets[digest(made)] = _Ticket(now + TICKET_S, user)
        return made

    def redeem(self, ticket: str, page_key: str) -> SealedUser | None:
        """The user of a ticket, which belongs to this page from now on; None if it is unknown, another's or too old."""
        found = self._tickets.get(digest(ticket))
        if found is None or found.until <= self._clock.now():
            return None
        found.page_key = found.page_key or digest(page_key)
        return found.user if hmac.compare_digest(found.page_key, digest(page_key)) else None

    def begin(self, page_key: str, *, user: SealedUser | None = None, token: str = "") -> str:
        """Begin a session of a page, for a user or with a token; the value for `Set-Cookie`."""
        return self.sealed(self.begun(page_key, user=user, token=token))

    def begun(self, page_key: str, *, user: SealedUser | None = None, token: str = "") -> Session:
        """A new session of a page, for a user or with a token."""
        return Session(
            id=secrets.token_urlsafe(16),
            expires_at=self._clock.now() + LIFETIME_S,
            page_key=digest(page_key),
            user=user,
            token=token,
        )

    def sealed(self, session: Session) -> str:
        """A session as the value for `Set-Cookie`."""
        return set_cookie(COOKIE, self._seal.seal(msgspec.json.encode(session), _PURPOSE))

    def find(self, headers: Mapping[bytes, bytes], page_key: str) -> Session | None:
        """The session of a request that carries its cookie and its page key; None if there is no valid one."""
        sealed = cookie(headers)
        raw = self._seal.open(sealed, _PURPOSE) if sealed else None
        if raw is None:
            return None
        session = msgspec.json.decode(raw, type=Session)
        if not hmac.compare_digest(session.page_key, digest(page_key)):
            return None
        return session if self.is_valid(session) else None

    def is_valid(self, session: Session) -> bool:
        """Whether a session that was found has not ended since."""
        return session.expires_at > self._clock.now() and session.id not in self._ended

    def end(self, session: Session) -> str:
        """End a session; the value for `Set-Cookie`."""
        now = self._clock.now()
        for old in [one for one, until in self._ended.items() if until <= now]:
            del self._ended[old]
        while len(self._ended) >= _MOST_ENDED:
            del self._ended[next(iter(self._ended))]
        self._ended[session.id] = session.expires_at
        return delete_cookie(COOKIE)


def is_page_key(text: str) -> bool:
    """Whether a page may have made it as its key."""
    return _PAGE_KEY.fullmatch(text) is not None


def set_cookie(name: str, value: str) -> str:
    """The value for `Set-Cookie` of a cookie for this host, for no script, and for no request from other sites."""
    return f"{name}={value}; Path=/; Secure; HttpOnly; SameSite=Strict"


def delete_cookie(name: str) -> str:
    """The value for `Set-Cookie` that deletes a cookie."""
    return f"{set_cookie(name, '')}; Max-Age=0"


def cookie(headers: Mapping[bytes, bytes], wanted: str = COOKIE) -> str:
    """A sealed cookie of a request; empty if it has none."""
    for pair in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        name, _, value = pair.strip().partition("=")
        if name == wanted:
            return value
    return ""


def page_key(headers: Mapping[bytes, bytes]) -> str:
    """The page key of a request: in its header, or among the subprotocols of a WebSocket; empty if it has none."""
    given = headers.get(PAGE_KEY_HEADER, b"").decode("latin-1")
    if given:
        return given
    for one in headers.get(b"sec-websocket-protocol", b"").decode("latin-1").split(","):
        if one.strip().startswith(PAGE_KEY_PROTOCOL):
            return one.strip().removeprefix(PAGE_KEY_PROTOCOL)
    return ""


def digest(text: str) -> str:
    """The SHA-256 of a text, as a session keeps it of a page key."""
    return hashlib.sha256(text.encode()).hexdigest()
