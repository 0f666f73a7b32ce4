"""The objects of a custom kind in one of its versions: a store in front of another that converts what it reads.

Only kinds whose versions differ in more than their names have one (`interfaces.Conversion`); objects that are stored
in the version of the view pass as they are. What was converted is kept for a while by its revision: the watchers of a
version, and lists of it, share one conversion. Writes are converted by the registry, which needs both forms.
"""

import collections
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, NamedTuple, Self

import msgspec

from rota.api.kinds import ResourceType
from rota.apiserver import stored_form
from rota.apiserver.interfaces import Conversion, Object
from rota.store.forwarding import ForwardingStore
from rota.store.store_interface import Batch, Entry, Event, Page, Store, Watch

#: Converted objects that are kept of all kinds together, and the largest one that is.
_MOST_KEPT_BYTES: Final = 32 * 1024 * 1024
_LARGEST_KEPT: Final = 8192
_decoder: Final = msgspec.json.Decoder(dict[str, Any])


class _Value(NamedTuple):
    """A stored value, and the key and revision that identify it; 0 if the revision is not known."""

    key: str
    revision: int
    value: bytes


class KeptValues:
    """Converted values of several views. The oldest make room for new ones, also those of views that are gone."""

    def __init__(self, most_bytes: int = _MOST_KEPT_BYTES) -> None:
        self._most_bytes: Final = most_bytes
        self._values: Final[collections.OrderedDict[tuple[object, str, int], bytes]] = collections.OrderedDict()
        self.size_bytes = 0

    def find(self, view: object, stored: _Value) -> bytes | None:
        """What a view has converted of a stored value."""
        return self._values.get((view, stored.key, stored.revision)) if stored.revision else None

    def keep(self, view: object, stored: _Value, value: bytes) -> None:
        """Keep a value, unless it is large."""
        if len(value) > _LARGEST_KEPT or not stored.revision:
            return
        place = view, stored.key, stored.revision
        self.size_bytes += len(value) - len(self._values.get(place, b""))
        self._values[place] = value
        while self.size_bytes > self._most_bytes:
            self.size_bytes -= len(self._values.popitem(last=False)[1])


class ConvertedStore(ForwardingStore):
    """Reads objects of one kind in one version; writes are the inner store's."""

    def __init__(self, inner: Store, resource: ResourceType, conversion: Conversion, kept: KeptValues) -> None:
        super().__init__(inner)
        self.conversion: Final = conversion
        self._resource: Final = resource
        self._kept: Final = kept
        #: Stands for this view among the kept values.
        self._mark: Final = object()

    async def get(self, key: str) -> Entry | None:
        """See `Store.get`; also raises what `Conversion.convert` raises."""
        return (await self.get_many((key,)))[0]

    async def get_many(self, keys: Sequence[str]) -> list[Entry | None]:
        """See `Store.get_many`; also raises what `Conversion.convert` raises."""
        entries = await self._inner.get_many(keys)
        shown = iter(await self.shown([one for one in entries if one is not None]))
        return [None if one is None else next(shown) for one in entries]

    async def list(self, prefix: str, *, limit: int = 0, after: str = "", revision: int = 0) -> Page:
        """See `Store.list`; also raises what `Conversion.convert` raises."""
        page = await self._inner.list(prefix, limit=limit, after=after, revision=revision)
        return Page([*await self.shown(page.entries)], page.revision, page.remaining)

    def watch(self, prefix: str, *, after: int) -> Watch:
        """See `Store.watch`."""
        return ConvertedWatch(self._inner.watch(prefix, after=after), self)

    async def shown(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Entries in the version of this view."""
        values = await self.values([_Value(one.key, one.revision, one.value) for one in entries])
        return [
            one if value is one.value else msgspec.structs.replace(one, value=value)
            for one, value in zip(entries, values, strict=True)
        ]

    async def values(self, stored: Sequence[_Value]) -> Sequence[bytes]:
        """Values in the version of this view; damaged ones as they are."""
        found = [one.value for one in stored]
        places: list[int] = []
        objects: list[Object] = []
        for place, one in enumerate(stored):
            if stored_form.is_in_version(one.value, self._resource.api_version):
                continue
            kept = self._kept.find(self._mark, one)
            if kept is not None:
                found[place] = kept
                continue
            obj = _object(one.value)
            if obj is not None:
                places.append(place)
                objects.append(obj)
        if not objects:
            return found
        converted = await self.conversion.convert(objects, self._resource.api_version)
        for place, obj in zip(places, converted, strict=True):
            value = found[place] = stored_form.encode(obj, self._resource, limited=False)
            self._kept.keep(self._mark, stored[place], value)
        return found


def _object(value: bytes) -> Object | None:
    """The object of a value; None if it is damaged, which its reader finds out."""
    try:
        obj = _decoder.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    sound = isinstance(obj.get("metadata"), dict) and "apiVersion" in obj and "kind" in obj
    return obj if sound else None


class ConvertedWatch:
    """A `Watch` that converts values; iterating also raises what `Conversion.convert` raises."""

    def __init__(self, inner: Watch, view: ConvertedStore) -> None:
        self._inner: Final = inner
        self._view: Final = view

    @property
    def revision(self) -> int:
        """See `Watch.revision`."""
        return self._inner.revision

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._inner.__aexit__(*exc)

    def __aiter__(self) -> AsyncIterator[Batch]:
        return self

    async def __anext__(self) -> Batch:
        batch = await self._inner.__anext__()
        wanted = [_Value(one.key, one.revision, one.value) for one in batch.events if one.value is not None]
        wanted += [
            _Value(one.key, one.previous_revision, one.previous) for one in batch.events if one.previous is not None
        ]
        values = dict(zip(wanted, await self._view.values(wanted), strict=True))

        def shown(event: Event) -> Event:
            return msgspec.structs.replace(
                event,
                value=event.value and values[_Value(event.key, event.revision, event.value)],
                previous=event.previous and values[_Value(event.key, event.previous_revision, event.previous)],
            )

        return Batch([shown(event) for event in batch.events], batch.revision)

    def nudge(self) -> None:
        """See `Watch.nudge`."""
        self._inner.nudge()
