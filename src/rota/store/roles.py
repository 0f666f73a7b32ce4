"""The role of a store among copies of one cluster: primary, standby, or superseded; and the fence between them.

A store without a record is a primary of epoch 0. The record of a standby says how far it followed its primary. A
promotion raises the epoch. Masters write through `FencedStore`: each transaction has the record as a precondition, so
after a promotion has marked the old primary as superseded no master can write to it, however late its write arrives.
"""

from collections.abc import Sequence
from typing import Final, Literal, Self

import msgspec
from msgspec import Struct

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


_decoder: Final = msgspec.json.Decoder(Role)
_encoder: Final = msgspec.json.Encoder()


def encode(role: Role) -> bytes:
    """The value of the record."""
    return _encoder.encode(role)


async def read(store: Store) -> Recorded:
    """The role of a store."""
    entry = await store.get(KEY)
    return Recorded(Role(), 0) if entry is None else Recorded(decode(entry.value), entry.revision)


def decode(value: bytes) -> Role:
    """The record from its value."""
    try:
        return _decoder.decode(value)
    except msgspec.DecodeError as problem:
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
    return await write(store, Role(epoch=found.role.epoch), found)


def check_writable(role: Role) -> None:
    """Raise unless masters may work on a store of this role."""
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


class FencedStore(ForwardingStore):
    """A primary as its masters see it."""

    def __init__(self, inner: Store, recorded: Recorded) -> None:
        super().__init__(inner)
        self._guard: Final = recorded.guard

    @classmethod
    async def of(cls, inner: Store) -> Self:
        """Fence a store; raises ReadOnly if it is not a primary."""
        recorded = await read(inner)
        check_writable(recorded.role)
        return cls(inner, recorded)

    async def commit(self, transaction: Transaction) -> Outcome:
        """See `Store.commit`; Superseded if the store is no primary any more."""
        outcome = await self._inner.commit(Transaction(transaction.writes, (*transaction.guards, self._guard)))
        if isinstance(outcome, Refused) and any(one.guard.key == KEY for one in outcome.conflicts):
            await self._check_role()
            # The record changed and still is a primary's: written by hand, or restored.
            raise Superseded("the record of the store's role was changed", "start the master again")
        return outcome

    async def check(self) -> None:
        """See `Store.check`."""
        await self._inner.check()
        await self._check_role()

    async def _check_role(self) -> None:
        check_writable((await read(self._inner)).role)
