"""Converts transactions to etcd's, and etcd's responses to outcomes.

A precondition becomes one or two comparisons. If they do not hold, etcd reads the guarded keys in the same step, so the
conflicts show exactly the state that refused the transaction.
"""

from collections.abc import Iterable

from rota.store.backends.etcd import etcd_pb2 as pb
from rota.store.backends.etcd.keyspace import Keyspace
from rota.store.store_interface import (
    MOST_WRITES,
    Committed,
    Conflict,
    Event,
    Outcome,
    Precondition,
    Put,
    Refused,
    Transaction,
)

#: No key has this revision: the comparison fails.
_NEVER = -1


def request(transaction: Transaction, keyspace: Keyspace) -> pb.TxnRequest:
    """The transaction as an etcd request."""
    # Filled in place: passing parts to a constructor copies them, with their values, at every level.
    found = pb.TxnRequest()
    for guard in transaction.guards:
        _compare(found, guard, keyspace)
    if len(found.compare) > MOST_WRITES:
        # etcd limits each part of a transaction; both comparisons of a precondition count.
        raise ValueError(
            f"a transaction has at most {MOST_WRITES} comparisons in its preconditions, not {len(found.compare)}"
        )
    for write in transaction.writes:
        if isinstance(write, Put):
            put = found.success.add().request_put
            put.key, put.value, put.lease, put.prev_kv = keyspace.key(write.key), write.value, write.lease, True
        else:
            delete = found.success.add().request_delete_range
            delete.key, delete.prev_kv = keyspace.key(write.key), True
    for key in _guarded_keys(transaction.guards):
        found.failure.add().request_range.key = keyspace.key(key)
    return found


def outcome(transaction: Transaction, answer: pb.TxnResponse, keyspace: Keyspace) -> Outcome:
    """The outcome of a response."""
    revision = keyspace.ours(answer.header.revision)
    if answer.succeeded:
        return Committed(revision)
    found = [response.response_range.kvs for response in answer.responses]
    states = {
        key: keyspace.entry(kvs[0]) if kvs else None
        for key, kvs in zip(_guarded_keys(transaction.guards), found, strict=True)
    }
    return Refused(
        tuple(Conflict(guard, states[guard.key]) for guard in transaction.guards if not guard.holds(states[guard.key]))
    )


def events(transaction: Transaction, answer: pb.TxnResponse, keyspace: Keyspace) -> list[Event]:
    """The changes that it made, as a watch will report them."""
    revision = keyspace.ours(answer.header.revision)
    found: list[Event] = []
    for write, response in zip(transaction.writes, answer.responses, strict=True):
        if isinstance(write, Put):
            found.append(keyspace.event(write.key, revision, write.value, response.response_put.prev_kv))
        else:
            gone = response.response_delete_range.prev_kvs
            found += [keyspace.event(write.key, revision, None, before) for before in gone]
    return found


def look(transaction: Transaction, keyspace: Keyspace) -> pb.TxnRequest:
    """A request that reads the keys that a transaction puts."""
    return pb.TxnRequest(
        success=[pb.RequestOp(request_range=pb.RangeRequest(key=keyspace.key(put.key))) for put in _puts(transaction)]
    )


def may_stand(transaction: Transaction, answer: pb.TxnResponse) -> bool:
    """Whether the result of `look` could be this transaction's: the values it puts, all at one revision."""
    found = [response.response_range.kvs for response in answer.responses]
    return (
        bool(found)
        and all(kvs and kvs[0].value == put.value for kvs, put in zip(found, _puts(transaction), strict=True))
        and len({kvs[0].mod_revision for kvs in found}) == 1
    )


def leases(transaction: Transaction) -> list[int]:
    """The leases that its writes name."""
    return list(dict.fromkeys(put.lease for put in _puts(transaction) if put.lease))


def note_is(keyspace: Keyspace, name: str, value: bytes) -> pb.Compare:
    """The comparison that a meta key holds a value."""
    return pb.Compare(result=pb.Compare.EQUAL, target=pb.Compare.VALUE, key=keyspace.note(name), value=value)


def put_note(keyspace: Keyspace, name: str, value: bytes) -> pb.RequestOp:
    """A write of a meta key."""
    return pb.RequestOp(request_put=pb.PutRequest(key=keyspace.note(name), value=value))


def _puts(transaction: Transaction) -> list[Put]:
    return [write for write in transaction.writes if isinstance(write, Put)]


def _guarded_keys(guards: Iterable[Precondition]) -> list[str]:
    return list(dict.fromkeys(guard.key for guard in guards))


def _compare(found: pb.TxnRequest, guard: Precondition, keyspace: Keyspace) -> None:
    key = keyspace.key(guard.key)
    if guard.revision is not None:
        compare = found.compare.add()
        compare.target, compare.key = pb.Compare.MOD, key
        compare.mod_revision = _expected(guard.revision, keyspace)
    if guard.created is not None:
        compare = found.compare.add()
        compare.target, compare.key = pb.Compare.CREATE, key
        compare.create_revision = _expected(guard.created, keyspace)


def _expected(revision: int, keyspace: Keyspace) -> int:
    """etcd's revision of an expected revision; 0, no such key, is the same for both."""
    if revision == 0:
        return 0
    theirs = keyspace.theirs(revision)
    # A revision from before a restore matches no key, and must not be mistaken for "no such key".
    return theirs if theirs > 0 else _NEVER
