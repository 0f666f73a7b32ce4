"""The WebSocket of an open tab: it subscribes to views, and gets their beginning and their changes.

Messages of a tab are `{"subscribe": {"view": ..., "namespace": ...}}` and the same with `unsubscribe`. A user needs the
rights to list and watch what a view shows. They are asked at each subscription, again when roles change, and every few
seconds; a view that the user may no longer see ends at once. Whatever cannot be asked is refused. A tab that reads too
slowly does not get deltas until it has caught up, and then begins anew.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import msgspec

from rota.api import errors
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source
from rota.client.rights import Right, in_words
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.tasks import Supervisor
from rota.web import frames
from rota.web.application import Receive, Send
from rota.web.feeds import Absent, Channel, Feeds
from rota.web.sessions import SealedUser, Session
from rota.web.views import catalog

log = logs.get(__name__)

_REVIEWS: Final = ("authorization.k8s.io", "v1", "selfsubjectaccessreviews")
_ROLES: Final = tuple(
    ("rbac.authorization.k8s.io", "v1", plural)
    for plural in ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
)
#: How often rights are asked again without a reason; it also finds tokens that expired.
_AGAIN_S: Final = 20.0
#: After a change of roles: at once, and once more when every cache of the API server has followed.
_SETTLED_S: Final = 0.2
_SURELY_SETTLED_S: Final = 2.0
#: More than this waits for a tab: it is slow.
_MOST_WAITING_BYTES: Final = 8 * 1024 * 1024
_MOST_SUBSCRIPTIONS: Final = 32
_PING_S: Final = 25.0

UNAUTHORIZED: Final = 4401


class _Subscription(msgspec.Struct, frozen=True):
    view: str
    namespace: str = ""


class _Asked(msgspec.Struct, frozen=True):
    subscribe: _Subscription | None = None
    unsubscribe: _Subscription | None = None


class Roles:
    """Tells when roles or their bindings change, as far as the dashboard may see them."""

    def __init__(self, client: Client, supervisor: Supervisor, *, clock: Clock, rng: Rng) -> None:
        self._client: Final = client
        self._supervisor: Final = supervisor
        self._clock: Final = clock
        self._rng: Final = rng
        self._waiting: Final[set[asyncio.Event]] = set()
        self._started = False

    async def start(self) -> None:
        """Watch, once."""
        if self._started:
            return
        self._started = True
        for target in _ROLES:
            rights = (Right(verb=verb, group=target[0], resource=target[2]) for verb in ("list", "watch"))
            if await missing(self._client, rights):
                continue
            informer = Informer[None](
                Source(client=self._client, target=target), decode=lambda _: None, clock=self._clock, rng=self._rng
            )
            informer.add_handler(lambda key, old, new: self._changed())
            self._supervisor.start(f"feed {target[2]}", informer.run)

    @contextlib.contextmanager
    def changes(self) -> Any:
        """An event that is set at every change."""
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            yield event
        finally:
            self._waiting.discard(event)

    def _changed(self) -> None:
        for one in self._waiting:
            one.set()


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

    async def serve(self, session: Session, user: SealedUser, receive: Receive, send: Send, /) -> None:
        """See `application.Live.serve`."""
        await self._roles.start()
        async with self._client_of(user) as client:
            tab = _Tab(self._feeds, client, send, clock=self._clock)
            works = (
                tab.read(receive),
                tab.write(),
                tab.keep_alive(),
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

    async def _watch_rights(self, tab: "_Tab", session: Session, user: SealedUser) -> None:
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
                if not self._is_valid(session) or await self._who(session) != user:
                    tab.farewell = frames.closing(UNAUTHORIZED, "the session has ended")
                    return
                await tab.check_rights()


class _Tab:
    """One open page."""

    def __init__(self, feeds: Feeds, client: Client, send: Send, *, clock: Clock) -> None:
        self._feeds: Final = feeds
        self._client: Final = client
        self._send: Final = send
        self._clock: Final = clock
        self._followed: Final[dict[tuple[str, str], Channel]] = {}
        self._queue: Final[deque[bytes]] = deque()
        self._waiting_bytes = 0
        #: Channels whose deltas were left out; they begin anew.
        self._behind: Final[set[Channel]] = set()
        self._something: Final = asyncio.Event()
        #: A last frame.
        self.farewell = b""

    def close(self) -> None:
        """Leave all channels."""
        for channel in self._followed.values():
            channel.leave(self._push)
        self._followed.clear()

    async def read(self, receive: Receive) -> None:
        """Act on what the page sends, until it ends."""
        reader = frames.Reader()
        while (message := await receive())["type"] != "http.disconnect":
            try:
                found = reader.feed(message["body"])
                for one in found:
                    if one.kind == frames.CLOSE:
                        self.farewell = frames.closing(1000, "")
                        return
                    if one.kind == frames.PING:
                        self._put(frames.encode(frames.PONG, one.content))
                    elif one.kind != frames.PONG:
                        await self._act(one.content)
            except frames.ProtocolError as error:
                self.farewell = frames.closing(error.code, str(error))
                return

    async def write(self) -> None:
        """Send what waits; when nothing does, channels that fell behind begin anew."""
        while True:
            await self._something.wait()
            self._something.clear()
            while self._queue or self._behind:
                if not self._queue:
                    channel = self._behind.pop()
                    if self._followed.get((channel.name, channel.namespace)) is channel:
                        self._put(frames.encode(frames.TEXT, channel.beginning()))
                    continue
                frame = self._queue.popleft()
                await self._send({"type": "http.response.body", "body": frame, "more_body": True})
                self._waiting_bytes -= len(frame)

    async def keep_alive(self) -> None:
        """Ping, so that proxies keep the connection and a lost one is noticed."""
        while True:
            await self._clock.sleep(_PING_S)
            self._put(frames.encode(frames.PING, b""))

    async def check_rights(self) -> None:
        """End the views that the user may no longer see."""
        for (view, namespace), channel in list(self._followed.items()):
            lacking = await missing(self._client, catalog.rights(catalog.VIEWS[view], namespace))
            if lacking:
                channel.leave(self._push)
                self._followed.pop((view, namespace), None)
                self._behind.discard(channel)
                self._tell(view, namespace, refused=in_words(lacking))

    async def _act(self, content: bytes) -> None:
        try:
            asked = msgspec.json.decode(content, type=_Asked)
        except msgspec.DecodeError:
            raise frames.ProtocolError(1007, "the message is not understood") from None
        if asked.subscribe is not None:
            await self._subscribe(asked.subscribe.view, asked.subscribe.namespace)
        if asked.unsubscribe is not None:
            channel = self._followed.pop((asked.unsubscribe.view, asked.unsubscribe.namespace), None)
            if channel is not None:
                channel.leave(self._push)

    async def _subscribe(self, view: str, namespace: str) -> None:
        kind = catalog.VIEWS.get(view)
        if kind is None or (namespace and not kind.namespaced) or len(self._followed) >= _MOST_SUBSCRIPTIONS:
            self._tell(view, namespace, failed="there is no such view")
            return
        if (view, namespace) in self._followed:
            return
        lacking = await missing(self._client, catalog.rights(kind, namespace))
        if lacking:
            self._tell(view, namespace, refused=in_words(lacking))
            return
        try:
            channel = await self._feeds.channel(view, namespace)
        except Absent as absent:
            self._tell(view, namespace, absent=str(absent))
            return
        except (errors.ApiError, TransportError) as problem:
            self._tell(view, namespace, failed=str(problem))
            return
        self._followed[view, namespace] = channel
        channel.join(self._push)

    def _push(self, channel: Channel, message: bytes) -> None:
        if channel in self._behind:
            return
        if self._waiting_bytes > _MOST_WAITING_BYTES:
            self._behind.add(channel)
            self._something.set()
            return
        self._put(frames.encode(frames.TEXT, message))

    def _tell(self, view: str, namespace: str, **what: str) -> None:
        self._put(frames.encode(frames.TEXT, msgspec.json.encode({"view": view, "namespace": namespace, **what})))

    def _put(self, frame: bytes) -> None:
        self._queue.append(frame)
        self._waiting_bytes += len(frame)
        self._something.set()


async def missing(client: Client, rights: Any) -> list[Right]:
    """The rights that a user lacks. What the server does not answer counts as lacking."""

    async def lacks(right: Right) -> bool:
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": right.attributes()},
        }
        try:
            answer = await client.create(_REVIEWS, review)
        except (errors.ApiError, TransportError):
            return True
        return not (answer.get("status") or {}).get("allowed")

    wanted = list(rights)
    return [one for one, lacking in zip(wanted, await asyncio.gather(*map(lacks, wanted)), strict=True) if lacking]


@contextlib.asynccontextmanager
async def same_client(client: Client) -> AsyncIterator[Client]:
    """A client for every user: where all users are one."""
    yield client
