"""An etcd for the test, and another client of it."""

import json
import urllib.request
from collections.abc import AsyncIterator, Callable

import pytest

from rota.kit import system
from rota.store.backends.etcd import address
from rota.store.backends.etcd.connection import Connection
from rota.store.logstore import Settings
from rota.testing.servers.etcd import EtcdServer


@pytest.fixture
def server(private_etcd: Callable[[], EtcdServer]) -> EtcdServer:
    return private_etcd()


@pytest.fixture
async def neighbour(server: EtcdServer) -> AsyncIterator[Connection]:
    """Another program's connection to the same etcd."""
    etcd = Connection(address.parse(server.url), time=system.SystemClock(), rng=system.rng(), settings=Settings())
    yield etcd
    await etcd.close()


@pytest.fixture
def watches(server: EtcdServer) -> Callable[[], int]:
    """How many watches etcd serves."""

    def count() -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics") as page:
            lines = page.read().decode().splitlines()
        found = [line for line in lines if line.startswith("etcd_debugging_mvcc_watcher_total ")]
        return int(json.loads(found[0].split()[1]))

    return count
