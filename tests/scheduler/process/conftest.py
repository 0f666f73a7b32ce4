from collections.abc import AsyncIterator

import pytest

from rota.testing import schedulers
from rota.testing.schedulers import SchedulingCluster


@pytest.fixture
async def cluster() -> AsyncIterator[SchedulingCluster]:
    async with schedulers.cluster() as made:
        yield made
