"""The ownership graph and the garbage collector's decisions. Pure.

`Graph` receives added and removed objects and returns those to examine. `plan` decides about one object from its
current state and that of its owners. The rules are upstream's (`pkg/controller/garbagecollector`, 1.37):

* an object is deleted when all of its owners are gone; if one is left, only the references to gone owners are removed;
* an owner in foreground deletion stays until all blocking dependents are gone;
* an owner deleted with orphans stays until no dependent refers to it.
"""

import enum
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import msgspec

from rota.api import codec
from rota.api.kinds import ResourceType
from rota.client.verbs import Propagation

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
_ENDED_REMEMBERED: Final = 10_000


class Owner(NamedTuple):
    """A reference to an owner."""

    api_version: str
    kind: str
    name: str
    uid: str
    #: Whether the owner's foreground deletion waits for this dependent.
    blocks: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """The metadata that matters for garbage collection."""

    resource: ResourceType
    namespace: str
    name: str
    uid: str
    resource_version: str
    owners: tuple[Owner, ...] = ()
    finalizers: tuple[str, ...] = ()
    deleting: bool = False

    @property
    def waits_for_dependents(self) -> bool:
        """Whether it is in foreground deletion and waits for its dependents."""
        return self.deleting and FOREGROUND in self.finalizers

    @property
    def orphans_dependents(self) -> bool:
        """Whether it is in deletion and its dependents are orphaned."""
        return self.deleting and ORPHAN in self.finalizers

    def blocks(self, owner_uid: str) -> bool:
        """Whether an owner's foreground deletion waits for this object."""
        return any(owner.uid == owner_uid and owner.blocks for owner in self.owners)


class OwnerState(enum.Enum):
    """The state of an owner."""

    PRESENT = enum.auto()
    ABSENT = enum.auto()
    #: It is in foreground deletion.
    WAITING = enum.auto()
    #: A namespaced owner of a cluster-scoped object: an error, on which nothing is deleted.
    IMPOSSIBLE = enum.auto()
    #: Its kind is not served, so its state is unknown.
    UNKNOWN = enum.auto()


@dataclass(frozen=True, slots=True)
class DeleteItem:
    """Delete the object, if it is unchanged."""

    propagation: Propagation


@dataclass(frozen=True, slots=True)
class DropOwners:
    """Remove references to these owners (uids) from the object."""

    uids: frozenset[str]


@dataclass(frozen=True, slots=True)
class UnblockOwners:
    """Clear `blockOwnerDeletion`: the object and its owners wait for each other."""


@dataclass(frozen=True, slots=True)
class DropFinalizer:
    """Remove a finalizer from the object."""

    name: str


@dataclass(frozen=True, slots=True)
class Examine:
    """Examine another object."""

    uid: str


Instruction: TypeAlias = DeleteItem | DropOwners | UnblockOwners | DropFinalizer | Examine


def item_from(raw: bytes, resource: ResourceType) -> Item:
    """An item from an object's bytes; only the metadata is decoded."""
    metadata = codec.read_meta(raw)
    owners = tuple(
        Owner(one.api_version, one.kind, one.name, one.uid, bool(one.block_owner_deletion))
        for one in metadata.owner_references or ()
    )
    return Item(
        resource=resource,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        owners=owners,
        finalizers=metadata.finalizers or (),
        deleting=metadata.deletion_timestamp is not None,
    )


def item_from_object(obj: Mapping[str, object], resource: ResourceType) -> Item:
    """The same from a dict."""
    return item_from(msgspec.json.encode({"metadata": obj["metadata"]}), resource)


