"""Lists and watches a collection without gaps: list, watch from there, resume a broken watch, list again on 410.

Lists are consistent reads in pages. A broken watch is resumed from the last revision seen, bookmarks included, so
nothing is missed and nothing is read twice. Only if the server no longer has that revision everything is listed again,
after a delay that spreads the clients.
"""

import asyncio
import contextlib
import enum
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from rota.api import errors
from rota.client.informers.cache import Key, parse_version
from rota.client.paths import Target
from rota.client.transports.transport import TransportError
from rota.client.verbs import EVERYTHING, PAGE_SIZE, Client, Selection
from rota.client.wire import EventType, Page
from rota.kit import backoff, logs
from rota.kit.backoff import Backoff, Rng
from rota.kit.clock import Clock

log = logs.get(__name__)

#: The server is asked to end each watch after one to two times this, so that clients spread over servers again.
_WATCH_S: Final = 300
#: A watch that ends sooner than this without an event counts as a failure.
_SHORT_S: Final = 1.0
#: How often a "resource version too large" is attributed to a lagging server; after that the server was restored.
_PATIENCE_WITH_LAG: Final = 10
_BACKOFF: Final = backoff.Policy(initial_s=0.2, cap_s=30.0)
_TOO_MANY_REQUESTS: Final = 429
#: Objects of a page that are handled before the event loop gets its turn.
_PORTION: Final = 250


class Identity(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The metadata that caches need."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""

    @property
    def key(self) -> Key:
        """The object's key."""
        return Key(self.namespace, self.name)

    @property
    def version(self) -> int | str:
        """The resourceVersion, as a number if it is one."""
        return parse_version(self.resource_version)


class _Identified(msgspec.Struct, frozen=True, gc=False):
    metadata: Identity = Identity()


_decode: Final = msgspec.json.Decoder(_Identified).decode


def identity(raw: bytes) -> Identity:
    """The key and the version of an object."""
    return _decode(raw).metadata


class Reason(enum.Enum):
    """Why everything is listed."""

    START = "start"
    #: The revision to continue from was compacted.
    EXPIRED = "expired"
    #: The server does not accept the revision: it was restored, or is another one.
    REFUSED = "refused"


class Sink(Protocol):
    """Receives the objects of a reflector. Its methods must not fail."""

    def begin(self) -> None:
        """A list begins, or begins again."""
        ...

    def staged(self, items: Sequence[bytes]) -> None:
        """Some objects of the list."""
        ...

    def listed(self, reason: Reason) -> Awaitable[None]:
        """The list is complete."""
        ...

    def changed(self, kind: EventType, raw: bytes, identity: Identity) -> None:
        """An object was added, modified or deleted."""
        ...

    def connected(self, up: bool) -> None:
        """A watch runs, or no longer does."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The collection to list and watch."""

    client: Client
    target: Target
    namespace: str = ""
    selection: Selection = EVERYTHING
    page_size: int = PAGE_SIZE


class Reflector:
    """Lists and watches one collection; `run` never ends by itself."""

    def __init__(self, source: Source, sink: Sink, *, clock: Clock, rng: Rng) -> None:
        self._source: Final = source
        self._sink: Final = sink
        self._clock: Final = clock
        self._rng: Final = rng
        self._backoff: Final = Backoff(_BACKOFF, rng)
        self._version = ""
        self._log: Final = log.bind(resource=str(source.target))

    @property
    def version(self) -> str:
        """The revision up to which everything is known; empty before the first list."""
        return self._version

    async def run(self) -> None:
        """Run until cancelled. Running again starts with a list."""
        reason = Reason.START
        while True:
            await self._persist(self._list)
            await self._sink.listed(reason)
            reason = await self._follow()
            self._log.info("listing again", reason=reason.value, after=self._version)
            await self._clock.sleep(self._backoff.next())

    async def _persist(self, attempt: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                return await attempt()
            except (errors.ApiError, TransportError) as error:
                await self._pause("list failed", error)

    async def _list(self) -> None:
        source, sink = self._source, self._sink
        sink.begin()
        version = ""
        pages = source.client.pages(
            source.target, namespace=source.namespace, selection=source.selection, limit=source.page_size
        )
        async with contextlib.aclosing(_ahead(pages)) as fetched:
            async for page in fetched:
                if page is None:
                    sink.begin()
                    continue
                for start in range(0, len(page.items), _PORTION):
                    sink.staged(page.items[start : start + _PORTION])
                    # This many take milliseconds; then other tasks run.
                    await self._clock.sleep(0)
                version = page.resource_version
        self._version = version

    async def _follow(self) -> Reason:
        """Watch repeatedly until only a list can help."""
        ahead = 0
        while True:
            began = self._clock.monotonic()
            before = self._version
            try:
                await self._watch()
            except (errors.Expired, errors.Gone):
                return Reason.EXPIRED
            except errors.ApiError as error:
                ahead = ahead + 1 if error.has_cause(errors.RESOURCE_VERSION_TOO_LARGE) else 0
                refused = 400 <= error.code < 500 and error.code != _TOO_MANY_REQUESTS
                if refused or ahead >= _PATIENCE_WITH_LAG:
                    self._log.warning("watch refused", error=error)
                    return Reason.REFUSED
                await self._pause("watch failed", error)
            except TransportError as error:
                await self._pause("watch broke", error)
            else:
                if before == self._version and self._clock.monotonic() - began < _SHORT_S:
                    await self._pause("watch ended at once", None)

    async def _watch(self) -> None:
        source = self._source
        async with source.client.follow(
            source.target,
            namespace=source.namespace,
            selection=source.selection,
            resource_version=self._version,
            timeout_s=_WATCH_S + int(_WATCH_S * self._rng.random()),
        ) as batches:
            self._sink.connected(True)
            try:
                async for batch in batches:
                    for kind, raw in batch:
                        found = identity(raw)
                        if kind is not EventType.BOOKMARK:
                            self._sink.changed(kind, raw, found)
                        self._version = found.resource_version
                    if batch.problem is not None:
                        raise batch.problem
                    self._backoff.reset()
            finally:
                self._sink.connected(False)

    async def _pause(self, what: str, error: errors.ApiError | TransportError | None) -> None:
        asked = (error.retry_after_seconds or 0) if isinstance(error, errors.ApiError) else 0
        delay = max(self._backoff.next(), float(asked))
        self._log.info(what, error=error, retry_in_s=round(delay, 3))
        await self._clock.sleep(delay)


async def _ahead(pages: AsyncIterator[Page | None]) -> AsyncGenerator[Page | None, None]:
    """The pages of a list, prefetched by one."""
    coming = asyncio.ensure_future(_next(pages))
    try:
        while (found := await coming) is not _END:
            coming = asyncio.ensure_future(_next(pages))
            yield found
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)


async def _next(pages: AsyncIterator[Page | None]) -> Any:
    return await anext(pages, _END)


_END: Final = object()
