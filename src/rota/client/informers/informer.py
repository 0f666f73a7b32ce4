"""An informer: a local, read-only copy of a collection, with a callback for every change.

    pods = Informer(source, decode=codec.decode, clock=clock, rng=rng, indexers={"node": cache.by_node})
    pods.add_handler(lambda key, old, new: queue.add(key))
    supervisor.start("pods", pods.run)
    await pods.wait_synced()

Handlers are called right after the cache has changed, in order, once per change: the cache is in the state that the
handler gets. They must be fast and not wait; usually they put a key into a work queue. A component with a faster way to
load very many objects adds a `first` handler, which gets the initial list as a whole. `decode` decides what is kept of
an object and so the memory of a large collection: bytes take a quarter of dicts (150,000 pods of 2 kB: 0.4 GB against
1.6), selected fields the least.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, Generic, TypeAlias, TypeVar

from rota.client import paths
from rota.client.informers import reflector
from rota.client.informers.cache import Cache, Change, Entry, Indexer, Key, WritableCache, parse_version
from rota.client.informers.reflector import Identity, Reason, Reflector, Source
from rota.client.wire import EventType
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

log = logs.get(__name__)

T = TypeVar("T")

#: Gets the key, the old state (None: the object is new) and the new one (None: it was deleted).
Handler: TypeAlias = Callable[[Key, T | None, T | None], None]

#: Gets all objects of the initial list, and may take long: no change is delivered before it is done.
FirstHandler: TypeAlias = Callable[[Collection[tuple[Key, T]]], Awaitable[None]]

#: Changes of a list that are delivered before the event loop gets its turn.
_PORTION: Final = 500


class Informer(Generic[T]):
    """Keeps a copy of a collection while `run` runs."""

    def __init__(
        self,
        source: Source,
        *,
        decode: Callable[[bytes], T],
        clock: Clock,
        rng: Rng,
        indexers: Mapping[str, Indexer[T]] | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._decode: Final = decode
        self._clock: Final = clock
        self._cache: Final = WritableCache[T](indexers)
        self._handlers: Final[list[Handler[T]]] = []
        #: Handlers with a `first` handler.
        self._first: Final[dict[Handler[T], FirstHandler[T]]] = {}
        self._staged: dict[Key, Entry[T]] = {}
        self._synced: Final = asyncio.Event()
        #: Since when the cache may be out of date; None while a watch runs.
        self._behind_since: float | None = clock.monotonic()
        #: Interned namespaces, since they repeat.
        self._namespaces: Final[dict[str, str]] = {}
        self._resource: Final = paths.label(source.target)
        self._log: Final = log.bind(resource=self._resource)
        self._reflector: Final = Reflector(source, self, clock=clock, rng=rng)
        metrics = metrics or Metrics("client")
        counted = metrics.counter("informer_events_total", "Events that watches brought.", ("resource", "type"))
        self._events: Final = {kind: counted.labels(self._resource, kind.value) for kind in EventType}
        self._lists: Final = metrics.counter(
            "informer_lists_total", "Complete lists, by cause.", ("resource", "reason")
        )
        objects = metrics.gauge("informer_objects", "Objects in the cache.", ("resource",))
        objects.labels(self._resource).set_function(lambda: len(self._cache))
        lag = metrics.gauge("informer_lag_seconds", "How long the cache may have been out of date.", ("resource",))
        lag.labels(self._resource).set_function(lambda: self.lag_s)

    @property
    def cache(self) -> Cache[T]:
        """The cached objects."""
        return self._cache

    @property
    def synced(self) -> bool:
        """Whether the initial list is in the cache and was delivered to the handlers."""
        return self._synced.is_set()

    @property
    def version(self) -> str:
        """The resourceVersion up to which everything is known; empty before the first list."""
        return self._reflector.version

    @property
    def lag_s(self) -> float:
        """For how long the cache may have been out of date: zero while a watch runs."""
        return 0.0 if self._behind_since is None else self._clock.monotonic() - self._behind_since

    async def wait_synced(self) -> None:
        """Wait for `synced`."""
        await self._synced.wait()

    async def run(self) -> None:
        """List and watch until cancelled; the cache stays readable, and running again continues it."""
        try:
            await self._reflector.run()
        finally:
            self.connected(False)

    def add_handler(self, handler: Handler[T], *, first: FirstHandler[T] | None = None) -> Callable[[], None]:
        """Call a handler for every change, beginning with the present objects; returns a function that removes it.

        `first` is awaited with the whole initial list instead, if the cache was empty before it.
        """
        for key, value in list(self._cache.items()):
            self._tell(handler, Change(key, None, value))
        self._handlers.append(handler)
        if first is not None:
            self._first[handler] = first

        def end() -> None:
            self._handlers.remove(handler)
            self._first.pop(handler, None)

        return end

    def add_indexers(self, indexers: Mapping[str, Indexer[T]]) -> None:
        """Add indexes to the cache."""
        self._cache.add_indexers(indexers)

    def begin(self) -> None:
        """See `Sink.begin`."""
        self._staged = {}

    def staged(self, items: Sequence[bytes]) -> None:
        """See `Sink.staged`; an unchanged object is not decoded again."""
        for raw in items:
            found = reflector.identity(raw)
            key, version = self._key(found), found.version
            entry = self._cache.entry(key)
            if entry is None or entry.uid != found.uid or entry.version != version:
                entry = Entry(self._decode(raw), found.uid, version)
            self._staged[key] = entry

    async def listed(self, reason: Reason) -> None:
        """See `Sink.listed`."""
        self._lists.labels(self._resource, reason.value).inc()
        staged, self._staged = self._staged, {}
        if not self._synced.is_set() and self._first and self._first.keys() == set(self._handlers) and not self._cache:
            self._cache.fill(staged)
            everything = list(self._cache.items())
            for first in self._first.values():
                await self._introduce(first, everything)
        else:
            for number, change in enumerate(self._cache.replace(staged)):
                self._tell_all(change)
                if number % _PORTION == _PORTION - 1:
                    await self._clock.sleep(0)
        self._synced.set()

    def changed(self, kind: EventType, raw: bytes, identity: Identity) -> None:
        """See `Sink.changed`."""
        self._events[kind].inc()
        known = self._cache.entry(self._key(identity))
        if known is not None and kind is not EventType.DELETED and known.version == identity.version:
            return  # learned already from the answer to a write
        entry = Entry(self._decode(raw), identity.uid, identity.version)
        change = self._cache.remove if kind is EventType.DELETED else self._cache.put
        for one in change(self._key(identity), entry):
            self._tell_all(one)

    def learn(self, value: T, identity: Identity) -> None:
        """Apply the server's answer to a write of our own, ahead of its watch event.

        If the watch is past that version, or the object is gone by now, nothing happens.
        """
        version, passed = identity.version, parse_version(self._reflector.version)
        if not (isinstance(version, int) and isinstance(passed, int) and version > passed and self._synced.is_set()):
            return
        for one in self._cache.put(self._key(identity), Entry(value, identity.uid, version)):
            self._tell_all(one)

    def connected(self, up: bool) -> None:
        """See `Sink.connected`."""
        if up:
            self._behind_since = None
        elif self._behind_since is None:
            self._behind_since = self._clock.monotonic()

    def _key(self, identity: Identity) -> Key:
        return Key(self._namespaces.setdefault(identity.namespace, identity.namespace), identity.name)

    async def _introduce(self, first: FirstHandler[T], everything: Collection[tuple[Key, T]]) -> None:
        try:
            await first(everything)
        except Exception as error:  # noqa: BLE001 - as in `_tell`
            self._log.exception("handler failed", error=error, objects=len(everything))

    def _tell_all(self, change: Change[T]) -> None:
        for handler in tuple(self._handlers):
            self._tell(handler, change)

    def _tell(self, handler: Handler[T], change: Change[T]) -> None:
        try:
            handler(change.key, change.old, change.new)
        except Exception as error:  # noqa: BLE001 - one handler's fault must not cost the others their events
            self._log.exception("handler failed", error=error, object=str(change.key))
