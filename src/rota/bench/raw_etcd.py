"""etcd used directly, as the reference for the store on it."""

import asyncio
import secrets

from rota.kit import system
from rota.store.backends.etcd import address
from rota.store.backends.etcd import etcd_pb2 as pb
from rota.store.backends.etcd.connection import Connection
from rota.store.backends.etcd.methods import RANGE, TXN
from rota.store.logstore import Settings


class RawEtcd:
    """Plain puts and ranges under a prefix of its own; fills `raw.Reference`."""

    singly_is = "raw etcd, one put after the other"
    grouped_is = "raw etcd, 64 puts at a time"
    read_all_is = "raw etcd, one range over the same keys"
    read_one_is = "raw etcd, range of one key"

    def __init__(self, url: str) -> None:
        self._connection = Connection(
            address.parse(url), time=system.SystemClock(), rng=system.rng(), settings=Settings()
        )
        self._prefix = f"/rota-bench-{secrets.token_hex(4)}/"

    async def _put(self, key: str, value: bytes) -> None:
        put = pb.PutRequest(key=f"{self._prefix}{key}".encode(), value=value)
        await self._connection.call(TXN, pb.TxnRequest(success=[pb.RequestOp(request_put=put)]))

    async def singly(self, count: int, value: bytes) -> None:
        """See `Reference`."""
        for _ in range(count):
            await self._put(f"written/{secrets.token_hex(8)}", value)

    async def grouped(self, count: int, group: int, value: bytes) -> None:
        """See `Reference`."""
        await asyncio.gather(*(self.singly(count // group, value) for _ in range(group)))

    async def fill(self, count: int, value: bytes) -> None:
        """See `Reference`."""
        for start in range(0, count, 64):
            numbers = range(start, min(start + 64, count))
            await asyncio.gather(*(self._put(f"listed/{number}", value) for number in numbers))

    async def read_all(self) -> None:
        """See `Reference`."""
        start = f"{self._prefix}listed/".encode()
        await self._connection.call(RANGE, pb.RangeRequest(key=start, range_end=start[:-1] + b"0"))

    async def read_one(self, count: int) -> None:
        """See `Reference`."""
        for _ in range(count):
            await self._connection.call(RANGE, pb.RangeRequest(key=f"{self._prefix}listed/0".encode()))

    async def close(self) -> None:
        """See `Reference`."""
        start = self._prefix.encode()
        delete = pb.DeleteRangeRequest(key=start, range_end=start[:-1] + b"0")
        await self._connection.call(TXN, pb.TxnRequest(success=[pb.RequestOp(request_delete_range=delete)]))
        await self._connection.close()


async def open_reference(url: str) -> RawEtcd:
    """The reference on the etcd at `url`."""
    return RawEtcd(url)
