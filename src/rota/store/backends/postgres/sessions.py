"""Connections to the server with common settings, and the shared sessions of readers.

A session with any error is closed, never reused: a new one costs a few milliseconds, finding out an old one's state
costs more. If a server is reachable but does not answer, its connection is closed.
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

#: libpq parameters where the URL sets none: fail soon if the server is not reachable, detect its loss soon.
_DEFAULTS: dict[str, str | int] = {
    "application_name": "rota",
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}

#: Set one by one with set_config, so that server-wide or per-user settings cannot break the statements.
_SETTINGS = {
    # The statements' visibility assumptions are made for this isolation level.
    "default_transaction_isolation": "read committed",
    # A process that stalls inside a transaction must not block the others.
    "idle_in_transaction_session_timeout": "10s",
    # Timeouts are set by the client; a restore may take long.
    "statement_timeout": "0",
    "lock_timeout": "0",
    # Every statement has one good plan, along an index. A planner with statistics of empty tables would scan whole
    # tables until the next ANALYZE, and one that underestimates a list would sort all of it for every page.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
}
_SET_UP = f"""
SELECT {", ".join(f"set_config('{name}', '{value}', false)" for name, value in _SETTINGS.items())},
  -- An acknowledged write is durable; a setting that also waits for replicas is kept.
  CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', false) END
"""


class Address(Struct, frozen=True):
    """The parsed URL of a database."""

    parameters: dict[str, Any]
    #: Without the password, for messages.
    place: str
    #: How long the server may take to answer.
    answer_s: float

    @classmethod
    def parse(cls, url: str, *, answer_s: float) -> Self:
        """Parse a URL; does not connect."""
        # Checked here as well, since libpq quotes the part of a URL that it rejects, which may be the password.
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
    """A new session in autocommit mode."""
    try:
        session = await psycopg.AsyncConnection.connect(**address.parameters, autocommit=True, prepare_threshold=0)
    except psycopg.Error as problem:
        raise faults.of_connecting(address.place, problem) from problem
    # One type for every number, not the smallest that fits: each mix of types would be another prepared statement.
    session.adapters.register_dumper(int, numeric.Int8BinaryDumper)
    async with used(session, address):
        await session.execute(_SET_UP)
    return session


def is_usable(session: Session | None) -> TypeGuard[Session]:
    """Whether an idle session is still open: a server that ends one leaves a message on the connection."""
    if session is None or session.closed:
        return False
    line = select.poll()
    line.register(session.fileno(), select.POLLIN)
    return not line.poll(0)


@contextlib.asynccontextmanager
async def used(session: Session, address: Address, *, within_s: float = 0.0) -> AsyncIterator[None]:
    """Wraps a use of a session: translates errors, limits the waiting time, and closes the session after any error.

    `within_s` is for uses that need another limit than usual.
    """
    try:
        with faults.translated(address.place), _answered(session, within_s or address.answer_s):
            yield
    except BaseException:
        await session.close()
        raise


@contextlib.contextmanager
def _answered(session: Session, within_s: float) -> Iterator[None]:
    """Close the connection when the time is over: the running statement then fails as if the server were gone."""
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
    """A few sessions that calls borrow, opened when needed.

    Not a psycopg_pool: that reconnects in the background, at its own growing intervals and with the reason only in its
    log, while here a call without a session gets the reason and is retried by the store's own rules.
    """

    def __init__(self, address: Address, most: int) -> None:
        self._address = address
        self._most = most
        self._free = asyncio.Semaphore(most)
        self._idle: list[Session] = []
        self._closed = False

    @contextlib.asynccontextmanager
    async def borrow(self) -> AsyncIterator[Session]:
        """A session for an ``async with`` block."""
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
                # What broke one session has most likely broken all.
                await self._close_idle()
                raise
            self._idle.append(session)

    async def close(self) -> None:
        """Wait for borrowed sessions, then close all."""
        self._closed = True
        for _ in range(self._most):
            await self._free.acquire()
        await self._close_idle()

    async def _close_idle(self, *more: Session | None) -> None:
        idle, self._idle = [*self._idle, *more], []
        for session in idle:
            if session:
                await session.close()