class Graph:
    """All objects by uid, and their references."""

    def __init__(self) -> None:
        self._items: Final[dict[str, Item]] = {}
        #: Dependents by owner, known or not. No set is empty.
        self._dependents: Final[dict[str, set[str]]] = {}
        #: Owners whose deletion was observed, latest last, with their namespaces: absent even if their kind was removed
        #: with them.
        self._ended: Final[OrderedDict[str, str]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._items)

    def get(self, uid: str) -> Item | None:
        """An object."""
        return self._items.get(uid)

    def dependents(self, uid: str) -> list[Item]:
        """The objects that refer to an owner."""
        return [self._items[one] for one in self._dependents.get(uid, ())]

    def has_ended(self, reference: Owner, dependent: Item) -> bool:
        """Whether the deletion of an owner was observed recently, in a namespace that the dependent can refer to."""
        return self._ended.get(reference.uid) in {"", dependent.namespace}

    def owner(self, reference: Owner, dependent: Item) -> Item | None:
        """The owner that a dependent refers to, if it is known and matches the reference."""
        found = self._items.get(reference.uid)
        if found is None or found.name != reference.name or found.resource.kind != reference.kind:
            return None
        if found.resource.group != reference.api_version.rpartition("/")[0]:
            return None
        return found if found.namespace in {"", dependent.namespace} else None

    def settled(self, item: Item) -> bool:
        """Whether nothing needs to be done about an object in the known state."""
        owners = [self.owner(reference, item) for reference in item.owners]
        at_peace = all(owner is not None and not owner.waits_for_dependents for owner in owners)
        return at_peace and not item.waits_for_dependents and not item.orphans_dependents

    def put(self, item: Item) -> Iterator[str]:
        """An object was added or updated; returns the uids to examine."""
        old = self._items.get(item.uid)
        self._items[item.uid] = item
        if old is None or old.owners != item.owners:
            self._link(old, item)
            yield from self._released(old, item)
            if any(self.owner(reference, item) is None for reference in item.owners):
                yield item.uid
            if any((owner := self._items.get(one.uid)) and owner.deleting for one in item.owners):
                yield item.uid
        if item.deleting and (old is None or not old.deleting or old.finalizers != item.finalizers):
            if item.waits_for_dependents or item.orphans_dependents:
                yield item.uid
            # Owners that wait for this object may be part of a cycle.
            yield from self._waiting_owners(item)

    def remove(self, uid: str) -> Iterator[str]:
        """An object is gone; returns the uids to examine."""
        item = self._items.get(uid)
        if item is not None:
            self._ended[uid] = item.namespace
            if len(self._ended) > _ENDED_REMEMBERED:
                self._ended.popitem(last=False)
        yield from self.forget(uid)

    def forget(self, uid: str) -> Iterator[str]:
        """An object can no longer be watched, gone or not; returns the uids to examine."""
        item = self._items.pop(uid, None)
        if item is None:
            return
        self._link(item, None)
        yield from self._waiting_owners(item)
        yield from self._dependents.get(uid, ())

    def _link(self, old: Item | None, new: Item | None) -> None:
        before = {owner.uid for owner in old.owners} if old else set()
        after = {owner.uid for owner in new.owners} if new else set()
        uid = (new or old).uid  # type: ignore[union-attr]  # one of them is there
        for owner in before - after:
            dependents = self._dependents[owner]
            dependents.discard(uid)
            if not dependents:
                del self._dependents[owner]
        for owner in after - before:
            self._dependents.setdefault(owner, set()).add(uid)

    def _released(self, old: Item | None, new: Item) -> Iterator[str]:
        """Owners that no longer wait for an object whose references changed."""
        for owner in old.owners if old else ():
            if owner.blocks and not new.blocks(owner.uid):
                known = self._items.get(owner.uid)
                if known is not None and known.waits_for_dependents:
                    yield owner.uid

    def _waiting_owners(self, item: Item) -> Iterator[str]:
        for owner in item.owners:
            known = self._items.get(owner.uid)
            if known is not None and known.waits_for_dependents:
                yield owner.uid


def plan(item: Item, owners: Mapping[Owner, OwnerState], dependents: Iterable[Item]) -> list[Instruction]:
    """The action for an object; `owners` gives the state of each reference."""
    if item.waits_for_dependents:
        return _plan_waiting(item, dependents)
    if item.deleting or not item.owners or OwnerState.UNKNOWN in owners.values():
        return []
    states = {state: [one for one in item.owners if owners[one] is state] for state in OwnerState}
    if states[OwnerState.PRESENT] or states[OwnerState.IMPOSSIBLE]:
        gone = frozenset(one.uid for one in states[OwnerState.ABSENT] + states[OwnerState.WAITING])
        return [DropOwners(gone)] if gone else []
    below = list(dependents)
    if states[OwnerState.WAITING] and below:
        instructions: list[Instruction] = []
        if any(one.waits_for_dependents for one in below):
            # Two objects that wait for each other would wait for ever.
            instructions.append(UnblockOwners())
        return [*instructions, DeleteItem(Propagation.FOREGROUND)]
    return [DeleteItem(_propagation(item))]


def _plan_waiting(item: Item, dependents: Iterable[Item]) -> list[Instruction]:
    below = list(dependents)
    if not any(one.blocks(item.uid) for one in below):
        return [DropFinalizer(FOREGROUND)]
    return [Examine(one.uid) for one in below if not one.waits_for_dependents]


def _propagation(item: Item) -> Propagation:
    """The propagation policy that an existing finalizer requests."""
    if ORPHAN in item.finalizers:
        return Propagation.ORPHAN
    return Propagation.FOREGROUND if FOREGROUND in item.finalizers else Propagation.BACKGROUND
