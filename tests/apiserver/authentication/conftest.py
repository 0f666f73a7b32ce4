from collections.abc import AsyncIterator

import pytest
from tests.apiserver.authentication.harness import Entrance

from rota.api import users
from rota.apiserver.authentication import authentication_config
from rota.testing.api import ApiServer
from rota.testing.clocks import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def entrance(clock: FakeClock) -> AsyncIterator[Entrance]:
    settings = authentication_config.Settings(static_tokens={"admins-own-token": users.ADMINISTRATOR})
    async with ApiServer(clock=clock, signing_in=settings) as api:
        yield Entrance(api, clock, settings)
