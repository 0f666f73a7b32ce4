"""Feeds: each collection is watched once, reduced once per view, and encoded once for all tabs.

A channel is a view of one namespace or of all. Its deltas are made at most once in its interval, as one message that
every tab of the channel gets. Collections are read with the rights of the dashboard itself; `tabs` asks for the user's.
Channels are opened independently: one whose collection cannot be read holds up no other.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import msgspec

from rota.api import errors
from rota.client import paths
from rota.client.informers.cache import Key
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source
from rota.client.transports.transport import TimedOut
from rota.client.verbs import Client
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.tasks import Supervisor
from rota.web.views import catalog
from rota.web.views.view import View

#: How long a tab waits for the first list of a collection before it says so and asks again.
_FIRST_LIST_S: Final = 15.0
#: How long a channel without tabs is kept: a page that is loaded again finds it.
_KEPT_S: Final = 30.0

Push = Callable[["Channel", bytes], None]


class Absent(Exception):
    """The cluster does not have a kind that the view reads."""


class Channel:
    """A view with its tabs."""

    def __init__(self, name: str, namespace: str, kind: catalog.ViewKind, clock: Clock) -> None:
        self.name: Final = name
        self.namespace: Final = namespace
        self.kind: Final = kind
        self._view: Final[View] = kind.make(namespace)
        self._clock: Final = clock
        self._tabs: Final[set[Push]] = set()
        self._changed: Final = asyncio.Event()
        self.left_at = clock.monotonic()

    @property
    def tabs(self) -> int:
        """How many tabs follow it."""
        return len(self._tabs)

    def apply(self, collection: str, key: Key, old: Any, new: Any) -> None:
        """An object changed."""
        self._view.apply(collection, key, old, new, self._clock.now())
        self._changed.set()

    def settle(self) -> None:
        """What the view has now is its beginning, and no change."""
        self._view.delta(self._clock.now())
        self._changed.clear()

    def join(self, push: Push) -> None:
        """A tab gets every delta from here on; it takes the beginning by itself."""
        self._tabs.add(push)

    def leave(self, push: Push) -> None:
        """A tab gets no more."""
        self._tabs.discard(push)
        self.left_at = self._clock.monotonic()

    def beginning(self) -> list[bytes]:
        """The messages with everything. Changes that the next delta repeats do no harm."""
        portions = self._view.begin()
        last = len(portions) - 1
        return [
            self._message("more" if number else "begin", portion, complete=number == last)
            for number, portion in enumerate(portions)
        ]

    async def run(self) -> None:
        """Send deltas until cancelled."""
        while True:
            if self.kind.kept:  # its figures go on while nothing changes
                await self._clock.sleep(self.kind.every_s)
            else:
                await self._changed.wait()
                self._changed.clear()
            told = self._view.delta(self._clock.now())
            if told is not None and self._tabs:
                message = self._message("delta", told)
                for push in tuple(self._tabs):
                    push(self, message)
            if not self.kind.kept:
                await self._clock.sleep(self.kind.every_s)

    def _message(self, what: str, content: object, **more: bool) -> bytes:
        return msgspec.json.encode({"view": self.name, "namespace": self.namespace, **more, what: content})


class Feeds:
    """The watched collections and the channels on them."""

    def __init__(self, client: Client, supervisor: Supervisor, *, clock: Clock, rng: Rng) -> None:
        self._client: Final = client
        self._supervisor: Final = supervisor
        self._clock: Final = clock
        self._rng: Final = rng
        self._informers: Final[dict[str, Informer[Any]]] = {}
        self._channels: Final[dict[tuple[str, str], Channel]] = {}
        self._handlers: Final[dict[Channel, list[Callable[[], None]]]] = {}
        #: What is being opened, with the number of tabs that wait for it.
        self._locks: Final[dict[object, tuple[asyncio.Lock, int]]] = {}
        self._numbers: Final = itertools.count()
        self._tasks: Final[dict[Channel, str]] = {}

    async def channel(self, name: str, namespace: str) -> Channel:
        """The channel of a view, which is read first if it is new; Absent if its kinds are not there.

        TransportError if a collection cannot be read in time.
        """
        await self._forget_unused()
        async with self._alone((name, namespace)):
            found = self._channels.get((name, namespace))
            if found is None:
                found = await self._open(name, namespace)
            return found

    async def _open(self, name: str, namespace: str) -> Channel:
        kind = catalog.VIEWS[name]
        informers = [(one, await self._informer(one)) for one in kind.collections]
        for one, informer in informers:
            try:
                await self._clock.wait_for(informer.wait_synced(), _FIRST_LIST_S)
            except TimeoutError:
                raise TimedOut(f"{one} are not read yet: the API server does not list them") from None
        channel = Channel(name, namespace, kind, self._clock)

        def handler(collection: str) -> Callable[[Key, Any, Any], None]:
            return lambda key, old, new: channel.apply(collection, key, old, new)

        self._handlers[channel] = [informer.add_handler(handler(one)) for one, informer in informers]
        channel.settle()
        self._channels[name, namespace] = channel
        # A channel of the same name may still be ending.
        self._tasks[channel] = f"view {name} {namespace} {next(self._numbers)}"
        self._supervisor.start(self._tasks[channel], channel.run)
        return channel

    async def _informer(self, collection: str) -> Informer[Any]:
        async with self._alone(collection):
            known = self._informers.get(collection)
            return known if known is not None else await self._read(collection)

    async def _read(self, collection: str) -> Informer[Any]:
        one = catalog.COLLECTIONS[collection]
        try:
            await self._client.request("GET", paths.collection(one.target), query=[("limit", "1")])
        except errors.NotFound as missing:
            raise Absent(f"{one.target[2]}.{one.target[0]}") from missing

        def decode(raw: bytes) -> Any:
            return one.read(msgspec.json.decode(raw))

        made = Informer[Any](
            Source(client=self._client, target=one.target), decode=decode, clock=self._clock, rng=self._rng
        )
        self._informers[collection] = made
        self._supervisor.start(f"feed {collection}", made.run)
        return made

    async def _forget_unused(self) -> None:
        now = self._clock.monotonic()
        unused = [
            (key, one)
            for key, one in self._channels.items()
            if not one.tabs and not one.kind.kept and now - one.left_at > _KEPT_S
        ]
        # All of them are forgotten before anything is awaited: other tabs come here meanwhile.
        for key, one in unused:
            del self._channels[key]
            for end in self._handlers.pop(one):
                end()
        for _, one in unused:
            await self._supervisor.stop(self._tasks.pop(one))

    @contextlib.asynccontextmanager
    async def _alone(self, what: object) -> AsyncIterator[None]:
        """One at a time for each channel and each collection."""
        lock, waiting = self._locks.get(what, (asyncio.Lock(), 0))
        self._locks[what] = (lock, waiting + 1)
        try:
            async with lock:
                yield
        finally:
            lock, waiting = self._locks[what]
            if waiting > 1:
                self._locks[what] = (lock, waiting - 1)
            else:
                del self._locks[what]
