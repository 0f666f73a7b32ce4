import random
from collections.abc import AsyncIterator

import pytest

from rota.client.transports.in_process import InProcessTransport
from rota.client.verbs import Client
from rota.testing.clocks import FakeClock
from rota.testing.scripted_api import ScriptedApi


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def rng() -> random.Random:
    return random.Random(0)


@pytest.fixture
def api() -> ScriptedApi:
    return ScriptedApi()


@pytest.fixture
async def client(api: ScriptedApi, clock: FakeClock) -> AsyncIterator[Client]:
    transport = InProcessTransport(api, clock=clock)
    yield Client(transport)
    await transport.close()
