"""Fills an empty store from a backup: many etcd transactions that take effect together.

A restore first writes the meta key `restoring` with a random token. Every batch is written only if that key still holds
the token. The last transaction removes it and sets the base that continues the old revision order. An interrupted
restore leaves the key behind: the store refuses to work until another restore has finished, which begins by removing
what the first one wrote.
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
        # Also if the response to the last step was lost: if the step happened, the meta key is gone and this does
        # nothing.
        await _undo(etcd, space, token)
        raise
    newest = space.restored(base, end)
    return RevisionRange(newest, newest)


async def _begin(etcd: Connection, space: Keyspace, token: bytes) -> int:
    """Write the meta key, if the store is empty or holds an interrupted restore; returns etcd's revision afterwards."""
    note = transactions.put_note(space, _NOTE, token)
    # True for an empty range only: every existing key has a create revision above 0.
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
        return  # the meta key stays, and opening the store reports it


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
    return errors.StoreError(f"another restore into {space.where} replaced this one", "wait until it has finished")
