"""A watch: every change of what is selected, as JSON lines, until the client has enough.

A watch without a resourceVersion begins with what there is. One with a resourceVersion continues from there, or is told
410 when that is compacted: as the HTTP status if that is known before the stream begins, as an ERROR event afterwards.
What a selector no longer matches is DELETED for this watcher, what it matches from now on is ADDED.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from typing import Any, Final

import msgspec

from rota.api import errors
from rota.apiserver import responses, stored_form
from rota.apiserver.contract import Object
from rota.apiserver.negotiation import Shape
from rota.apiserver.registry import freshness
from rota.apiserver.registry.selection import Selection
from rota.apiserver.verbs import list_options, rendering
from rota.apiserver.verbs.calls import Call
from rota.apiserver.verbs.list_options import ListOptions
from rota.store import errors as store_errors
from rota.store.contract import Entry, Event, Watch

#: A watch ends by itself after half an hour to an hour, so that clients spread over the servers again.
_SHORTEST_S: Final = 1800.0
_BOOKMARK_EVERY_S: Final = 60.0
_INITIAL_EVENTS_END: Final = {"k8s.io/initial-events-end": "true"}
#: Initial events go out in portions, so that a large collection neither stalls the loop nor piles up.
_PORTION: Final = 500


async def watch(call: Call) -> responses.Answer:
    """The stream, once it is clear that it can begin."""
    options = list_options.read(call, watching=True)
    store, clock = call.registry.store, call.registry.clock
    prefix = stored_form.prefix(call.resource, call.at.namespace or None)
    if options.revision:
        await freshness.reach(store, options.revision, clock)
    initial: list[Entry] | None = None
    after = options.revision
    if options.initial_events or (options.initial_events is None and options.resource_version in {"", "0"}):
        page = await store.list(prefix)
        initial, after = page.entries, page.revision
    elif not after:
        after = (await store.extent()).revision
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
    """One running watch."""

    def __init__(
        self, call: Call, options: ListOptions, changes: Watch, *, initial: list[Entry], revision: int
    ) -> None:
        self._options = options
        self._entries = initial
        self._revision = revision
        self._changes = changes
        self._clock = call.registry.clock
        spread = call.registry.spread(_SHORTEST_S)
        self._ends = self._clock.monotonic() + (options.timeout_s if options.timeout_s > 0 else _SHORTEST_S + spread)
        self._lines = _Lines(call, options.selection)
        self._running: AsyncGenerator[bytes, None] | None = None

    def __aiter__(self) -> AsyncIterator[bytes]:
        self._running = self._run()
        return self._running

    async def aclose(self) -> None:
        """End the watch, whether it was ever read or not."""
        if self._running is not None:
            await self._running.aclose()
        await self._changes.__aexit__(None, None, None)

    async def _run(self) -> AsyncGenerator[bytes, None]:
        entries, self._entries = self._entries, []
        for start in range(0, len(entries), _PORTION):
            chunk = self._lines.initial(entries[start : start + _PORTION])
            if chunk:
                yield chunk
        del entries
        if self._options.initial_events and self._options.bookmarks:
            yield self._lines.bookmark(self._revision, _INITIAL_EVENTS_END)
        async for chunk in self._follow():
            yield chunk

    async def _follow(self) -> AsyncIterator[bytes]:
        bookmark_due = self._clock.monotonic() + _BOOKMARK_EVERY_S
        told = self._changes.revision
        while True:
            now = self._clock.monotonic()
            if now >= self._ends:
                return
            until = min(self._ends, bookmark_due) if self._options.bookmarks else self._ends
            try:
                batch = await self._clock.wait_for(self._changes.__anext__(), max(until - now, 0.001))
            except TimeoutError:
                if self._options.bookmarks and self._clock.monotonic() >= bookmark_due:
                    bookmark_due += _BOOKMARK_EVERY_S
                    if self._changes.revision > told:
                        told = self._changes.revision
                        yield self._lines.bookmark(told)
                continue
            except StopAsyncIteration:
                return
            except store_errors.Expired as error:
                yield self._lines.error(_too_old(error))
                return
            except store_errors.SlowWatcher as error:
                yield self._lines.error(errors.expired(f"too old resource version: {error}"))
                return
            chunk = self._lines.changes(batch.events)
            if chunk:
                yield chunk


class _Lines:
    """Events as JSON lines in the negotiated shape."""

    def __init__(self, call: Call, selection: Selection) -> None:
        self._call = call
        self._selection = selection
        self._everything = selection.everything
        self._plain = call.accepted.plain or call.accepted.yaml or call.accepted.pretty
        self._plain = self._plain and call.accepted.shape is Shape.OBJECT
        self._columns_due = True

    def initial(self, entries: Iterable[Entry]) -> bytes:
        """What there is, as if it were just made."""
        selected = (one for one in entries if self._everything or self._selection.matches(one.key, one.value))
        return b"".join(self._line("ADDED", one.value, one.revision) for one in selected)

    def changes(self, events: Iterable[Event]) -> bytes:
        """Changes as far as this watcher sees them."""
        return b"".join(filter(None, map(self._change, events)))

    def bookmark(self, revision: int, annotations: dict[str, str] | None = None) -> bytes:
        """How far the watcher has seen everything."""
        metadata: Object = {"resourceVersion": str(revision), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        resource = self._call.resource
        obj: Any = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        if self._call.accepted.shape is Shape.TABLE:
            obj = rendering.table(self._call, [], metadata, with_columns=False)
        elif self._call.accepted.shape is Shape.METADATA:
            obj = rendering.shaped(self._call, obj)
        return _encoded("BOOKMARK", obj)

    def error(self, error: errors.ApiError) -> bytes:
        """Why the stream ends."""
        return _encoded("ERROR", error.to_wire())

    def _change(self, event: Event) -> bytes | None:
        if self._everything:
            if event.value is None:
                return self._line("DELETED", event.previous or b"", event.revision)
            return self._line("ADDED" if event.is_create else "MODIFIED", event.value, event.revision)
        match = self._selection.matches
        is_now = event.value is not None and match(event.key, event.value)
        was = event.previous is not None and match(event.key, event.previous)
        if is_now:
            assert event.value is not None
            return self._line("MODIFIED" if was else "ADDED", event.value, event.revision)
        if was:
            assert event.previous is not None
            return self._line("DELETED", event.previous, event.revision)
        return None

    def _line(self, kind: str, value: bytes, revision: int) -> bytes:
        if self._plain:
            return b'{"type":"%b","object":%b}\n' % (
                kind.encode(),
                stored_form.wire(value, revision, self._call.resource),
            )
        obj = stored_form.decode(value, revision, self._call.resource)
        shaped = rendering.shaped(self._call, obj, with_columns=self._columns_due)
        self._columns_due = False
        return _encoded(kind, shaped)


def _encoded(kind: str, obj: Any) -> bytes:
    return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"
