"""One open tab: it subscribes to views and streams, and gets them over its WebSocket.

Messages of a tab are `{"subscribe": {"view": ..., "namespace": ...}}`, the same with `unsubscribe`, and those of
`streams`. A user needs the rights to list and watch what a view shows. Each subscription is opened by itself, so that
one view that cannot be read does not hold up the others. What cannot be asked or read now is asked again soon; a view
that is refused, or whose kind is absent, is asked for again whenever the rights are. A tab that reads too slowly does
not get deltas until it has caught up, and then begins anew.
"""

import asyncio
from collections import deque
from typing import Any, Final

import msgspec

from rota.api import errors
from rota.client.rights import in_words
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client
from rota.kit.clock import Clock
from rota.web import frames, reviews
from rota.web.answers import Receive, Send
from rota.web.feeds import Absent, Channel, Feeds
from rota.web.streams import Streams
from rota.web.views import catalog

#: More than this waits for a tab: it is slow.
MOST_WAITING_BYTES: Final = 8 * 1024 * 1024
#: With more than this, beginnings included, the page asks and does not read: its tab ends.
_MOST_QUEUED_BYTES: Final = 256 * 1024 * 1024
#: Streams pause while more than this waits.
_MOST_STREAMED_BYTES: Final = 1024 * 1024
_MOST_SUBSCRIPTIONS: Final = 32
_PING_S: Final = 25.0
#: When a server did not answer, or a collection could not be read, it is asked again.
_RETRY_S: Final = 2.0

_Key = tuple[str, str]


class _Subscription(msgspec.Struct, frozen=True):
    view: str
    namespace: str = ""


class _Stream(msgspec.Struct, frozen=True):
    number: int
    path: str


class _Asked(msgspec.Struct, frozen=True):
    subscribe: _Subscription | None = None
    unsubscribe: _Subscription | None = None
    open: _Stream | None = None
    end: int | None = None


