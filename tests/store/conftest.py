"""Stores on a new database of every backend."""

from collections.abc import AsyncIterator

import pytest

from rota.store.store_interface import Store
from rota.testing.databases import BACKENDS, DURABLE, FreshDatabase, fresh_database
from rota.testing.store_contract import opened


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
