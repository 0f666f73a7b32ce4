"""Opening an unusable database: one clear line, soon, and nothing is written."""

import asyncio
import socket
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from rota.kit import system
from rota.store import errors, store_factory
from rota.store.backends.postgres import schema
from rota.store.store_interface import Store
from rota.testing.servers.postgres import PostgresServer
from rota.testing.store_contract import opened, revision_of

pytestmark = pytest.mark.slow

Session = psycopg.AsyncConnection[tuple[Any, ...]]


async def open_(url: str, *, create: bool = True) -> Store:
    return await store_factory.open_store(url, time=system.SystemClock(), rng=system.rng(), create=create)


async def tables(session: Session) -> set[str]:
    rows = await (await session.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")).fetchall()
    return {name for (name,) in rows}


async def refusal(url: str, kind: type[errors.StoreError], *, create: bool = True) -> str:
    """The error that opening ends with: one line, with a remedy and without the password."""
    with pytest.raises(kind) as caught:
        await open_(url, create=create)
    message = str(caught.value)
    assert "\n" not in message
    assert caught.value.remedy
    password = url.partition("@")[0].rpartition(":")[2]
    assert password not in message
    return message


async def test_a_wrong_password_is_named(postgres_server: PostgresServer) -> None:
    message = await refusal(postgres_server.url_of("postgres", password="guessed"), errors.AccessDenied)
    assert "password authentication failed" in message


async def test_a_database_that_does_not_exist_is_named(postgres_server: PostgresServer) -> None:
    assert 'database "nowhere" does not exist' in await refusal(postgres_server.url_of("nowhere"), errors.AccessDenied)


async def test_a_server_that_is_not_there_is_reported_at_once() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        start = time.monotonic()
        message = await refusal(f"postgresql://me:secret@127.0.0.1:{unused.getsockname()[1]}/x", errors.Unavailable)
    assert "Connection refused" in message
    assert time.monotonic() - start < 2


async def test_a_server_that_accepts_and_says_nothing_is_given_up_soon() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://me:secret@127.0.0.1:{silent.getsockname()[1]}/x?connect_timeout=2"
        start = time.monotonic()
        assert "timeout" in await refusal(url, errors.Unavailable)
    assert time.monotonic() - start < 5


@pytest.mark.parametrize(
    "tail",
    ["secret@host:port/x", "secret@host:99999/x", "secret@host/x?colour=blue", "secret@[::1/x", "se cret@host/x"],
)
async def test_a_malformed_url_is_refused(tail: str) -> None:
    assert "is not a PostgreSQL URL" in await refusal(f"postgresql://me:{tail}", errors.BadAddress)


async def test_an_unknown_host_is_named() -> None:
    assert "resolve host 'nowhere.invalid'" in await refusal(
        "postgresql://me:secret@nowhere.invalid/x", errors.Unavailable
    )


async def test_a_store_that_should_exist_is_not_made(postgres_url: str, session: Session) -> None:
    assert "there is no store" in await refusal(postgres_url, errors.BadAddress, create=False)
    assert await tables(session) == set()


async def test_another_programs_tables_are_refused_untouched(postgres_url: str, session: Session) -> None:
    await session.execute("CREATE TABLE rota_entries (id integer)")
    assert "rota_entries" in await refusal(postgres_url, errors.Corrupt)
    await session.execute("CREATE TABLE rota_meta (id integer)")
    assert "rota_meta" in await refusal(postgres_url, errors.Corrupt)
    assert await tables(session) == {"rota_entries", "rota_meta"}


async def test_a_newer_format_is_refused_untouched(postgres_url: str, session: Session) -> None:
    await (await open_(postgres_url)).close()
    await session.execute("UPDATE rota_meta SET format = %s", [schema.FORMAT + 1])
    await session.execute("ALTER TABLE rota_meta DROP COLUMN turn")
    assert "newer Rota" in await refusal(postgres_url, errors.NewerFormat)
    cursor = await session.execute("SELECT format FROM rota_meta")
    assert await cursor.fetchall() == [(schema.FORMAT + 1,)]


async def test_tables_that_disappear_are_missed_by_name(postgres_url: str, session: Session) -> None:
    async with opened(postgres_url) as store:
        await session.execute("DROP TABLE rota_log")
        with pytest.raises(errors.Corrupt, match="rota_log"):
            await store.create("/a/x", b"")
        await session.execute("DELETE FROM rota_meta")
        with pytest.raises(errors.Corrupt, match="rota_meta"):
            await store.create("/a/x", b"")
        with pytest.raises(errors.Corrupt, match="rota_meta"):
            await store.list("/a/")


async def test_a_user_without_the_permission_to_create_tables_gets_an_error(
    postgres_server: PostgresServer, postgres_url: str, session: Session
) -> None:
    role = f"guest_{postgres_url[-6:]}"
    await session.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'hidden'").format(sql.Identifier(role)))
    await session.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    url = f"postgresql://{role}:hidden@{postgres_url.rpartition('@')[2]}"
    assert "permission denied for schema public" in await refusal(url, errors.AccessDenied)
    assert await tables(session) == set()
    await (await open_(postgres_url)).close()
    assert "permission denied for table" in await refusal(url, errors.AccessDenied)


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
async def test_an_encoding_without_all_of_unicode_is_refused(
    encoding: str, postgres_server: PostgresServer, session: Session
) -> None:
    name = f"test_{encoding.lower()}"
    create = sql.SQL("CREATE DATABASE {} ENCODING {} LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    await session.execute(create.format(sql.Identifier(name), sql.Literal(encoding)))
    try:
        assert encoding in await refusal(postgres_server.url_of(name), errors.BadAddress)
    finally:
        postgres_server.drop_database(postgres_server.url_of(name))


async def test_a_read_only_database_is_refused_and_turning_read_only_is_named(
    postgres_url: str, session: Session
) -> None:
    name = sql.Identifier(postgres_url.rpartition("/")[2])
    async with opened(postgres_url) as store:
        revision = revision_of(await store.create("/a/x", b""))
        await session.execute(sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(name))
        assert "is read-only" in await refusal(postgres_url, errors.ReadOnly)
        # The committing session must be gone, not going: otherwise the outcome of the next commit would be unknown.
        await session.execute(
            "SELECT pg_terminate_backend(pid), pg_sleep(0.5) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        with pytest.raises(errors.ReadOnly):
            await store.create("/a/y", b"")
        assert (await store.list("/a/")).revision == revision


async def test_a_schema_of_ones_own_can_be_chosen(postgres_url: str, session: Session) -> None:
    url = f"{postgres_url}?options=-csearch_path%3Dmine"
    assert "no schema" in await refusal(url, errors.BadAddress)
    await session.execute("CREATE SCHEMA mine")
    async with opened(url) as store:
        revision_of(await store.create("/a/x", b""))
    assert await tables(session) == set()


async def test_many_may_open_an_empty_database_at_once(postgres_url: str) -> None:
    stores = await asyncio.gather(*(open_(postgres_url) for _ in range(8)))
    try:
        revisions = [revision_of(await store.create(f"/a/{number}", b"")) for number, store in enumerate(stores)]
        assert revisions == list(range(2, 10))
    finally:
        for store in stores:
            await store.close()


async def test_processes_may_open_an_empty_database_at_once(postgres_url: str) -> None:
    child = Path(__file__).parent.parent / "child.py"
    command = (sys.executable, str(child), "write", postgres_url)
    processes = [await asyncio.create_subprocess_exec(*command, name, "5", stdout=-1, stderr=-1) for name in "abc"]
    for process in processes:
        _, said = await process.communicate()
        assert process.returncode == 0, said.decode()
    async with opened(postgres_url) as store:
        assert len((await store.list("/w/")).entries) == 30


async def test_closing_leaves_no_session_and_no_trace_of_the_writer(postgres_url: str, session: Session) -> None:
    async with opened(postgres_url) as store:
        revision_of(await store.create("/a/x", b""))
        await asyncio.gather(*(store.list("/a/") for _ in range(20)))
        await (await open_(postgres_url)).close()
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    async with asyncio.timeout(60):
        # The server's processes end a moment after their clients have disconnected.
        while (await (await session.execute(others)).fetchone()) != (0,):
            await session.execute("SELECT pg_sleep(0.01)")
    assert await (await session.execute("SELECT * FROM rota_writers")).fetchall() == []


async def test_writers_of_long_ago_are_forgotten(postgres_url: str, session: Session) -> None:
    await (await open_(postgres_url)).close()
    await session.execute("INSERT INTO rota_writers VALUES ('old', 1, now() - interval '2 days'), ('new', 1, now())")
    await (await open_(postgres_url)).close()
    assert await (await session.execute("SELECT writer FROM rota_writers")).fetchall() == [("new",)]
