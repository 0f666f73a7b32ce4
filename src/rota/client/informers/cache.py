"""The objects of an informer, with indexes. Pure: it gets events and returns the changes.

The informer decides what is kept of an object (`T`: a dict, bytes, a Struct, some fields). Key, uid and resourceVersion
are kept beside it, so that a list can be compared with the cache, and a repeated event is recognised, for any `T`.
Readers get `Cache`; only the informer has the `WritableCache`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from rota.api import meta

T = TypeVar("T")

#: The values of an object in an index.
Indexer: TypeAlias = Callable[[T], Iterable[str]]


class Key(NamedTuple):
    """The key of an object; the namespace of a cluster-scoped one is empty."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Entry(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """A cached object."""

    value: T
    uid: str
    #: A number if it is one, as on every API server with etcd 3; such versions can be compared.
    version: int | str


class Change(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """The change of an object: both states for an update, only one for an addition or a removal."""

    key: Key
    old: T | None
    new: T | None


def parse_version(text: str) -> int | str:
    """A resourceVersion as a number if it is one."""
    return int(text) if text.isdecimal() else text


def by_namespace(obj: Mapping[str, Any]) -> Iterable[str]:
    """Indexes an object by its namespace."""
    return (meta.namespace(obj),)


def by_node(pod: Mapping[str, Any]) -> Iterable[str]:
    """Indexes a pod by its node, if it has one."""
    node = (pod.get("spec") or {}).get("nodeName")
    return (node,) if node else ()


def by_owner(obj: Mapping[str, Any]) -> Iterable[str]:
    """Indexes an object by the uids of its owners."""
    return [reference["uid"] for reference in meta.owner_references(obj)]


class Cache(Generic[T]):
    """Read access. Its objects are shared: do not change them."""

    def __init__(self, indexers: Mapping[str, Indexer[T]] | None = None) -> None:
        self._indexers: Final = dict(indexers or {})
        self._entries: Final[dict[Key, Entry[T]]] = {}
        #: Index to value to keys. Sets are never empty.
        self._indexes: Final[dict[str, dict[str, set[Key]]]] = {name: {} for name in self._indexers}

    def get(self, name: str, namespace: str = "") -> T | None:
        """One object, or None."""
        entry = self._entries.get(Key(namespace, name))
        return None if entry is None else entry.value

    def values(self) -> Iterator[T]:
        """All objects; the cache must not change meanwhile, so do not await during the iteration."""
        return (entry.value for entry in self._entries.values())

    def items(self) -> Iterator[tuple[Key, T]]:
        """All objects with their keys; see `values`."""
        return ((key, entry.value) for key, entry in self._entries.items())

    def indexed(self, index: str, value: str) -> list[T]:
        """The objects with a value in an index."""
        return [self._entries[key].value for key in self._indexes[index].get(value, ())]

    def index_values(self, index: str) -> list[str]:
        """The values of an index."""
        return list(self._indexes[index])

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries


class WritableCache(Cache[T]):
    """A cache and its changes. Each method returns the changes for the handlers."""

    def add_indexers(self, indexers: Mapping[str, Indexer[T]]) -> None:
        """Add indexes; `ValueError` if a name is taken by a different one."""
        for name, indexer in indexers.items():
            known = self._indexers.get(name)
            if known is indexer:
                continue
            if known is not None:
                raise ValueError(f"there is another index {name}: {known.__qualname__} is not {indexer.__qualname__}")
            index = self._indexes.setdefault(name, {})
            self._indexers[name] = indexer
            for key, entry in self._entries.items():
                for value in indexer(entry.value):
                    index.setdefault(value, set()).add(key)

    def entry(self, key: Key) -> Entry[T] | None:
        """The cached object and its version."""
        return self._entries.get(key)

    def put(self, key: Key, new: Entry[T]) -> Iterator[Change[T]]:
        """An object was added or modified; an older event changes nothing."""
        old = self._entries.get(key)
        if old is not None and old.uid == new.uid and not _is_newer(new.version, old.version):
            return
        yield from self._set(key, new)

    def remove(self, key: Key, last: Entry[T]) -> Iterator[Change[T]]:
        """An object was deleted; `last` is its final state. An older event changes nothing."""
        old = self._entries.get(key)
        if old is None or (_comparable(last.version, old.version) and last.version < old.version):  # type: ignore[operator]
            return
        if old.uid == last.uid:
            # The indexes have the cached state; the handlers get the final state.
            self._unfile(key, old)
            del self._entries[key]
            yield Change(key, last.value, None)
        else:
            yield self._drop(key)

    def fill(self, listed: Mapping[Key, Entry[T]]) -> None:
        """Set the content of an empty cache."""
        self._entries.update(listed)
        if self._indexers:
            for key, entry in listed.items():
                self._file(key, entry)

    def replace(self, listed: Mapping[Key, Entry[T]]) -> Iterator[Change[T]]:
        """Set the content; changes are applied one by one, so that a reader in between sees what was yielded."""
        for key in [key for key in self._entries if key not in listed]:
            yield self._drop(key)
        for key, new in listed.items():
            old = self._entries.get(key)
            if old is None or old.uid != new.uid or old.version != new.version:
                yield from self._set(key, new)

    def _set(self, key: Key, new: Entry[T]) -> Iterator[Change[T]]:
        old = self._entries.get(key)
        if old is not None and old.uid != new.uid:
            # Deleted and created again unobserved: two objects of one name.
            yield self._drop(key)
            old = None
        if old is not None:
            self._unfile(key, old)
        self._entries[key] = new
        self._file(key, new)
        yield Change(key, None if old is None else old.value, new.value)

    def _drop(self, key: Key) -> Change[T]:
        old = self._entries[key]
        self._unfile(key, old)
        del self._entries[key]
        return Change(key, old.value, None)

    def _file(self, key: Key, entry: Entry[T]) -> None:
        for name, indexer in self._indexers.items():
            for value in indexer(entry.value):
                self._indexes[name].setdefault(value, set()).add(key)

    def _unfile(self, key: Key, entry: Entry[T]) -> None:
        for name, indexer in self._indexers.items():
            index = self._indexes[name]
            for value in indexer(entry.value):
                if keys := index.get(value):
                    keys.discard(key)
                    if not keys:
                        del index[value]


def _comparable(one: int | str, other: int | str) -> bool:
    return isinstance(one, int) and isinstance(other, int)


def _is_newer(new: int | str, old: int | str) -> bool:
    if isinstance(new, int) and isinstance(old, int):
        return new > old
    return new != old
