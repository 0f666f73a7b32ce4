"""Filling an empty store from a backup: many etcd transactions that count as one.

First a note says that a restore is under way, with a token of its own; every batch is written only if the note still
holds that token; the last transaction removes the note and sets the base that continues the old revision order. A
restore that was cut short leaves the note behind: the store refuses to work until another restore, which begins by
removing what the first one wrote, has finished.
"""

import secrets
from collections.abc import Iterable, Iterator

from rota.store import errors
from rota.store.backends.etcd import etcd_pb2 as pb
from rota.store.backends.etcd import keyspace, methods, transactions
from rota.store.backends.etcd.connection import Connection
from rota.store.backends.etcd.keyspace import Keyspace
from rota.store.store_interface import MOST_WRITES, RESTORE_GAP, Entry, RevisionRange

#: Well below etcd's limit of 1.5 MiB for a request.
_MOST_BYTES = 1024 * 1024

_NOTE = "restoring"


async def load(etcd: Connection, space: Keyspace, entries: Iterable[Entry], *, revision: int) -> RevisionRange:
    """Write the entries; all or nothing."""
    token = secrets.token_hex(8).encode()
    start = await _begin(etcd, space, token)
    base = max(revision, space.ours(start)) + RESTORE_GAP - start
    try:
        for batch in _batches(space, entries):
            await _step(etcd, space, token, batch)
        end = await _step(
            etcd,
            space,
            token,
            [transactions.put_note(space, "base", keyspace.number(base)), _remove_note(space)],
        )
    except Exception:
        # Also where the last step's answer got lost: if it happened, the note is gone and this does nothing.
        await _undo(etcd, space, token)
        raise
    newest = space.restored(base, end)
    return RevisionRange(newest, newest)


async def _begin(etcd: Connection, space: Keyspace, token: bytes) -> int:
    """Leave the note, if there are no keys or those of a restore that was cut short; etcd's revision afterwards."""
    note = transactions.put_note(space, _NOTE, token)
    # Holds of an empty range only: an existing key has been created at some revision.
    is_empty = pb.Compare(
        result=pb.Compare.EQUAL,
        target=pb.Compare.CREATE,
        key=space.data.start,
        range_end=space.data.end,
        create_revision=0,
    )
    look = pb.RequestOp(request_range=pb.RangeRequest(key=space.note(_NOTE)))
    answer = await etcd.call(methods.TXN, pb.TxnRequest(compare=[is_empty], success=[note], failure=[look]))
    if answer.succeeded:
        return answer.header.revision
    left = answer.responses[0].response_range.kvs
    if not left:
        raise errors.NotEmpty(f"{space.where} holds keys already", "restore into another prefix")
    is_same = transactions.note_is(space, _NOTE, left[0].value)
    answer = await etcd.call(methods.TXN, pb.TxnRequest(compare=[is_same], success=[note, _remove_data(space)]))
    if not answer.succeeded:
        raise _overtaken(space)
    return answer.header.revision


async def _step(etcd: Connection, space: Keyspace, token: bytes, writes: list[pb.RequestOp]) -> int:
    mine = transactions.note_is(space, _NOTE, token)
    answer = await etcd.call(methods.TXN, pb.TxnRequest(compare=[mine], success=writes))
    if not answer.succeeded:
        raise _overtaken(space)
    return answer.header.revision


async def _undo(etcd: Connection, space: Keyspace, token: bytes) -> None:
    mine = transactions.note_is(space, _NOTE, token)
    request = pb.TxnRequest(compare=[mine], success=[_remove_data(space), _remove_note(space)])
    try:
        await etcd.call(methods.TXN, request)
    except errors.StoreError:
        return  # the note stays, and says so to whoever opens the store


def _batches(space: Keyspace, entries: Iterable[Entry]) -> Iterator[list[pb.RequestOp]]:
    batch: list[pb.RequestOp] = []
    size = 0
    for entry in entries:
        if batch and (len(batch) == MOST_WRITES or size + len(entry.value) > _MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(pb.RequestOp(request_put=pb.PutRequest(key=space.key(entry.key), value=entry.value)))
        size += len(entry.key) + len(entry.value)
    if batch:
        yield batch


def _remove_data(space: Keyspace) -> pb.RequestOp:
    return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=space.data.start, range_end=space.data.end))


def _remove_note(space: Keyspace) -> pb.RequestOp:
    return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=space.note(_NOTE)))


def _overtaken(space: Keyspace) -> errors.StoreError:
    return errors.StoreError(f"another restore into {space.where} took over", "wait until it has finished")
