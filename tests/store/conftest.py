"""A fresh database of every kind, and stores on it."""

import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rota.store.contract import Store
from rota.testing.store_contract import opened

BACKENDS = [
    "memory",
    "sqlite",
    pytest.param("postgres", marks=pytest.mark.postgres),
    pytest.param("etcd", marks=pytest.mark.etcd),
]
#: Those that outlive a process.
DURABLE = BACKENDS[1:]


@dataclass(frozen=True)
class FreshDatabase:
    kind: str
    url: str

    @property
    def merges_heartbeats(self) -> bool:
        return self.kind != "etcd"


def fresh_database(kind: str, request: pytest.FixtureRequest) -> FreshDatabase:
    """An empty database of the asked-for kind, gone with the test."""
    if kind == "memory":
        return FreshDatabase(kind, f"memory://{secrets.token_hex(6)}")
    if kind == "sqlite":
        folder: Path = request.getfixturevalue("tmp_path")
        return FreshDatabase(kind, f"sqlite:///{folder}/store.db")
    return FreshDatabase(kind, request.getfixturevalue(f"{kind}_url"))


@pytest.fixture(params=BACKENDS)
def database(request: pytest.FixtureRequest) -> FreshDatabase:
    return fresh_database(request.param, request)


@pytest.fixture(params=DURABLE)
def durable(request: pytest.FixtureRequest) -> FreshDatabase:
    return fresh_database(request.param, request)


@pytest.fixture
async def store(database: FreshDatabase) -> AsyncIterator[Store]:
    async with opened(database.url) as store:
        yield store


@pytest.fixture
async def second(database: FreshDatabase, store: Store) -> AsyncIterator[Store]:
    """Another store on the same database, opened after the first, as another process would."""
    async with opened(database.url) as second:
        yield second
