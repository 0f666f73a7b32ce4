"""The watch cache: the objects of one kind in memory, in step with the store, for rules that run on every request.

    roles = WatchCache(store, resource, clock)
    supervisor.start("roles", roles.run)
    await roles.ready()
    role = roles.get("default", "reader")

It is eventually consistent: a recent write, of this or another server, may be missing. So a rule that would refuse
because something is missing reads the store first (`Registry.find`), and a write that depends on an object has its
revision as a precondition. Objects are returned without copying: readers must not change them.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from rota.api import keys
from rota.api.kinds import ResourceType
from rota.apiserver import stored_form
from rota.apiserver.cache.reflector import StoreReflector
from rota.apiserver.interfaces import Object, Stored
from rota.kit.clock import Clock
from rota.store.store_interface import Batch, Entry, Store

#: Called for a change with the object before and after it, None if there was or is none. Must not raise.
Listener: TypeAlias = Callable[[Object | None, Object | None], None]
#: By namespace (empty for cluster-scoped kinds) and name.
_Objects: TypeAlias = dict[str, dict[str, Stored]]


class WatchCache:
    """A copy of one kind in memory. It is empty until `run` has listed the objects."""

    def __init__(self, store: Store, resource: ResourceType, clock: Clock) -> None:
        self._resource: Final = resource
        self._follower: Final = StoreReflector(store, stored_form.prefix(resource, None), self, clock=clock)
        self._objects: _Objects = {}
        #: The objects of a list that is under way.
        self._coming: _Objects = {}
        self._listeners: Final[list[Listener]] = []

    async def run(self) -> None:
        """Watch until cancelled or the store is closed; runs as a supervised task."""
        await self._follower.run()

    async def ready(self) -> None:
        """Wait for the first list."""
        await self._follower.ready()

    async def reach(self, revision: int) -> bool:
        """Wait until everything up to a revision is known; False on timeout."""
        return await self._follower.reach(revision)

    @property
    def following(self) -> bool:
        """Whether the cache is up to date except for a short lag; otherwise objects may be missing."""
        return self._follower.following

    @property
    def revision(self) -> int:
        """Everything up to this revision is known; -1 without a watch."""
        return self._follower.revision

    def get(self, namespace: str, name: str) -> Object | None:
        """One object, if it exists; the namespace is empty for cluster-scoped kinds."""
        found = self.find(namespace, name)
        return None if found is None else found.object

    def find(self, namespace: str, name: str) -> Stored | None:
        """One object with its key and revisions, for use in a precondition."""
        there = self._objects.get(namespace)
        return None if there is None else there.get(name)

    def all(self, namespace: str | None = None) -> Iterable[Object]:
        """All objects, or those of one namespace, in no particular order."""
        if namespace is not None:
            return [one.object for one in self._objects.get(namespace, {}).values()]
        return [one.object for one in _each(self._objects)]

    def any(self, namespace: str) -> bool:
        """Whether there is an object in a namespace."""
        return namespace in self._objects

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` for every object there is now, and for every later change, in order."""
        self._listeners.append(listener)
        for one in _each(self._objects):
            listener(None, one.object)

    # The reflector's sink

    def begin(self) -> None:
        """See `Sink.begin`."""
        self._coming = {}

    def add(self, entry: Entry, /) -> None:
        """See `Sink.add`."""
        namespace, name = _place(entry.key)
        known = self.find(namespace, name)
        # most objects of a repeated list are unchanged
        same = known is not None and known.revision == entry.revision
        self._coming.setdefault(namespace, {})[name] = known if known and same else self._decoded(entry)

    def begun(self, revision: int, /) -> None:
        """See `Sink.begun`: reports what changed without a watch as changes."""
        before, self._objects, self._coming = self._objects, self._coming, {}
        for old in _each(before):
            if self.find(*_place(old.key)) is None:
                self._tell(old, None)
        for new in _each(self._objects):
            namespace, name = _place(new.key)
            known = before.get(namespace, {}).get(name)
            if known is not new:
                self._tell(known, new)

    def take(self, batch: Batch, /) -> None:
        """See `Sink.take`."""
        for event in batch.events:
            namespace, name = _place(event.key)
            old, new = self.find(namespace, name), None
            if event.value is not None:
                new = self._decoded(Entry(event.key, event.value, event.revision, event.created))
                self._objects.setdefault(namespace, {})[name] = new
            elif old is not None:
                del self._objects[namespace][name]
                if not self._objects[namespace]:
                    del self._objects[namespace]
            if old is not None or new is not None:
                self._tell(old, new)

    def lost(self) -> None:
        """See `Sink.lost`: what was known last is still the best guess."""

    def _decoded(self, entry: Entry) -> Stored:
        obj = stored_form.entry_object(entry, self._resource)
        return Stored(key=entry.key, object=obj, revision=entry.revision, created=entry.created)

    def _tell(self, old: Stored | None, new: Stored | None) -> None:
        before, after = old.object if old else None, new.object if new else None
        for listener in self._listeners:
            listener(before, after)


def _each(objects: _Objects) -> Iterator[Stored]:
    for there in objects.values():
        yield from there.values()


def _place(key: str) -> tuple[str, str]:
    parts = keys.split(key)
    return parts.namespace, parts.name
