"""What these tests have in common: an API server, and a worker with its endpoint behind TLS."""

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.worker.endpoint.harness import Endpoint, serving_worker

from rota.client import client_factory
from rota.client.verbs import Client
from rota.kit import system
from rota.testing.api import ApiServer


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with ApiServer() as server:
        clock, rng = system.SystemClock(), random.Random(0)
        async with client_factory.to_application(server.app, clock=clock, rng=rng) as made:
            yield made


@pytest.fixture
async def endpoint(client: Client, tmp_path: Path) -> AsyncIterator[Endpoint]:
    async with serving_worker(client, tmp_path / "worker") as made:
        yield made
