"""The connection between a client and its leased worker: each takes the other one, and nobody else."""

import contextlib
import os
import random
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from rota.python import lease_connection, lease_keys, lease_server
from rota.python.lease_keys import LeaseKeys

NOW = 1_700_000_000.0


@contextlib.contextmanager
def worker(keys: LeaseKeys) -> "Iterator[tuple[list[int], Future[ssl.SSLSocket | None]]]":
    """A worker that waits for its client."""
    ports = lease_connection.candidate_ports(random.Random())
    reading, writing = os.pipe()
    context = lease_server.context(keys.for_worker())
    with ThreadPoolExecutor(1) as pool:
        listening = lease_server.listener("127.0.0.1", ports)
        waiting = pool.submit(lease_server.Reception(listening, context, reading).client)
        try:
            yield ports, waiting
        finally:
            os.write(writing, bytes([15]))  # as a signal does, so that it does not wait any more
            found = waiting.result(30)
            if found is not None:
                found.close()
    os.close(reading)
    os.close(writing)


def connected(ports: list[int], keys: LeaseKeys) -> ssl.SSLSocket:
    found = lease_connection.connect("127.0.0.1", ports, keys, attempts=3, stop=threading.Event())
    assert found is not None
    return found


def test_a_worker_takes_the_client_of_its_lease_after_it_has_refused_others() -> None:
    keys, others = lease_keys.fresh(NOW), lease_keys.fresh(NOW)
    stolen = LeaseKeys(worker=keys.worker, client=others.client)
    with worker(keys) as (ports, waiting):
        # TLS 1.3 lets a client finish before its certificate was seen; it learns of the refusal when it reads
        with connected(ports, stolen) as refused, pytest.raises(ssl.SSLError):
            refused.recv(1)
        assert not waiting.done()
        with connected(ports, keys) as taken:
            server = waiting.result(30)
            assert server is not None
            server.setblocking(True)
            server.sendall(b"x")
            assert taken.recv(1) == b"x"


def test_a_client_takes_no_worker_with_another_key() -> None:
    keys, others = lease_keys.fresh(NOW), lease_keys.fresh(NOW)
    with worker(others) as (ports, waiting):
        with pytest.raises(lease_connection.NoWay, match="no worker answers"):
            connected(ports, keys)
        assert not waiting.done()


def test_a_stopped_client_does_not_go_on_trying() -> None:
    stop = threading.Event()
    stop.set()
    ports = lease_connection.candidate_ports(random.Random())
    keys = lease_keys.fresh(NOW)
    assert lease_connection.connect("127.0.0.1", ports, keys, attempts=10**9, stop=stop) is None
