"""Connections to the server, set up alike, and the few that readers share.

A session that met any error is closed, never reused: a new one costs a few milliseconds, finding out what state an old
one is in costs more. A server that is reachable but does not answer is not waited for either: its line is cut.
"""

import asyncio
import contextlib
import os
import select
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any, Self, TypeGuard

import psycopg
from msgspec import Struct
from psycopg import conninfo
from psycopg.types import numeric

from rota.kit import logs
from rota.store import errors
from rota.store.backends.postgres import faults

Session = psycopg.AsyncConnection[tuple[Any, ...]]

#: What libpq gets where the URL says nothing: fail soon when nobody is there, notice soon when somebody went.
_DEFAULTS: dict[str, str | int] = {
    "application_name": "rota",
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}

#: Each row once, by set_config, so that a server-wide or a user's setting cannot break what we rely on.
_SETTINGS = {
    # Which statement sees what is worked out for this level.
    "default_transaction_isolation": "read committed",
    # A process that stalls in the middle of a transaction must not hold up the others.
    "idle_in_transaction_session_timeout": "10s",
    # Deadlines are ours; a restore may take long.
    "statement_timeout": "0",
    "lock_timeout": "0",
    # Every statement has one good plan, along an index. A planner that met the tables when they were empty would go on
    # reading them whole until the next ANALYZE, and one that underestimates a list would sort it all for every page.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
}
_SET_UP = f"""
SELECT {", ".join(f"set_config('{name}', '{value}', false)" for name, value in _SETTINGS.items())},
  -- An acknowledged write is durable; whoever waits for replicas as well goes on doing so.
  CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', false) END
"""


class Address(Struct, frozen=True):
    """Where the database is."""

    parameters: dict[str, Any]
    #: As it may be shown.
    place: str
    #: How long the server may take to answer.
    answer_s: float

    @classmethod
    def parse(cls, url: str, *, answer_s: float) -> Self:
        """Understand a URL; nothing is connected yet."""
        # By hand as well, since what is wrong with a URL may be its password, and libpq quotes what it stumbles over.
        password = url.partition("://")[2].rpartition("@")[0].partition(":")[2]
        place = logs.redact_url(url.replace(f":{password}@", ":***@"))
        try:
            given = conninfo.conninfo_to_dict(url)
            conninfo.timeout_from_conninfo(given)
        except psycopg.ProgrammingError as problem:
            raise _malformed(place, logs.redact(str(problem).replace(password or url, "***").strip())) from None
        for port in str(given.get("port") or "").split(","):
            if port and not (port.isdecimal() and 0 < int(port) < 65_536):
                raise _malformed(place, f"{port!r} is not a port")
        return cls({**_DEFAULTS, **given, "client_encoding": "UTF8"}, place, answer_s)


def _malformed(place: str, detail: str) -> errors.BadAddress:
    return errors.BadAddress(f"{place} is not a PostgreSQL URL: {detail}", "write postgresql://user@host:port/database")


async def connect(address: Address) -> Session:
    """A new session; one statement is one transaction in it unless it says BEGIN."""
    try:
        session = await psycopg.AsyncConnection.connect(**address.parameters, autocommit=True, prepare_threshold=0)
    except psycopg.Error as problem:
        raise faults.of_connecting(address.place, problem) from problem
    # One type for every number, not the smallest that fits: each mix of types would be a statement of its own.
    session.adapters.register_dumper(int, numeric.Int8BinaryDumper)
    async with used(session, address):
        await session.execute(_SET_UP)
    return session


def is_usable(session: Session | None) -> TypeGuard[Session]:
    """Whether a session that nobody uses still seems to be there: a server that ends one leaves word on the line."""
    if session is None or session.closed:
        return False
    line = select.poll()
    line.register(session.fileno(), select.POLLIN)
    return not line.poll(0)


@contextlib.asynccontextmanager
async def used(session: Session, address: Address, *, within_s: float = 0.0) -> AsyncIterator[None]:
    """Around a use of a session: translates its errors, ends its silence, and closes it when anything went wrong.

    `within_s` is for uses that take longer, or shorter, than answers usually may.
    """
    try:
        with faults.translated(address.place), _answered(session, within_s or address.answer_s):
            yield
    except BaseException:
        await session.close()
        raise


@contextlib.contextmanager
def _answered(session: Session, within_s: float) -> Iterator[None]:
    """Cut the line when the time is over: the statement under way then fails like one whose server went away."""
    alarm = asyncio.get_running_loop().call_later(within_s, _cut, session)
    try:
        yield
    finally:
        alarm.cancel()


def _cut(session: Session) -> None:
    # Cancelling the task instead would ask the silent server to cancel, and wait for its answer.
    with contextlib.suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(session.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


class Sessions:
    """A few sessions that calls borrow in turn, made when needed.

    Not a psycopg_pool: that one reconnects in the background, at growing intervals of its own and with the reason only
    in its log, while here a call that finds nobody hears why and is tried again by the store's own rules.
    """

    def __init__(self, address: Address, most: int) -> None:
        self._address = address
        self._most = most
        self._free = asyncio.Semaphore(most)
        self._idle: list[Session] = []
        self._closed = False

    @contextlib.asynccontextmanager
    async def borrow(self) -> AsyncIterator[Session]:
        """A session for the time of an ``async with`` block."""
        if self._closed:
            raise errors.Closed
        async with self._free:
            session = self._idle.pop() if self._idle else None
            if not is_usable(session):
                await self._close_idle(session)
                session = await connect(self._address)
            try:
                async with used(session, self._address):
                    yield session
            except errors.Unavailable:
                # What happened to one has most likely happened to all.
                await self._close_idle()
                raise
            self._idle.append(session)

    async def close(self) -> None:
        """Wait for those who borrowed, then close everything."""
        self._closed = True
        for _ in range(self._most):
            await self._free.acquire()
        await self._close_idle()

    async def _close_idle(self, *more: Session | None) -> None:
        idle, self._idle = [*self._idle, *more], []
        for session in idle:
            if session:
                await session.close()
