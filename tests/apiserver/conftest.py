from collections.abc import AsyncIterator

import pytest_asyncio

from rota.testing.api import ApiServer


@pytest_asyncio.fixture
async def api() -> AsyncIterator[ApiServer]:
    """A server on a store of its own in memory."""
    async with ApiServer() as server:
        yield server
