"""A local, read-only copy of a collection, and a call for every change of it.

    pods = Informer(source, decode=codec.decode, clock=clock, chance=chance, indexers={"node": cache.by_node})
    pods.add_handler(lambda key, old, new: queue.add(key))
    supervisor.start("pods", pods.run)
    await pods.wait_synced()

Handlers are called right after the cache has changed, in its order, each change once: what a handler reads in the cache
is what it is told. They must be quick and not wait; usually they put a key into a work queue. `decode` decides what is
kept of an object and so what a large collection costs: dicts are handy, bytes are a quarter of them (150,000 pods
of 2 kB: 0.4 GB against 1.6), a function that picks fields is best.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeAlias, TypeVar

from rota.client.informers.cache import Cache, Change, Entry, Indexer, Key, WritableCache
from rota.client.informers.reflector import Identity, Reason, Reflector, Source
from rota.client.wire import EventType
from rota.kit import logs
from rota.kit.backoff import Chance
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

log = logs.get(__name__)

T = TypeVar("T")

#: Gets the key, the former state (None: the object is new) and the new one (None: it is gone, and this was its last).
Handler: TypeAlias = Callable[[Key, T | None, T | None], None]

#: Changes of a list that are told in one go before others get their turn.
_PORTION: Final = 500


class Informer(Generic[T]):
    """Follows a collection while `run` runs."""

    def __init__(
        self,
        source: Source,
        *,
        decode: Callable[[bytes], T],
        clock: Clock,
        chance: Chance,
        indexers: Mapping[str, Indexer[T]] | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._decode: Final = decode
        self._clock: Final = clock
        self._cache: Final = WritableCache[T](indexers)
        self._handlers: Final[list[Handler[T]]] = []
        self._staged: dict[Key, Entry[T]] = {}
        self._synced: Final = asyncio.Event()
        #: Since when nothing has been heard though something might have happened; None while a watch runs.
        self._behind_since: float | None = clock.monotonic()
        #: Namespaces recur; one string each is enough.
        self._namespaces: Final[dict[str, str]] = {}
        self._resource: Final = str(source.target)
        self._log: Final = log.bind(resource=self._resource)
        self._reflector: Final = Reflector(source, self, clock=clock, chance=chance)
        figures = metrics or Metrics("client")
        counted = figures.counter("informer_events_total", "Events that watches brought.", ("resource", "type"))
        self._events: Final = {kind: counted.labels(self._resource, kind.value) for kind in EventType}
        self._lists: Final = figures.counter(
            "informer_lists_total", "Complete lists, by cause.", ("resource", "reason")
        )
        objects = figures.gauge("informer_objects", "Objects in the cache.", ("resource",))
        objects.labels(self._resource).set_function(lambda: len(self._cache))
        lag = figures.gauge("informer_lag_seconds", "How long the cache may have been out of date.", ("resource",))
        lag.labels(self._resource).set_function(lambda: self.lag_s)

    @property
    def cache(self) -> Cache[T]:
        """What is known."""
        return self._cache

    @property
    def synced(self) -> bool:
        """Whether everything that there was at the start is in the cache and the handlers were told."""
        return self._synced.is_set()

    @property
    def lag_s(self) -> float:
        """For how long the cache may have been out of date: zero while a watch runs."""
        return 0.0 if self._behind_since is None else self._clock.monotonic() - self._behind_since

    async def wait_synced(self) -> None:
        """Wait for `synced`."""
        await self._synced.wait()

    async def run(self) -> None:
        """Follow the collection until cancelled; what is known stays readable, and running again continues it."""
        try:
            await self._reflector.run()
        finally:
            self.connected(False)

    def add_handler(self, handler: Handler[T]) -> Callable[[], None]:
        """Have every change told, beginning with what is here now; the function given back ends that."""
        for key, value in list(self._cache.items()):
            self._tell(handler, Change(key, None, value))
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler)

    def begin(self) -> None:
        """See `Sink.begin`."""
        self._staged = {}

    def staged(self, raw: bytes, identity: Identity) -> None:
        """See `Sink.staged`; what did not change is not decoded again, and stays the same object."""
        key, version = self._key(identity), identity.version
        entry = self._cache.entry(key)
        if entry is None or entry.uid != identity.uid or entry.version != version:
            entry = Entry(self._decode(raw), identity.uid, version)
        self._staged[key] = entry

    async def listed(self, reason: Reason) -> None:
        """See `Sink.listed`."""
        self._lists.labels(self._resource, reason.value).inc()
        staged, self._staged = self._staged, {}
        for number, change in enumerate(self._cache.replace(staged)):
            self._tell_all(change)
            if number % _PORTION == _PORTION - 1:
                await self._clock.sleep(0)
        self._synced.set()

    def changed(self, kind: EventType, raw: bytes, identity: Identity) -> None:
        """See `Sink.changed`."""
        self._events[kind].inc()
        entry = Entry(self._decode(raw), identity.uid, identity.version)
        change = self._cache.remove if kind is EventType.DELETED else self._cache.put
        for one in change(self._key(identity), entry):
            self._tell_all(one)

    def connected(self, up: bool) -> None:
        """See `Sink.connected`."""
        if up:
            self._behind_since = None
        elif self._behind_since is None:
            self._behind_since = self._clock.monotonic()

    def _key(self, identity: Identity) -> Key:
        return Key(self._namespaces.setdefault(identity.namespace, identity.namespace), identity.name)

    def _tell_all(self, change: Change[T]) -> None:
        for handler in tuple(self._handlers):
            self._tell(handler, change)

    def _tell(self, handler: Handler[T], change: Change[T]) -> None:
        try:
            handler(change.key, change.old, change.new)
        except Exception as error:  # noqa: BLE001 - one handler's fault must not cost the others their events
            self._log.exception("handler failed", error=error, object=str(change.key))
