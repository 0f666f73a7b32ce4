from collections.abc import AsyncIterator

import pytest

from rota.testing import virtual_api
from rota.testing.virtual_api import VirtualCluster


@pytest.fixture
async def cluster() -> AsyncIterator[VirtualCluster]:
    async with virtual_api.cluster() as made:
        yield made
