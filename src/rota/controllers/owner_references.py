"""Who owns whom, and what that means for each object. Pure: the garbage collector's decisions without its I/O.

`Graph` is told of objects as they come and go and says which ones to look at again. `plan` decides about one object
from its fresh state and that of its owners. The rules are upstream's (`pkg/controller/garbagecollector`, 1.37):

* an object goes when all of its owners are gone; references to gone owners are taken off where another owner is left;
* an owner deleted in the foreground stays until all dependents that block it are gone;
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
    #: Whether the owner, deleted in the foreground, waits for this dependent.
    blocks: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """What matters of an object."""

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
        """Whether it was deleted in the foreground and its dependents are to go first."""
        return self.deleting and FOREGROUND in self.finalizers

    @property
    def orphans_dependents(self) -> bool:
        """Whether it was deleted and its dependents are to stay."""
        return self.deleting and ORPHAN in self.finalizers

    def blocks(self, owner_uid: str) -> bool:
        """Whether an owner that goes in the foreground waits for this one."""
        return any(owner.uid == owner_uid and owner.blocks for owner in self.owners)


class OwnerState(enum.Enum):
    """What became of an owner."""

    PRESENT = enum.auto()
    ABSENT = enum.auto()
    #: It is being deleted in the foreground.
    WAITING = enum.auto()
    #: A namespaced owner of an object without a namespace: a mistake, by which nothing is deleted.
    IMPOSSIBLE = enum.auto()
    #: Its kind is not served here, so nothing can be said of it.
    UNKNOWN = enum.auto()


@dataclass(frozen=True, slots=True)
class DeleteItem:
    """Delete the object, if it is still the one that was looked at."""

    propagation: Propagation


@dataclass(frozen=True, slots=True)
class DropOwners:
    """Take references to these owners (uids) off the object."""

    uids: frozenset[str]


@dataclass(frozen=True, slots=True)
class UnblockOwners:
    """Let the object's owners go without it: it waits for them as they wait for it."""


@dataclass(frozen=True, slots=True)
class DropFinalizer:
    """Take a finalizer off the object."""

    name: str


@dataclass(frozen=True, slots=True)
class Examine:
    """Look at another object."""

    uid: str


Instruction: TypeAlias = DeleteItem | DropOwners | UnblockOwners | DropFinalizer | Examine


def item_from(raw: bytes, resource: ResourceType) -> Item:
    """What matters of an object, from its bytes; only the metadata is decoded."""
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
    """All objects by uid, and who refers to whom."""

    def __init__(self) -> None:
        self._items: Final[dict[str, Item]] = {}
        #: Owner to dependents, whether or not the owner is here. A set is never empty.
        self._dependents: Final[dict[str, set[str]]] = {}
        #: Those whose end was seen, the latest last, with their namespaces: absent even if their kind went with them.
        self._ended: Final[OrderedDict[str, str]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._items)

    def get(self, uid: str) -> Item | None:
        """An object."""
        return self._items.get(uid)

    def dependents(self, uid: str) -> list[Item]:
        """Those that refer to an owner."""
        return [self._items[one] for one in self._dependents.get(uid, ())]

    def has_ended(self, reference: Owner, dependent: Item) -> bool:
        """Whether the end of an owner was seen, not too long ago; only of one that the dependent can have had."""
        return self._ended.get(reference.uid) in {"", dependent.namespace}

    def owner(self, reference: Owner, dependent: Item) -> Item | None:
        """The owner that a dependent refers to, if it is known and really the one that the reference describes."""
        found = self._items.get(reference.uid)
        if found is None or found.name != reference.name or found.resource.kind != reference.kind:
            return None
        if found.resource.group != reference.api_version.rpartition("/")[0]:
            return None
        return found if found.namespace in {"", dependent.namespace} else None

    def settled(self, item: Item) -> bool:
        """Whether nothing needs to be done about an object, as far as is known here."""
        owners = [self.owner(reference, item) for reference in item.owners]
        at_peace = all(owner is not None and not owner.waits_for_dependents for owner in owners)
        return at_peace and not item.waits_for_dependents and not item.orphans_dependents

    def put(self, item: Item) -> Iterator[str]:
        """An object came or changed; the uids of those to look at again."""
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
            # Whoever waits for this one in the foreground may learn that it waits for others in turn.
            yield from self._waiting_owners(item)

    def remove(self, uid: str) -> Iterator[str]:
        """An object is gone; the uids of those to look at again."""
        item = self._items.get(uid)
        if item is not None:
            self._ended[uid] = item.namespace
            if len(self._ended) > _ENDED_REMEMBERED:
                self._ended.popitem(last=False)
        yield from self.forget(uid)

    def forget(self, uid: str) -> Iterator[str]:
        """An object can no longer be followed, whether or not it is gone; the uids of those to look at again."""
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
        """Owners that no longer have to wait for an object whose references changed."""
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
    """What to do about an object; `owners` tells the state of each of its references."""
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
            # Two that each wait for the other would wait for ever.
            instructions.append(UnblockOwners())
        return [*instructions, DeleteItem(Propagation.FOREGROUND)]
    return [DeleteItem(_propagation(item))]


def _plan_waiting(item: Item, dependents: Iterable[Item]) -> list[Instruction]:
    below = list(dependents)
    if not any(one.blocks(item.uid) for one in below):
        return [DropFinalizer(FOREGROUND)]
    return [Examine(one.uid) for one in below if not one.waits_for_dependents]


def _propagation(item: Item) -> Propagation:
    """As a finalizer that is there already asks for."""
    if ORPHAN in item.finalizers:
        return Propagation.ORPHAN
    return Propagation.FOREGROUND if FOREGROUND in item.finalizers else Propagation.BACKGROUND
