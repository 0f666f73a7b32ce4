"""Machines in one process and in virtual time: clocks that jump, programs that stop, links that are cut.

A `Machine` has a clock of its own and is reached over `Link`s. A paused machine wakes from no sleep, sends nothing and
reads nothing until it is resumed. A dead machine sends nothing more, so that what its programs do while they are
cancelled has no effect, as after SIGKILL. `FaultyEngine` is the database of one master, with its outages.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

from rota.api.users import User
from rota.client.transports.in_process import Application, InProcessTransport
from rota.client.transports.transport import Answer, Call, Interrupted, TimedOut, Unreachable
from rota.store import errors as store_errors
from rota.store.backends.memory import Database, MemoryEngine
from rota.store.engine import Applied
from rota.store.store_interface import Entry, Page, RevisionRange
from rota.store.store_watch import Tail
from rota.store.write_plan import Work
from rota.testing.clocks import FakeClock

_T = TypeVar("_T")
#: How long a call over a link that loses everything takes to fail, if it has no limit of its own.
_LOST_S: Final = 10.0


class Machine(FakeClock):
    """A machine, and the clock that its programs read."""

    def __init__(self, name: str, base: FakeClock) -> None:
        super().__init__()
        self.name: Final = name
        self._base: Final = base
        self._jumped_s = 0.0
        self.runs: Final = asyncio.Event()
        self.runs.set()
        self.alive = True
        #: Whether its links lose everything.
        self.cut = False

    def now(self) -> float:
        """See `Clock.now`."""
        return self._base.now() + self._jumped_s

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return self._base.monotonic()

    async def sleep(self, seconds: float) -> None:
        """See `Clock.sleep`; a paused machine wakes when it is resumed."""
        await self._base.sleep(seconds)
        await self.runs.wait()

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back."""
        self._jumped_s += seconds


class Link:
    """A `Transport` from a machine to the API server of another one."""

    def __init__(self, here: Machine, there: Machine, user: User) -> None:
        self._here: Final = here
        self._there: Final = there
        self._user: Final = user
        self._inner: InProcessTransport | None = None
        self._open: Final[set[_Answer]] = set()

    def serve(self, app: Application | None) -> InProcessTransport | None:
        """Connect to a server that has started, or to none; returns the transport to the former one, to be closed."""
        former, self._inner = self._inner, None
        if app is not None:
            self._inner = InProcessTransport(app, clock=self._there, user=self._user)
        self.interrupt()
        return former

    def is_from(self, machine: Machine) -> bool:
        """Whether it begins at a machine."""
        return self._here is machine

    def interrupt(self) -> None:
        """Break every connection."""
        for answer in tuple(self._open):
            answer.broken.set()

    @contextlib.asynccontextmanager
    async def open(self, call: Call) -> AsyncIterator[Answer]:
        """See `Transport.open`."""
        await self._passes(call)
        inner = self._inner
        if inner is None:
            raise Unreachable(f"{call}: connection refused")
        async with inner.open(call) as answer:
            # The server has acted; the answer may still be lost.
            await self._passes(call, answered=True)
            one = _Answer(answer, call, self._here)
            self._open.add(one)
            try:
                yield one
            finally:
                self._open.discard(one)

    async def _passes(self, call: Call, *, answered: bool = False) -> None:
        await self._here.runs.wait()
        if not self._here.alive:
            raise Interrupted(f"{call}: lost") if answered else Unreachable(f"{call}: this machine is dead")
        if not answered:
            await self._there.runs.wait()
        if self._here.cut or self._there.cut:
            await self._here.sleep(min(call.timeout_s or _LOST_S, _LOST_S))
            raise TimedOut(f"{call}: lost")

    async def close(self) -> None:
        """See `Transport.close`."""
        self.interrupt()
        if self._inner is not None:
            await self._inner.close()


class _Answer:
    """An answer that comes only while the reader runs, and can be cut off."""

    def __init__(self, inner: Answer, call: Call, reader: Machine) -> None:
        self._inner: Final = inner
        self._call: Final = call
        self._reader: Final = reader
        self.broken: Final = asyncio.Event()
        self.code: Final = inner.code
        self.headers: Final = inner.headers
        self.warnings: Final = inner.warnings

    async def chunks(self) -> AsyncIterator[bytes]:
        """See `Answer.chunks`."""
        chunks = aiter(self._inner.chunks())
        broken = asyncio.ensure_future(self.broken.wait())
        coming: asyncio.Future[bytes | None] | None = None
        try:
            while True:
                coming = asyncio.ensure_future(anext(chunks, None))
                await asyncio.wait((coming, broken), return_when=asyncio.FIRST_COMPLETED)
                await self._reader.runs.wait()
                if broken.done() or not self._reader.alive:
                    raise Interrupted(f"{self._call}: cut")
                chunk = coming.result()
                if chunk is None:
                    return
                yield chunk
        finally:
            broken.cancel()
            if coming is not None and not coming.done():
                coming.cancel()
                await asyncio.wait([coming])

    async def read(self) -> bytes:
        """See `Answer.read`."""
        return b"".join([chunk async for chunk in self.chunks()])


class DatabaseServer:
    """The state of the database that all masters use."""

    def __init__(self) -> None:
        self.database: Final = Database()
        self.up = True
        self.full = False
        #: Whether the next commits are made and their answers lost, as when it dies in between.
        self.loses_answers = False


class FaultyEngine(MemoryEngine):
    """The connection of one master to the database."""

    def __init__(self, server: DatabaseServer, machine: Machine) -> None:
        super().__init__(server.database, machine)
        self._server: Final = server
        self._machine: Final = machine

    async def _reached(self, call: Callable[[], Awaitable[_T]]) -> _T:
        await self._machine.runs.wait()
        if not self._server.up or not self._machine.alive or self._machine.cut:
            raise store_errors.Unavailable("the database does not answer", "start it")
        return await call()

    async def revision_range(self) -> RevisionRange:
        """See `Engine.revision_range`."""
        return await self._reached(super().revision_range)

    async def get(self, key: str) -> Entry | None:
        """See `Engine.get`."""
        found = super().get
        return await self._reached(lambda: found(key))

    async def get_many(self, keys: Sequence[str]) -> dict[str, Entry]:
        """See `Engine.get_many`."""
        found = super().get_many
        return await self._reached(lambda: found(keys))

    async def scan(self, prefix: str, *, limit: int, after: str, revision: int) -> Page:
        """See `Engine.scan`."""
        scanned = super().scan
        return await self._reached(lambda: scanned(prefix, limit=limit, after=after, revision=revision))

    async def tail(self, after: int, limit: int) -> Tail:
        """See `Engine.tail`."""
        tail = super().tail
        return await self._reached(lambda: tail(after, limit))

    async def apply(self, work: Sequence[Work]) -> Applied:
        """See `Engine.apply`."""
        applied = super().apply
        if self._server.full:
            await self._machine.runs.wait()
            raise store_errors.NoSpace("the disk of the database is full", "make room")
        done = await self._reached(lambda: applied(work))
        if self._server.loses_answers:
            raise store_errors.Unavailable("the connection broke during a commit", "start it", uncertain=True)
        return done


def links(here: Machine, servers: Iterable[Machine], user: User) -> dict[str, Link]:
    """The links of a machine to all servers, by their names."""
    return {there.name: Link(here, there, user) for there in servers}
