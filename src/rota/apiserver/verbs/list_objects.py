"""GET of a collection: all of it, or page by page from one revision."""

import asyncio
from typing import Any, Final

from rota.api import errors
from rota.apiserver import stored_form
from rota.apiserver.http import responses
from rota.apiserver.registry import revisions
from rota.apiserver.registry.revisions import ContinueToken
from rota.apiserver.verbs import list_options, response_bodies
from rota.apiserver.verbs.calls import Call
from rota.apiserver.verbs.list_options import ListOptions
from rota.store import errors as store_errors
from rota.store.store_interface import Entry, Page, Store

#: How many entries are read at once while a selector leaves most of them out.
_STRETCH: Final = 1000
_PORTION: Final = 200


async def list_objects(call: Call) -> responses.Whole:
    """The collection in the negotiated shape."""
    options = list_options.read(call, watching=False)
    prefix = stored_form.prefix(call.resource, call.at.namespace or None)
    store = call.store
    if options.revision:
        await revisions.reach(store, options.revision, call.registry.clock)
    try:
        page = await _page(store, prefix, options, call)
    except store_errors.Expired:
        raise await _expired(store, options) from None
    metadata: dict[str, Any] = {"resourceVersion": str(page.revision)}
    if page.remaining:
        last = page.entries[-1].key.removeprefix(prefix)
        consistent = options.continue_ is None or options.continue_.revision != revisions.INCONSISTENT
        metadata["continue"] = ContinueToken(page.revision if consistent else revisions.INCONSISTENT, last).encode()
        if options.selection.everything:
            metadata["remainingItemCount"] = page.remaining
    return response_bodies.listed(call, page.entries, metadata)


async def _page(store: Store, prefix: str, options: ListOptions, call: Call) -> Page:
    only = _only_key(call, options)
    if only is not None:
        revision = (await store.revision_range()).revision
        entry = await store.get(only)
        found = [entry] if entry is not None and options.selection.matches(entry.key, entry.value) else []
        return Page(found, max(revision, entry.revision if entry else 0))
    after, revision = "", _revision(options)
    if options.continue_ is not None:
        after = prefix + options.continue_.start
    if options.selection.everything:
        return await store.list(prefix, limit=max(options.limit, 0), after=after, revision=revision)
    return await _selected(call, prefix, options, after=after, revision=revision)


async def _selected(call: Call, prefix: str, options: ListOptions, *, after: str, revision: int) -> Page:
    """A page of the selected entries; `remaining` only says whether there is more to read."""
    found: list[Entry] = []
    limit, store = options.limit, call.store
    while True:
        stretch = max(_STRETCH, limit) if limit > 0 else 0
        page = await store.list(prefix, limit=stretch, after=after, revision=revision)
        revision = page.revision
        for position, entry in enumerate(page.entries):
            if position % _PORTION == _PORTION - 1:
                await asyncio.sleep(0)  # other requests are served in between
            try:
                if not options.selection.matches(entry.key, entry.value):
                    continue
            except stored_form.NotStoredForm:
                call.at.warn(stored_form.leave_out(entry.key, entry.revision))
                continue
            found.append(entry)
            if 0 < limit == len(found):
                left = len(page.entries) - position - 1 + page.remaining
                return Page(found, revision, left)
        if not page.remaining:
            return Page(found, revision)
        after = page.entries[-1].key


def _only_key(call: Call, options: ListOptions) -> str | None:
    """The key of the only object that can match, if the newest state is requested."""
    name = options.selection.name
    if not name or "/" in name or options.continue_ is not None or options.match == list_options.EXACT:
        return None
    namespace = call.at.namespace or options.selection.namespace or ""
    if call.resource.namespaced and (not namespace or "/" in namespace):
        return None
    return stored_form.key(call.resource, namespace if call.resource.namespaced else "", name)


def _revision(options: ListOptions) -> int:
    """The revision to list at; 0 is the newest, which is always recent enough."""
    if options.continue_ is not None:
        return max(options.continue_.revision, 0)
    exact = options.match == list_options.EXACT or (not options.match and options.limit > 0)
    return options.revision if exact else 0


async def _expired(store: Store, options: ListOptions) -> errors.Expired:
    if options.continue_ is None:
        return errors.expired(revisions.LIST_TOO_OLD)
    onward = ContinueToken(revisions.INCONSISTENT, options.continue_.start)
    return errors.expired(revisions.CONTINUE_TOO_OLD, continue_=onward.encode())
