"""The WebSockets of open tabs: how many a user may have, and for how long their rights are taken as known.

The rights of a tab's user are asked at each subscription, again when roles change, and every few seconds. A view that
the user may no longer see ends at once, and a session that has ended closes its tabs. A WebSocket is no request of the
API server's flow control, so tabs are limited here; the requests that they cause are limited there, as those of their
user.
"""

import asyncio
import collections
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

from rota.client.verbs import Client
from rota.kit import logs
from rota.kit.clock import Clock
from rota.web import frames
from rota.web.answers import Receive, Send
from rota.web.application import Unanswered
from rota.web.feeds import Feeds
from rota.web.reviews import Roles
from rota.web.sessions import SealedUser, Session
from rota.web.tabs import Tab

log = logs.get(__name__)

#: How often rights are asked again without a reason; it also finds tokens that expired.
_AGAIN_S: Final = 20.0
#: After a change of roles: at once, and once more when every cache of the API server has followed.
_SETTLED_S: Final = 0.2
_SURELY_SETTLED_S: Final = 2.0
#: Open tabs of one user at one server, and of all users.
_MOST_TABS_OF_USER: Final = 64
_MOST_TABS: Final = 1000

UNAUTHORIZED: Final = 4401
TOO_MANY: Final = 4429


class LiveViews:
    """Serves the tabs of a server."""

    def __init__(
        self,
        feeds: Feeds,
        roles: Roles,
        *,
        client_of: Callable[[SealedUser], AbstractAsyncContextManager[Client]],
        who: Callable[[Session], Awaitable[SealedUser | None]],
        is_valid: Callable[[Session], bool],
        clock: Clock,
    ) -> None:
        self._feeds: Final = feeds
        self._roles: Final = roles
        self._client_of: Final = client_of
        self._who: Final = who
        self._is_valid: Final = is_valid
        self._clock: Final = clock
        #: Open tabs by user name.
        self._open: Final[collections.Counter[str]] = collections.Counter()

    async def serve(self, session: Session, user: SealedUser, receive: Receive, send: Send, /) -> None:
        """See `application.Live.serve`."""
        if self._open[user.name] >= _MOST_TABS_OF_USER or self._open.total() >= _MOST_TABS:
            why = "too many dashboards are open: close some"
            await send({"type": "http.response.body", "body": frames.closing(TOO_MANY, why), "more_body": True})
            return
        self._open[user.name] += 1
        try:
            await self._serve(session, user, receive, send)
        finally:
            self._open[user.name] -= 1
            if not self._open[user.name]:
                del self._open[user.name]

    async def _serve(self, session: Session, user: SealedUser, receive: Receive, send: Send) -> None:
        self._roles.start()
        async with self._client_of(user) as client:
            tab = Tab(self._feeds, client, send, clock=self._clock)
            works = (
                tab.read(receive),
                tab.write(),
                tab.keep_alive(),
                tab.crashed(),
                self._watch_rights(tab, session, user),
            )
            running = [asyncio.ensure_future(one) for one in works]
            try:
                await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in running:
                    one.cancel()
                outcomes = await asyncio.gather(*running, return_exceptions=True)
                tab.close()
            for outcome in outcomes:
                if isinstance(outcome, Exception) and not isinstance(outcome, OSError | frames.ProtocolError):
                    log.warning("a tab failed", error=repr(outcome))
            if tab.farewell:
                await send({"type": "http.response.body", "body": tab.farewell, "more_body": True})

    async def _watch_rights(self, tab: Tab, session: Session, user: SealedUser) -> None:
        with self._roles.changes() as changed:
            while True:
                pause = _AGAIN_S
                with contextlib.suppress(TimeoutError):
                    await self._clock.wait_for(changed.wait(), _AGAIN_S)
                    pause = _SETTLED_S
                changed.clear()
                if pause == _SETTLED_S:
                    await self._clock.sleep(_SETTLED_S)
                    await tab.check_rights()
                    await self._clock.sleep(_SURELY_SETTLED_S)
                if not self._is_valid(session) or not await self._is_still(session, user):
                    tab.farewell = frames.closing(UNAUTHORIZED, "the session has ended")
                    return
                await tab.check_rights()

    async def _is_still(self, session: Session, user: SealedUser) -> bool:
        try:
            return await self._who(session) == user
        except Unanswered:
            # The rights cannot be asked then, either: views end until they can, and the session does not.
            return True


@contextlib.asynccontextmanager
async def same_client(client: Client) -> AsyncIterator[Client]:
    """A client for every user: where all users are one."""
    yield client
