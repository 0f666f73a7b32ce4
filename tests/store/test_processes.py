"""Several processes on one database, and processes that are killed at any moment."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.store.store_interface import Store
from rota.testing.databases import FreshDatabase
from rota.testing.store_contract import opened

CHILD = Path(__file__).with_name("child.py")

pytestmark = pytest.mark.slow


class Child:
    """A process that writes JSON lines."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen([sys.executable, str(CHILD), *arguments], stdout=subprocess.PIPE, text=True)
        assert self.hear() == {"ready": True}

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        words: dict[str, Any] = json.loads(self.process.stdout.readline())
        return words

    def hear_all(self) -> list[dict[str, Any]]:
        """Its lines until it ends or is killed; an incomplete last line is ignored."""
        assert self.process.stdout is not None
        lines = self.process.stdout.read().splitlines(keepends=True)
        self.process.wait(60)
        self.process.stdout.close()
        return [json.loads(line) for line in lines if line.endswith("\n")]


@contextlib.contextmanager
def child(*arguments: str) -> Iterator[Child]:
    started = Child(*arguments)
    try:
        yield started
    finally:
        started.process.kill()
        started.process.wait()
        if started.process.stdout:
            started.process.stdout.close()


async def test_many_processes_write_and_watch_one_database(durable: FreshDatabase) -> None:
    writers, pairs = 4, 60
    async with opened(durable.url) as store:
        start = (await store.revision_range()).revision
    with contextlib.ExitStack() as stack:
        count = str(2 * writers * pairs)
        watching = [stack.enter_context(child("watch", durable.url, str(start), count)) for _ in range(2)]
        writing = [stack.enter_context(child("write", durable.url, f"w{n}", str(pairs))) for n in range(writers)]
        acknowledged = {word["revision"] for writer in writing for word in writer.hear_all()}
        seen = [watcher.hear_all() for watcher in watching]
    assert len(acknowledged) == writers * pairs
    assert seen[0] == seen[1]
    assert [word["revision"] for word in seen[0]] == sorted([*acknowledged, *acknowledged])
    assert len({word["key"] for word in seen[0]}) == 2 * writers * pairs


async def test_a_process_killed_at_any_moment_leaves_exactly_what_was_acknowledged(durable: FreshDatabase) -> None:
    """And perhaps the one write whose acknowledgement was under way; of a pair never half."""
    newest = 0
    for round_ in range(6):
        name = f"r{round_}"
        with child("write", durable.url, name, "0") as writer:
            words = [writer.hear() for _ in range(3 + 17 * round_)]
            writer.process.kill()
            words += writer.hear_all()
        async with opened(durable.url) as store:
            newest = await check_round(store, name, {word["number"]: word["revision"] for word in words}, newest)
            # The next process can write at once.
            await store.create(f"/after/{name}", b"")


async def check_round(store: Store, name: str, acknowledged: dict[int, int], newest: int) -> int:
    found: dict[int, list[int]] = {}
    for entry in (await store.list(f"/w/{name}/")).entries:
        found.setdefault(int(entry.key.split("/")[3]), []).append(entry.revision)
    assert all(len(pair) == 2 and pair[0] == pair[1] for pair in found.values())
    assert {number: pair[0] for number, pair in found.items() if number in acknowledged} == acknowledged
    assert len(found) <= len(acknowledged) + 1
    revision_range = await store.revision_range()
    assert revision_range.revision >= max(acknowledged.values()) > newest
    return revision_range.revision


@pytest.mark.parametrize(
    "kind", [pytest.param("postgres", marks=pytest.mark.postgres), pytest.param("etcd", marks=pytest.mark.etcd)]
)
async def test_a_database_server_killed_at_any_moment_has_what_was_acknowledged(
    kind: str, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue(f"private_{kind}")()
    url = server.create_database() if kind == "postgres" else server.url
    newest = 0
    for round_ in range(3):
        name = f"r{round_}"
        with child("write", url, name, "0") as writer:
            words = [writer.hear() for _ in range(5 + 20 * round_)]
            server.kill()
            writer.process.kill()
            words += writer.hear_all()
        server.start()
        async with opened(url) as store:
            newest = await check_round(store, name, {word["number"]: word["revision"] for word in words}, newest)
