"""Reads the meta keys, the newest revision and the compacted revision from etcd.

etcd does not report its compacted revision, and other clients may compact it. But it refuses a read below that
revision, so a read at the known floor shows whether it is still the floor; and it reports its own to a watch that
begins below it. So the floor is exact at every read, and needs a second request only after it has moved.
"""

from rota.store import errors
from rota.store.backends.etcd import connection, faults, methods
from rota.store.backends.etcd import etcd_pb2 as pb
from rota.store.backends.etcd.connection import Connection
from rota.store.backends.etcd.keyspace import Keyspace
from rota.store.store_interface import RevisionRange


class StoreStatus:
    """Queries etcd and updates the keyspace."""

    def __init__(self, etcd: Connection, keyspace: Keyspace) -> None:
        self._etcd = etcd
        self._keyspace = keyspace

    async def revision_range(self) -> RevisionRange:
        """The newest revision and the floor, from one request; also reads the meta keys."""
        notes = self._keyspace.notes
        while True:
            floor = self._keyspace.floor
            look = pb.RangeRequest(key=notes.start, range_end=notes.end)
            # Revision 0 would mean the newest; etcd begins at 1.
            probe = pb.RangeRequest(key=notes.start, revision=max(1, self._keyspace.theirs(floor)), count_only=True)
            both = pb.TxnRequest(success=[pb.RequestOp(request_range=each) for each in (look, probe)])
            try:
                answer = await self._etcd.call(methods.READ_TXN, both)
            except faults.Compacted:
                await self.learn_floor(floor)
                continue
            found = answer.responses[0].response_range
            revision = self._keyspace.read(found.kvs, answer.header.revision)
            return RevisionRange(revision, self._keyspace.floor)

    async def learn_floor(self, compacted: int) -> None:
        """Find etcd's compacted revision; `compacted` is a revision known to be compacted."""

        async def ask() -> None:
            request = watch_request(self._keyspace, compacted - 1)
            async with self._etcd.stream(methods.WATCH, request, timeout=connection.CALL_S) as read:
                while not (answer := await read()).canceled:
                    pass
                problem = self.refusal(answer)
                if not isinstance(problem, faults.Compacted):
                    raise problem

        await self._etcd.patiently(ask)

    def refusal(self, answer: pb.WatchResponse) -> errors.StoreError:
        """Why etcd ended a watch; updates the floor from its response."""
        if answer.compact_revision:
            self._keyspace.raise_floor(self._keyspace.ours(answer.compact_revision))
            return faults.Compacted(f"{self._keyspace.where} is compacted up to revision {self._keyspace.floor}")
        # An expired login token appears as a missing permission here.
        self._etcd.forget_login()
        return errors.Unavailable(
            f"{self._keyspace.where} ended a watch ({answer.cancel_reason})", "check the user's role"
        )


def watch_request(keyspace: Keyspace, after: int) -> pb.WatchRequest:
    """A watch over all keys of the store above revision `after`."""
    return pb.WatchRequest(
        create_request=pb.WatchCreateRequest(
            key=keyspace.whole.start,
            range_end=keyspace.whole.end,
            # 0 would mean from now on; etcd begins at 1.
            start_revision=max(1, keyspace.theirs(after) + 1),
            progress_notify=True,
            prev_kv=True,
        )
    )
