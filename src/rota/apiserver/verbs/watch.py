"""A watch: every change of the selected objects, as JSON lines, until the client disconnects.

A watch without a resourceVersion begins with the current objects. One with a resourceVersion continues from there, or
gets 410 if that is compacted: as the HTTP status if that is known before the stream begins, as an ERROR event
afterwards. An object that a selector no longer matches is DELETED for this watcher, one that it newly matches is ADDED.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Final

from rota.api import errors
from rota.apiserver import stored_form
from rota.apiserver.http import responses
from rota.apiserver.registry import revisions
from rota.apiserver.verbs import list_options
from rota.apiserver.verbs.calls import Call
from rota.apiserver.verbs.list_options import ListOptions
from rota.apiserver.verbs.watch_lines import Lines
from rota.store import errors as store_errors
from rota.store.store_interface import Entry, Watch

#: A watch ends by itself after half an hour to an hour, so that clients spread over the servers again.
_SHORTEST_S: Final = 1800.0
_BOOKMARK_EVERY_S: Final = 60.0
_INITIAL_EVENTS_END: Final = {"k8s.io/initial-events-end": "true"}
#: Initial events are sent in portions, so that a large collection neither blocks the loop nor fills the memory.
_PORTION: Final = 500


async def watch(call: Call) -> responses.Answer:
    """The stream, once it is certain that it can begin."""
    options = list_options.read(call, watching=True)
    store, clock = call.store, call.registry.clock
    prefix = stored_form.prefix(call.resource, call.at.namespace or None)
    if options.revision:
        await revisions.reach(store, options.revision, clock)
    initial: list[Entry] | None = None
    after = options.revision
    if options.initial_events or (options.initial_events is None and options.resource_version in {"", "0"}):
        page = await store.list(prefix)
        initial, after = page.entries, page.revision
    elif not after:
        after = (await store.revision_range()).revision
    changes = store.watch(prefix, after=after)
    try:
        await changes.__aenter__()
    except store_errors.Expired as error:
        raise _too_old(error) from None
    stream = _Stream(call, options, changes, initial=initial or [], revision=after)
    return responses.Streamed(stream, headers=responses.warning_headers(call.at.warnings))


def _too_old(error: store_errors.Expired) -> errors.Expired:
    return errors.expired(f"too old resource version: {error.revision} ({error.floor})")


class _Stream:
    """One running watch: an iterator of chunks."""

    def __init__(
        self, call: Call, options: ListOptions, changes: Watch, *, initial: list[Entry], revision: int
    ) -> None:
        self._options: Final = options
        self._changes: Final = changes
        self._clock: Final = call.registry.clock
        spread = call.registry.spread(_SHORTEST_S)
        self._ends: Final = self._clock.monotonic() + (
            options.timeout_s if options.timeout_s > 0 else _SHORTEST_S + spread
        )
        self._lines: Final = Lines(call, options.selection)
        self._opening: Final = self._open(initial, revision)
        self._alarm: asyncio.Task[None] | None = None
        self._bookmark_due = self._over = False
        #: The revision of the last bookmark, or one that needs none.
        self._told = changes.revision

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        for chunk in self._opening:
            if chunk:
                return chunk
        if self._alarm is None:
            self._alarm = asyncio.create_task(self._ring())
        while not self._over:
            try:
                batch = await self._changes.__anext__()
            except store_errors.Expired as error:
                self._over = True
                return self._lines.error(_too_old(error))
            except store_errors.SlowWatcher as error:
                self._over = True
                return self._lines.error(errors.expired(f"too old resource version: {error}"))
            except errors.ApiError as error:  # a change that cannot be converted: the watcher lists again
                self._over = True
                return self._lines.error(error)
            chunk = self._lines.changes(batch.events) if batch.events else b""
            if self._bookmark_due:
                chunk += self._bookmark()
            if chunk:
                return chunk
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the watch, even if it was never read."""
        if self._alarm is not None:
            self._alarm.cancel()
            await asyncio.wait([self._alarm])
        await self._changes.__aexit__(None, None, None)

    def _open(self, entries: list[Entry], revision: int) -> Iterator[bytes]:
        """The initial state of a watch."""
        for start in range(0, len(entries), _PORTION):
            yield self._lines.initial(entries[start : start + _PORTION])
        entries.clear()
        if self._options.initial_events and self._options.bookmarks:
            yield self._lines.bookmark(revision, _INITIAL_EVENTS_END)

    def _bookmark(self) -> bytes:
        self._bookmark_due = False
        if self._changes.revision <= self._told:
            return b""
        self._told = self._changes.revision
        return self._lines.bookmark(self._told)

    async def _ring(self) -> None:
        """Interrupt the wait for changes whenever something else is due."""
        bookmark = self._clock.monotonic() + _BOOKMARK_EVERY_S
        while not self._over:
            now = self._clock.monotonic()
            due = min(self._ends, bookmark) if self._options.bookmarks else self._ends
            if now < due:
                await self._clock.sleep(due - now)
                continue
            self._over = now >= self._ends
            self._bookmark_due = not self._over
            bookmark += _BOOKMARK_EVERY_S
            self._changes.nudge()