class Tab:
    """One open page."""

    def __init__(self, feeds: Feeds, client: Client, send: Send, *, clock: Clock) -> None:
        self._feeds: Final = feeds
        self._client: Final = client
        self._send: Final = send
        self._clock: Final = clock
        self._followed: Final[dict[_Key, Channel]] = {}
        #: Views that are being opened.
        self._opening: Final[dict[_Key, asyncio.Task[None]]] = {}
        #: Views that the user may not see, or that the cluster does not have.
        self._denied: Final[set[_Key]] = set()
        self._streams: Final = Streams(client, self._stream, on_end=self._ended)
        #: The first unexpected error of a view or a stream.
        self._crash: Final[asyncio.Future[None]] = asyncio.get_running_loop().create_future()
        #: Frames, and how much of them counts as unread: beginnings do not, or a large one would begin anew forever.
        self._queue: Final[deque[tuple[bytes, int]]] = deque()
        self._waiting_bytes = 0
        self._queued_bytes = 0
        #: Channels whose deltas were left out; they begin anew.
        self._behind: Final[set[Channel]] = set()
        self._something: Final = asyncio.Event()
        self._room: Final = asyncio.Event()
        self._room.set()
        #: A last frame.
        self.farewell = b""

    def close(self) -> None:
        """Leave all channels, and end all streams."""
        self._crash.cancel()
        for opening in self._opening.values():
            opening.cancel()
        for channel in self._followed.values():
            channel.leave(self._push)
        self._followed.clear()
        self._streams.close()

    async def read(self, receive: Receive) -> None:
        """Act on what the page sends, until it ends."""
        reader = frames.Reader()
        while (message := await receive())["type"] != "http.disconnect":
            try:
                found = reader.feed(message["body"])
                for one in found:
                    if self._queued_bytes > _MOST_QUEUED_BYTES:
                        raise frames.ProtocolError(1008, "the page does not read what it asks for")
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
                        self._begin(channel)
                    continue
                frame, counted = self._queue.popleft()
                await self._send({"type": "http.response.body", "body": frame, "more_body": True})
                self._waiting_bytes -= counted
                self._queued_bytes -= len(frame)
                if self._waiting_bytes <= _MOST_STREAMED_BYTES:
                    self._room.set()

    async def keep_alive(self) -> None:
        """Ping, so that proxies keep the connection and a lost one is noticed."""
        while True:
            await self._clock.sleep(_PING_S)
            self._put(frames.encode(frames.PING, b""))

    async def crashed(self) -> None:
        """Raises what a view or a stream did not expect: the tab ends, and its page connects again."""
        await self._crash

    async def check_rights(self) -> None:
        """End the views that the user may no longer see, and open those that were denied and no longer are."""
        for key, channel in list(self._followed.items()):
            try:
                lacking = await reviews.missing(self._client, catalog.rights(catalog.VIEWS[key[0]], key[1]))
            except (errors.ApiError, TransportError) as problem:
                # What cannot be asked is not shown; opening it again asks until there is an answer.
                if self._left(key, channel):
                    self._tell(key, failed=str(problem))
                    self._open(key)
                continue
            if lacking and self._left(key, channel):
                self._denied.add(key)
                self._tell(key, refused=in_words(lacking))
        for key in self._denied - self._opening.keys():
            self._open(key)

    def _left(self, key: _Key, channel: Channel) -> bool:
        """Leave a channel, unless the page did so meanwhile."""
        if self._followed.get(key) is not channel:
            return False
        channel.leave(self._push)
        del self._followed[key]
        self._behind.discard(channel)
        return True

    async def _act(self, content: bytes) -> None:
        try:
            asked = msgspec.json.decode(content, type=_Asked)
        except msgspec.DecodeError:
            raise frames.ProtocolError(1007, "the message is not understood") from None
        if asked.subscribe is not None:
            self._subscribe((asked.subscribe.view, asked.subscribe.namespace))
        if asked.unsubscribe is not None:
            self._unsubscribe((asked.unsubscribe.view, asked.unsubscribe.namespace))
        if asked.open is not None:
            await self._streams.open(asked.open.number, asked.open.path)
        if asked.end is not None:
            self._streams.end(asked.end)

    def _subscribe(self, key: _Key) -> None:
        kind = catalog.VIEWS.get(key[0])
        known = self._followed.keys() | self._opening.keys() | self._denied
        if kind is None or (key[1] and not kind.namespaced):
            self._tell(key, failed="there is no such view")
        elif key not in known and len(known) >= _MOST_SUBSCRIPTIONS:
            self._tell(key, failed=f"a page has at most {_MOST_SUBSCRIPTIONS} views")
        elif key in self._denied or key not in known:
            # The page does not know yet that it is denied, or no longer does.
            self._unsubscribe(key)
            self._open(key)

    def _unsubscribe(self, key: _Key) -> None:
        self._denied.discard(key)
        if opening := self._opening.pop(key, None):
            opening.cancel()
        if channel := self._followed.get(key):
            self._left(key, channel)

    def _open(self, key: _Key) -> None:
        opening = asyncio.create_task(self._opened(key), name=f"view {key[0]} {key[1]}")
        self._opening[key] = opening

        def done(task: asyncio.Task[None]) -> None:
            if self._opening.get(key) is opening:
                del self._opening[key]
            self._ended(task)

        opening.add_done_callback(done)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None and not self._crash.done():
            self._crash.set_exception(error)

    async def _opened(self, key: _Key) -> None:
        """Open a view, as soon as it can be."""
        view, namespace = key
        told = ""
        while True:
            try:
                lacking = await reviews.missing(self._client, catalog.rights(catalog.VIEWS[view], namespace))
                if lacking:
                    return self._deny(key, refused=in_words(lacking))
                channel = await self._feeds.channel(view, namespace)
            except Absent as absent:
                return self._deny(key, absent=str(absent))
            except (errors.ApiError, TransportError) as problem:
                if told != str(problem):
                    told = str(problem)
                    self._tell(key, failed=told)
                await self._clock.sleep(_RETRY_S)
            else:
                self._denied.discard(key)
                self._followed[key] = channel
                channel.join(self._push)
                return self._begin(channel)

    def _deny(self, key: _Key, **why: str) -> None:
        if key not in self._denied:
            self._denied.add(key)
            self._tell(key, **why)

    async def _stream(self, message: dict[str, Any]) -> None:
        await self._room.wait()
        self._put(frames.encode(frames.TEXT, msgspec.json.encode(message)))

    def _push(self, channel: Channel, message: bytes) -> None:
        if channel in self._behind:
            return
        if self._waiting_bytes > MOST_WAITING_BYTES:
            self._behind.add(channel)
            self._something.set()
            return
        self._put(frames.encode(frames.TEXT, message))

    def _tell(self, key: _Key, **what: str) -> None:
        view, namespace = key
        self._put(frames.encode(frames.TEXT, msgspec.json.encode({"view": view, "namespace": namespace, **what})))

    def _begin(self, channel: Channel) -> None:
        for message in channel.beginning():
            self._put(frames.encode(frames.TEXT, message), counted=0)

    def _put(self, frame: bytes, *, counted: int | None = None) -> None:
        counted = len(frame) if counted is None else counted
        self._queue.append((frame, counted))
        self._waiting_bytes += counted
        self._queued_bytes += len(frame)
        if self._waiting_bytes > _MOST_STREAMED_BYTES:
            self._room.clear()
        self._something.set()
