"""The role of a store among copies of one cluster: primary, standby, or superseded; and the fence between them.

A store without a record is a primary of epoch 0. The record of a standby says how far it followed its primary. A
promotion raises the epoch. Masters write through `FencedStore`: each transaction has the record as a precondition, so
after a promotion has marked the old primary as superseded no master can write to it, however late its write arrives.
The record also has the cluster's level (`kit.levels`); the same precondition stops masters that do not know a new one.
"""

import secrets
from collections.abc import Sequence
from typing import Any, Final, Literal, Self

import msgspec
from msgspec import Struct

from rota.kit import levels
from rota.store import errors
from rota.store.forwarding import ForwardingStore
from rota.store.store_interface import (
    Committed,
    Delete,
    Outcome,
    Precondition,
    Put,
    Refused,
    Store,
    Transaction,
)

#: No resource is stored under this prefix.
PREFIX: Final = "/_role/"
KEY: Final = PREFIX + "record"

PRIMARY: Final = "primary"
STANDBY: Final = "standby"
SUPERSEDED: Final = "superseded"


class Change(Struct, frozen=True, array_like=True):
    """A write that belongs to the position of a standby and is not applied yet; a deletion without a value."""

    key: str
    value: bytes | None


class Role(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record."""

    role: Literal["primary", "standby", "superseded"] = PRIMARY
    #: How many promotions led to this store; of a superseded one, the epoch that replaced it.
    epoch: int = 0
    #: Of a standby: it holds its primary's state of this revision, and when that was applied.
    position: int = 0
    at: float = 0.0
    #: Of a standby: it is being made equal to its primary again and holds no state of it at the moment.
    syncing: bool = False
    #: The writes of `position` that did not fit into its transaction.
    rest: tuple[Change, ...] = ()
    #: The cluster's level, which says which formats the store holds.
    level: int = levels.FIRST
    #: Which store it is among all: a place of backups belongs to one. Empty before level 2, and of a standby.
    identity: str = ""


class Recorded(Struct, frozen=True):
    """A record, and the revision of its key; 0 if there is none."""

    role: Role
    revision: int

    @property
    def guard(self) -> Precondition:
        """Holds as long as the record does not change."""
        return Precondition(KEY, revision=self.revision)


class Superseded(errors.ReadOnly):
    """Another copy of the cluster was promoted."""


class OtherLevel(errors.ReadOnly):
    """The cluster has a level at which this release cannot work."""


_decoder: Final = msgspec.json.Decoder(dict[str, Any])
_encoder: Final = msgspec.json.Encoder()


def encode(role: Role) -> bytes:
    """The value of the record.

    The level is a suffix of the role, as in `primary/2`: releases of level 1, which know no levels, refuse a role that
    they do not know.
    """
    if role.level == levels.FIRST:
        return _encoder.encode(role)
    record = msgspec.to_builtins(role)
    del record["level"]
    return _encoder.encode(record | {"role": f"{role.role}/{role.level}"})


async def read(store: Store) -> Recorded:
    """The role of a store."""
    entry = await store.get(KEY)
    return Recorded(Role(), 0) if entry is None else Recorded(decode(entry.value), entry.revision)


def decode(value: bytes) -> Role:
    """The record from its value."""
    try:
        record = _decoder.decode(value)
        role, _, level = str(record.get("role", PRIMARY)).partition("/")
        return msgspec.convert(record | {"role": role, "level": int(level or levels.FIRST)}, Role)
    except (msgspec.DecodeError, msgspec.ValidationError, ValueError) as problem:
        raise errors.Corrupt(
            f"the record of the store's role is damaged: {problem}", "use a Rota of the version that wrote it"
        ) from problem


async def write(store: Store, role: Role, before: Recorded, *, writes: Sequence[Put | Delete] = ()) -> int | None:
    """Replace the record, with other writes; returns its revision, or None if it is not `before` any more."""
    outcome = await store.commit(Transaction((*writes, Put(KEY, encode(role))), (before.guard,)))
    return outcome.revision if isinstance(outcome, Committed) else None


async def revive(store: Store) -> int | None:
    """Make a restored copy of a superseded store a primary; returns the new revision, or None if there was no need.

    Backups of a store that were taken after the promotion of its standby have the record of that.
    """
    found = await read(store)
    if found.role.role != SUPERSEDED:
        return None
    return await write(store, msgspec.structs.replace(found.role, role=PRIMARY), found)


async def begin(store: Store) -> None:
    """Give an empty store the newest level of this release; any other store keeps the level that it has."""
    recorded = await read(store)
    if recorded.revision or (await store.list("", limit=1)).entries:
        return
    # If the record is there meanwhile, another master has begun.
    await write(store, Role(level=levels.OWN.newest, identity=new_identity(levels.OWN.newest)), recorded)


async def raise_level(store: Store, level: int, before: Recorded) -> bool:
    """Raise the level of a primary; False if its record is not `before` any more.

    From that commit on, masters whose release does not know the level can write nothing.
    """
    check_writable(before.role)
    identity = before.role.identity or new_identity(level)
    return await write(store, msgspec.structs.replace(before.role, level=level, identity=identity), before) is not None


def new_identity(level: int) -> str:
    """An identity for a store that has none; records of level 1 have none."""
    return "" if level == levels.FIRST else secrets.token_hex(16)


def check_writable(role: Role) -> None:
    """Raise unless masters of this release may work on a store of this role."""
    if role.role == STANDBY:
        raise errors.ReadOnly(
            "this store is a standby and follows another one",
            "start masters on its primary, or promote it: rota standby promote",
        )
    if role.role == SUPERSEDED:
        raise Superseded(
            f"this store was superseded by the promotion of a standby (epoch {role.epoch})",
            "use the promoted store; this one can be deleted, and a new standby can be made in its place",
        )
    if (fault := levels.master_fault(role.level)) is not None:
        raise OtherLevel(fault.message, fault.remedy)


class FencedStore(ForwardingStore):
    """A primary as its masters see it."""

    def __init__(self, inner: Store, recorded: Recorded) -> None:
        super().__init__(inner)
        self._recorded = recorded

    @classmethod
    async def of(cls, inner: Store) -> Self:
        """Fence a store; raises ReadOnly if it is not a primary, or of another level."""
        recorded = await read(inner)
        check_writable(recorded.role)
        return cls(inner, recorded)

    @property
    def level(self) -> int:
        """The cluster's level, as of the last write or check."""
        return self._recorded.role.level

    async def commit(self, transaction: Transaction) -> Outcome:
        """See `Store.commit`; ReadOnly if the store is no primary any more, or has a level that is not known here."""
        while True:
            before = self._recorded
            outcome = await self._inner.commit(Transaction(transaction.writes, (*transaction.guards, before.guard)))
            if not isinstance(outcome, Refused) or all(one.guard.key != KEY for one in outcome.conflicts):
                return outcome
            # Another commit of this master may have read the new record already.
            if self._recorded is before:
                await self._read_again(before)

    async def check(self) -> None:
        """See `Store.check`."""
        await self._inner.check()
        recorded = await read(self._inner)
        check_writable(recorded.role)
        self._follow(recorded)

    async def _read_again(self, before: Recorded) -> None:
        """Go on with a raised level; raise for any other change of the record."""
        recorded = await read(self._inner)
        check_writable(recorded.role)
        self._follow(recorded)
        if self._recorded.revision == before.revision:
            # Its revision or epoch is not as expected, and it still is a primary's: written by hand, or restored.
            raise Superseded("the record of the store's role was changed", "start the master again")

    def _follow(self, recorded: Recorded) -> None:
        """Take a newer record of the same epoch."""
        if recorded.role.epoch == self._recorded.role.epoch and recorded.revision > self._recorded.revision:
            self._recorded = recorded
