from collections.abc import AsyncIterator

import pytest
from tests.spot_control.worlds import World

from rota.testing import virtual_api


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with virtual_api.cluster() as made, World(made).living() as world:
        yield world
